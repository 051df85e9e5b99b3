"""Evidence of a family in an exchange: whole quanta of bounded, scale-free sums, the count last.

What one reward adds is (y/scale, 1), and (y/scale)^2 too where the variance is unknown; a family's
own statistic is linear in it.  Under flows B random signs travel along: from how unevenly pulls are
weighted they tell how many pulls a belief is really worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posse import checks, families
from posse.families.family import Family
from posse.live.exchange.quanta import from_quanta, to_quanta
from posse.randomness import FloatArray

SIGNS = 16
# Sixteen signs tell the sum of squared weights with an error: what is divided by it is Student's,
# not normal, worth a factor (2.12 / 1.96)^2 = 1.17.  The rest is measured (docs/calibration.md):
# agents choose by a belief that is too sure, and an arm that begins badly keeps its bad luck.
CAUTION = 1.4
# Which powers of a reward add up, besides the count: the second where the variance is unknown.
_POWERS: dict[type, tuple[int, ...]] = {
    families.Bernoulli: (1,),
    families.Bounded: (1,),
    families.Gaussian: (1,),
    families.Poisson: (1,),
    families.Exponential: (1,),
    families.GaussianUnknownVariance: (1, 2),
}


@dataclass(frozen=True)
class Evidence:
    """How the rewards of a family become evidence, and evidence a belief."""

    family: Family
    reward_range: tuple[float, float]
    signs: int = 0

    @classmethod
    def of(
        cls, family: Family, reward_range: tuple[float, float] | None = None, signs: int = 0
    ) -> Evidence:
        """Rewards in the given range, else in the family's own, which must be bounded."""
        if type(family) not in _POWERS:
            names = ", ".join(kind.__name__ for kind in _POWERS)
            raise ValueError(f"family must be one of {names} for live agents, got {family!r}")
        low, high = family.rewards.low, family.rewards.high
        if reward_range is not None:
            asked = [checks.number("reward_range", end) for end in reward_range]
            if len(asked) != 2 or not low <= asked[0] < asked[1] <= high:
                raise ValueError(
                    f"reward_range must be two rising numbers within {family.rewards}, "
                    f"got {reward_range}"
                )
            low, high = asked
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(
                f"reward_range must be given for family {family.name!r}, whose rewards have no "
                "bound: the lowest and the highest reward that can be true, such as [0, 100]"
            )
        return cls(family, (low, high), signs)

    @cached_property
    def scale(self) -> float:
        """What a reward is divided by: sigma where it is known, else the largest reward."""
        if isinstance(self.family, families.Gaussian):
            return self.family.sigma
        return max(abs(end) for end in self.reward_range)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The most that one pull can add to each coordinate."""
        largest = max(abs(end) for end in self.reward_range) / self.scale
        powers = [largest**power for power in _POWERS[type(self.family)]]
        return (*powers, *[1.0] * self.signs, 1.0)

    def of_reward(self, reward: float, generator: np.random.Generator) -> tuple[int, ...]:
        """What one pull adds, in quanta."""
        checks.number("reward", reward, at_least=self.reward_range[0], at_most=self.reward_range[1])
        if not self.family.rewards.contains(np.array(reward)).all():
            raise ValueError(f"reward must lie in {self.family.rewards}, got {reward}")
        y = reward / self.scale
        signs = 2 * generator.integers(2, size=self.signs) - 1
        return to_quanta([*(y**power for power in _POWERS[type(self.family)]), *signs, 1.0])

    def count(self, quanta: Sequence[int]) -> float:
        """How many pulls this is the evidence of, none below zero."""
        return max(0.0, from_quanta(quanta)[-1])

    def effective_count(self, quanta: Sequence[int]) -> float:
        """How many equally weighted pulls are worth as much, cautiously; else the count."""
        count = self.count(quanta)
        if not self.signs or count == 0.0:
            return count
        signs = from_quanta(quanta)[-1 - self.signs : -1]
        squares = sum(sign**2 for sign in signs) / self.signs
        return min(count**2 / (CAUTION * squares), count) if squares > 0 else count

    def statistic(self, quanta: Sequence[int], count: float | None = None) -> FloatArray:
        """The sum of the family's statistics (D,), for so many pulls if `count` is given.

        Clipped to what rewards in the range can give: a level of flows may dip below zero.
        """
        values = from_quanta(quanta)
        pulls = self.count(quanta)
        if pulls == 0.0:
            return np.zeros(len(self.family.prior()))
        low, high = self.reward_range
        mean = min(max(values[0] * self.scale / pulls, low), high)
        features = [1.0, mean]
        if len(_POWERS[type(self.family)]) > 1:
            square = values[1] * self.scale**2 / pulls
            features.append(min(max(square, mean**2), max(low**2, high**2)))
        total = self._linear[:, : len(features)] @ np.array(features)
        return np.asarray(total * (pulls if count is None else count))

    @cached_property
    def _linear(self) -> FloatArray:
        """A with statistic(y) = A (1, y, y^2), from the statistic itself: (D, 3)."""
        at = [self.family.statistic(np.array(y)) for y in (0.0, 1.0, -1.0)]
        constant, even = at[0], (at[1] + at[2]) / 2 - at[0]
        return np.stack([constant, (at[1] - at[2]) / 2, even], axis=1)
