"""Static networks: W(t) = W, the same every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.networks.operators import Operator, UniformWeights, as_operator
from posse.networks.weights import FloatArray
from posse.randomness import Randomness

if TYPE_CHECKING:
    from posse.networks.dynamics import Sampler
    from posse.networks.network import Network


@dataclass(frozen=True)
class Static:
    """The same weights every round; draws nothing."""

    def check(self, network: Network) -> None:
        """Accept all weights."""

    def expected_links(self, network: Network) -> FloatArray:
        """The weight of each link (E,)."""
        return network.link_weights

    def expected_product(self, network: Network, matrix: FloatArray) -> FloatArray:
        """Return W M W^T of a symmetric matrix M (N, N)."""
        return np.asarray(network.weights @ (network.weights @ matrix).T)

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """Return a sampler of the network's constant weights."""
        operator: Operator
        if network.is_directed:
            operator = as_operator(network.shares)
        elif network.is_uniform:
            # a mean over agents is much faster than a dense product with 1/N
            operator = UniformWeights(network.n_agents)
        else:
            operator = as_operator(network.weights)

        def sample(randomness: Randomness) -> Operator:
            return operator

        return sample


STATIC = Static()
