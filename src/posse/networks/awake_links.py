"""Awake links: agents that sleep are cut off, and the others weigh the graph among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posse.networks import weights as rules
from posse.networks.operators import Operator, SparseRuns, get_link_weights
from posse.networks.weights import FloatArray

if TYPE_CHECKING:
    from posse.networks.dynamics import Dynamics, Sampler
    from posse.networks.network import Network


@dataclass(frozen=True)
class AwakeLinks:
    """Links work while both their ends are awake, and as other dynamics say.

    The engine draws who sleeps and applies `cut_off_sleepers`; the sampler here draws W(t) before
    that. An algorithm learns from these dynamics that links come and go.
    """

    dynamics: Dynamics

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """Return the sampler of the dynamics beneath."""
        return self.dynamics.sampler(network, n_runs)


def is_by_max_degree(network: Network) -> bool:
    """Whether agents that are awake take max-degree weights; otherwise Metropolis weights.

    Lazy weights are half of max-degree weights. Optimised weights and matrices belong to the whole
    graph, so that Metropolis weights, which need only the neighbours' degrees, replace them.
    """
    return network.rule in ("max-degree", "lazy")


def cut_off_sleepers(
    network: Network,
    weights: Any,  # W(t) with all agents
    awake: NDArray[np.bool_],  # (R, N)
) -> Operator:
    """Return W(t) among those awake, doubly stochastic: rows and columns of sleepers are unit ones.

    The links of W(t) between agents that are awake get max-degree weights, 1/(1 + largest degree of
    the round), or Metropolis weights, by the rule of the network.
    """
    from scipy.sparse import coo_array, csr_array

    n_runs, n_agents = awake.shape
    i, j = network.edges.T
    works = (get_link_weights(weights, j, i, n_runs, n_agents) > 0) & awake[:, i] & awake[:, j]
    run, link = np.nonzero(works)
    first = run * n_agents + i[link]
    second = run * n_agents + j[link]
    size = n_runs * n_agents
    ends = np.concatenate([first, second])
    degrees = np.bincount(ends, minlength=size)
    values: FloatArray
    if is_by_max_degree(network):
        largest = degrees.reshape(n_runs, n_agents).max(axis=1)
        values = 1.0 / (1.0 + largest[run])
        values = values / 2 if network.rule == "lazy" else values
    else:
        values = 1.0 / (1.0 + np.maximum(degrees[first], degrees[second]))
    both = np.concatenate([values, values])
    diagonal = 1.0 - np.bincount(ends, both, minlength=size)
    agents = np.arange(size)
    places = (
        np.concatenate([ends, agents]),
        np.concatenate([second, first, agents]),
    )
    entries = np.concatenate([both, diagonal])
    if rules.is_dense(n_agents, 2 * len(i) + n_agents):
        dense = np.zeros((n_runs, n_agents, n_agents))
        dense[places[0] // n_agents, places[0] % n_agents, places[1] % n_agents] = entries
        return dense
    return SparseRuns(csr_array(coo_array((entries, places), shape=(size, size))))
