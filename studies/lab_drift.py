"""Regret and coverage by half-life where means drift: who shares all, Algorithm 1, and nobody."""

from __future__ import annotations

import os

import numpy as np

import posse
from posse.bandits import RandomWalk, Sines

SEED = 12
HORIZON = 3000
HALF_LIVES = (None, 1000, 300, 100, 30, 10, 3)
TIMES = list(range(100, HORIZON + 1, 100))
NETWORK = posse.networks.cycle(16)
TS = posse.ThompsonSampling()
STEPS = (0.5, 0.4, 0.3, 0.2, 0.1)
WORLDS = {
    "rotate": posse.Bandit.gaussian([0.8, 0.4, 0.2, 0.0, 0.0]).drifting(every=500),
    "walk": posse.Bandit.gaussian(STEPS).drifting(RandomWalk(sd=0.25, time=1000)),
    "sines": posse.Bandit.gaussian([0.3] * 5).drifting(Sines(amplitude=0.3, period=2000)),
    "nothing drifts": posse.Bandit.gaussian(STEPS),
}
KINDS = {
    "origins": posse.Centralized,
    "Algorithm 1": posse.Decentralized,
    "isolated": posse.Isolated,
}
# Regret in an independent sketch of 2 to 10 runs; None is what it did not measure, and the walk
# with a long memory, where single runs lose from 4 to 970 and so few say nothing.
SKETCH = {
    ("rotate", "origins"): (801, 523, 309, 192, 174, 277, 531),
    ("rotate", "Algorithm 1"): (821, 514, 295, 193, 196, 328, 656),
    ("rotate", "isolated"): (1083, 913, 659, 585, 747, 1045, 1316),
    ("walk", "origins"): (None, None, None, 101, 147, 263, None),
    ("walk", "Algorithm 1"): (None, None, None, 98, 165, 302, None),
    ("walk", "isolated"): (None, None, 260, 373, 563, 757, None),
    ("sines", "origins"): (499, None, 176, 140, 166, 274, None),
    ("sines", "Algorithm 1"): (481, None, 176, 129, 184, 309, None),
    ("sines", "isolated"): (633, None, 418, 397, 515, 642, None),
    ("nothing drifts", "origins"): (14, None, 46, 92, 173, 289, None),
}


def coverage(bandit, belief, means):
    """The share of 95% intervals that hold the mean of the round: of all arms, of the best, (R,).

    belief: (D, R, times, agents, K); means: (R, times, K)
    """
    low, high = (bandit.family.mean_quantile(belief, level) for level in (0.025, 0.975))
    truth = means[:, :, None, :]
    inside = (low <= truth) & (truth <= high)  # (R, times, agents, K)
    best = means.argmax(axis=-1)[:, :, None, None]
    of_best = np.take_along_axis(inside, best, axis=-1)
    return inside.mean(axis=(1, 2, 3)), of_best.mean(axis=(1, 2, 3))


def play_kind(bandit, kind, half_life, runs):
    """Regret (R,), coverage of what is acted on (all, best), and of what is shown, each (R,)."""
    algorithm = kind(TS, half_life=half_life)
    sketched = kind is posse.Decentralized
    result = posse.simulate(
        bandit, NETWORK, algorithm, horizon=HORIZON, runs=runs, seed=SEED, record=TIMES,
        keep=("means", "beliefs", *(["signs"] if sketched else [])), threads=os.cpu_count(),
    )  # fmt: skip
    n_arms = bandit.n_arms
    means = result.means if result.means.ndim == 3 else result.means[:, None]
    means = np.broadcast_to(means, (runs, len(TIMES), n_arms))
    belief = np.moveaxis(result.beliefs, 2, 0)
    acted = coverage(bandit, belief, means)
    if not sketched:
        return result.regret[:, -1], acted, acted
    signs = np.moveaxis(result.signs, 2, 0)
    return (
        result.regret[:, -1],
        acted,
        coverage(bandit, posse.calibrate(bandit.family, belief, signs), means),
    )


def study(runs=60):
    """The tables of docs/drift.md, and rows that are not as the sketch had them."""
    columns = " | ".join("never" if h is None else str(h) for h in HALF_LIVES)
    rule = "|---|---|" + "---|" * len(HALF_LIVES)
    regret_lines = [f"| regret, {runs} runs | | {columns} |", rule]
    coverage_lines = [f"| coverage, all arms / best arm | | {columns} |", rule]
    wrong = []
    least = {}
    for world, bandit in WORLDS.items():
        for row_name, kind in KINDS.items():
            row = [play_kind(bandit, kind, half_life, runs) for half_life in HALF_LIVES]
            regrets = np.array([regret.mean() for regret, *_ in row])
            least[world, row_name] = regrets.min()
            cells = [with_error(regret, regrets.min()) for regret, *_ in row]
            regret_lines.append(f"| {world} | {row_name} | {' | '.join(cells)} |")
            cells = [shares(acted) for _, acted, _ in row]
            coverage_lines.append(f"| {world} | {row_name} | {' | '.join(cells)} |")
            if kind is posse.Decentralized:
                cells = [shares(coverage) for *_, coverage in row]
                coverage_lines.append(f"| {world} | the same, calibrated | {' | '.join(cells)} |")
            wrong += unlike(world, row_name, regrets)
        if not least[world, "Algorithm 1"] < least[world, "isolated"]:
            wrong.append(f"{world}: who shares must lose less than who is alone")
    return "\n".join([*regret_lines, "", *coverage_lines]), wrong


def with_error(regret, least):
    """Mean and standard error over runs; the least of a row in bold."""
    text = f"{regret.mean():.0f} ± {regret.std(ddof=1) / len(regret) ** 0.5:.0f}"
    return f"**{text}**" if regret.mean() == least else text


def shares(covered):
    """Of all arms, of the best."""
    return "/".join(f"{inside.mean():.2f}" for inside in covered)


def unlike(world, who, regrets):
    """What differs from the sketch: the best half-life by two columns, or a regret by 25%."""
    columns = [i for i, value in enumerate(SKETCH.get((world, who), ())) if value is not None]
    if not columns:
        return []
    theirs = np.array([SKETCH[world, who][i] for i in columns], dtype=float)
    ours = regrets[columns]
    wrong = []
    if abs(int(ours.argmin()) - int(theirs.argmin())) > 1:
        wrong.append(f"{world}, {who}: best half-life {HALF_LIVES[columns[int(ours.argmin())]]}")
    for i, ratio in zip(columns, ours / theirs, strict=True):
        if not 0.75 <= ratio <= 1.25:
            wrong.append(f"{world}, {who}, half-life {HALF_LIVES[i]}: {ratio:.2f} of the sketch's")
    return wrong
