"""Shares: the column-stochastic weights of ratio consensus (push-sum, Kempe, Dobra & Gehrke 2003).

Every agent splits what it has equally among itself and the agents that it sends to. So columns of
P sum to 1, where those of a doubly stochastic W need agreement between neighbours: P_ij is what
agent i receives of agent j. It exists for directed links, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.networks.graphs import Graph, IntArray
from posse.networks.operators import (
    GossipPairs,
    Operator,
    SparseRuns,
    SparseWeights,
    UniformWeights,
    as_matrix,
)
from posse.networks.weights import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def split_equally(graph: Graph) -> csr_array[Any, tuple[int, int]]:
    """Build P (N, N) of a graph."""
    ends = graph.edges
    if not graph.directed:
        ends = np.concatenate([ends, ends[:, ::-1]])
    return split_links(ends[:, 1], ends[:, 0], graph.n_agents)


def split_among_links(
    weights: Any, n_agents: int, n_runs: int, shares: FloatArray | None = None
) -> Operator:
    """Return P(t) with the links that W(t) uses, as an operator.

    shares: what an agent gives to each receiver (N,), whether or not its link works: the share of a
    lost message stays with its sender. None splits equally among the links of the round.
    """
    # A pair that averages, and a complete graph with equal weights, split equally already.
    if isinstance(weights, GossipPairs | UniformWeights):
        return weights
    if isinstance(weights, SparseRuns):
        return SparseRuns(split_support(weights.blocks, shares))
    if isinstance(weights, SparseWeights) or hasattr(weights, "tocsr"):
        matrix = weights.weights if isinstance(weights, SparseWeights) else weights.tocsr()
        return SparseWeights(split_support(matrix, shares))
    works = as_matrix(weights, n_agents, n_runs) > 0  # (..., receiver, sender)
    agents = np.arange(n_agents)
    works[..., agents, agents] = False
    share: FloatArray = 1 / (1 + works.sum(axis=-2)) if shares is None else shares
    split = works * share[..., None, :]
    split[..., agents, agents] = 1 - split.sum(axis=-2)
    return split


def split_support(
    weights: csr_array[Any, tuple[int, int]], shares: FloatArray | None = None
) -> csr_array[Any, tuple[int, int]]:
    """Build P with the links of a matrix, where i receives from j if W_ij > 0.

    weights: (N, N), or several of them as blocks on the diagonal. shares: see `split_among_links`.
    """
    table = weights.tocoo()
    receiver, sender = table.coords
    works = (table.data > 0) & (receiver != sender)
    return split_links(receiver[works], sender[works], weights.shape[0], shares)


def split_links(
    receiver: IntArray, sender: IntArray, size: int, shares: FloatArray | None = None
) -> csr_array[Any, tuple[int, int]]:
    """Build P (size, size) from the links that work; columns sum to 1.

    shares: see `split_among_links`; N of them serve the N agents of every run.
    """
    from scipy.sparse import coo_array, csr_array

    n_receivers = np.bincount(sender, minlength=size)
    share = 1 / (1 + n_receivers) if shares is None else np.tile(shares, size // len(shares))
    agents = np.arange(size)
    values = np.concatenate([share[sender], 1 - n_receivers * share])
    places = (np.concatenate([receiver, agents]), np.concatenate([sender, agents]))
    return csr_array(coo_array((values, places), shape=(size, size)))
