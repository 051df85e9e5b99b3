"""What contexts are worth: sharing, going alone, ignoring them, and rivals; with coverage."""

from __future__ import annotations

import os

import numpy as np

import posse
from posse.families import Gaussian, Linear
from posse.randomness import create_generator

SEED = 15
AGENTS = 16
TS = posse.ThompsonSampling()
CYCLE = posse.networks.cycle(AGENTS)
GRID = posse.networks.grid(4, 4)
COMPLETE = posse.networks.complete(AGENTS)
SEGMENTS = {"categories": list("abcde"), "shares": [0.4, *[0.15] * 4]}
WORLDS = {
    "shared": (
        posse.ContextualBandit(
            Linear(sigma=0.5, prior_sd=1.0, shared=True),
            posse.bandits.UnitFeatures(n_arms=10, features=8),
            posse.NormalWeights(n_arms=10, sd=1.0),
        ),
        400,
    ),
    "segments": (
        posse.ContextualBandit(
            Linear(sigma=1.0, prior_sd=0.3),
            posse.Contexts({"segment": SEGMENTS}),
            posse.NormalWeights(n_arms=5, sd=0.3),
        ),
        1000,
    ),
    "numeric": (
        posse.ContextualBandit(
            Linear(sigma=1.0, prior_sd=0.3),
            posse.Contexts(dict.fromkeys("abcd", (-1, 1))),
            posse.NormalWeights(n_arms=5, sd=0.3),
        ),
        1000,
    ),
}
ROWS = {
    "isolated TS": (posse.Isolated(TS), CYCLE),
    "dec-TS, cycle": (posse.Decentralized(TS), CYCLE),
    "dec-TS, grid": (posse.Decentralized(TS), GRID),
    "dec-TS, complete": (posse.Decentralized(TS), COMPLETE),
    "centralized TS": (posse.Centralized(TS), COMPLETE),
    "flooding TS, cycle": (posse.Flooding(TS), CYCLE),
    "dec-Bayes-UCB, grid": (posse.Decentralized(posse.BayesUCB()), GRID),
    "dec-RandUCB, grid": (posse.Decentralized(posse.RandUCB()), GRID),
    "dec-greedy, grid": (posse.Decentralized(posse.Greedy()), GRID),
    "isolated LinUCB": (posse.LinUCB(), CYCLE),
    "centralized LinUCB": (posse.LinUCB("all"), COMPLETE),
    "federated LinUCB": (posse.FedLinUCB(), COMPLETE),
    "federated LinUCB, threshold 1": (posse.FedLinUCB(threshold=1.0), COMPLETE),
    "contexts ignored: centralized TS": (
        posse.Centralized(TS, family=Gaussian(prior_sd=0.3)),
        COMPLETE,
    ),
}
# Regret in an independent sketch, with standard errors where it had them.
SKETCH = {
    "shared": {
        "isolated TS": (23.3, 0.2),
        "dec-TS, cycle": (4.69, 0.05),
        "dec-TS, grid": (4.03, 0.05),
        "dec-TS, complete": (2.95, 0.04),
        "dec-Bayes-UCB, grid": (3.22, 0.05),
        "dec-greedy, grid": (3.16, 0.05),
    },
    "segments": {
        "isolated TS": (117.7, 2.0),
        "dec-TS, cycle": (19.7, 0.7),
        "dec-TS, grid": (19.3, 0.7),
        "dec-TS, complete": (18.6, 0.6),
        "dec-Bayes-UCB, grid": (19.2, 0.8),
        "dec-greedy, grid": (38.8, 4.7),
        "contexts ignored: centralized TS": (104.6, 7.9),
    },
    "numeric": {
        "isolated TS": (137.4, 2.1),
        "dec-TS, cycle": (23.9, 0.8),
        "dec-TS, grid": (23.7, 0.8),
        "dec-TS, complete": (22.8, 0.7),
        "dec-Bayes-UCB, grid": (19.9, 0.5),
        "dec-greedy, grid": (27.6, 3.5),
        "contexts ignored: centralized TS": (177.0, 14.0),
    },
}
COVERED = ("dec-TS, cycle", "centralized TS")
EARLY = (30, 100)


def simulate(bandit, network, algorithm, times, runs, keep):
    """A result at some rounds."""
    return posse.simulate(
        bandit, network, algorithm, horizon=times[-1], runs=runs, seed=SEED, record=list(times),
        keep=keep, threads=os.cpu_count(),
    )  # fmt: skip


def coverage(bandit, family, result, seed):
    """The share of 95% intervals at fresh contexts that hold the mean there, each (R, times).

    Of all arms, and of the arm that is best at the context.
    """
    visits = np.random.default_rng(seed)
    n_runs, n_times, _, n_agents, _ = result.beliefs.shape
    theta = np.stack(
        [bandit.theta_of_run(r, create_generator(seed, r, "means")) for r in result.run_numbers]
    )
    every = np.empty((n_runs, n_times))
    best = np.empty((n_runs, n_times))
    for column in range(n_times):
        x = bandit.contexts(visits, (n_runs, n_agents))
        means = bandit.means(x, theta)  # (R, N, K)
        at = family.at_context(np.moveaxis(result.beliefs[:, column], 1, 0), x)
        low, high = (family.at_mean.mean_quantile(at, level) for level in (0.025, 0.975))
        inside = (low <= means) & (means <= high)
        every[:, column] = inside.mean(axis=(1, 2))
        of_best = np.take_along_axis(inside, means.argmax(axis=-1)[..., None], axis=-1)
        best[:, column] = of_best.mean(axis=(1, 2))
    return every, best


def study(runs=100):
    """The tables of docs/contexts.md, and rows that are not as the sketch had them."""
    columns = "| shared theta (10 arms, d = 8) | 5 segments (d = 6) | 4 numbers (d = 5) |"
    lines = [f"| regret per agent, {runs} runs {columns} numbers sent, 4 numbers |"]
    lines += ["|---|---|---|---|---|"]
    covered = [f"| coverage at t = {EARLY[0]} / {EARLY[1]} / T {columns}", "|---|---|---|---|"]
    regrets = {}
    wrong = []
    cells = {row_name: [] for row_name in ROWS}
    shares = {row_name: [] for row_name in COVERED}
    for world, (bandit, horizon) in WORLDS.items():
        for row_name, (algorithm, network) in ROWS.items():
            if world == "shared" and "ignored" in row_name:
                cells[row_name].append("")
                continue  # features are drawn anew for every visit: without them arms are alike
            keep = ("messages", *(["beliefs"] if row_name in COVERED else []))
            result = simulate(bandit, network, algorithm, (*EARLY, horizon), runs, keep)
            regret = regrets[world, row_name] = result.regret[:, -1]
            cells[row_name].append(f"{regret.mean():.3g} ± {error(regret):.2g}")
            if world == "numeric":
                cells[row_name].append(f"{result.numbers_sent[:, -1].mean():,.0f}")
            if row_name in COVERED:
                inside = coverage(bandit, bandit.family, result, SEED)[0].mean(axis=0)
                shares[row_name].append(" / ".join(f"{texts:.2f}" for texts in inside))
        wrong += [*unlike(world, regrets, SKETCH), *two_alike(world, regrets)]
    lines += [f"| {row_name} | {' | '.join(texts)} |" for row_name, texts in cells.items()]
    covered += [f"| {row_name} | {' | '.join(texts)} |" for row_name, texts in shares.items()]
    return "\n".join([*lines, "", *covered]), wrong


def error(values):
    """The standard error of the mean over runs."""
    return values.std(ddof=1) / len(values) ** 0.5


def unlike(world, regrets, sketch):
    """What differs from the sketch: a regret by a fifth and three standard errors, or the order."""
    wrong = []
    theirs = sketch[world]
    for row_name, (sketch_regret, known_error) in theirs.items():
        ours = regrets[world, row_name]
        room = 0.2 * sketch_regret + 3 * np.hypot(known_error, error(ours))
        if abs(ours.mean() - sketch_regret) > room:
            wrong.append(
                f"{world}, {row_name}: {ours.mean():.1f}, and {sketch_regret} in the sketch"
            )
    for first, (first_regret, its_error) in theirs.items():
        for second, (second_regret, other_error) in theirs.items():
            both = regrets[world, first], regrets[world, second]
            clear = second_regret - first_regret > 3 * np.hypot(its_error, other_error)
            if clear and both[0].mean() > both[1].mean():
                wrong.append(f"{world}: {first} lost more than {second}")
    return wrong


def two_alike(world, regrets):
    """The complete graph at learning rate N is one agent with all data."""
    same = regrets[world, "dec-TS, complete"], regrets[world, "centralized TS"]
    alike = np.allclose(*same, rtol=1e-6)
    return [] if alike else [f"{world}: the complete graph is not the centralized agent"]
