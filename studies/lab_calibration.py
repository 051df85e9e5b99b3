"""Coverage of 95% intervals from the lab's decentralized beliefs, plain and calibrated."""

from __future__ import annotations

import os

import numpy as np

import posse

SEED = 10
# calibrated beliefs may err on the wide side
LOW = 0.92
HIGH = 0.99
TIMES = (10, 30, 100)
MEANS = (0.5, 0.4, 0.3, 0.2, 0.1)
GAUSSIAN = posse.Bandit.gaussian(MEANS)
BERNOULLI = posse.Bandit.bernoulli(MEANS)
TS = posse.ThompsonSampling()
UCB = posse.BayesUCB()
N = posse.networks
PROBLEMS = {
    "cycle 16": (GAUSSIAN, N.cycle(16), posse.Decentralized(TS)),
    "cycle 100": (GAUSSIAN, N.cycle(100), posse.Decentralized(TS)),
    "grid 6 x 6, Bernoulli": (BERNOULLI, N.grid(6, 6), posse.Decentralized(TS)),
    "complete 16, half fail": (GAUSSIAN, N.complete(16).failing(0.5), posse.Decentralized(TS)),
    "complete 16, gossip": (GAUSSIAN, N.complete(16).gossip(), posse.Decentralized(TS)),
    "cycle 16, Bayes-UCB": (GAUSSIAN, N.cycle(16), posse.Decentralized(UCB)),
}  # fmt: skip
PART = 250  # runs whose beliefs are in memory at once
ASKED = 8  # agents a run: those between know nearly the same


def measure_coverage(problem, runs):
    """Whether intervals hold the mean, (2, times, R, K): plain and calibrated, share of agents."""
    bandit, network, algorithm = problem
    result = posse.simulate(
        bandit, network, algorithm, horizon=max(TIMES), runs=runs, seed=SEED, record=list(TIMES),
        keep=("beliefs", "signs"), threads=os.cpu_count(),
    )  # fmt: skip
    agents = np.linspace(0, network.n_agents, ASKED, endpoint=False).astype(int)
    # coordinates first: (D, R, times, agents, K)
    belief, signs = (
        np.moveaxis(array[..., agents, :], 2, 0) for array in (result.beliefs, result.signs)
    )
    family = bandit.family
    means = np.array(MEANS)
    shares = []
    for beliefs in (belief, posse.calibrate(family, belief, signs)):
        low, high = (family.mean_quantile(beliefs, level) for level in (0.025, 0.975))
        inside = (low <= means) & (means <= high)  # (R, times, agents, K)
        shares.append(inside.mean(axis=2).swapaxes(0, 1))
    return np.array(shares)


def cell(shares):
    """Mean and standard error over runs, which are independent; agents of one run are not."""
    return f"{shares.mean():.1%} ± {shares.std(ddof=1) / len(shares) ** 0.5:.1%}"


def study(runs=2000):
    """The table of docs/calibration.md, and calibrated rows outside of LOW to HIGH."""
    lines = [
        f"| {runs} runs | t | plain, best arm | plain, all arms | calibrated, best | all arms |",
        "|---|---|---|---|---|---|",
    ]
    wrong = []
    for name, problem in PROBLEMS.items():
        parts = [range(first, min(first + PART, runs)) for first in range(0, runs, PART)]
        shares = np.concatenate([measure_coverage(problem, part) for part in parts], axis=2)
        for i, now in enumerate(TIMES):
            coverages = [
                values for kind in shares for values in (kind[i][:, 0], kind[i].mean(axis=1))
            ]
            lines.append(f"| {name} | {now} | {' | '.join(cell(values) for values in coverages)} |")
            if not all(LOW <= values.mean() <= HIGH for values in coverages[2:]):
                wrong.append(f"{lines[-1]} is not between {LOW:.0%} and {HIGH:.0%}")
    return "\n".join(lines), wrong
