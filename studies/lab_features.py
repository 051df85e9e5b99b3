"""What superfluous features and a wrong width of the prior cost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from lab_contexts import EARLY, GRID, SEED, TS, coverage, error, simulate

import posse
from posse.families import Linear

HORIZON = 1000
SD = 0.3  # of the weights that matter


def study(runs=100):
    """The table of docs/contexts.md on features, and what in it is not as that page says."""
    lines = [
        f"| 4 numbers matter, dec-TS on the grid, {runs} runs | regret per agent | coverage at t = "
        f"{EARLY[0]} / {EARLY[1]} / T | numbers sent a round |",
        "|---|---|---|---|",
    ]
    generators = [np.random.default_rng([SEED, run]) for run in range(runs)]
    weights = np.stack([generator.normal(0, SD, (5, 5)) for generator in generators])  # (R, K, 5)
    regrets = []
    for extra_features in (0, 4, 12, 28):
        theta = np.concatenate([weights, np.zeros((runs, 5, extra_features))], axis=-1)
        line, regret = row_of(
            f"{extra_features} more that do not (d = {5 + extra_features})", theta, SD
        )
        lines.append(line)
        regrets.append(regret)
    for prior_sd in (0.1, 1.0, 3.0):
        name = f"none more, prior_sd = {prior_sd} where {SD} is true"
        lines.append(row_of(name, weights, prior_sd)[0])
    rising = all(regret_before < regret_after for regret_before, regret_after in pairwise(regrets))
    return "\n".join(lines), [] if rising else ["more features must cost more"]


def row_of(name, theta, prior_sd):
    """A line, and the regret, with these weights (R, K, d)."""
    columns = {f"x{i}": (-1, 1) for i in range(1, theta.shape[-1])}
    bandit = posse.ContextualBandit(Linear(prior_sd=prior_sd), posse.Contexts(columns), theta)
    times = (*EARLY, HORIZON)
    keep = ("beliefs", "messages")
    result = simulate(bandit, GRID, posse.Decentralized(TS), times, len(theta), keep)
    inside = coverage(bandit, bandit.family, result, SEED)[0].mean(axis=0)
    shares = " / ".join(f"{share:.2f}" for share in inside)
    regret = result.regret[:, -1]
    sent = result.numbers_sent[:, -1].mean() / HORIZON
    line = f"| {name} | {regret.mean():.1f} ± {error(regret):.1f} | {shares} | {sent:,.0f} |"
    return line, regret.mean()
