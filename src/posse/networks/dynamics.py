"""Dynamics: the protocol of time-varying weights W(t), its registry and its validation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from posse import rules, validation
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
    """A distribution of W(t) in each round: a frozen dataclass of its parameters.

    User-defined dynamics need only `sampler`. The function that it returns may return an ndarray
    (N, N) or (R, N, N), a SciPy sparse matrix, or any operator with `@`; each W(t) is checked to be
    doubly stochastic, unless the attribute `doubly_stochastic` is False. Without
    `expected_product`, the cost of the network is estimated from samples.
    """

    def check(self, network: Network) -> None:
        """Raise a ValueError if the network cannot have these dynamics."""

    def expected_links(self, network: Network) -> FloatArray:
        """The weight of each link (E,) in E[W(t)]."""

    def expected_product(self, network: Network, matrix: FloatArray) -> FloatArray:
        """E[W(t) M W(t)^T] of a symmetric matrix M (N, N), for W(t) independent in each round."""

    def sampler(self, network: Network, n_runs: int) -> Sampler:
        """Return a function that is called once a round with the generators of n_runs runs.

        It returns their W(t). A second argument, if any, receives the round t = 1, 2, ...
        """


class DrawWeights(Protocol):
    """Draws W(t) of round t; without t, of the next round, counted from 1."""

    def __call__(self, randomness: Randomness, t: int | None = None) -> Operator:
        """Return the operator that mixes agents by `weights @ x`, x of shape (..., R, N, K)."""


DYNAMICS: dict[str, Callable[..., Dynamics]] = {
    "static": Static,
    "gossip": Gossip,
    "link-failure": LinkFailure,
}
rules.accept_rules(*DYNAMICS.values())


def is_user_defined(dynamics: Dynamics) -> bool:
    """Return whether dynamics are user-defined, so that their weights must be validated."""
    return type(dynamics) not in DYNAMICS.values()


def create_sampler(dynamics: Dynamics, network: Network, n_runs: int) -> DrawWeights:
    """Return the sampler of dynamics under one signature, with validation if user-defined."""
    sample: Any = dynamics.sampler(network, n_runs)
    user_defined = is_user_defined(dynamics)
    # Inspected once: signatures are slow, and `draw` runs in every round.
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
    """Return whether a sampler's function accepts a second argument."""
    try:
        inspect.signature(sample).bind(None, 1)
    except (TypeError, ValueError):  # one argument only, or compiled code without a signature
        return False
    return True


def _refuse_unsuitable(weights: Any, dynamics: Any, n_agents: int, n_runs: int) -> None:
    """Refuse weights of a wrong shape, or that are not doubly stochastic."""
    name = f"dynamics {type(dynamics).__name__}"
    allowed = [(n_agents, n_agents), (n_runs, n_agents, n_agents)]
    # A SciPy sparse matrix has two axes, so it can only serve all runs at once.
    shape = getattr(weights, "shape", None)
    if shape is not None and tuple(shape) not in allowed[: 1 if hasattr(weights, "tocsr") else 2]:
        raise ValueError(
            f"{name} must give weights of shape {allowed[0]}, or {allowed[1]} for each run's own, "
            f"got {tuple(shape)}"
        )
    # Python looks up `@` on the type, not on the object.
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
    """Return the row sums of W, and the largest deviation of a column sum from 1.

    An operator offers only a product, so its columns are tested by a probe: with column sums of 1
    the product preserves the total of any vector, and the entries of the probe all differ.
    """
    cannot_mix = f"{name}: its weights cannot mix agents by @"
    if isinstance(weights, np.ndarray) or hasattr(weights, "tocsr"):
        try:
            rows, columns = (np.asarray(weights.sum(axis=a), dtype=float) for a in (-1, -2))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{cannot_mix}: {error}") from None
        return rows, float(abs(columns - 1).max())
    # The first column of ones gives the row sums, the second one tests the column sums.
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
