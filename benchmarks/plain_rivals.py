"""More yardsticks: rivals and our own beyond the paper, as plain, vectorised NumPy loops.

Fixed on purpose, as those of `plain_numpy.py`; all on N(mean, 1) arms and a graph given by its
edges (E, 2), arrays (N, R, K), and each returns cumulative regret averaged over agents and runs.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def adjacency(n_agents: int, edges: np.ndarray) -> sp.csr_array:
    """A (N, N) with ones where two agents are linked."""
    first, second = np.concatenate([edges, edges[:, ::-1]]).T
    return sp.csr_array((np.ones(len(first)), (first, second)), shape=(n_agents, n_agents))


def mix_neighbours(matrix: sp.csr_array, values: np.ndarray) -> np.ndarray:
    """matrix @ values over the first axis."""
    return (matrix @ values.reshape(len(values), -1)).reshape(values.shape)


def dist_ucb(
    means: np.ndarray, n_agents: int, edges: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Dist-UCB1 with sigma 1: estimates that track all sample means, and the largest counts."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    links = adjacency(n_agents, edges)
    size = 1.0 + links.sum(axis=1)
    first, second = links.nonzero()
    weights = sp.csr_array(
        (1 / np.maximum(size[first], size[second]), (first, second)), shape=links.shape
    )
    weights = sp.csr_array(weights + sp.diags_array(1 - weights.sum(axis=1)))
    closed = [
        np.append(links.indices[links.indptr[i] : links.indptr[i + 1]], i) for i in agent[:, 0]
    ]
    order = np.concatenate(closed)
    starts = np.append(0, np.cumsum(size).astype(int))[:-1]
    counts = np.ones((n_agents, runs, n_arms))
    sums = means + rng.standard_normal(counts.shape)
    estimates = sums.copy()
    largest = counts.copy()
    regret = np.full(horizon, (means.max() - means).mean())  # every arm once first
    for t in range(n_arms, horizon):
        bound = 2.02 * np.sqrt(3 * np.log(t + 1) / (size[:, None, None] * counts))
        arms = (estimates + bound).argmax(axis=-1)
        lags = counts <= largest - n_arms
        if lags.any():
            behind = (lags * rng.random(lags.shape)).argmax(axis=-1)
            arms = np.where(lags.any(axis=-1), behind, arms)
        largest = np.maximum.reduceat(largest[order], starts, axis=0)
        estimates = mix_neighbours(weights, estimates)
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
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
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
        observed = np.zeros((n_agents, 2, runs, n_arms))
        observed[agent, 0, run, arms] = 1
        observed[agent, 1, run, arms] = means[arms] + rng.standard_normal(arms.shape)
        received = mix_neighbours(closed, observed)
        counts += received[:, 0]
        sums += received[:, 1]
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def gosine(
    means: np.ndarray, n_agents: int, edges: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """GosInE with sigma 1: a few arms each, one of which a neighbour's advice replaces."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    links = adjacency(n_agents, edges)
    degrees = np.diff(links.indptr)
    size = -(-n_arms // n_agents)
    first = np.arange(n_agents) * size
    sticky = (np.arange(n_arms) - first[:, None]) % n_arms < size
    upper = np.repeat(((first + size) % n_arms)[:, None], runs, axis=1)
    lower = (upper + 1) % n_arms
    active = np.repeat(sticky[:, None], runs, axis=1)
    active[agent, run, upper] = active[agent, run, lower] = True
    counts = np.zeros((n_agents, runs, n_arms))
    sums = np.zeros_like(counts)
    earlier = np.zeros_like(counts)
    regret = np.zeros(horizon)
    cubes = {j**3 for j in range(1, 1 + round(horizon ** (1 / 3)))}
    for t in range(1, horizon + 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            index = sums / counts + 2 * np.sqrt(4 * np.log(t) / counts)
        index[counts == 0] = np.inf
        arms = np.where(active, index, -np.inf).argmax(axis=-1)
        counts[agent, run, arms] += 1
        sums[agent, run, arms] += means[arms] + rng.standard_normal(arms.shape)
        regret[t - 1] = (means.max() - means[arms]).mean()
        if t in cubes:
            recent_counts = counts - earlier
            earlier = counts.copy()
            links_used = links.indptr[:-1, None] + rng.integers(degrees[:, None], size=upper.shape)
            recommended = recent_counts.argmax(axis=-1)[links.indices[links_used], run]
            swap = recent_counts[agent, run, lower] > recent_counts[agent, run, upper]
            upper, lower = np.where(swap, lower, upper), np.where(swap, upper, lower)
            lower = np.where(active[agent, run, recommended], lower, recommended)
            active = np.repeat(sticky[:, None], runs, axis=1)
            active[agent, run, upper] = active[agent, run, lower] = True
    return regret.cumsum()


def tree_thompson(
    means: np.ndarray, n_agents: int, tree: np.ndarray, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Tree(Thompson Sampling) over the links of a tree (N - 1, 2): nobody hears its own echo."""
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    both = np.concatenate([tree, tree[:, ::-1]])
    listener, speaker = both[np.lexsort((both[:, 1], both[:, 0]))].T
    back = np.lexsort((listener, speaker))
    starts = np.searchsorted(listener, np.arange(n_agents))
    own_evidence = np.zeros((n_agents, 2, runs, n_arms))  # counts and sums
    messages = np.zeros((len(listener), 2, runs, n_arms))
    believed = own_evidence
    regret = np.zeros(horizon)
    for t in range(horizon):
        precision = 1 + believed[:, 0]
        noise = rng.standard_normal(precision.shape)
        arms = (believed[:, 1] / precision + noise / np.sqrt(precision)).argmax(axis=-1)
        own_evidence[agent, 0, run, arms] += 1
        own_evidence[agent, 1, run, arms] += means[arms] + rng.standard_normal(arms.shape)
        knows = own_evidence + np.add.reduceat(messages, starts, axis=0)
        messages = knows[speaker] - messages[back]
        believed = own_evidence + np.add.reduceat(messages, starts, axis=0)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()


def rand_ucb(
    means: np.ndarray, weights: sp.csr_array, horizon: int, runs: int, seed: int
) -> np.ndarray:
    """Algorithm 1 with RandUCB: mean + |z| sd, one z for each agent and round."""
    n_agents = weights.shape[0]
    n_arms = len(means)
    rng = np.random.default_rng(seed)
    agent = np.arange(n_agents)[:, None]
    run = np.arange(runs)
    shift = np.zeros((n_agents, runs, n_arms))
    precision = np.ones((n_agents, runs, n_arms))
    regret = np.zeros(horizon)
    for t in range(horizon):
        z = abs(rng.standard_normal((n_agents, runs, 1)))
        arms = (shift / precision + z / np.sqrt(precision)).argmax(axis=-1)
        rewards = means[arms] + rng.standard_normal(arms.shape)
        precision[agent, run, arms] += n_agents
        shift[agent, run, arms] += n_agents * rewards
        precision = mix_neighbours(weights, precision)
        shift = mix_neighbours(weights, shift)
        regret[t] = (means.max() - means[arms]).mean()
    return regret.cumsum()
