"""The yardstick: Algorithm 1 as a plain, well-written, vectorised NumPy loop.

Fixed on purpose: engines are measured against it, so it must not improve.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def cycle_weights(n_agents: int) -> sp.csr_array:
    """W = I - (D - A)/3 on a cycle: a third to oneself and to each neighbour."""
    shift = np.roll(np.eye(n_agents), 1, axis=0)
    return sp.csr_array((np.eye(n_agents) + shift + shift.T) / 3)


def gaussian_thompson(
    means: np.ndarray, weights: sp.csr_array, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Cumulative regret per agent, averaged over runs, of dec-TS on N(mean, 1) arms: (T,)."""
    n_agents, n_arms = weights.shape[0], len(means)
    rng = np.random.default_rng(seed)
    agent, run = np.arange(n_agents)[:, None], np.arange(runs)
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
