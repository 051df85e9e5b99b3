"""The lab's decentralized beliefs, plain and calibrated: coverage, and arms settled for.

python studies/calibration.py [--runs 2000] [--write]

--write puts the tables into docs/calibration.md, between their marks.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import posse
from posse.summary import probability_best

DOCS = Path(__file__).parents[1] / "docs" / "calibration.md"
SEED = 10
TIMES = (10, 30, 100)
MEANS = (0.5, 0.4, 0.3, 0.2, 0.1)
GAUSSIAN, BERNOULLI = posse.Bandit.gaussian(MEANS), posse.Bandit.bernoulli(MEANS)
TS, UCB = posse.ThompsonSampling(), posse.BayesUCB()
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


def covered(problem, runs):
    """Whether intervals hold the mean, (2, times, R, K): plain and calibrated, share of agents."""
    bandit, network, algorithm = problem
    result = posse.simulate(
        bandit, network, algorithm, horizon=max(TIMES), runs=runs, seed=SEED, record=list(TIMES),
        keep=("beliefs", "signs"), threads=os.cpu_count(),
    )  # fmt: skip
    agents = np.linspace(0, network.n_agents, ASKED, endpoint=False).astype(int)
    # coordinates first: (D, R, times, agents, K)
    belief, signs = (
        np.moveaxis(kept[..., agents, :], 2, 0) for kept in (result.beliefs, result.signs)
    )
    family, means = bandit.family, np.array(MEANS)
    shares = []
    for each in (belief, posse.calibrated(family, belief, signs)):
        low, high = (family.mean_quantile(each, level) for level in (0.025, 0.975))
        inside = (low <= means) & (means <= high)  # (R, times, agents, K)
        shares.append(inside.mean(axis=2).swapaxes(0, 1))
    return np.array(shares)


def cell(shares):
    """Mean and standard error over runs, which are independent; agents of one run are not."""
    return f"{shares.mean():.1%} ± {shares.std(ddof=1) / len(shares) ** 0.5:.1%}"


def table(runs):
    """The study in Markdown."""
    lines = [
        f"| {runs} runs | t | plain, best arm | plain, all arms | calibrated, best | all arms |",
        "|---|---|---|---|---|---|",
    ]
    for name, problem in PROBLEMS.items():
        parts = [range(first, min(first + PART, runs)) for first in range(0, runs, PART)]
        shares = np.concatenate([covered(problem, part) for part in parts], axis=2)
        for i, now in enumerate(TIMES):
            cells = [
                cell(each) for kind in shares for each in (kind[i][:, 0], kind[i].mean(axis=1))
            ]
            lines.append(f"| {name} | {now} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def settled(family, beliefs):
    """In how many runs an arm has P(best) > 95%, and how often a wrong one first: (R, T, D, K)."""
    found = []
    for run in beliefs:
        chances = (probability_best(family, belief, quick=True) for belief in run)
        found.append(next((int(each.argmax()) for each in chances if each.max() > 0.95), None))
    stopped = [arm for arm in found if arm is not None]
    wrong = np.array([arm != 0 for arm in stopped])
    return f"{len(stopped) / len(found):.0%} | {cell(wrong)}"


def stopping(runs):
    """What becomes of an agent that settles for an arm at P(best) > 95%, in Markdown."""
    family = GAUSSIAN.family
    rounds = {
        horizon: np.unique(np.geomspace(1, horizon, 30).astype(int)) for horizon in (300, 3000)
    }
    merged = posse.simulate(
        GAUSSIAN, N.cycle(30), posse.Decentralized(TS), horizon=300, runs=runs, seed=SEED,
        record=rounds[300], keep=("beliefs", "signs"), threads=os.cpu_count(),
    )  # fmt: skip
    alone = posse.simulate(
        GAUSSIAN, N.cycle(3), posse.Isolated(TS), horizon=3000, runs=runs, seed=SEED,
        record=rounds[3000], keep=("beliefs",), threads=os.cpu_count(),
    )  # fmt: skip
    belief, signs = (kept[:, :, :, 0] for kept in (merged.beliefs, merged.signs))  # of agent 0
    first = [np.moveaxis(each, 2, 0) for each in (belief, signs)]
    honest = np.moveaxis(posse.calibrated(family, *first), 0, 2)
    return "\n".join(
        [
            f"| {runs} runs | settled | of these for a wrong arm |",
            "|---|---|---|",
            f"| 30 agents on a cycle, plain, 300 rounds | {settled(family, belief)} |",
            f"| the same, calibrated | {settled(family, honest)} |",
            f"| an agent alone, 3000 rounds | {settled(family, alone.beliefs[:, :, :, 0])} |",
        ]
    )


def write(mark, text):
    """Put a table into the page, between its marks."""
    begin, end = (f"<!-- {mark}: {where} -->" for where in ("begin", "end"))
    before, rest = DOCS.read_text().split(begin)
    DOCS.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def main():
    """Print the tables, and write them where they are shown if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="into docs/calibration.md")
    asked = parser.parse_args()
    made = {"lab coverage": table(asked.runs), "lab stopping": stopping(max(2, asked.runs // 2))}
    print(made["lab stopping"])
    if asked.write:
        for mark, text in made.items():
            write(mark, text)


if __name__ == "__main__":
    main()
