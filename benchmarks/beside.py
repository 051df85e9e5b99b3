"""Compare the compiled engine of this checkout with that of another one, in turns.

    .venv/bin/python benchmarks/beside.py OTHER/src        # ratios of processor time, new to old

One process for each checkout stays open; both play the same simulation, one after the other, in
every round. A ratio is that of the best times, so that a busy machine matters little. The
simulations are the worlds that have had kernels for longest, drawn from a seed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What a process of a checkout does: it plays what it is told by number, and answers with seconds.
PLAYER = """
import sys, time, numpy as np, posse

generator = np.random.default_rng(2026)
MEANS = np.sort(generator.uniform(0.2, 0.8, 17))
networks = {
    "cycle 100": posse.networks.cycle(100),
    "random 60": posse.networks.erdos_renyi(60, 0.15, seed=1),
    "star 36": posse.networks.star(36),
}
families = {"Gaussian": posse.Bandit.gaussian(MEANS), "Bernoulli": posse.Bandit.bernoulli(MEANS)}
thompson = posse.Decentralized(posse.ThompsonSampling())
bayes_ucb = posse.Decentralized(posse.BayesUCB())
rows = {}  # bandit, network, algorithm, horizon, runs
for place, network in networks.items():
    for family, bandit in families.items():
        rows[f"{family} TS, {place}"] = bandit, network, thompson, 1000, 24
        rows[f"{family} Bayes-UCB, {place}"] = bandit, network, bayes_ucb, 500, 24
cycle = networks["cycle 100"]
gaussian = families["Gaussian"]
failing = posse.networks.complete(32).failing(0.3)
rows["Bernoulli TS, T=50"] = families["Bernoulli"], cycle, thompson, 50, 60
rows["greedy"] = gaussian, cycle, posse.Decentralized(posse.Greedy()), 1000, 40
rows["coop-UCB"] = gaussian, cycle, posse.CoopUCB(), 500, 60
rows["DDUCB"] = gaussian, cycle, posse.DDUCB(), 500, 80
rows["Tree"] = gaussian, cycle, posse.Tree(posse.ThompsonSampling()), 1000, 16
rows["flooding"] = gaussian, cycle, posse.Flooding(posse.ThompsonSampling()), 300, 40
rows["link failure"] = gaussian, failing, thompson, 300, 40
rows["50,000 agents"] = gaussian, posse.networks.cycle(50_000), thompson, 20, 1
names = list(rows)
print(len(names), *names, sep="\\n", flush=True)
for line in sys.stdin:
    bandit, network, algorithm, horizon, runs = rows[names[int(line)]]
    start = time.process_time()
    posse.simulate(bandit, network, algorithm, horizon=horizon, runs=runs, threads=1, seed=1)
    print(time.process_time() - start, flush=True)
"""


class Player:
    """A process that plays with the code of one checkout."""

    def __init__(self, source: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PLAYER],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names = [self._read_line() for _ in range(int(self._read_line()))]

    def play(self, number: int) -> float:
        """Return the processor time of one simulation."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        return float(self._read_line())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the folder src of the other checkout")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    new = Player(HERE.parent / "src")
    old = Player(options.other.resolve())
    for number, name in enumerate(new.names):
        times = []
        for round_ in range(options.rounds + 1):
            both = [new.play(number), old.play(number)]
            if round_ > 0:  # the first round compiles
                times.append(both)
        best = [min(column) for column in zip(*times, strict=True)]
        print(f"{name:32} {best[0] / best[1]:6.3f}   {best[0]:.3f} s, {best[1]:.3f} s", flush=True)
    new.close()
    old.close()


if __name__ == "__main__":
    main()
