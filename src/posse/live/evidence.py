"""Evidence of a family in an exchange: whole quanta of bounded, scale-free sums, the count last.

What one reward adds is (y/scale, 1), and further powers of y/scale where the family says so
(`Abilities.powers`: the second where the variance is unknown); its statistic is linear in them.
Under flows B random signs travel along: from how unevenly pulls are weighted they tell how many
pulls a belief is really worth.

Where decisions count before their reward is final (`closed`), the sums of those whose reward is
(closed decisions) stand beside those that the agent acts on:

    powers...  closed powers...  closed count  signs...  count
    powers...                                  signs...  count      without
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import sub
from typing import Any

import numpy as np

from posse import checks
from posse.calibration import CAUTION as CAUTION
from posse.calibration import SIGNS as SIGNS
from posse.families.abilities import ability
from posse.families.family import Family, Interval, check_family, name_of
from posse.live.exchange.quanta import PER_UNIT, from_quanta, to_quanta
from posse.randomness import FloatArray

READ_BY = (  # what decisions and `posse status` read a family by, whatever the policy
    *("prior", "statistic", "posterior_mean", "sample_mean"),
    *("mean_quantile", "mean_cdf", "log_density"),
)
# Rewards at which a statistic is looked at, if the family can have them, beside some of the reward
# range. The first give the coefficients: short in binary, so that these come out exact, and of one
# sign, so that no two powers look alike.
PROBES = (0.0, 1.0, 2.0, 0.5, 0.25, 0.75, 3.0, -1.0, -2.0, -0.5)
# eight random signs from a byte, in quanta
SIGNS_OF = [
    tuple(PER_UNIT if byte >> k & 1 else -PER_UNIT for k in range(8)) for byte in range(256)
]


@dataclass(frozen=True)
class Evidence:
    """How the rewards of a family become evidence, and evidence a belief."""

    family: Family
    reward_range: tuple[float, float]
    signs: int = 0
    closed: bool = False  # whether closed decisions are summed by themselves as well

    @classmethod
    def of(
        cls,
        family: Family,
        reward_range: tuple[float, float] | None = None,
        signs: int = 0,
        closed: bool = False,
    ) -> Evidence:
        """Rewards in the given range, else in the family's own, which must be bounded."""
        _check_family(family)
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
                f"reward_range must be given for family {name_of(family)!r}, whose rewards have no "
                "bound: the lowest and the highest reward that can be true, such as [0, 100]"
            )
        evidence = cls(family, (low, high), signs, closed)
        evidence._check_statistic()
        return evidence

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """Which powers of a reward add up, beside the count."""
        return tuple(sorted(ability(self.family, "powers")))

    @cached_property
    def scale(self) -> float:
        """What a reward is divided by: the family's unit, else the largest reward."""
        unit: float | None = ability(self.family, "unit")
        return max(abs(end) for end in self.reward_range) if unit is None else unit

    @property
    def bounds(self) -> tuple[float, ...]:
        """The most that one pull can add to each coordinate."""
        largest = max(abs(end) for end in self.reward_range) / self.scale
        powers = tuple(largest**power for power in self.powers)
        closed = (*powers, 1.0) if self.closed else ()
        return (*powers, *closed, *[1.0] * self.signs, 1.0)

    @property
    def closed_powers(self) -> int:
        """How many of the first coordinates come again for closed decisions (0: none)."""
        return len(self.powers) if self.closed else 0

    def of_reward(self, reward: float, generator: np.random.Generator) -> tuple[int, ...]:
        """What one pull adds whose reward is known and final, in quanta."""
        powers = self._powers_of(reward)
        if not self.signs:  # kept short: every reward comes here
            if self.closed:
                return (*powers, *powers, PER_UNIT, PER_UNIT)
            return (*powers, PER_UNIT)
        closed = (*powers, PER_UNIT) if self.closed else ()
        return (*powers, *closed, *self._drawn_signs(generator), PER_UNIT)

    def of_decision(self, assumed: float) -> tuple[int, ...]:
        """What a decision adds when it is made: a pull with the reward that silence means."""
        return self._open(self._powers_of(assumed), PER_UNIT)

    def of_correction(self, assumed: float, reward: float) -> tuple[int, ...]:
        """What its reward adds: the difference to the assumed one, no pull."""
        return self._open(map(sub, self._powers_of(reward), self._powers_of(assumed)), 0)

    def of_closing(self, reward: float, generator: np.random.Generator) -> tuple[int, ...]:
        """What a decision adds when its reward is final: to the closed sums alone."""
        self._must_be_closed()
        signs = self._drawn_signs(generator) if self.signs else ()
        return (*[0] * len(self.powers), *self._powers_of(reward), PER_UNIT, *signs, 0)

    def closed_part(self, quanta: Sequence[int]) -> tuple[int, ...]:
        """Of sums those of closed decisions: powers, signs, count, as if there were no others."""
        if not self.closed:
            return tuple(quanta)
        n = len(self.powers)
        return (*quanta[n : 2 * n], *quanta[2 * n + 1 : -1], quanta[2 * n])

    def closed_count(self, quanta: Sequence[int]) -> float:
        """How many decisions are closed, none below zero."""
        return self.count([quanta[2 * len(self.powers) if self.closed else -1]])

    def open_count(self, quanta: Sequence[int]) -> float:
        """How many decisions are counted that are not closed, none below zero."""
        return self.count([quanta[-1] - quanta[2 * len(self.powers)]]) if self.closed else 0.0

    def _powers_of(self, reward: float) -> tuple[int, ...]:
        low, high = self._certain
        if not (type(reward) in (float, int) and low <= reward <= high):
            self.check_reward(reward)
        y = float(reward) / self.scale
        return to_quanta([y**power for power in self.powers])

    def _drawn_signs(self, generator: np.random.Generator) -> tuple[int, ...]:
        drawn = int(generator.integers(1 << self.signs)).to_bytes(8, "little")
        return tuple(chain.from_iterable(SIGNS_OF[byte] for byte in drawn))[: self.signs]

    def _open(self, powers: Iterable[int], count: int) -> tuple[int, ...]:
        self._must_be_closed()
        return (*powers, *[0] * (len(self.powers) + 1 + self.signs), count)

    def _must_be_closed(self) -> None:
        if not self.closed:
            raise ValueError(
                "silent_default must be given under flows for decisions to count from the start"
            )

    @cached_property
    def _certain(self) -> tuple[float, float]:
        """From the one to the other every number is a reward; the rest is for `check_reward`."""
        (low, high), own = self.reward_range, self.family.rewards
        if type(own) is not Interval:  # which may contain what it likes
            return math.inf, -math.inf
        if not own.closed:
            low, high = (
                max(low, np.nextafter(own.low, high)),
                min(high, np.nextafter(own.high, low)),
            )
        return float(low), float(high)

    def check_reward(self, reward: float) -> None:
        """Refuse what cannot be a reward, in one sentence."""
        checks.number("reward", reward, at_least=self.reward_range[0], at_most=self.reward_range[1])
        if not self.family.rewards.contains(np.array(reward)).all():
            raise ValueError(f"reward must lie in {self.family.rewards}, got {reward}")

    def count(self, quanta: Sequence[int]) -> float:
        """How many pulls this is the evidence of, none below zero."""
        return max(0.0, from_quanta(quanta)[-1])

    def reward_sum(self, quanta: Sequence[int]) -> float:
        """The sum of the rewards of which this is the evidence; nan if they do not add up to it."""
        return from_quanta(quanta)[0] * self.scale if self.powers[0] == 1 else math.nan

    def effective_count(self, quanta: Sequence[int]) -> float:
        """How many equally weighted pulls are worth as much, cautiously; else the count.

        As `calibration.effective_pulls`, on plain floats for speed.
        """
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
        features = [1.0]
        for (power, unit, low, high), value in zip(self._limits, values, strict=False):
            if power % 2 == 0 and self.powers[0] == 1:  # at least that power of the mean
                low = features[1] ** power
            features.append(min(max(value * unit / pulls, low), high))
        total = self.linear @ np.array(features)
        return np.asarray(total * (pulls if count is None else count))

    @cached_property
    def _limits(self) -> tuple[tuple[int, float, float, float], ...]:
        """For each power its unit, and the least and the most of it that a reward can have."""
        limits = []
        for power in self.powers:
            ends = [end**power for end in self.reward_range]
            if power % 2 == 0 and self.reward_range[0] < 0 < self.reward_range[1]:
                ends.append(0.0)
            limits.append((power, self.scale**power, min(ends), max(ends)))
        return tuple(limits)

    @cached_property
    def _probes(self) -> FloatArray:
        """Rewards that the family can have, short ones first: (P,)."""
        own = [y for y in PROBES if self.family.rewards.contains(np.array(y))]
        within = np.linspace(*self.reward_range, 2 * len(self.powers) + 5)[1:-1]
        return np.array([*own, *(y for y in within if y not in own)])

    def _features(self, rewards: FloatArray) -> FloatArray:
        """(1, y^p for each power): (P,) -> (P, powers + 1)."""
        return np.stack([rewards**power for power in (0, *self.powers)], axis=1)

    @cached_property
    def linear(self) -> FloatArray:
        """A with statistic(y) = A (1, y^p ...), from the statistic itself: (D, powers + 1)."""
        nodes = self._probes[: len(self.powers) + 1]
        statistic = self.family.statistic(nodes)  # (D, powers + 1)
        return np.asarray(np.linalg.solve(self._features(nodes), statistic.T).T)

    def _check_statistic(self) -> None:
        """Refuse powers of which the statistic is not made: evidence would be dropped."""
        shape = len(self.family.prior()), len(self._probes)
        given = np.shape(self.family.statistic(self._probes))
        if given != shape:  # it would be added to every coordinate
            raise ValueError(
                f"statistic of family {name_of(self.family)!r} must have shape {shape} for "
                f"{shape[1]} rewards, as its prior has {shape[0]} numbers, got {given}"
            )
        names = ", ".join(f"y^{power}" for power in self.powers)
        with np.errstate(all="ignore"):
            wanted = self.family.statistic(self._probes)  # (D, P)
            got = self.linear @ self._features(self._probes).T
            size = np.abs(self.linear) @ np.abs(self._features(self._probes).T)
        if not np.all(np.abs(got - wanted) <= 1e-9 * size):
            raise ValueError(
                f"powers of family {name_of(self.family)!r} must give its statistic, but it is not "
                f"linear in 1, {names}"
            )
        for power, column in zip(self.powers, self.linear.T[1:], strict=True):
            if not column.any():
                raise ValueError(
                    f"powers of family {name_of(self.family)!r} must be those of its statistic, "
                    f"which has no y^{power}"
                )


def _check_family(family: Family) -> None:
    """Refuse a family that does not say how its rewards add up."""
    powers: Any = ability(family, "powers")
    if not powers or isinstance(family, type):
        raise ValueError(
            f"family must be one for live agents, got {family!r}: it does not say of which powers "
            "of a reward its statistic is made, such as powers = (1,)"
        )
    whole = isinstance(powers, tuple | list) and all(
        isinstance(power, int) and power >= 1 for power in powers
    )
    if not whole or len(set(powers)) < len(powers):
        raise ValueError(f"powers must be different whole numbers from 1, got {powers!r}")
    unit: Any = ability(family, "unit")
    if unit is not None:
        checks.number(f"unit of family {name_of(family)!r}", unit, above=0)
    check_family("family", family, READ_BY, ["means", "rewards"])
