"""Remark 3 of the paper: does the gain come from the whole posterior? A rival with a tuned index.

coop-UCB2 averages the same numbers as dec-TS, estimated sums and counts, and plays an index. The
paper has it at gamma 1.01; one other constant for all instances is enough to judge the remark.
"""

from __future__ import annotations

import numpy as np

import posse
from posse import networks

SEED = 1
P17 = posse.Bandit.gaussian([0.5] + [0.1] * 16)
SMALL_GAPS = posse.Bandit.gaussian([0.5, 0.47, 0.45, 0.45, 0.45])
WIDE = posse.Bandit.gaussian(np.linspace(0, 1.8, 10).round(1).tolist())
INSTANCES = {
    "17 arms, cycle of 36, T = 2000": (P17, networks.cycle(36), 2000),
    "17 arms, star of 36, T = 2000": (P17, networks.star(36), 2000),
    "small gaps, grid 6 x 6, T = 5000": (SMALL_GAPS, networks.grid(6, 6), 5000),
    "wide spread, complete 16, T = 2000": (WIDE, networks.complete(16), 2000),
    "17 arms, cycle of 100, T = 1000": (P17, networks.cycle(100), 1000),
}
ALGORITHMS = {
    "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    "coop-UCB2, gamma 1.01": posse.CoopUCB2(exploration=1.01),
    "gamma 0.5": posse.CoopUCB2(exploration=0.5),
    "gamma 0.3": posse.CoopUCB2(exploration=0.3),
}


def study(runs=300):
    """The table of docs/paper-map.md."""
    lines = [
        f"| mean regret per agent, {runs} runs (p99) | {' | '.join(ALGORITHMS)} |",
        "|---|" + "---|" * len(ALGORITHMS),
    ]
    for name, (bandit, network, horizon) in INSTANCES.items():
        comparison = posse.compare(
            bandit, network, ALGORITHMS, horizon=horizon, runs=runs, seed=SEED, record=2
        )
        cells = [name]
        for result in comparison.values():
            final = result.regret[:, -1]
            error = final.std(ddof=1) / len(final) ** 0.5
            cells.append(f"{final.mean():.2f} ± {error:.2f} ({np.quantile(final, 0.99):.0f})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines), []
