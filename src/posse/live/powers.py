"""Sums of the powers of rewards, scale-free: the sufficient statistics of plain families.

What one reward adds is y/scale, and further powers of it where the family says so
(`Abilities.powers`: the second where the variance is unknown); its statistic is linear in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posse import checks
from posse.families.abilities import ability
from posse.families.family import Family, check_family, name_of
from posse.live.exchange.quanta import from_quanta, to_quanta
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
        return tuple(sorted(ability(self.family, "powers")))

    @property
    def number(self) -> int:
        """How many sums there are."""
        return len(self.powers)

    @cached_property
    def scale(self) -> float:
        """What a reward is divided by: the family's unit, else the largest reward."""
        unit: float | None = ability(self.family, "unit")
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


def check_powers(family: Any) -> None:
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
