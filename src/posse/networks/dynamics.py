"""Dynamics: what every kind of time-varying W(t) can do, and the kinds there are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from posse import validation
from posse.networks.gossip import Gossip
from posse.networks.link_failure import LinkFailure
from posse.networks.operators import Operator, as_operator
from posse.networks.static import Static
from posse.networks.weights import TOLERANCE, FloatArray
from posse.randomness import Randomness

if TYPE_CHECKING:
    from posse.networks.network import Network

Sampler = Callable[[Randomness], Operator]


class Dynamics(Protocol):
    """How W(t) comes about each round: a frozen dataclass of its parameters.

    One's own need no more than `sampler`. What its function returns may be an ndarray (N, N) or
    (R, N, N), a SciPy sparse matrix, or anything that mixes by `@`; each is checked to be
    doubly stochastic, unless an attribute `doubly_stochastic = False` says otherwise.
    """

    def check(self, network: Network) -> None:
        """Raise a ValueError if the network cannot have these dynamics."""

    def expected_links(self, network: Network) -> FloatArray:
        """The weight of each link (E,) in E[W(t)]."""

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """A function to call once a round with the randomness of n_runs runs, for their W(t).

        If it takes a second argument, it is told the round number t = 1, 2, ... as well.
        """


class DrawWeights(Protocol):
    """W(t) of the next round, or of round t; rounds are counted from 1 where t is left out."""

    def __call__(self, randomness: Randomness, t: int | None = None) -> Operator:
        """The operator that mixes agents by `weights @ x`, x of shape (..., R, N, K)."""


DYNAMICS: dict[str, Callable[..., Dynamics]] = {
    "static": Static,
    "gossip": Gossip,
    "link-failure": LinkFailure,
}


def is_user_defined(dynamics: Dynamics) -> bool:
    """Whether dynamics are the user's, so that nothing is known of what they draw."""
    return type(dynamics) not in DYNAMICS.values()


def create_sampler(dynamics: Dynamics, network: Network, n_runs: int) -> DrawWeights:
    """The sampler of dynamics under one signature: told t or not, checked if one's own."""
    sample: Any = dynamics.sampler(network, n_runs)
    user_defined = is_user_defined(dynamics)
    takes_round = _takes_round(sample)
    next_round = 1

    def draw(randomness: Randomness, t: int | None = None) -> Operator:
        nonlocal next_round
        t = next_round if t is None else t
        next_round = t + 1
        weights: Any = sample(randomness, t) if takes_round else sample(randomness)
        if not user_defined:
            return cast(Operator, weights)
        _refuse_unsuitable(weights, dynamics, network.n_agents, n_runs)
        return as_operator(weights)

    return draw


def _takes_round(sample: Any) -> bool:
    """Whether a sampler's function has room for a second argument."""
    try:
        inspect.signature(sample).bind(None, 1)
    except (TypeError, ValueError):  # no room, or compiled code that does not say
        return False
    return True


def _refuse_unsuitable(weights: Any, dynamics: Any, n_agents: int, n_runs: int) -> None:
    """Refuse what cannot be W(t) of R runs of N agents, or is not doubly stochastic."""
    name = f"dynamics {type(dynamics).__name__}"
    allowed = [(n_agents, n_agents), (n_runs, n_agents, n_agents)]
    shape = getattr(weights, "shape", None)
    if shape is not None and tuple(shape) not in allowed[: 1 if hasattr(weights, "tocsr") else 2]:
        raise ValueError(
            f"{name} must give weights of shape {allowed[0]}, or {allowed[1]} for each run's own, "
            f"got {tuple(shape)}"
        )
    if not hasattr(type(weights), "__matmul__"):
        raise ValueError(
            f"{name} must give an array, a sparse matrix or an operator with @, "
            f"got {validation.format_value(weights)}"
        )
    row_sums, columns_off = _measure_sums(name, weights, n_agents, n_runs)
    if not getattr(dynamics, "doubly_stochastic", True):
        return
    entries = weights.data if hasattr(weights, "tocsr") else weights
    negative = isinstance(entries, np.ndarray) and (entries < -TOLERANCE).any()
    worst = max(abs(row_sums - 1).max(), columns_off)
    if negative or not worst <= TOLERANCE:
        wrong = "an entry is negative" if negative else f"a row or column is off by {worst:.3g}"
        raise ValueError(
            f"{name} must give doubly stochastic weights (rows and columns sum to 1 to "
            f"{TOLERANCE:g}), but {wrong}; doubly_stochastic = False in its class admits them"
        )


def _measure_sums(name: str, weights: Any, n_agents: int, n_runs: int) -> tuple[FloatArray, float]:
    """The sums of W's rows, and how far any of its columns' is from 1.

    All that other operators have is a product, so columns are seen by what they make of the total
    of a vector whose entries all differ.
    """
    cannot_mix = f"{name}: its weights cannot mix agents by @"
    if isinstance(weights, np.ndarray) or hasattr(weights, "tocsr"):
        try:
            rows, columns = (np.asarray(weights.sum(axis=a), dtype=float) for a in (-1, -2))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{cannot_mix}: {error}") from None
        return rows, float(abs(columns - 1).max())
    probe = np.ones((n_runs, n_agents, 2))
    probe[..., 1] += np.random.default_rng(0).random(n_agents)
    try:
        mixed = np.asarray(weights @ probe)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{cannot_mix}: {error}") from None
    if mixed.shape != probe.shape:
        raise ValueError(
            f"{name} must give weights that keep the shape {probe.shape} of what they mix, "
            f"got {mixed.shape}"
        )
    return mixed[..., 0], float(abs((mixed - probe).sum(axis=-2)).max())
