"""What a log of decisions says of an arm that lost, with and without a least share of every arm."""

from __future__ import annotations

import re
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import pandas as pd

import posse
from posse.live.agent.agent import Agent

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "offline.md"
RATES = {"red": 0.04, "green": 0.03, "blue": 0.02}
LOSER = "blue"
DECISIONS = 30_000
AT_ONCE = 100
SHARES = (0.0, 0.01, 0.02, 0.05)
LOW = 0.90  # least coverage of intervals of 95% that the page promises, for SNIPS with 2% or more


def estimators():
    """The functions of the page, as they stand there."""
    (block, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    start = block.index("def evaluate")
    end = block.index("for arm in sorted")
    session = {"np": np, "pd": pd}
    exec(compile(block[start:end], str(PAGE), "exec"), session)
    return session["evaluate"], session["only"]


def log_of(seed, min_share):
    """The decisions of one agent, each rewarded before the next hundred."""
    agent = Agent(list(RATES), posse.families.Bernoulli(), min_share=min_share, seed=seed)
    generator = np.random.default_rng([seed, 1])
    rows = []
    for _ in range(DECISIONS // AT_ONCE):
        for choice in agent.draw_choices([None] * AT_ONCE):
            reward = float(generator.random() < RATES[choice.arm])
            agent.learn(choice.arm, reward)
            rows.append((choice.arm, choice.probability, choice.allowed, reward))
    return pd.DataFrame(rows, columns=["arm", "probability", "allowed", "reward"])


def one(task):
    """Estimates of the loser in one run: (estimators, (value, error, covered, worth, reward))."""
    seed, min_share = task
    evaluate, only = estimators()
    log = log_of(seed, min_share)
    table = evaluate(log, only(LOSER))
    value = table["value"].to_numpy()
    error = table["standard error"].to_numpy()
    covered = np.abs(value - RATES[LOSER]) <= 1.96 * error
    return np.stack([value, error, covered, table["worth"], np.full(3, log.reward.mean())], axis=1)


def study(runs=200):
    """A table of every least share and estimator, and what breaks the promise of the page."""
    lines = [
        f"| `min_share` | rewards a decision | estimator of {RATES[LOSER]:.0%} | mean | "
        "root mean square error | of the 95% intervals cover | worth, median |",
        "|---|---|---|---|---|---|---|",
    ]
    broken = []
    with Pool(2) as pool:
        for share in SHARES:
            found = np.array(pool.map(one, [(seed, share) for seed in range(runs)], chunksize=4))
            for k, name in enumerate(("IPS", "SNIPS", "doubly robust")):
                value, _, covered, worth, reward = found[:, k].T
                off = np.sqrt(np.mean((value - RATES[LOSER]) ** 2))
                lines.append(
                    f"| {share:g} | {reward.mean():.2%} | {name} | {value.mean():.2%} ± "
                    f"{value.std() / runs**0.5:.2%} | {off:.2%} | {covered.mean():.0%} | "
                    f"{np.median(worth):.0f} |"
                )
                if name == "SNIPS" and share >= 0.02 and covered.mean() < LOW:
                    broken.append(f"min_share {share}: covered {covered.mean():.1%}")
    lines.append(f"\n{runs} runs, seeds 0 to {runs - 1}.")
    return "\n".join(lines), broken
