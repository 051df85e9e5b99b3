"""Shared parts of the frequentist baselines: forced initial pulls and the noise scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.families import Model, get_family_name, get_optional, is_contextual, require_plain_family
from posse.networks import Static, is_symmetric
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class ForcedStart:
    """An algorithm that plays every arm once in rounds 1 to K, without messages.

    sigma is the sub-Gaussian constant of the rewards; None takes the bandit's own.
    `charge_initial=False` leaves out the regret of these K rounds, as published curves do.
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
        """Return the defaults, for the law tests."""
        return cls()

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem that the algorithm cannot play."""
        noise_scale(problem.family, self.sigma)

    def uncharged_rounds(self, n_arms: int) -> int:
        """Return how many initial rounds are not charged."""
        return 0 if self.charge_initial else n_arms


def noise_scale(family: Model, sigma: float | None) -> float:
    """Return the sigma given, or the sub-Gaussian constant of the family."""
    if sigma is not None:
        return sigma
    subgaussian = get_optional(
        family.at_mean if is_contextual(family) else require_plain_family(family), "subgaussian"
    )
    if subgaussian is None:
        raise ValueError(
            f"sigma must be given for rewards of family {get_family_name(family)!r}, "
            "whose sub-Gaussian constant is not known"
        )
    return validation.validate_number(
        f"subgaussian of family {get_family_name(family)!r}", subgaussian, above=0
    )


def check_static(problem: Problem, name: str) -> None:
    """Refuse networks that change, and weights that are not symmetric."""
    if not isinstance(problem.network.dynamics, Static) or not is_symmetric(
        problem.network.weights
    ):
        raise ValueError(
            f"{name} needs a static network with symmetric weights, whose spectrum it knows, "
            f"got {problem.network}: use CoopUCB2 or Decentralized, which work on any network"
        )


def count_numbers_averaged(problem: Problem, t: int, links: IntArray) -> FloatArray:
    """Count the numbers of round t if agents average K pairs over every link once t > K: (R,)."""
    # the forced rounds send nothing
    per_link = 2 * problem.n_arms if t > problem.n_arms else 0
    return np.asarray(links * per_link, dtype=np.float64)


def subtract_forced_pulls(
    regret: FloatArray,  # (R, len)
    times: NDArray[np.int64],  # (len,)
    gaps: FloatArray,  # (R, K)
    n_rounds: int,
) -> FloatArray:
    """Subtract the regret of the forced rounds, which play each arm once: (R, len)."""
    if n_rounds == 0:
        return regret
    # rounding may leave a tiny negative number
    charged = np.maximum(regret - gaps.sum(axis=1, keepdims=True), 0.0)
    return np.where(times <= n_rounds, 0.0, charged)
