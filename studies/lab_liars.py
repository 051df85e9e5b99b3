"""What some lying agents cost the honest ones."""

from __future__ import annotations

import numpy as np

import posse

TS = posse.ThompsonSampling()
SEED = 2026
HORIZON = 300
NETWORK = posse.networks.grid(4, 4)
BANDIT = posse.Bandit.bernoulli([0.7, 0.5, 0.5, 0.3])
# corners and the middle, so that liars are neither all neighbours nor all far away
LIARS = (5, 15, 2, 8)
ALGORITHMS = {
    "dec-TS": posse.Decentralized(TS),
    "Tree TS": posse.Tree(TS),
    "flooding TS": posse.Flooding(TS),
}


def study(runs=200):
    """The table of docs/liars.md, and what in it is not as that page says."""
    alone = play(posse.Isolated(TS), runs, [])
    lines = [
        f"| 16 agents, T = {HORIZON}, {runs} runs | no liar | 1 liar | 2 liars | 4 liars |",
        "|---|---|---|---|---|",
    ]
    wrong = []
    for lies in ("opposite", "fixed"):
        lines.append(f'| **lies="{lies}"** | | | | |')
        for name, algorithm in ALGORITHMS.items():
            regrets = []
            for n_liars in (0, 1, 2, 4):
                liars = posse.Liars(algorithm, LIARS[:n_liars], lies)
                regrets.append(play(liars, runs, LIARS[:n_liars]))
            cells = [f"{np.mean(regret):.2f} ± {interval(regret):.2f}" for regret in regrets]
            lines.append(f"| {name} | {' | '.join(cells)} |")
            if not np.mean(regrets[0]) < np.mean(regrets[3]):
                wrong.append(f"{name}: four liars must cost something")
    lines.append(f"| isolated TS | {np.mean(alone):.2f} ± {interval(alone):.2f} | | | |")
    return "\n".join(lines), wrong


def play(algorithm, runs, liars):
    """The final regret of the honest agents in each run."""
    honest = [agent for agent in range(NETWORK.n_agents) if agent not in liars]
    result = posse.simulate(
        BANDIT, NETWORK, algorithm, horizon=HORIZON, runs=runs, seed=SEED, record=1,
        engine="reference", keep=("agents",),
    )  # fmt: skip
    return result.of_agents(honest).regret[:, -1]


def interval(regret):
    """Half of a 95% interval of the mean."""
    return 1.96 * np.std(regret, ddof=1) / np.sqrt(len(regret))
