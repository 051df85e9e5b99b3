"""Bayes-UCB: play the arm whose posterior quantile is highest (Alg. 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from posse import validation
from posse.families import Family
from posse.policies.policy import share_among_ties
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class BayesUCB:
    """The index is the quantile at level 1 - 1/(t (log T)^log_power) (Alg. `decent_bayesUCB`).

    >>> posse.BayesUCB().quantile_level(t=4, horizon=None)
    0.75
    """

    name: ClassVar[str] = "bayes-ucb"

    log_power: float = 0.0

    def __post_init__(self) -> None:
        validation.validate_number("log_power", self.log_power, at_least=0, at_most=100)

    def quantile_level(self, t: int, horizon: int | None) -> float:
        """Return the quantile level of round t; 0 where the formula is negative, and for T = 1."""
        if self.log_power == 0:
            return 1.0 - 1.0 / t
        if horizon is None:
            raise ValueError(
                "BayesUCB with log_power above 0 needs a horizon: give one, or use log_power=0"
            )
        # log T = 0 for a horizon of one round, where 1/scale would be infinite
        scale = t * math.log(horizon) ** self.log_power
        return max(0.0, 1.0 - 1.0 / scale) if scale > 0 else 0.0

    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return the quantile of each mean: (D, ..., K) -> (..., K)."""
        return family.mean_quantile(belief, self.quantile_level(t, horizon))

    def probabilities(
        self, belief: FloatArray, family: Family, t: int, horizon: int | None
    ) -> FloatArray:
        """Return 1 for the arm with the highest quantile, shared among ties: (D, K) -> (K,)."""
        return share_among_ties(family.mean_quantile(belief, self.quantile_level(t, horizon)))
