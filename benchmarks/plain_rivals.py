"""More yardsticks: rivals and our own beyond the paper, as plain, vectorised NumPy loops.

Fixed on purpose, as those of `plain_numpy.py`; all on N(mean, 1) arms and a graph given by its
edges (E, 2), arrays (N, R, K), and each returns cumulative regret averaged over agents and runs.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def adjacency(n_agents: int, edges: np.ndarray) -> sp.csr_array:
    """A (N, N) with ones where two agents are linked."""
    one, two = np.concatenate([edges, edges[:, ::-1]]).T
    return sp.csr_array((np.ones(len(one)), (one, two)), shape=(n_agents, n_agents))


def mixed(matrix: sp.csr_array, values: np.ndarray) -> np.ndarray:
    """matrix @ values over the first axis."""
    return (matrix @ values.reshape(len(values), -1)).reshape(values.shape)


def dist_ucb(
    means: np.ndarray, n_agents: int, edges: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Dist-UCB1 with sigma 1: estimates that track all sample means, and the largest counts."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent, run = np.arange(n_agents)[:, None], np.arange(runs)
    links = adjacency(n_agents, edges)
    size = 1.0 + links.sum(axis=1)
    one, two = links.nonzero()
    weights = sp.csr_array((1 / np.maximum(size[one], size[two]), (one, two)), shape=links.shape)
    weights = sp.csr_array(weights + sp.diags_array(1 - weights.sum(axis=1)))
    closed = [
        np.append(links.indices[links.indptr[i] : links.indptr[i + 1]], i) for i in agent[:, 0]
    ]
    order, starts = np.concatenate(closed), np.append(0, np.cumsum(size).astype(int))[:-1]
    counts = np.ones((n_agents, runs, n_arms))
    sums = means + rng.standard_normal(counts.shape)
    estimates, largest = sums.copy(), counts.copy()
    regret = np.full(horizon, (means.max() - means).mean())  # every arm once first
    for t in range(n_arms, horizon):
        bound = 2.02 * np.sqrt(3 * np.log(t + 1) / (size[:, None, None] * counts))
        arms = (estimates + bound).argmax(axis=-1)
        lags = counts <= largest - n_arms
        if lags.any():
            behind = (lags * rng.random(lags.shape)).argmax(axis=-1)
            arms = np.where(lags.any(axis=-1), behind, arms)
        largest = np.maximum.reduceat(largest[order], starts, axis=0)
        estimates = mixed(weights, estimates)
        estimates[agent, run, arms] -= sums[agent, run, arms] / counts[agent, run, arms]
        counts[agent, run, arms] += 1
        sums[agent, run, arms] += means[arms] + rng.standard_normal(arms.shape)
        estimates[agent, run, arms] += sums[agent, run, arms] / counts[agent, run, arms]
        largest = np.maximum(largest, counts)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def ucb_network(
    means: np.ndarray, n_agents: int, edges: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """UCB-Network with sigma 1: everybody hears its neighbours' observations, one hop."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent, run = np.arange(n_agents)[:, None], np.arange(runs)
    closed = sp.csr_array(adjacency(n_agents, edges) + sp.eye_array(n_agents))
    counts = np.zeros((n_agents, runs, n_arms))
    sums = np.zeros_like(counts)
    regret = np.zeros(horizon)
    for t in range(horizon):
        if t < n_arms:
            arms = np.full((n_agents, runs), t)
        else:
            bound = np.sqrt(8 * np.log(t + 1) / counts)
            arms = (sums / counts + bound).argmax(axis=-1)
        seen = np.zeros((n_agents, 2, runs, n_arms))
        seen[agent, 0, run, arms] = 1
        seen[agent, 1, run, arms] = means[arms] + rng.standard_normal(arms.shape)
        heard = mixed(closed, seen)
        counts += heard[:, 0]
        sums += heard[:, 1]
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def gosine(
    means: np.ndarray, n_agents: int, edges: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """GosInE with sigma 1: a few arms each, one of which a neighbour's advice replaces."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent, run = np.arange(n_agents)[:, None], np.arange(runs)
    links = adjacency(n_agents, edges)
    degrees = np.diff(links.indptr)
    size = -(-n_arms // n_agents)
    first = np.arange(n_agents) * size
    sticky = (np.arange(n_arms) - first[:, None]) % n_arms < size
    upper = np.repeat(((first + size) % n_arms)[:, None], runs, axis=1)
    lower = (upper + 1) % n_arms
    kept = np.repeat(sticky[:, None], runs, axis=1)
    kept[agent, run, upper] = kept[agent, run, lower] = True
    counts = np.zeros((n_agents, runs, n_arms))
    sums, earlier = np.zeros_like(counts), np.zeros_like(counts)
    regret, cubes = np.zeros(horizon), {j**3 for j in range(1, 1 + round(horizon ** (1 / 3)))}
    for t in range(1, horizon + 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            index = sums / counts + 2 * np.sqrt(4 * np.log(t) / counts)
        index[counts == 0] = np.inf
        arms = np.where(kept, index, -np.inf).argmax(axis=-1)
        counts[agent, run, arms] += 1
        sums[agent, run, arms] += means[arms] + rng.standard_normal(arms.shape)
        regret[t - 1] = (means.max() - means[arms]).mean()
        if t in cubes:
            played, earlier = counts - earlier, counts.copy()
            asked = links.indptr[:-1, None] + rng.integers(degrees[:, None], size=upper.shape)
            heard = played.argmax(axis=-1)[links.indices[asked], run]
            swap = played[agent, run, lower] > played[agent, run, upper]
            upper, lower = np.where(swap, lower, upper), np.where(swap, upper, lower)
            lower = np.where(kept[agent, run, heard], lower, heard)
            kept = np.repeat(sticky[:, None], runs, axis=1)
            kept[agent, run, upper] = kept[agent, run, lower] = True
    return regret.cumsum()


def tree_thompson(
    means: np.ndarray, n_agents: int, tree: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Tree(Thompson Sampling) over the links of a tree (N - 1, 2): nobody hears its own echo."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent, run = np.arange(n_agents)[:, None], np.arange(runs)
    both = np.concatenate([tree, tree[:, ::-1]])
    listener, speaker = both[np.lexsort((both[:, 1], both[:, 0]))].T
    back = np.lexsort((listener, speaker))
    starts = np.searchsorted(listener, np.arange(n_agents))
    own = np.zeros((n_agents, 2, runs, n_arms))  # counts and sums
    told = np.zeros((len(listener), 2, runs, n_arms))
    believed, regret = own, np.zeros(horizon)
    for t in range(horizon):
        precision = 1 + believed[:, 0]
        noise = rng.standard_normal(precision.shape)
        arms = (believed[:, 1] / precision + noise / np.sqrt(precision)).argmax(axis=-1)
        own[agent, 0, run, arms] += 1
        own[agent, 1, run, arms] += means[arms] + rng.standard_normal(arms.shape)
        knows = own + np.add.reduceat(told, starts, axis=0)
        told = knows[speaker] - told[back]
        believed = own + np.add.reduceat(told, starts, axis=0)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def rand_ucb(
    means: np.ndarray, weights: sp.csr_array, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Algorithm 1 with RandUCB: mean + |z| sd, one z for each agent and round."""
    n_agents, n_arms = weights.shape[0], len(means)
    rng = np.random.default_rng(seed)
    agent, run = np.arange(n_agents)[:, None], np.arange(runs)
    shift = np.zeros((n_agents, runs, n_arms))
    precision = np.ones((n_agents, runs, n_arms))
    regret = np.zeros(horizon)
    for t in range(horizon):
        z = abs(rng.standard_normal((n_agents, runs, 1)))
        arms = (shift / precision + z / np.sqrt(precision)).argmax(axis=-1)
        rewards = means[arms] + rng.standard_normal(arms.shape)
        precision[agent, run, arms] += n_agents
        shift[agent, run, arms] += n_agents * rewards
        precision, shift = mixed(weights, precision), mixed(weights, shift)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()
