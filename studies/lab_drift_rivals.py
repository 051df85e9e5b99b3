"""Regret of discounted and sliding-window UCB where means drift, by what they remember."""

from __future__ import annotations

import math
import os

from lab_drift import HORIZON, NETWORK, SEED, WORLDS, with_error

import posse

HALF_LIVES = (1000, 300, 100, 30, 10)
BOLD = 0.05  # the published exploration is 0.5


def window(half_life):
    """As many rounds as a memory of this half-life is worth: 1/(1 - 2^(-1/H)), nearly H/ln 2."""
    return round(half_life / math.log(2))


RIVALS = {
    "discounted UCB": lambda h: posse.DiscountedUCB(half_life=h),
    "the same, exploration 0.05": lambda h: posse.DiscountedUCB(half_life=h, exploration=BOLD),
    "sliding-window UCB": lambda h: posse.SlidingWindowUCB(window(h)),
    "the same, exploration 0.05 ": lambda h: posse.SlidingWindowUCB(window(h), exploration=BOLD),
}


def study(runs=40):
    """The rivals' table of docs/drift.md; nothing is promised of it."""
    columns = " | ".join(map(str, HALF_LIVES))
    lines = [f"| regret, {runs} runs | | {columns} |", "|---|---|" + "---|" * len(HALF_LIVES)]
    for world in ("rotate", "walk", "sines"):
        for rival_name, rival in RIVALS.items():
            row = [
                posse.simulate(
                    WORLDS[world], NETWORK, rival(half_life), horizon=HORIZON, runs=runs, seed=SEED,
                    record=[HORIZON], threads=os.cpu_count(),
                ).regret[:, -1]
                for half_life in HALF_LIVES
            ]  # fmt: skip
            cells = [with_error(regret, min(r.mean() for r in row)) for regret in row]
            lines.append(f"| {world} | {rival_name.strip()} | {' | '.join(cells)} |")
    return "\n".join(lines), []
