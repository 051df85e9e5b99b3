"""Dynamics: what every kind of time-varying W(t) can do, and the kinds there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from posse.networks.gossip import Gossip
from posse.networks.link_failure import LinkFailure
from posse.networks.operators import Operator
from posse.networks.static import Static
from posse.networks.weights import FloatArray
from posse.randomness import Randomness

if TYPE_CHECKING:
    from posse.networks.network import Network

Sampler = Callable[[Randomness], Operator]


class Dynamics(Protocol):
    """How W(t) comes about each round: a frozen dataclass of its parameters."""

    def check(self, network: Network) -> None:
        """Raise a ValueError if the network cannot have these dynamics."""

    def expected_links(self, network: Network) -> FloatArray:
        """The weight of each link (E,) in E[W(t)]."""

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """A function to call once a round with the randomness of n_runs runs, for their W(t)."""


DYNAMICS: dict[str, Callable[..., Dynamics]] = {
    "static": Static,
    "gossip": Gossip,
    "link-failure": LinkFailure,
}
