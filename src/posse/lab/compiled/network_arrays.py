"""W as the merge kernels take it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posse.algorithms.rivals.message_passing import distances
from posse.lab.compiled.registry import Plan
from posse.networks import weights as rules
from posse.networks.link_failure import LinkFailure
from posse.networks.network import Network
from posse.networks.spanning import spanning_tree


@dataclass
class Links:
    """The arrays that merge kernels share; what a kernel does not look at is left empty."""

    offsets: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    neighbours: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: Any = field(default_factory=lambda: np.zeros(0))
    links: Any = field(default_factory=lambda: np.zeros(0, np.uint32))
    constants: Any = field(default_factory=lambda: np.zeros(8))  # each kernel's own
    n_words: int = 8  # of random bits for the links of a round


def links_of(network: Network, plan: Plan) -> Links:
    """W as the plan's merge kernel takes it."""
    if plan.merge in ("merge_flooding", "merge_eliminating", "merge_neighbours"):
        return _distances(network, plan)
    if plan.merge == "merge_tree":
        return _tree(network, plan)
    if plan.merge == "merge_nothing":
        return Links()
    if plan.merge == "merge_gossip":
        return Links(links=_ends(network))
    if plan.merge == "merge_failing":
        return _failing(network, plan)
    if plan.merge == "merge_gosine":
        return _open_neighbours(network)
    if plan.merge == "merge_tracking":  # has weights of its own
        network = network.weighted("metropolis")
    from scipy.sparse import csr_array

    matrix = csr_array(network.weights)
    offsets, neighbours, weights = _rows_of(matrix)
    constants = np.zeros(8)
    if plan.merge == "merge_chebyshev":
        weights = weights * (2 / network.second_eigenvalue)
        constants[0] = plan.stage_length
    return Links(offsets, neighbours, weights, _stretches(offsets, neighbours, weights), constants)


def _rows_of(matrix: Any) -> tuple[Any, Any, Any]:
    """A CSR matrix as offsets, neighbours relative to the agent, and weights."""
    offsets = matrix.indptr.astype(np.int64)
    agents = np.repeat(np.arange(matrix.shape[0]), np.diff(offsets))
    return offsets, matrix.indices.astype(np.int64) - agents, matrix.data.astype(float)


def _ends(network: Network) -> Any:
    """The two agents of every link, one after the other."""
    return network.edges.astype(np.uint32).reshape(-1)


def _failing(network: Network, plan: Plan) -> Links:
    """Links that may fail: their weights, and what the kernel asks about them."""
    dynamics = network.dynamics
    assert isinstance(dynamics, LinkFailure)
    # the diagonal is stored even where it is zero: links fall back on it
    matrix = rules.assemble_matrix(network.topology, network.link_weights)
    realised = dynamics.normalise == "realised"
    alike = realised or len(np.unique(network.link_weights)) == 1
    constants = np.zeros(8)
    # an index that ties with another must do so to the last digit; samples never tie
    samples = plan.choose.startswith("choose_thompson")
    constants[:5] = dynamics.p, realised, network.is_uniform, alike, samples
    return Links(
        *_rows_of(matrix),
        links=_ends(network),
        constants=np.concatenate([constants, network.link_weights]),
        n_words=len(network.edges) // 2 + 2,
    )


def _distances(network: Network, plan: Plan) -> Links:
    """Whom each agent hears of, and how many hops away they are."""
    hearer, speaker, hops = distances(network, plan.hops)
    constants = np.zeros(8)
    constants[:2] = hops[-1] + 1, plan.rate
    others = hearer != speaker
    order = np.lexsort((speaker[others], hearer[others]))
    hearer, speaker, hops = (each[others][order] for each in (hearer, speaker, hops))
    offsets = np.searchsorted(hearer, np.arange(network.n_agents + 1)).astype(np.int64)
    return Links(offsets, speaker, links=hops.astype(np.uint32), constants=constants)


def _open_neighbours(network: Network) -> Links:
    """The neighbours of each agent, without itself."""
    ends = np.concatenate([network.edges, network.edges[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    offsets = np.concatenate([[0], np.cumsum(network.degrees)]).astype(np.int64)
    return Links(offsets, ends[:, 1].astype(np.int64))


def _tree(network: Network, plan: Plan) -> Links:
    """The links of a spanning tree, and where links may fail which of them they are."""
    links = spanning_tree(network)
    dynamics = network.dynamics
    constants = np.zeros(8)
    which = np.zeros(0, np.int64)
    n_words = 8
    constants[:3] = *plan.prior, plan.rate
    if isinstance(dynamics, LinkFailure):
        constants[3] = dynamics.p
        key = np.array([network.n_agents, 1])
        keys = links @ key  # ascending, as links are sorted
        place = np.minimum(np.searchsorted(keys, network.edges @ key), len(links) - 1)
        which = np.where(keys[place] == network.edges @ key, place, -1)
        n_words = len(network.edges) // 2 + 2
    ends = links.astype(np.uint32).reshape(-1)
    return Links(neighbours=which, links=ends, constants=constants, n_words=n_words)


def _stretches(offsets: Any, neighbours: Any, weights: Any) -> Any:
    """How many agents from each one on have its (relative) neighbours and weights: (N,)."""
    n_agents = len(offsets) - 1
    degrees = np.diff(offsets)
    alike = np.zeros(n_agents, bool)  # to the agent before
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
