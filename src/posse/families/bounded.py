"""Rewards anywhere in [0, 1], with a Beta belief and fractional counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import validation
from posse.families.beta_belief import BetaBelief
from posse.families.family import Interval
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class Bounded(BetaBelief):
    """Rewards in [0, 1], learnt through the quasi-likelihood m^y (1 - m)^(1 - y).

    Simulated rewards are Beta(c m, c (1 - m)) with c = concentration; the belief does not use c.
    """

    name: ClassVar[str] = "bounded"
    means: ClassVar[Interval] = Interval(0.0, 1.0)
    reward_kernel: ClassVar[str | None] = "draw_bounded"

    concentration: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("concentration", self.concentration, above=0)

    @property
    def reward_parameter(self) -> float:
        """The concentration."""
        return float(self.concentration)

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """A Beta(c m, c (1 - m)) reward, by inversion."""
        from scipy.special import betaincinv

        # by inversion: one uniform per reward, for common random numbers
        c = self.concentration
        return np.asarray(betaincinv(c * means, c * (1.0 - means), generator.random(means.shape)))
