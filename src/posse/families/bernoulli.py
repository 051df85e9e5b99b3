"""Rewards 0 or 1 with a Beta belief about the probability of 1 (Lemma 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse.families.beta_belief import BetaBelief
from posse.families.family import UNIT, Interval
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Bernoulli(BetaBelief):
    """Bernoulli rewards, prior Beta(alpha, beta) (Lemma 1)."""

    name: ClassVar[str] = "bernoulli"
    means: ClassVar[Interval] = UNIT
    reward_kernel: ClassVar[str | None] = "draw_bernoulli"

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """Draw 1 with probability mean, else 0."""
        return np.asarray(generator.random(means.shape) < means, dtype=float)
