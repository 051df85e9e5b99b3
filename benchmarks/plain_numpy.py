"""The yardsticks: the paper's algorithms as plain, well-written, vectorised NumPy loops.

Fixed on purpose: engines are measured against them, so they must not improve.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import betaincinv


def cycle_weights(n_agents: int) -> sp.csr_array:
    """W = I - (D - A)/3 on a cycle: a third to oneself and to each neighbour."""
    shift = np.roll(np.eye(n_agents), 1, axis=0)
    return sp.csr_array((np.eye(n_agents) + shift + shift.T) / 3)


def gaussian_thompson(
    means: np.ndarray, weights: sp.csr_array, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Cumulative regret per agent, averaged over runs, of dec-TS on N(mean, 1) arms: (T,)."""
    n_agents = weights.shape[0]
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    shift = np.zeros((n_agents, runs, n_arms))
    precision = np.ones((n_agents, runs, n_arms))
    regret = np.zeros(horizon)
    for t in range(horizon):
        noise = rng.standard_normal(shift.shape)
        arms = (shift / precision + noise / np.sqrt(precision)).argmax(axis=-1)
        rewards = means[arms] + rng.standard_normal(arms.shape)
        precision[agent, run, arms] += n_agents
        shift[agent, run, arms] += n_agents * rewards
        precision = (weights @ precision.reshape(n_agents, -1)).reshape(precision.shape)
        shift = (weights @ shift.reshape(n_agents, -1)).reshape(shift.shape)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def bernoulli(
    means: np.ndarray,
    weights: sp.csr_array,
    horizon: int,
    runs: int,
    seed: int,
    policy: str = "thompson",
) -> np.ndarray:
    """The same on Bernoulli arms, by Thompson Sampling or by Bayes-UCB with SciPy's quantiles."""
    n_agents = weights.shape[0]
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    alpha = np.ones((n_agents, runs, n_arms))
    beta = np.ones((n_agents, runs, n_arms))
    regret = np.zeros(horizon)
    for t in range(horizon):
        if policy == "thompson":
            scores = rng.beta(alpha, beta)
        else:
            scores = betaincinv(alpha, beta, 1 - 1 / (t + 1))
        arms = scores.argmax(axis=-1)
        rewards = rng.random(arms.shape) < means[arms]
        alpha[agent, run, arms] += n_agents * rewards
        beta[agent, run, arms] += n_agents * (1 - rewards)
        alpha = (weights @ alpha.reshape(n_agents, -1)).reshape(alpha.shape)
        beta = (weights @ beta.reshape(n_agents, -1)).reshape(beta.shape)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def failing_complete(
    means: np.ndarray, n_agents: int, p: float, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """dec-TS on N(mean, 1) arms over a complete graph whose links fail with probability p: (T,)."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    run = np.arange(runs)[:, None]
    agent = np.arange(n_agents)
    upper = np.triu_indices(n_agents, 1)
    shift = np.zeros((runs, n_agents, n_arms))
    precision = np.ones((runs, n_agents, n_arms))
    regret = np.zeros(horizon)
    for t in range(horizon):
        noise = rng.standard_normal(shift.shape)
        arms = (shift / precision + noise / np.sqrt(precision)).argmax(axis=-1)
        rewards = means[arms] + rng.standard_normal(arms.shape)
        precision[run, agent, arms] += n_agents
        shift[run, agent, arms] += n_agents * rewards
        weights = np.zeros((runs, n_agents, n_agents))
        weights[:, upper[0], upper[1]] = rng.random((runs, len(upper[0]))) >= p
        weights += weights.transpose(0, 2, 1)
        weights /= n_agents
        weights[:, agent, agent] = 1 - weights.sum(axis=2)
        precision = weights @ precision
        shift = weights @ shift
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def coop_ucb(
    means: np.ndarray, weights: sp.csr_array, slack: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """coop-UCB with exploration 1.01 on N(mean, 1) arms; slack: eps_i of each agent."""
    n_agents = weights.shape[0]
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    counts = np.ones((n_agents, runs, n_arms))
    sums = means + rng.standard_normal(counts.shape)
    regret = np.zeros(horizon)
    for t in range(n_arms, horizon):
        scale = 2 * 1.01 * np.log(t + 1) / n_agents
        bound = np.sqrt(scale * (counts + slack[:, None, None])) / counts
        arms = (sums / counts + bound).argmax(axis=-1)
        counts[agent, run, arms] += 1
        sums[agent, run, arms] += means[arms] + rng.standard_normal(arms.shape)
        counts = (weights @ counts.reshape(n_agents, -1)).reshape(counts.shape)
        sums = (weights @ sums.reshape(n_agents, -1)).reshape(sums.shape)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def dducb(
    means: np.ndarray,
    weights: sp.csr_array,
    lambda_2: float,
    stage: int,
    horizon: int,
    runs: int,
    seed: int,
) -> np.ndarray:
    """Accelerated DDUCB with exploration 2 on N(mean, 1) arms, stages of `stage` rounds."""
    n_agents = weights.shape[0]
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    shape = (n_agents, runs, n_arms)
    mixing = np.stack([np.ones(shape), means + rng.standard_normal(shape)], axis=1)
    settled = mixing / n_agents
    total = np.zeros_like(mixing)
    s = n_arms
    regret = np.zeros(horizon)
    for start in range(n_arms, horizon, stage):
        bound = np.sqrt(4 * np.log(s) / (n_agents * settled[:, 0]))
        arms = (settled[:, 1] / settled[:, 0] + bound).argmax(axis=-1)
        gap = (means.max() - means[arms]).mean()
        fresh = np.zeros_like(mixing)
        before = mixing
        w0 = 1.0
        w1 = 1 / lambda_2
        for step, t in enumerate(range(start, min(start + stage, horizon))):
            fresh[agent, 0, run, arms] += 1
            fresh[agent, 1, run, arms] += means[arms] + rng.standard_normal(arms.shape)
            mixed = (weights @ mixing.reshape(n_agents, -1)).reshape(mixing.shape)
            if step > 0:
                w2 = 2 * w1 / lambda_2 - w0
                mixed = (2 * w1 / (w2 * lambda_2)) * mixed - (w0 / w2) * before
                w0 = w1
                w1 = w2
            before = mixing
            mixing = mixed
            regret[t] = gap
        total += mixing
        settled = total
        mixing = fresh
        s = start * n_agents
    return regret.cumsum()
