"""Spanning trees: N - 1 links with exactly one path between any two agents."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.networks.graphs import IntArray
from posse.networks.weights import FloatArray

if TYPE_CHECKING:
    from posse.networks.network import Network

LANDMARKS = 8


@functools.lru_cache(maxsize=32)
def spanning_tree(network: Network) -> IntArray:
    """Return the links (N - 1, 2) of a breadth-first tree from about the centre, read-only.

    A central root makes paths short: it is the agent whose farthest landmark is nearest, and each
    landmark is far from those before it (on trees two landmarks find the centre). Only links of W
    with a weight in both directions are used.

    >>> posse.networks.spanning.spanning_tree(posse.networks.star(4)).tolist()
    [[0, 1], [0, 2], [0, 3]]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, shortest_path

    n_agents = network.n_agents
    i, j = _links_both_ways(network).T
    ends = (np.concatenate([i, j]), np.concatenate([j, i]))
    graph: Any = coo_array((np.ones(2 * len(i)), ends), shape=(n_agents, n_agents)).tocsr()

    def hops(agent: int) -> FloatArray:
        return np.asarray(shortest_path(graph, method="D", unweighted=True, indices=agent))

    # Eccentricities of all agents would take N searches; a few landmarks approximate them.
    far = hops(0)
    if not np.isfinite(far).all():
        raise ValueError(
            f"{network} has no spanning tree: only {np.isfinite(far).sum()} of {n_agents} agents "
            "are reached over links with a weight in both directions"
        )
    landmarks = [hops(int(far.argmax()))]
    while len(landmarks) < min(LANDMARKS, n_agents):
        landmarks.append(hops(int(np.min(landmarks, axis=0).argmax())))
    farthest = np.max(landmarks, axis=0)
    together = np.sum(landmarks, axis=0)
    # ties by the smaller sum of distances
    middle = int(np.lexsort((together, farthest))[0])
    _, parents = breadth_first_order(graph, middle, directed=False)
    children = np.flatnonzero(parents >= 0)
    links = np.sort(np.stack([children, parents[children]], axis=1), axis=1).astype(np.int64)
    links = links[np.lexsort((links[:, 1], links[:, 0]))]
    links.setflags(write=False)
    return links


def _links_both_ways(network: Network) -> IntArray:
    """Return the links (E, 2) with a weight in both directions of W, whatever the dynamics."""
    weights: Any = network.weights
    i, j = network.edges.T
    if hasattr(weights, "tocsr"):
        forth, back = (np.asarray(weights[a, b]).ravel() for a, b in ((i, j), (j, i)))
    else:
        forth = weights[i, j]
        back = weights[j, i]
    return network.edges[(forth > 0) & (back > 0)]
