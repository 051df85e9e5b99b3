"""Agents that settle for an arm once they are 95% sure of it: by plain and calibrated beliefs."""

from __future__ import annotations

import os

import numpy as np

import posse
from posse.summary import probability_best

SEED = 10
BANDIT = posse.Bandit.gaussian([0.5, 0.4, 0.3, 0.2, 0.1])
TS = posse.ThompsonSampling()
SURE = 0.95


def play_and_keep(network, algorithm, horizon, runs, keep):
    """Agent 0 of every run at 30 looks: (R, looks, rows, K) of each array kept."""
    looks = np.unique(np.geomspace(1, horizon, 30).astype(int))
    result = posse.simulate(
        BANDIT, network, algorithm, horizon=horizon, runs=runs, seed=SEED, record=looks, keep=keep,
        threads=os.cpu_count(),
    )  # fmt: skip
    return [getattr(result, name)[:, :, :, 0] for name in keep]


def errors(beliefs):
    """Whether each run that settles does so for a wrong arm, and the share of runs that settle."""
    settled_arms = []
    for run in beliefs:
        chances = (probability_best(BANDIT.family, belief, quick=True) for belief in run)
        settled_arms.append(
            next((int(chance.argmax()) for chance in chances if chance.max() > SURE), None)
        )
    wrong = np.array([arm != 0 for arm in settled_arms if arm is not None])
    return wrong, len(wrong) / len(settled_arms)


def study(runs=1000):
    """The table of docs/calibration.md; calibrated agents may err in 5% of the runs."""
    belief, signs = play_and_keep(
        posse.networks.cycle(30), posse.Decentralized(TS), 300, runs, ("beliefs", "signs")
    )
    first = [np.moveaxis(array, 2, 0) for array in (belief, signs)]
    honest = np.moveaxis(posse.calibrate(BANDIT.family, *first), 0, 2)
    (alone,) = play_and_keep(posse.networks.cycle(3), posse.Isolated(TS), 3000, runs, ("beliefs",))
    rows = {
        "30 agents on a cycle, plain, 300 rounds": errors(belief),
        "the same, calibrated": errors(honest),
        "an agent alone, 3000 rounds": errors(alone),
    }
    lines = [f"| {runs} runs | stopped | of these with a wrong arm |", "|---|---|---|"]
    for name, (wrong, share) in rows.items():
        error = wrong.std(ddof=1) / len(wrong) ** 0.5
        lines.append(f"| {name} | {share:.0%} | {wrong.mean():.1%} ± {error:.1%} |")
    rate = rows["the same, calibrated"][0].mean()
    return "\n".join(lines), [f"calibrated agents err in {rate:.1%}"] if rate > 1 - SURE else []
