"""`make bench`: how fast the engines are, as ratios measured interleaved in one run.

Absolute times depend on the machine and its mood; ratios of runs taken in turns do not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from plain_numpy import cycle_weights, gaussian_thompson

import posse

AGENTS, ARMS, HORIZON, RUNS = 100, 17, 300, 32


def interleaved(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each contender, in seconds, all of them measured in turns."""
    best = dict.fromkeys(contenders, float("inf"))
    for round_ in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if round_ > 0:  # the first round warms caches up
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def gaussian_row(rounds: int) -> dict[str, object]:
    """posse.simulate against the plain loop: 17 Gaussian arms, cycle of 100, one thread."""
    means = np.array([0.5] + [0.1] * (ARMS - 1))
    weights = cycle_weights(AGENTS)
    bandit = posse.Bandit.gaussian(means)
    network = posse.networks.cycle(AGENTS)
    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    times = interleaved(
        {
            "plain": lambda: gaussian_thompson(means, weights, HORIZON, RUNS, seed=1),
            "posse": lambda: posse.simulate(
                bandit, network, dec_ts, horizon=HORIZON, runs=RUNS, seed=1, threads=1
            ),
        },
        rounds,
    )
    steps = AGENTS * HORIZON * RUNS / 1e6
    return {
        "what": f"Gaussian TS, cycle N={AGENTS}, K={ARMS}, T={HORIZON}, {RUNS} runs, one thread",
        "ratio": times["plain"] / times["posse"],
        "must": 0.7,
        "million_agent_steps_per_second": {name: steps / t for name, t in times.items()},
    }


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "posse": posse.__version__,
    }


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times each contender runs")
    parser.add_argument("--output", type=Path, default=Path("results/bench.json"))
    options = parser.parse_args()

    rows = [gaussian_row(options.rounds)]
    for row in rows:
        verdict = "ok" if row["ratio"] >= row["must"] else "BELOW"
        print(f"{row['what']}: {row['ratio']:.2f}x (must {row['must']}x) {verdict}")
        for name, rate in row["million_agent_steps_per_second"].items():
            print(f"    {name:8s} {rate:6.2f} million agent-steps a second")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
