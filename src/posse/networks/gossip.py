"""Gossip (pairwise anti-entropy): one random pair of neighbours averages in each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.networks.operators import GossipPairs, GossipPush, Operator
from posse.networks.static import STATIC
from posse.networks.weights import DEFAULT_RULE, FloatArray, add_links
from posse.randomness import Randomness

if TYPE_CHECKING:
    from posse.networks.dynamics import Sampler
    from posse.networks.network import Network


@dataclass(frozen=True)
class Gossip:
    """Each round a uniformly drawn link (i, j) averages: W(t) = I - (e_i - e_j)(e_i - e_j)^T / 2.

    This is eq. `gossip`; on the complete graph the pair is uniform among all pairs. A directed link
    pushes instead: the sender gives one half of what it has to the receiver.
    """

    def check(self, network: Network) -> None:
        """Refuse a weight rule, which gossip would ignore."""
        if network.rule != DEFAULT_RULE:
            raise ValueError(
                f"weights {network.rule!r} have no effect under gossip, because a pair of "
                "agents takes the plain average: leave out .weighted()"
            )

    def expected_links(self, network: Network) -> FloatArray:
        """The links (E,) of E[W(t)] = I - (D - A) / (1^T A 1)."""
        # Each of the E links is drawn with probability 1/E, and then has the weight 1/2.
        n_links = len(network.edges)
        return np.full(n_links, 1 / (2 * n_links) if n_links else 0.0)

    def expected_product(self, network: Network, matrix: FloatArray) -> FloatArray:
        """Return E[W(t) M W(t)^T] of a symmetric matrix M (N, N)."""
        # With B = (e_i - e_j)(e_i - e_j)^T of the drawn link, W M W = M - (B M + M B)/2 + B M B/4,
        # and B M B = B (M_ii + M_jj - 2 M_ij).
        mean = network.expected_weights @ matrix
        return add_links(mean + mean.T - matrix, matrix, network.edges, 0.25 / len(network.edges))

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """Return a sampler: one uniform per run and round picks the link."""
        first, second = network.edges.T.copy()
        n_links = len(first)
        operator = GossipPush if network.is_directed else GossipPairs
        # A single agent has no link to draw.
        if n_links == 0:
            return STATIC.sampler(network, n_runs)

        def sample(randomness: Randomness) -> Operator:
            drawn = (randomness.random((n_runs, 1))[:, 0] * n_links).astype(np.int64)
            return operator(first[drawn], second[drawn])

        return sample
