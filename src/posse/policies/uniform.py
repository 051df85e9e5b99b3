"""Uniform: an even split that ignores what was learnt, as a plain A/B test does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse.families import Family
from posse.policies.policy import timeless
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Uniform:
    """Plays every arm with the same probability: an A/B test, and what any bandit must beat.

    >>> belief = np.array([[9.0, 1.0], [1.0, 9.0]])  # Beta(9, 1) and Beta(1, 9)
    >>> posse.Uniform().probabilities(belief, posse.families.Bernoulli(), 1, None).tolist()
    [0.5, 0.5]
    """

    name: ClassVar[str] = "uniform"

    @timeless
    def scores(
        self,
        belief: FloatArray,
        family: Family,
        t: int,
        horizon: int | None,
        generator: Randomness,
    ) -> FloatArray:
        """Return a uniform number for each arm: (D, ..., K) -> (..., K)."""
        return np.asarray(generator.random(belief.shape[1:]))

    def probabilities(
        self, belief: FloatArray, family: Family, t: int, horizon: int | None
    ) -> FloatArray:
        """Return 1/K for every arm: (D, K) -> (K,)."""
        return np.full(belief.shape[-1], 1.0 / belief.shape[-1])
