"""The arrays of a network that the merge kernels read.

The kernels share one signature, so one record serves all of them: each kernel documents what its
arrays mean, and unused arrays are empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.algorithms import delivery_delays
from posse.lab.compiled.kernels import push_sum, tree
from posse.lab.compiled.records import NetworkArrays
from posse.lab.compiled.registry import PUSH_KERNELS, KernelPlan
from posse.networks import (
    DEFAULT_RULE,
    LinkFailure,
    Network,
    assemble_matrix,
    is_by_max_degree,
    spanning_tree,
)


def build_network_arrays(network: Network, plan: KernelPlan) -> NetworkArrays:
    """Build the arrays that the merge kernel of the plan reads."""
    if plan.merge in ("merge_flooding", "merge_eliminating", "merge_neighbours"):
        return _delivery_arrays(network, plan)
    if plan.merge == "merge_late_flooding":
        return _receiver_arrays(network, plan)
    if plan.merge == "merge_tree":
        return _tree_arrays(network, plan)
    if plan.merge == "merge_nothing":
        return NetworkArrays()
    if plan.merge == "merge_pooling":
        return NetworkArrays(constants=np.array(plan.pooling))
    if plan.merge in PUSH_KERNELS.values():
        return _push_arrays(network, plan)
    if plan.ignores_weights:
        network = network.weighted(DEFAULT_RULE)
    if plan.merge == "merge_gossip":
        return NetworkArrays(links=_link_ends(network))
    if plan.merge == "merge_failing":
        return _failing_links(network, plan)
    if plan.merge == "merge_gosine":
        return _open_neighbours(network)
    # the remaining kernels read W as CSR rows
    if plan.merge == "merge_tracking":  # Dist-UCB defines its own weights
        network = network.weighted("metropolis")
    if plan.merge == "merge_awake" and network.rule not in ("max-degree", "lazy", "metropolis"):
        network = network.weighted("metropolis")  # see `cut_off_sleepers`
    from scipy.sparse import csr_array

    matrix = csr_array(network.weights)
    offsets, neighbours, weights = csr_rows(matrix)
    constants = np.zeros(8)
    if plan.merge == "merge_chebyshev":
        # the kernel computes T_n by 2 W/lambda_2, so the factor is part of the weights
        weights = weights * (2 / network.second_eigenvalue)
        constants[0] = plan.stage_length
    if plan.merge == "merge_awake":
        share = 0.5 if network.rule == "lazy" else 1.0
        by_degree = share / (1.0 + np.arange(network.degrees.max() + 1))
        constants[0] = is_by_max_degree(network)
        constants = np.concatenate([constants, by_degree])
    return NetworkArrays(
        offsets, neighbours, weights, equal_stretches(offsets, neighbours, weights), constants
    )


def csr_rows(matrix: Any) -> tuple[Any, Any, Any]:
    """Return a CSR matrix as offsets, neighbours relative to the agent, and weights."""
    offsets = matrix.indptr.astype(np.int64)
    agents = np.repeat(np.arange(matrix.shape[0]), np.diff(offsets))
    return offsets, matrix.indices.astype(np.int64) - agents, matrix.data.astype(float)


def _link_ends(network: Network) -> Any:
    """Return the two agents of every link, one after the other: (2 links,)."""
    return network.edges.astype(np.uint32).reshape(-1)


def _failing_links(network: Network, plan: KernelPlan) -> NetworkArrays:
    """Return links that may fail with their weights; see `merge_failing` for the constants."""
    dynamics = network.dynamics
    assert isinstance(dynamics, LinkFailure)
    # the diagonal is stored even if it is zero: the weight of a failed link returns to it
    matrix = assemble_matrix(network.topology, network.link_weights)
    realised = dynamics.normalise == "realised"
    alike = realised or len(np.unique(network.link_weights)) == 1
    constants = np.zeros(8)
    # indices that tie must be equal to the last digit; samples never tie
    samples = plan.choose.startswith("choose_thompson") and plan.challenge == "choose_nothing"
    constants[:5] = dynamics.p, realised, network.is_uniform, alike, samples
    return NetworkArrays(
        *csr_rows(matrix),
        links=_link_ends(network),
        constants=np.concatenate([constants, network.link_weights]),
        n_words=len(network.edges) // 2 + 2,
    )


def _delivery_arrays(network: Network, plan: KernelPlan) -> NetworkArrays:
    """Return the senders of each agent and how many hops away they are."""
    receiver, sender, hops = delivery_delays(network, plan.hops)
    constants = np.zeros(8)
    constants[:3] = hops[-1] + 1, plan.sleeps or plan.fading != 1.0, plan.rate
    is_other = receiver != sender
    # grouped by receiver, as CSR rows
    order = np.lexsort((sender[is_other], receiver[is_other]))
    receiver, sender, hops = (array[is_other][order] for array in (receiver, sender, hops))
    offsets = np.searchsorted(receiver, np.arange(network.n_agents + 1)).astype(np.int64)
    # an observation of the last round, one hop away, is new
    weights = plan.rate * plan.fading ** (hops - 1.0)
    return NetworkArrays(offsets, sender, weights, hops.astype(np.uint32), constants)


def _receiver_arrays(network: Network, plan: KernelPlan) -> NetworkArrays:
    """Return the receivers of each agent by their distance; see `kernels.late_flooding`."""
    receiver, sender, hops = delivery_delays(network, None)
    is_other = receiver != sender
    n_distances = int(hops[-1])
    place = (sender * n_distances + hops - 1)[is_other]
    order = np.lexsort((receiver[is_other], place))
    ends = np.arange(network.n_agents * n_distances + 1)
    offsets = np.searchsorted(place[order], ends).astype(np.int64)
    # evidence of the last round, one hop away, is new
    weights = plan.fading ** np.arange(n_distances, dtype=float)
    return NetworkArrays(offsets, receiver[is_other][order].astype(np.int64), weights)


def _open_neighbours(network: Network) -> NetworkArrays:
    """Return the neighbours of each agent, without itself."""
    ends = np.concatenate([network.edges, network.edges[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    offsets = np.concatenate([[0], np.cumsum(network.degrees)]).astype(np.int64)
    return NetworkArrays(offsets, ends[:, 1].astype(np.int64))


def _tree_arrays(network: Network, plan: KernelPlan) -> NetworkArrays:
    """Return the links of a spanning tree; if links may fail, their positions in the tree."""
    links = spanning_tree(network)
    dynamics = network.dynamics
    constants = np.zeros(8)
    tree_links = np.zeros(0, np.int64)
    n_words = 8
    constants[: len(plan.prior)] = plan.prior
    # delayed rewards are noted by the driver
    constants[tree.RATE] = 0.0 if plan.delayed else plan.rate
    constants[tree.FADING] = plan.fading
    constants[tree.CUTS_OFF] = plan.cuts_off_sleepers
    if isinstance(dynamics, LinkFailure):
        constants[tree.FAILURE] = dynamics.p
        # a link (i, j) as one number i N + j, to look it up among the sorted links of the tree
        key = np.array([network.n_agents, 1])
        keys = links @ key  # ascending, as links are sorted
        place = np.minimum(np.searchsorted(keys, network.edges @ key), len(links) - 1)
        tree_links = np.where(keys[place] == network.edges @ key, place, -1)
        n_words = len(network.edges) // 2 + 2
    ends = links.astype(np.uint32).reshape(-1)
    return NetworkArrays(neighbours=tree_links, links=ends, constants=constants, n_words=n_words)


def _push_arrays(network: Network, plan: KernelPlan) -> NetworkArrays:
    """Return the shares of PushSum; see `kernels.push_sum` for the constants."""
    from scipy.sparse import csr_array

    shares = csr_array(network.shares)
    constants = np.zeros(push_sum.SHARES)
    constants[: len(plan.prior)] = plan.prior
    # delayed rewards are weighed by the driver
    constants[push_sum.RATE] = 0.0 if plan.delayed else plan.rate
    constants[push_sum.LEARNT] = plan.learnt
    constants[push_sum.DIRECTED] = network.is_directed
    n_words = 8
    if isinstance(network.dynamics, LinkFailure):
        constants[push_sum.FAILURE] = network.dynamics.p
        constants[push_sum.REALISED] = network.dynamics.normalise == "realised"
        n_words = len(network.edges) // 2 + 2
    return NetworkArrays(
        *csr_rows(shares),
        links=_link_ends(network),
        constants=np.concatenate([constants, shares.diagonal()]),
        n_words=n_words,
    )


def equal_stretches(offsets: Any, neighbours: Any, weights: Any) -> Any:
    """Count how many agents from each one on have its (relative) neighbours and weights: (N,)."""
    n_agents = len(offsets) - 1
    degrees = np.diff(offsets)
    # whether an agent has the relative neighbours and weights of the agent before
    alike = np.zeros(n_agents, bool)
    alike[1:] = degrees[1:] == degrees[:-1]
    agent = np.repeat(np.arange(n_agents), degrees)
    before = np.arange(len(neighbours)) - degrees[agent]
    compare = np.flatnonzero(alike[agent])
    there = before[compare]
    same = (neighbours[compare] == neighbours[there]) & (weights[compare] == weights[there])
    alike[agent[compare[~same]]] = False
    breaks = np.flatnonzero(np.append(~alike, True))
    following = breaks[np.searchsorted(breaks, np.arange(n_agents), side="right")]
    return (following - np.arange(n_agents)).astype(np.uint32)
