"""What the rivals that count on a fixed graph share: its check, and who is how far from whom."""

from __future__ import annotations

import functools

import numpy as np

from posse.algorithms.algorithm import Problem
from posse.networks.graphs import n_components
from posse.networks.network import Network
from posse.networks.static import Static
from posse.networks.weights import is_symmetric
from posse.randomness import IntArray

INDICES = ("published", "kl")


def check_fixed_links(problem: Problem, who: str, why: str) -> None:
    """Refuse links that come and go, that lead one way only, or that do not reach everybody."""
    network = problem.network
    if not isinstance(network.dynamics, Static):
        raise ValueError(f"{who} needs a network that does not change, since {why}, got {network}")
    if not is_symmetric(network.weights):
        raise ValueError(f"{who} needs links that lead both ways, since {why}, got {network}")
    parts = n_components(network.topology)
    if parts > 1:
        raise ValueError(
            f"{who} needs a connected network, since {why}, got {network} of {parts} parts"
        )


@functools.lru_cache(maxsize=32)
def hops(network: Network) -> IntArray:
    """How many links lie between any two agents, (N, N), read-only."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    n_agents = network.n_agents
    i, j = network.edges.T
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n_agents, n_agents)).tocsr()
    distances: IntArray = shortest_path(graph, directed=False, unweighted=True).astype(np.int64)
    distances.setflags(write=False)
    return distances
