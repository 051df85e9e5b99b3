"""Evidence: whole quanta of bounded, scale-free sums of rewards, the count last.

`PowerSums` are the sufficient statistics of plain families: one reward adds y/scale, and further
powers of it where the family has them (`powers`: the second where the variance is unknown); the
family's statistic is linear in these powers. `Evidence` lays the sums out as coordinates.
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
from posse.families import Family, Interval, Model, check_family, get_family_name, get_optional
from posse.live.agent.context_evidence import ExpansionPoint, GramSums, context_family
from posse.live.ledger import PER_UNIT, from_quanta, to_quanta
from posse.randomness import FloatArray

REQUIRED_METHODS = (  # what decisions and `posse status` read a family by, whatever the policy
    *("prior", "statistic", "posterior_mean", "sample_mean"),
    *("mean_quantile", "mean_cdf", "log_density"),
)
# Rewards at which a statistic is looked at, if the family can have them, beside some of the reward
# range. The first give the coefficients: short in binary, so that these come out exact, and of one
# sign, so that no two powers look alike.
PROBES = (0.0, 1.0, 2.0, 0.5, 0.25, 0.75, 3.0, -1.0, -2.0, -0.5)


@dataclass(frozen=True)
class PowerSums:
    """How rewards of a plain family in a range add up, and the statistic that the sums give."""

    family: Family
    reward_range: tuple[float, float]

    def __post_init__(self) -> None:
        self._check_statistic()

    @property
    def at_mean(self) -> Family:
        """The family of beliefs about means: the same family."""
        return self.family

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """The powers of a reward that add up, beside the count."""
        # y^0, if it is there, is the last: the first of the sums is that of the rewards
        return tuple(sorted(get_optional(self.family, "powers"), key=lambda p: (p == 0, p)))

    @property
    def n_sums(self) -> int:
        """The number of sums."""
        return len(self.powers)

    @cached_property
    def scale(self) -> float:
        """The number that a reward is divided by: the family's unit, else the largest reward."""
        unit: float | None = get_optional(self.family, "unit")
        return max(abs(end) for end in self.reward_range) if unit is None else unit

    @property
    def bounds(self) -> tuple[float, ...]:
        """The largest amount that one pull can add to each sum."""
        largest = max(abs(end) for end in self.reward_range) / self.scale
        return tuple(raise_reward(largest, power) for power in self.powers)

    def quantize_reward(self, reward: float, point: object = None) -> tuple[int, ...]:
        """Return what a reward adds to the sums, in quanta."""
        y = reward / self.scale
        return to_quanta([raise_reward(y, power) for power in self.powers])

    @property
    def first_is_reward(self) -> bool:
        """Whether the first of the sums is that of the rewards."""
        return self.powers[0] == 1

    def statistic(
        self, quanta: Sequence[int], pulls: float, count: float | None = None
    ) -> FloatArray:
        """Return the sum of the family's statistics (D,) of these pulls, scaled to `count` pulls.

        It is clipped to what rewards in the range can give: a level of flows may dip below zero.
        """
        features = [1.0]
        for (power, unit, low, high), value in zip(self._limits, from_quanta(quanta), strict=False):
            if power == 0 and self.powers[0] == 1:  # no reward is above the largest
                low = max(low, abs(features[1]) / max(map(abs, self.reward_range)))
            elif power % 2 == 0 and self.powers[0] == 1:  # at least that power of the mean
                low = features[1] ** power
            features.append(min(max(value * unit / pulls, low), high))
        total = self.linear @ np.array(features)
        return np.asarray(total * (pulls if count is None else count))

    def fingerprint_parts(self) -> dict[str, object]:
        """Return the numbers that must be equal for evidence of two agents to mean the same."""
        return {"statistic": self.linear, "powers": self.powers, "scale": self.scale}

    @cached_property
    def _limits(self) -> tuple[tuple[int, float, float, float], ...]:
        """For each power its unit, and the least and the largest value that a reward can give."""
        limits = []
        for power in self.powers:
            ends = [raise_reward(end, power) for end in self.reward_range]
            if power % 2 == 0 and self.reward_range[0] < 0 < self.reward_range[1]:
                ends.append(0.0)
            limits.append((power, self.scale**power, min(ends), max(ends)))
        return tuple(limits)

    @cached_property
    def _probes(self) -> FloatArray:
        """Rewards that the family can have, those short in binary first: (P,)."""
        probes = [y for y in PROBES if self.family.rewards.contains(np.array(y))]
        within = np.linspace(*self.reward_range, 2 * len(self.powers) + 5)[1:-1]
        return np.array([*probes, *(y for y in within if y not in probes)])

    def _power_matrix(self, rewards: FloatArray) -> FloatArray:
        """Return (1, y^p for each power): (P,) -> (P, powers + 1)."""
        columns = [raise_reward(rewards, power) for power in self.powers]
        return np.stack([np.ones_like(rewards), *columns], axis=1)

    @cached_property
    def linear(self) -> FloatArray:
        """A with statistic(y) = A (1, y^p ...), from the statistic itself: (D, powers + 1)."""
        nodes = self._probes[: len(self.powers) + 1]
        statistic = self.family.statistic(nodes)  # (D, powers + 1)
        return np.asarray(np.linalg.solve(self._power_matrix(nodes), statistic.T).T)

    def _check_statistic(self) -> None:
        """Refuse powers that do not give the family's statistic: evidence would be dropped."""
        shape = len(self.family.prior()), len(self._probes)
        actual_shape = np.shape(self.family.statistic(self._probes))
        if actual_shape != shape:  # it would be added to every coordinate
            raise ValueError(
                f"statistic of family {get_family_name(self.family)!r} must have shape {shape} for "
                f"{shape[1]} rewards, as its prior has {shape[0]} numbers, got {actual_shape}"
            )
        names = ", ".join(f"y^{power}" for power in self.powers)
        with np.errstate(all="ignore"):
            expected = self.family.statistic(self._probes)  # (D, P)
            fitted = self.linear @ self._power_matrix(self._probes).T
            size = np.abs(self.linear) @ np.abs(self._power_matrix(self._probes).T)
        if not np.all(np.abs(fitted - expected) <= 1e-9 * size):
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


def raise_reward(reward: Any, power: int) -> Any:
    """Return a power of a reward; y^0 is 1 for every reward but 0, so that its sum counts these."""
    return reward**power if power else 1.0 * (reward != 0)


def check_powers(family: Any) -> None:
    """Refuse a family that does not declare how its rewards add up."""
    powers: Any = get_optional(family, "powers")
    if get_optional(family, "anchored"):
        raise ValueError(
            f"family {get_family_name(family)!r} is for the lab only, because live agents exchange "
            "sums of rewards, and what such a reward adds depends on the belief that it met: use "
            "'gaussian', and clip outliers before you report them"
        )
    if not powers or isinstance(family, type):
        raise ValueError(
            f"family must be one for live agents, got {family!r}: declare the powers of a reward "
            "that its statistic is made of, such as powers = (1,)"
        )
    whole = isinstance(powers, tuple | list) and all(
        isinstance(power, int) and power >= 0 for power in powers
    )
    if not whole or len(set(powers)) < len(powers):
        raise ValueError(f"powers must be different whole numbers from 0, got {powers!r}")
    unit: Any = get_optional(family, "unit")
    if unit is not None:
        validation.validate_number(f"unit of family {get_family_name(family)!r}", unit, above=0)
    check_family("family", family, REQUIRED_METHODS, ["means", "rewards"])


# ---- Coordinates of evidence in an exchange
#
# One reward adds its sums, powers of it (`PowerSums`) or products with features of its context
# (`GramSums`), and a count of 1. Under flows B random signs are added, too: how unevenly pulls are
# weighted shows in their squares, which give the effective sample size of a belief.
#
# Where decisions count before their reward is final (`closed`), the sums of closed decisions stand
# beside those that the agent acts on:
#
#     sums...  closed sums...  closed count  signs...  count
#     sums...                                signs...  count      without

# eight random signs from a byte, in quanta
SIGNS_BY_BYTE = [
    tuple(PER_UNIT if byte >> k & 1 else -PER_UNIT for k in range(8)) for byte in range(256)
]


@dataclass(frozen=True)
class Evidence:
    """How the rewards of a family become evidence, and evidence becomes a belief."""

    sums: PowerSums | GramSums
    signs: int = 0
    closed: bool = False  # whether closed decisions are summed by themselves as well

    @classmethod
    def for_family(
        cls,
        family: Model,
        reward_range: tuple[float, float] | None = None,
        signs: int = 0,
        closed: bool = False,
        context: Contexts | None = None,
    ) -> Evidence:
        """Build the evidence of rewards in this range, else in the family's own."""
        with_context = context_family(family, context)
        if with_context is None:
            check_powers(family)
        low = family.rewards.low
        high = family.rewards.high
        if reward_range is not None:
            ends = [validation.validate_number("reward_range", end) for end in reward_range]
            if len(ends) != 2 or not low <= ends[0] < ends[1] <= high:
                raise ValueError(
                    f"reward_range must be two rising numbers within {family.rewards}, "
                    f"got {reward_range}"
                )
            low, high = ends
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(
                f"reward_range must be given for family {get_family_name(family)!r}, "
                "whose rewards have no "
                "bound: the lowest and the highest possible reward, such as [0, 100]"
            )
        if with_context is None or context is None:
            plain: Any = family
            return cls(PowerSums(plain, (low, high)), signs, closed)
        return cls(GramSums(with_context, (low, high), context), signs, closed)

    @property
    def family(self) -> Model:
        """The family whose belief the sums give."""
        return self.sums.family

    @property
    def at_mean(self) -> Family:
        """The family of beliefs about means: the same family, or that of means at a context."""
        return self.sums.at_mean

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest possible reward."""
        return self.sums.reward_range

    @property
    def scale(self) -> float:
        """The number that a reward is divided by."""
        return self.sums.scale

    @property
    def bounds(self) -> tuple[float, ...]:
        """The largest amount that one pull can add to each coordinate."""
        sums = self.sums.bounds
        closed = (*sums, 1.0) if self.closed else ()
        return (*sums, *closed, *[1.0] * self.signs, 1.0)

    @property
    def closed_sums(self) -> int:
        """The number of first coordinates that are repeated for closed decisions (0: none)."""
        return self.sums.n_sums if self.closed else 0

    @property
    def features(self) -> int:
        """The number of features of a context (0: there are no contexts)."""
        return self.sums.family.features if isinstance(self.sums, GramSums) else 0

    def quantize_reward(
        self, reward: float, generator: np.random.Generator, point: ExpansionPoint | None = None
    ) -> tuple[int, ...]:
        """Return what one pull with a final reward adds, in quanta."""
        sums = self._sums_of(reward, point)
        if not self.signs:  # kept short: every reward comes here
            if self.closed:
                return (*sums, *sums, PER_UNIT, PER_UNIT)
            return (*sums, PER_UNIT)
        closed = (*sums, PER_UNIT) if self.closed else ()
        return (*sums, *closed, *self._draw_signs(generator), PER_UNIT)

    def quantize_decision(
        self, assumed: float, point: ExpansionPoint | None = None
    ) -> tuple[int, ...]:
        """Return what a new decision adds: a pull with the reward assumed until it is known."""
        return self._open_row(self._sums_of(assumed, point), PER_UNIT)

    def quantize_correction(
        self, assumed: float, reward: float, point: ExpansionPoint | None = None
    ) -> tuple[int, ...]:
        """Return what a delayed reward adds: its difference to the assumed reward, and no pull."""
        return self._open_row(
            map(sub, self._sums_of(reward, point), self._sums_of(assumed, point)), 0
        )

    def quantize_closing(
        self,
        reward: float,
        generator: np.random.Generator,
        point: ExpansionPoint | None = None,
        closing_point: ExpansionPoint | None = None,
    ) -> tuple[int, ...]:
        """Return what a decision adds to the closed sums when its reward is final.

        point: where it was counted; closing_point: where it is linearised from now on, in all sums.
        """
        self._require_closed_sums()
        signs = self._draw_signs(generator) if self.signs else ()
        final = self._sums_of(reward, closing_point)
        moved: Iterable[int] = [0] * len(final)
        if closing_point is not point:
            moved = map(sub, final, self._sums_of(reward, point))
        return (*moved, *final, PER_UNIT, *signs, 0)

    def closed_part(self, quanta: Sequence[int]) -> tuple[int, ...]:
        """Return the sums of closed decisions, laid out as if there were no open ones."""
        if not self.closed:
            return tuple(quanta)
        n = self.sums.n_sums
        return (*quanta[n : 2 * n], *quanta[2 * n + 1 : -1], quanta[2 * n])

    def closed_count(self, quanta: Sequence[int]) -> float:
        """Count the closed decisions, at least zero."""
        return self.count_pulls([quanta[2 * self.sums.n_sums if self.closed else -1]])

    def open_count(self, quanta: Sequence[int]) -> float:
        """Count the decisions that are not closed, at least zero."""
        return self.count_pulls([quanta[-1] - quanta[2 * self.sums.n_sums]]) if self.closed else 0.0

    def _sums_of(self, reward: float, point: ExpansionPoint | None) -> tuple[int, ...]:
        low, high = self._plain_range
        if not (type(reward) in (float, int) and low <= reward <= high):
            self.check_reward(reward)
        return self.sums.quantize_reward(float(reward), point)

    def _draw_signs(self, generator: np.random.Generator) -> tuple[int, ...]:
        drawn = int(generator.integers(1 << self.signs)).to_bytes(8, "little")
        return tuple(chain.from_iterable(SIGNS_BY_BYTE[byte] for byte in drawn))[: self.signs]

    def _open_row(self, sums: Iterable[int], count: int) -> tuple[int, ...]:
        self._require_closed_sums()
        return (*sums, *[0] * (self.sums.n_sums + 1 + self.signs), count)

    def _require_closed_sums(self) -> None:
        if not self.closed:
            raise ValueError(
                "silent_default must be given under flows for decisions to count from the start"
            )

    @cached_property
    def _plain_range(self) -> tuple[float, float]:
        """The range in which every number is a reward; `check_reward` decides about the others."""
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
        """Refuse an impossible reward with one sentence."""
        validation.validate_number(
            "reward", reward, at_least=self.reward_range[0], at_most=self.reward_range[1]
        )
        if not self.family.rewards.contains(np.array(reward)).all():
            raise ValueError(f"reward must lie in {self.family.rewards}, got {reward}")

    def count_pulls(self, quanta: Sequence[int]) -> float:
        """Count the pulls in this evidence, at least zero."""
        return max(0.0, from_quanta(quanta[-1:])[0])

    def reward_sum(self, quanta: Sequence[int]) -> float:
        """Return the sum of the rewards in this evidence; nan if no coordinate holds it."""
        return from_quanta(quanta[:1])[0] * self.scale if self.sums.first_is_reward else math.nan

    def effective_count(self, quanta: Sequence[int]) -> float:
        """Return the effective sample size: equally weighted pulls of the same worth, cautiously.

        As `effective_samples.effective_pulls`, on plain floats for speed.
        """
        count = self.count_pulls(quanta)
        if not self.signs or count == 0.0:
            return count
        signs = from_quanta(quanta)[-1 - self.signs : -1]
        squares = sum(sign**2 for sign in signs) / self.signs
        return min(count**2 / (CAUTION * squares), count) if squares > 0 else count

    def statistic(self, quanta: Sequence[int], count: float | None = None) -> FloatArray:
        """Return the sum of the family's statistics (D,), for `count` pulls if it is given."""
        pulls = self.count_pulls(quanta)
        if pulls == 0.0:
            return np.zeros(len(self.family.prior()))
        return self.sums.statistic(quanta, pulls, count)
