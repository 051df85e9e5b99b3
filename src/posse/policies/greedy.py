"""Greedy: play the arm with the highest posterior mean, without exploring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posse.families import Family
from posse.policies.policy import share_among_ties, timeless
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Greedy:
    """Plays the highest posterior mean: a baseline that shows the value of exploration."""

    name: ClassVar[str] = "greedy"

    @timeless
    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return the posterior mean of each arm: (D, ..., K) -> (..., K)."""
        return family.posterior_mean(belief)

    def probabilities(
        self, belief: FloatArray, family: Family, t: int, horizon: int | None
    ) -> FloatArray:
        """Return 1 for the arm with the highest mean, shared among ties: (D, K) -> (K,)."""
        return share_among_ties(family.posterior_mean(belief))
