"""Rows with contexts: linear Thompson Sampling against a plain loop with NumPy's batched solve."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from measuring import Row, build_simulation, compare_with_plain

import posse
from posse.families import Linear, Logistic
from posse.lab.reference import engine

AGENTS = 16
ARMS = 5
HORIZON = 200
SD = 0.3


def linear_thompson(weights, features: int, horizon: int, runs: int, seed: int) -> float:
    """dec-TS with Gaussian weights of features uniform on [-1, 1]; the mean regret of an agent."""
    rng = np.random.default_rng(seed)
    n_agents = len(weights)
    theta = rng.normal(0, SD, (runs, ARMS, features))
    gram = np.broadcast_to(np.eye(features) / SD**2, (runs, n_agents, ARMS, features, features))
    gram = gram.copy()
    total = np.zeros((runs, n_agents, ARMS, features))
    run, agent = np.ogrid[:runs, :n_agents]
    regret = 0.0
    for _ in range(horizon):
        x = rng.uniform(-1, 1, (runs, n_agents, features))
        x[..., 0] = 1.0
        means = np.einsum("rnd,rkd->rnk", x, theta)
        repeated = np.broadcast_to(x[:, :, None], total.shape)
        solved = np.linalg.solve(gram, np.stack([repeated, total], axis=-1))
        variance, mean = np.moveaxis(np.einsum("rnkds,rnd->rnks", solved, x), -1, 0)
        sample = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
        arms = sample.argmax(axis=-1)
        played_means = np.take_along_axis(means, arms[..., None], axis=-1)[..., 0]
        regret += (means.max(axis=-1) - played_means).mean()
        rewards = played_means + rng.standard_normal(played_means.shape)
        gram[run, agent, arms] += n_agents * x[..., :, None] * x[..., None, :]
        total[run, agent, arms] += n_agents * rewards[..., None] * x
        gram = np.tensordot(gram, weights, (1, 1)).transpose(0, 4, 1, 2, 3)
        total = np.tensordot(total, weights, (1, 1)).transpose(0, 3, 1, 2)
    return float(regret)


def context_rows(rounds: int) -> Iterator[Row]:
    """Few features and as many as one should have, on one thread."""
    network = posse.networks.grid(4, 4)
    weights = np.asarray(posse.networks.as_matrix(network.weights, AGENTS)).reshape(AGENTS, AGENTS)
    algorithm = posse.Decentralized(posse.ThompsonSampling())
    for features, must in ((5, 1.5), (16, 0.7)):
        columns = {f"x{i}": (-1, 1) for i in range(1, features)}
        bandit = posse.ContextualBandit(
            Linear(prior_sd=SD), posse.Contexts(columns), posse.NormalWeights(ARMS, SD)
        )
        yield compare_with_plain(
            f"contexts: linear TS, d={features} N=16 K=5 T=200, reference engine, against "
            "plain NumPy",
            must, None, rounds,
            (lambda d=features: linear_thompson(weights, d, HORIZON, 10, 1), 10 * 16 * HORIZON),
            (build_simulation(bandit, network, algorithm, HORIZON, 40), 40 * 16 * HORIZON),
        )  # fmt: skip


def evaluation_rows(rounds: int) -> Iterator[Row]:
    """Kernels of contexts against NumPy, which gives the same bits: 3 instances, processor time."""
    generator = np.random.default_rng(8)
    network = posse.networks.cycle(50)
    algorithm = posse.Decentralized(posse.ThompsonSampling())
    contexts = posse.Contexts({f"x{i}": (-1, 1) for i in range(1, 8)})
    linear = Linear(prior_sd=SD)
    for family, n_arms in ((linear, 5), (linear, 17), (Logistic(rate=0.2), 17)):
        bandit = posse.ContextualBandit(
            family, contexts, posse.NormalWeights(n_arms, generator.uniform(0.1, 0.5))
        )
        play = build_simulation(bandit, network, algorithm, 100, 8)

        def play_from(least, play=play):
            engine.COMPILED_FROM = least
            return play()

        steps = 8 * 50 * 100
        yield compare_with_plain(
            f"contexts: {family.name} TS, d=8 N=50 K={n_arms} T=100, kernels against NumPy",
            3, None, rounds,
            (lambda play_from=play_from: play_from(10**12), steps),
            (lambda play_from=play_from: play_from(0), steps),
            clock=time.process_time,
        )  # fmt: skip
