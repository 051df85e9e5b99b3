"""Sums of the powers of rewards, scale-free: the sufficient statistics of plain families.

What one reward adds is y/scale, and further powers of it where the family says so
(`OptionalMethods.powers`: the second where the variance is unknown); its statistic is linear in
them.
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

from posse import validation
from posse.contexts import Contexts
from posse.effective_samples import CAUTION as CAUTION
from posse.effective_samples import SIGNS as SIGNS
from posse.families.family import Family, Interval, Model, check_family, get_family_name
from posse.families.optional_methods import get_optional
from posse.live.agent.context_evidence import Met, Moments, weights_of
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


@dataclass(frozen=True)
class Powers:
    """How rewards of a plain family in a range add up, and what the sums say."""

    family: Family
    reward_range: tuple[float, float]

    def __post_init__(self) -> None:
        self._check_statistic()

    @property
    def at_mean(self) -> Family:
        """The family of beliefs about means: the same."""
        return self.family

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """Which powers of a reward add up, beside the count."""
        return tuple(sorted(get_optional(self.family, "powers")))

    @property
    def number(self) -> int:
        """How many sums there are."""
        return len(self.powers)

    @cached_property
    def scale(self) -> float:
        """What a reward is divided by: the family's unit, else the largest reward."""
        unit: float | None = get_optional(self.family, "unit")
        return max(abs(end) for end in self.reward_range) if unit is None else unit

    @property
    def bounds(self) -> tuple[float, ...]:
        """The most that one pull can add to each."""
        largest = max(abs(end) for end in self.reward_range) / self.scale
        return tuple(largest**power for power in self.powers)

    def of(self, reward: float, met: object = None) -> tuple[int, ...]:
        """What a reward adds, in quanta."""
        y = reward / self.scale
        return to_quanta([y**power for power in self.powers])

    @property
    def tell_rewards(self) -> bool:
        """Whether the first of the sums is that of the rewards."""
        return self.powers[0] == 1

    def statistic(
        self, quanta: Sequence[int], pulls: float, count: float | None = None
    ) -> FloatArray:
        """The sum of the family's statistics (D,) of so many pulls, as if it were of `count`.

        Clipped to what rewards in the range can give: a level of flows may dip below zero.
        """
        features = [1.0]
        for (power, unit, low, high), value in zip(self._limits, from_quanta(quanta), strict=False):
            if power % 2 == 0 and self.powers[0] == 1:  # at least that power of the mean
                low = features[1] ** power
            features.append(min(max(value * unit / pulls, low), high))
        total = self.linear @ np.array(features)
        return np.asarray(total * (pulls if count is None else count))

    def spelled(self) -> dict[str, object]:
        """The numbers by which neighbours know that evidence means the same."""
        return {"statistic": self.linear, "powers": self.powers, "scale": self.scale}

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
                f"statistic of family {get_family_name(self.family)!r} must have shape {shape} for "
                f"{shape[1]} rewards, because its prior has {shape[0]} numbers, got {given}"
            )
        names = ", ".join(f"y^{power}" for power in self.powers)
        with np.errstate(all="ignore"):
            wanted = self.family.statistic(self._probes)  # (D, P)
            got = self.linear @ self._features(self._probes).T
            size = np.abs(self.linear) @ np.abs(self._features(self._probes).T)
        if not np.all(np.abs(got - wanted) <= 1e-9 * size):
            raise ValueError(
                f"powers of family {get_family_name(self.family)!r} must give its statistic, "
                "but it is not "
                f"linear in 1, {names}"
            )
        for power, column in zip(self.powers, self.linear.T[1:], strict=True):
            if not column.any():
                raise ValueError(
                    f"powers of family {get_family_name(self.family)!r} must be those "
                    "of its statistic, "
                    f"which has no y^{power}"
                )


def check_powers(family: Any) -> None:
    """Refuse a family that does not say how its rewards add up."""
    powers: Any = get_optional(family, "powers")
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
    unit: Any = get_optional(family, "unit")
    if unit is not None:
        validation.validate_number(f"unit of family {get_family_name(family)!r}", unit, above=0)
    check_family("family", family, READ_BY, ["means", "rewards"])


# Evidence of a family in an exchange: whole quanta of bounded, scale-free sums, the count last.
#
# What one reward adds are its sums, powers of it (`powers`) or products with features of its
# context (`moments`), and a count of 1. Under flows B random signs travel along: from how
# unevenly pulls are weighted they tell how many pulls a belief is really worth.
#
# Where decisions count before their reward is final (`closed`), the sums of those whose reward is
# (closed decisions) stand beside those that the agent acts on:
#
#     sums...  closed sums...  closed count  signs...  count
#     sums...                                signs...  count      without

# eight random signs from a byte, in quanta
SIGNS_OF = [
    tuple(PER_UNIT if byte >> k & 1 else -PER_UNIT for k in range(8)) for byte in range(256)
]


@dataclass(frozen=True)
class Evidence:
    """How the rewards of a family become evidence, and evidence a belief."""

    sums: Powers | Moments
    signs: int = 0
    closed: bool = False  # whether closed decisions are summed by themselves as well

    @classmethod
    def of(
        cls,
        family: Model,
        reward_range: tuple[float, float] | None = None,
        signs: int = 0,
        closed: bool = False,
        context: Contexts | None = None,
    ) -> Evidence:
        """Rewards in the given range, else in the family's own, which must be bounded."""
        weighed = weights_of(family, context)
        if weighed is None:
            check_powers(family)
        low = family.rewards.low
        high = family.rewards.high
        if reward_range is not None:
            asked = [validation.validate_number("reward_range", end) for end in reward_range]
            if len(asked) != 2 or not low <= asked[0] < asked[1] <= high:
                raise ValueError(
                    f"reward_range must be two rising numbers within {family.rewards}, "
                    f"got {reward_range}"
                )
            low, high = asked
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(
                f"reward_range must be given for family {get_family_name(family)!r}, "
                "whose rewards have no "
                "bound: the lowest and the highest reward that can be true, such as [0, 100]"
            )
        if weighed is None or context is None:
            plain: Any = family
            return cls(Powers(plain, (low, high)), signs, closed)
        return cls(Moments(weighed, (low, high), context), signs, closed)

    @property
    def family(self) -> Model:
        """The family whose belief the sums make."""
        return self.sums.family

    @property
    def at_mean(self) -> Family:
        """The family of beliefs about means: the same, or of such at a context."""
        return self.sums.at_mean

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward that there can be."""
        return self.sums.reward_range

    @property
    def scale(self) -> float:
        """What a reward is divided by."""
        return self.sums.scale

    @property
    def bounds(self) -> tuple[float, ...]:
        """The most that one pull can add to each coordinate."""
        sums = self.sums.bounds
        closed = (*sums, 1.0) if self.closed else ()
        return (*sums, *closed, *[1.0] * self.signs, 1.0)

    @property
    def closed_sums(self) -> int:
        """How many of the first coordinates come again for closed decisions (0: none)."""
        return self.sums.number if self.closed else 0

    @property
    def features(self) -> int:
        """How many features a context has (0: there are none)."""
        return self.sums.family.features if isinstance(self.sums, Moments) else 0

    def of_reward(
        self, reward: float, generator: np.random.Generator, met: Met | None = None
    ) -> tuple[int, ...]:
        """What one pull adds whose reward is known and final, in quanta."""
        sums = self._sums_of(reward, met)
        if not self.signs:  # kept short: every reward comes here
            if self.closed:
                return (*sums, *sums, PER_UNIT, PER_UNIT)
            return (*sums, PER_UNIT)
        closed = (*sums, PER_UNIT) if self.closed else ()
        return (*sums, *closed, *self._drawn_signs(generator), PER_UNIT)

    def of_decision(self, assumed: float, met: Met | None = None) -> tuple[int, ...]:
        """What a decision adds when it is made: a pull with the reward that silence means."""
        return self._open(self._sums_of(assumed, met), PER_UNIT)

    def of_correction(
        self, assumed: float, reward: float, met: Met | None = None
    ) -> tuple[int, ...]:
        """What its reward adds: the difference to the assumed one, no pull."""
        return self._open(map(sub, self._sums_of(reward, met), self._sums_of(assumed, met)), 0)

    def of_closing(
        self,
        reward: float,
        generator: np.random.Generator,
        met: Met | None = None,
        closed: Met | None = None,
    ) -> tuple[int, ...]:
        """What a decision adds when its reward is final: to the closed sums.

        met: where it was counted; closed: where it is linearised now, and from now on in all sums.
        """
        self._must_be_closed()
        signs = self._drawn_signs(generator) if self.signs else ()
        final = self._sums_of(reward, closed)
        moved: Iterable[int] = [0] * len(final)
        if closed is not met:
            moved = map(sub, final, self._sums_of(reward, met))
        return (*moved, *final, PER_UNIT, *signs, 0)

    def closed_part(self, quanta: Sequence[int]) -> tuple[int, ...]:
        """Of sums those of closed decisions, with signs and count, as if there were no others."""
        if not self.closed:
            return tuple(quanta)
        n = self.sums.number
        return (*quanta[n : 2 * n], *quanta[2 * n + 1 : -1], quanta[2 * n])

    def closed_count(self, quanta: Sequence[int]) -> float:
        """How many decisions are closed, none below zero."""
        return self.count([quanta[2 * self.sums.number if self.closed else -1]])

    def open_count(self, quanta: Sequence[int]) -> float:
        """How many decisions are counted that are not closed, none below zero."""
        return self.count([quanta[-1] - quanta[2 * self.sums.number]]) if self.closed else 0.0

    def _sums_of(self, reward: float, met: Met | None) -> tuple[int, ...]:
        low, high = self._certain
        if not (type(reward) in (float, int) and low <= reward <= high):
            self.check_reward(reward)
        return self.sums.of(float(reward), met)

    def _drawn_signs(self, generator: np.random.Generator) -> tuple[int, ...]:
        drawn = int(generator.integers(1 << self.signs)).to_bytes(8, "little")
        return tuple(chain.from_iterable(SIGNS_OF[byte] for byte in drawn))[: self.signs]

    def _open(self, sums: Iterable[int], count: int) -> tuple[int, ...]:
        self._must_be_closed()
        return (*sums, *[0] * (self.sums.number + 1 + self.signs), count)

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
        validation.validate_number(
            "reward", reward, at_least=self.reward_range[0], at_most=self.reward_range[1]
        )
        if not self.family.rewards.contains(np.array(reward)).all():
            raise ValueError(f"reward must lie in {self.family.rewards}, got {reward}")

    def count(self, quanta: Sequence[int]) -> float:
        """How many pulls this is the evidence of, none below zero."""
        return max(0.0, from_quanta(quanta[-1:])[0])

    def reward_sum(self, quanta: Sequence[int]) -> float:
        """The sum of the rewards of which this is the evidence; nan if they do not add up to it."""
        return from_quanta(quanta[:1])[0] * self.scale if self.sums.tell_rewards else math.nan

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
        """The sum of the family's statistics (D,), for so many pulls if `count` is given."""
        pulls = self.count(quanta)
        if pulls == 0.0:
            return np.zeros(len(self.family.prior()))
        return self.sums.statistic(quanta, pulls, count)
