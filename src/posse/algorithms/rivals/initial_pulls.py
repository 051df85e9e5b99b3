"""What the frequentist baselines share: forced pulls first, and a scale of the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.families.family import Model, get_family_name, is_contextual, require_plain_family
from posse.families.optional_methods import get_optional
from posse.networks.static import Static
from posse.networks.weights import is_symmetric
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class ForcedStart:
    """Rounds 1 to K: every agent plays every arm once, without messages.

    sigma is the sub-Gaussian constant of the rewards; None takes the bandit's own.
    `charge_initial=False` leaves the regret of these K rounds out, as published curves do.
    """

    sigma: float | None = None
    charge_initial: bool = True

    def __post_init__(self) -> None:
        if self.sigma is not None:
            validation.validate_number("sigma", self.sigma, above=0)
        if not isinstance(self.charge_initial, bool):
            raise ValueError(f"charge_initial must be True or False, got {self.charge_initial!r}")

    @classmethod
    def example(cls) -> Self:
        """The defaults, for the law tests."""
        return cls()

    def check(self, problem: Problem) -> None:
        """Refuse a problem that the algorithm is not made for."""
        noise_scale(problem.family, self.sigma)

    def uncharged_rounds(self, n_arms: int) -> int:
        """How many rounds from the first on cost nothing by convention."""
        return 0 if self.charge_initial else n_arms


def noise_scale(family: Model, sigma: float | None) -> float:
    """The sigma given, else the sub-Gaussian constant of a family that has one."""
    if sigma is not None:
        return sigma
    known = get_optional(
        family.at_mean if is_contextual(family) else require_plain_family(family), "subgaussian"
    )
    if known is None:
        raise ValueError(
            f"sigma must be given for rewards of family {get_family_name(family)!r}, "
            "whose sub-Gaussian constant is not known"
        )
    return validation.validate_number(
        f"subgaussian of family {get_family_name(family)!r}", known, above=0
    )


def check_static(problem: Problem, name: str) -> None:
    """Refuse networks that change, and weights that are not symmetric."""
    if not isinstance(problem.network.dynamics, Static) or not is_symmetric(
        problem.network.weights
    ):
        raise ValueError(
            f"{name} needs a static network with symmetric weights, whose spectrum it knows, "
            f"got {problem.network}: CoopUCB2 and Decentralized work on any"
        )


def pairs_sent(problem: Problem, t: int, links: IntArray) -> FloatArray:
    """The numbers of round t where agents average counts and sums of K arms once t > K: (R,)."""
    per_link = 2 * problem.n_arms if t > problem.n_arms else 0
    return np.asarray(links * per_link, dtype=np.float64)


def without_forced_pulls(
    regret: FloatArray,  # (R, len)
    times: NDArray[np.int64],  # (len,)
    gaps: FloatArray,  # (R, K)
    n_rounds: int,
) -> FloatArray:
    """Cumulative regret with nothing charged for the forced rounds, if any: each arm once."""
    if n_rounds == 0:
        return regret
    charged = np.maximum(regret - gaps.sum(axis=1, keepdims=True), 0.0)  # but for rounding
    return np.where(times <= n_rounds, 0.0, charged)
