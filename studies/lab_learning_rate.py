"""What the learning rate costs: 4 graphs x 3 sizes x 4 rules, 400 runs a cell, compiled engine.

    python studies/lab_learning_rate.py [folder]

writes the sweep's page, table.csv, significance.csv, table.tex and learning-rate.png to the folder
and prints the numbers of docs/learning-rate.md. It takes some minutes on one core; parts that are
stored in the folder are not computed again.
"""

import sys
from pathlib import Path

import posse

RATE = "algorithms.dec-TS.learning_rate"
RUNS = 400


def run_sweep(folder: str, runs: int = RUNS) -> posse.Sweep:
    """Compute the sweep, or what is missing of it in the folder."""
    bandit = posse.Bandit.gaussian([0.5] + [0.1] * 9)
    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    experiment = posse.Experiment(
        bandit, posse.networks.cycle(9), {"dec-TS": dec_ts}, horizon=1000, runs=runs, seed=26,
        record=100, title="What the learning rate costs",
    )  # fmt: skip
    graphs = {"network.graph": ["cycle", "star", "complete", "erdos_renyi"]}
    drawn = {"network.p": [None, None, None, "2*log(N)/N"], "network.seed": [None] * 3 + ["run"]}
    grid = posse.axis("graph", graphs | drawn, labels=["cycle", "star", "complete", "random"])
    grid |= {"network.agents": [9, 25, 100], RATE: [1, "sqrt(N)", "N", "2*N"]}
    return posse.sweep(experiment, grid, folder=folder, progress=True)


def main() -> None:
    """Run the sweep and write everything that the page of the documentation shows."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results/learning-rate")
    sweep = run_sweep(str(folder))
    sweep.report()
    axes = sweep.plot(x="agents", hue="learning_rate", column="graph")
    axes[0].figure.savefig(folder / "learning-rate.png", dpi=110)
    significance = sweep.significance(over="learning_rate")
    significance.to_csv(folder / "significance.csv", index=False)
    (folder / "table.tex").write_text(sweep.to_latex(over="learning_rate"), encoding="utf-8")
    print(significance.to_string())
    print(sweep.to_latex(over="learning_rate"))


if __name__ == "__main__":
    main()
