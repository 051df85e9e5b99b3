"""Spanning trees: N - 1 links over which every agent reaches every other in one way only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.networks.graphs import IntArray

if TYPE_CHECKING:
    from posse.networks.network import Network


def spanning_tree(network: Network) -> IntArray:
    """The links (N - 1, 2) of a breadth-first tree from about the middle of the graph, read-only.

    The middle is that of a longest shortest path found by two sweeps (exact on trees), so that
    paths in the tree are short. Of W only links that both ends use are taken.

    >>> posse.networks.spanning.spanning_tree(posse.networks.star(4)).tolist()
    [[0, 1], [0, 2], [0, 3]]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    n_agents = network.n_agents
    i, j = _links_both_ways(network).T
    ends = (np.concatenate([i, j]), np.concatenate([j, i]))
    graph: Any = coo_array((np.ones(2 * len(i)), ends), shape=(n_agents, n_agents)).tocsr()

    def sweep(root: int) -> tuple[IntArray, IntArray]:
        order, parents = breadth_first_order(graph, root, directed=False)
        return order, parents

    order, _ = sweep(0)
    if len(order) < n_agents:
        raise ValueError(
            f"{network} has no spanning tree: only {len(order)} of {n_agents} agents are reached "
            "over links that both ends use"
        )
    order, parents = sweep(int(order[-1]))
    way = [int(order[-1])]
    while parents[way[-1]] >= 0:
        way.append(int(parents[way[-1]]))
    _, parents = sweep(way[len(way) // 2])
    children = np.flatnonzero(parents >= 0)
    links = np.sort(np.stack([children, parents[children]], axis=1), axis=1).astype(np.int64)
    links = links[np.lexsort((links[:, 1], links[:, 0]))]
    links.setflags(write=False)
    return links


def _links_both_ways(network: Network) -> IntArray:
    """The links (E, 2) whose two ends hear each other by W, whatever its dynamics."""
    weights: Any = network.weights
    i, j = network.edges.T
    if hasattr(weights, "tocsr"):
        forth, back = (np.asarray(weights[a, b]).ravel() for a, b in ((i, j), (j, i)))
    else:
        forth, back = weights[i, j], weights[j, i]
    return network.edges[(forth > 0) & (back > 0)]
