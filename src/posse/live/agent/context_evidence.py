"""Sums of features times rewards and of features times features: normal equations in whole quanta.

Features are rounded, not products: q = round(1024 sqrt(w) x), and the Gram matrix adds q q', which
is in quanta of 2^-20 exactly. So an agent's matrix is positive semidefinite by construction,
however many rewards it is the sum of. What a reward adds is

    shifts (d)  upper triangle by rows of the Gram matrix (d (d + 1) / 2)              linear
    reward  shifts (d)  upper triangle by rows (d (d + 1) / 2)                         logistic

The first is always the reward, over its scale: where features begin with 1 and all weigh the same,
the first shift is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posse.contexts import Category, Contexts, Field, Flag
from posse.families.family import Family, Model, get_family_name, is_contextual
from posse.families.linear import Linear
from posse.families.logistic import Logistic
from posse.live.exchange.quanta import PER_UNIT, from_quanta
from posse.randomness import FloatArray

PER_FEATURE = 1024  # its square is a unit of quanta
# |w u + y - p| is at most 1, and rounding a feature makes at most 1.03 of 1; w = p (1 - p)
LOGISTIC_SHIFT = 1.25
LOGISTIC_WEIGHT = 0.25


class Met(NamedTuple):
    """Where a decision is made, as features, and where its reward is linearised, if it is."""

    x: FloatArray  # (d,)
    log_odds: float | None = None


@dataclass(frozen=True)
class Moments:
    """How rewards at contexts add up, and what the sums say of the weights of features."""

    family: Linear | Logistic
    reward_range: tuple[float, float]
    context: Contexts

    @property
    def at_mean(self) -> Family:
        """The family of beliefs about means at a context."""
        return self.family.at_mean

    @cached_property
    def number(self) -> int:
        """How many sums there are."""
        return len(self.bounds)

    @cached_property
    def scale(self) -> float:
        """What a reward is divided by."""
        largest = max(abs(end) for end in self.reward_range)
        return 1.0 if self.family.anchored else largest

    @cached_property
    def bounds(self) -> tuple[float, ...]:
        """The most that one pull can add to each."""
        d = self.family.features
        triangle = d * (d + 1) // 2
        if self.family.anchored:
            return (1.0, *[LOGISTIC_SHIFT] * d, *[LOGISTIC_WEIGHT] * triangle)
        return (1.0,) * (d + triangle)

    def of(self, reward: float, met: Met | None) -> tuple[int, ...]:
        """What a reward adds, in quanta."""
        assert met is not None
        weight, target = self._site(reward, met)
        size = PER_FEATURE * math.sqrt(weight)
        rounded = np.rint(size * met.x)
        rows, columns = self._upper
        shifts = np.rint((PER_UNIT * target / size) * rounded)
        sums = np.concatenate([shifts, rounded[rows] * rounded[columns]])
        values: list[int] = sums.astype(np.int64).tolist()
        return (int(reward * PER_UNIT), *values) if self.family.anchored else tuple(values)

    def rounded(self, met: Met) -> FloatArray:
        """The features that are counted in place of those met: (d,)."""
        size = PER_FEATURE * math.sqrt(self._site(0.0, met)[0])
        return np.asarray(np.rint(size * met.x) / size)

    def _site(self, reward: float, met: Met) -> tuple[float, float]:
        """What a reward weighs, and what it draws the weights towards."""
        if not isinstance(self.family, Logistic):
            return 1.0, reward / self.scale
        weight, target = self.family.observation_terms(
            np.array(reward), np.array([met.log_odds, 1.0])
        )
        return float(weight), float(target)

    @property
    def tell_rewards(self) -> bool:
        """Whether the first of the sums is that of the rewards."""
        return True

    def statistic(
        self, quanta: Sequence[int], pulls: float, count: float | None = None
    ) -> FloatArray:
        """The sum of the family's statistics: (D,)."""
        first = self.number - len(self._units)
        return np.asarray(self._units * from_quanta(quanta[first : self.number]))

    def at(self, quanta: Sequence[int], x: FloatArray) -> FloatArray:
        """What sums say of the mean at features, shift and precision: (d,) -> (2, 1, 1)."""
        belief = self.family.prior() + (self.statistic(quanta, 1.0) if quanta else 0.0)
        return self.family.at_context(belief[:, None, None], x[None])

    def average(self, rows: Iterable[Sequence[int]]) -> FloatArray:
        """The average features of the pulls that rows of sums are of, as they weigh: (d,).

        The first row of the Gram matrix has them, for the first feature is 1.
        """
        d = self.family.features
        first = self.number - len(self._units) + d
        total = [sum(row) for row in zip(*(r[first : first + d] for r in rows), strict=True)]
        if not total or total[0] <= 0:
            return np.array([1.0, *[0.0] * (d - 1)])
        return np.array([each / total[0] for each in total])

    def spelled(self) -> dict[str, object]:
        """The numbers and words by which neighbours know that evidence means the same."""
        fields = [[name, *_spelled(field)] for name, field in self.context]
        return {"unit": self._units, "scale": self.scale, "context": json.dumps(fields)}

    @cached_property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.family.features)
        return rows, columns

    @cached_property
    def _units(self) -> FloatArray:
        """What a unit of each sum adds to the belief: (D,)."""
        d = self.family.features
        units = np.ones(d + d * (d + 1) // 2)
        if isinstance(self.family, Linear):
            units /= self.family.sigma**2
            units[:d] *= self.scale
        return units


def weights_of(family: Model, context: Contexts | None) -> Linear | Logistic | None:
    """The family for contexts of this schema, None if both are plain; refused if only one is."""
    if not is_contextual(family):
        if context is not None:
            raise ValueError(
                f"context is not for family {get_family_name(family)!r}, which knows none: "
                "'logistic' is "
                "for rewards of 0 or 1, 'linear' for others"
            )
        return None
    if context is None:
        raise ValueError(
            f"family {get_family_name(family)!r} needs a context: "
            "what is known of a visitor, such as "
            '{country = ["de", "fr"], basket = {low = 0, high = 500}}'
        )
    if not isinstance(family, Linear | Logistic):
        raise ValueError(
            f"family must be 'logistic' or 'linear' where there is a context, got {family!r}"
        )
    if family.shared:
        raise ValueError(
            "family.shared needs features of arms, which live agents do not know: leave it out"
        )
    return family.with_features(context.n_features)


def _spelled(field: Field) -> list[object]:
    """What of a field decides which features a context has; how often is the lab's business."""
    if isinstance(field, Category):
        return ["categories", *field.names, field.optional]
    if isinstance(field, Flag):
        return ["flag", field.optional]
    return ["number", float(field.low), float(field.high), field.optional]
