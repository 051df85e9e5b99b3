"""An independent oracle for the baselines: plain NumPy, nothing of posse, formulas as published.

Run it for the regret at t = 800 that the tests compare with.
"""

import sys

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.special import ndtri


def play(algorithm, means, weights, noise, **parameters):
    """The arms (T, R, N) of a deterministic baseline when the noise (T, R, N) is given.

    weights: W (N, N), or W(t) for every round: (T, N, N), or (T, R, N, N) where runs differ.
    """
    means, n_arms, horizon = np.asarray(means), len(means), len(noise)
    mixing = np.asarray(weights) if np.ndim(weights) > 2 else [np.asarray(weights)] * horizon
    # Rounds 1..K: everybody plays arm t - 1, and nothing is mixed
    arms = np.broadcast_to(np.arange(horizon)[:, None, None], noise.shape).copy()
    if horizon <= n_arms:
        return arms
    first = means + np.moveaxis(noise[:n_arms], 0, -1)  # (R, N, K): one reward of each arm
    agents = dducb if algorithm == "dducb" else running_consensus
    choose, learn = agents(algorithm, first, weights, **parameters)
    for t in range(n_arms + 1, horizon + 1):
        arms[t - 1] = choose(t)
        played = (arms[t - 1][..., None] == np.arange(n_arms)).astype(float)
        rewards = means[arms[t - 1]] + noise[t - 1]
        sample = np.stack([played * rewards[..., None], played])  # (2, R, N, K): sums, counts
        learn(t, sample, mixing[t - 1])
    return arms


def projections(weights):
    """The eigenvalues (S,) of a symmetric W, 1 first, and projections on their spaces (S, N, N).

    Each space is a null space, found by singular values: no eigenvector of W is looked at.
    """
    values = np.linalg.eigvalsh(weights)[::-1]
    distinct = values[np.append(True, np.diff(values) < -1e-9)]
    spaces = []
    for value in distinct:
        _, sizes, rows = np.linalg.svd(weights - value * np.eye(len(weights)))
        basis = rows[sizes < 1e-9]
        spaces.append(basis.T @ basis)
    assert np.allclose(np.sum(spaces, axis=0), np.eye(len(weights)), atol=1e-9)
    return distinct, np.array(spaces)


def bonus_inflation(weights):
    """The eps_i (N,) of coop-UCB, over pairs of eigenspaces, sums written out."""
    values, spaces = projections(weights)
    eps = np.zeros(len(weights))
    for value, space in zip(values, spaces, strict=True):
        for other, its in zip(values[1:], spaces[1:], strict=True):
            product = abs(value * other)
            eps += product / (1 - product) * np.maximum(space * its, 0).sum(axis=1)
    return len(weights) * eps


def running_consensus(
    algorithm, first, weights, sigma=1.0, exploration=1.01, prior_mean=0.0, prior_sd=1.0
):
    """coop-UCB, coop-UCB2 and coop-UCL: s and n are averaged with the neighbours every round."""
    pair, n_agents = np.stack([first, np.ones_like(first)]), first.shape[1]
    inflation = bonus_inflation(weights)[:, None] if algorithm == "coop-ucb" else None

    def choose(t):
        s, n = pair
        slack = np.sqrt(np.log(t)) if inflation is None else inflation
        if algorithm == "coop-ucl":
            d2 = sigma**2 / prior_sd**2
            level = -ndtri(1 / (np.sqrt(2 * np.pi * np.e) * t))
            centre = (d2 * prior_mean + n_agents * s) / (d2 + n_agents * n)
            width = np.sqrt((n + slack) / n / (d2 + n_agents * n)) * level
        else:
            centre = s / n
            width = np.sqrt(2 * exploration * (n + slack) / (n_agents * n) * np.log(t) / n)
        return (centre + sigma * width).argmax(axis=-1)

    def learn(t, sample, mix):
        nonlocal pair
        pair = mix @ (pair + sample)

    return choose, learn


def stage_length(weights, epsilon=1 / 22, variant="accelerated"):
    """C, the rounds of a stage, and l2."""
    n_agents, l2 = len(weights), np.sort(abs(np.linalg.eigvalsh(weights)))[-2:-1].sum()
    if l2 < 1e-9:
        return 1, 0.0
    if variant == "unaccelerated":
        return int(max(1, np.ceil(np.log(n_agents / epsilon) / np.log(1 / l2)))), l2
    return int(max(1, np.ceil(np.log(2 * n_agents / epsilon) / np.sqrt(2 * np.log(1 / l2))))), l2


def dducb(
    algorithm, first, weights, sigma=1.0, exploration=2.0, epsilon=1 / 22, variant="accelerated"
):
    """DDUCB: sums and counts travel together as pairs (2, R, N, K), a stage late."""
    stage, l2 = stage_length(weights, epsilon, variant)
    n_agents, seen, r = first.shape[1], first.shape[2], 0
    beta = np.stack([first, np.ones_like(first)])
    alpha, gamma, delta, before, chosen = beta / n_agents, 0 * beta, 0 * beta, None, None
    plain = variant == "unaccelerated" or l2 == 0
    # T_r(1/l2) for r = 0, 1, ... C; the first Chebyshev step is a plain one
    scale = None if plain else np.cosh(np.arange(stage + 1) * np.arccosh(1 / l2))

    def choose(t):
        nonlocal chosen
        if r == 0 or variant == "practical":
            positive = np.where(alpha[1] > 0, alpha[1], 1.0)
            width = np.sqrt(2 * exploration * sigma**2 * np.log(seen) / (n_agents * positive))
            score = np.where(alpha[1] > 0, alpha[0] / positive + width, np.inf)
            chosen = score.argmax(axis=-1)
        return chosen

    def learn(t, sample, mix):
        nonlocal alpha, beta, gamma, delta, before, seen, r
        gamma = gamma + sample
        if variant == "practical":
            alpha = alpha + sample / n_agents
        if plain or r == 0:
            beta, before = mix @ beta, beta
        else:
            ahead = 2 / l2 * scale[r] * (mix @ beta) - scale[r - 1] * before
            beta, before = ahead / scale[r + 1], beta
        r += 1
        if r == stage:
            seen, r = (t - stage) * n_agents, 0
            delta = delta + beta
            if variant == "unaccelerated":
                alpha, beta = beta, beta + gamma
            else:
                alpha, beta = delta, gamma
            gamma = 0 * gamma

    return choose, learn


def regret_of(arms, means):
    """Cumulative regret averaged over the agents: arms (T, R, N) to (R, T)."""
    return (max(means) - np.asarray(means))[arms].mean(axis=-1).cumsum(axis=0).T


def simulate(algorithm, means, weights, horizon, runs, seed, **parameters):
    """The regret (R, T) of a baseline on Gaussian arms with sigma = 1."""
    noise = np.random.default_rng(seed).standard_normal((horizon, runs, len(weights)))
    return regret_of(play(algorithm, means, weights, noise, **parameters), means)


def delays(weights):
    """How many rounds until j's observation is usable by i: max(1, d(i, j)), (N, N)."""
    hops = shortest_path(np.array(np.asarray(weights) > 0, float, order="C"), unweighted=True)
    return np.maximum(1, hops).astype(int)


def flooding(means, weights, horizon, runs, seed, family="gaussian"):
    """The regret (R, T) of Thompson Sampling, N(0, 1) or Beta(1, 1), when observations travel."""
    generator, means, n_agents = np.random.default_rng(seed), np.asarray(means), len(weights)
    wait, log = delays(weights), []
    count = total = np.zeros((runs, n_agents, len(means)))
    arms = np.empty((horizon, runs, n_agents), int)
    for t in range(horizon):
        if family == "gaussian":
            sample = generator.normal(total / (1 + count), 1 / np.sqrt(1 + count))
        else:
            sample = generator.beta(1 + total, 1 + count - total)
        arms[t] = sample.argmax(axis=-1)
        paid = means[arms[t]]
        normal = family == "gaussian"
        paid = generator.normal(paid) if normal else generator.random(paid.shape) < paid
        played = (arms[t][..., None] == np.arange(len(means))).astype(float)
        log.append((played, played * paid[..., None]))
        for age in range(1, min(len(log), wait.max()) + 1):  # what arrives for round t + 1
            arrives = (wait == age).astype(float)
            count, total = count + arrives @ log[-age][0], total + arrives @ log[-age][1]
    return regret_of(arms, means)


def cycle(n):
    """I - (D - A)/3."""
    return (np.eye(n) + np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) / 3


def grid(rows, columns):
    """I - (D - A)/5, 4-connected."""
    path = [np.eye(n, k=1) + np.eye(n, k=-1) for n in (rows, columns)]
    links = np.kron(path[0], np.eye(columns)) + np.kron(np.eye(rows), path[1])
    return np.eye(rows * columns) - (np.diag(links.sum(axis=1)) - links) / 5


CASES = {
    "coop-ucb 1.01": ("coop-ucb", {"exploration": 1.01}),
    "coop-ucb 2": ("coop-ucb", {"exploration": 2.0}),
    "coop-ucb2": ("coop-ucb2", {}),
    "coop-ucl": ("coop-ucl", {}),
    "dducb accelerated": ("dducb", {"variant": "accelerated"}),
    "dducb unaccelerated": ("dducb", {"variant": "unaccelerated"}),
    "dducb practical": ("dducb", {"variant": "practical"}),
}

if __name__ == "__main__":
    RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for where, matrix in {"cycle 100": cycle(100), "grid 10x10": grid(10, 10)}.items():
        for name, (algorithm, parameters) in CASES.items():
            end = simulate(algorithm, [0.5] + [0.1] * 16, matrix, 800, RUNS, 0, **parameters)[:, -1]
            print(f"{where:11} {name:21} {end.mean():8.3f} +- {end.std(ddof=1) / RUNS**0.5:.3f}")
