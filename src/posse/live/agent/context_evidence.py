"""Gram sums: features times rewards and features times features (normal equations) in whole quanta.

Features are rounded, not products: q = round(1024 sqrt(w) x), and the Gram matrix adds q q', which
is in quanta of 2^-20 exactly. So an agent's matrix is positive semidefinite by construction,
however many rewards it is the sum of. A reward adds

    shifts (d)  upper triangle by rows of the Gram matrix (d (d + 1) / 2)              linear
    reward  shifts (d)  upper triangle by rows (d (d + 1) / 2)                         logistic

The first number is always the reward divided by its scale: under the linear family features begin
with 1 and all weigh the same, so the first shift is the reward.
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
from posse.families import Family, Linear, Logistic, Model, get_family_name, is_contextual
from posse.live.ledger import PER_UNIT, from_quanta
from posse.randomness import FloatArray

PER_FEATURE = 1024  # its square is a unit of quanta
# Bounds per pull, by which neighbours detect lies: |w u + y - p| is at most 1 for |u| within the
# clipping range, and rounding a feature makes at most 1.03 of 1; w = p (1 - p) is at most 1/4.
LOGISTIC_SHIFT = 1.25
LOGISTIC_WEIGHT = 0.25


class ExpansionPoint(NamedTuple):
    """The features of a decision, and the log-odds at which its reward is linearised."""

    x: FloatArray  # (d,)
    log_odds: float | None = None


@dataclass(frozen=True)
class GramSums:
    """How rewards at contexts add up, and the belief about feature weights they give."""

    family: Linear | Logistic
    reward_range: tuple[float, float]
    context: Contexts

    @property
    def at_mean(self) -> Family:
        """The family of beliefs about the mean at a context."""
        return self.family.at_mean

    @cached_property
    def n_sums(self) -> int:
        """The number of sums."""
        return len(self.bounds)

    @cached_property
    def scale(self) -> float:
        """The number that a reward is divided by."""
        largest = max(abs(end) for end in self.reward_range)
        return 1.0 if self.family.anchored else largest

    @cached_property
    def bounds(self) -> tuple[float, ...]:
        """The largest amount that one pull can add to each sum."""
        d = self.family.features
        triangle = d * (d + 1) // 2
        if self.family.anchored:
            return (1.0, *[LOGISTIC_SHIFT] * d, *[LOGISTIC_WEIGHT] * triangle)
        return (1.0,) * (d + triangle)

    def quantize_reward(self, reward: float, point: ExpansionPoint | None) -> tuple[int, ...]:
        """Return what a reward adds to the sums, in quanta."""
        assert point is not None
        weight, target = self._weight_and_target(reward, point)
        size = PER_FEATURE * math.sqrt(weight)
        rounded = np.rint(size * point.x)
        rows, columns = self._upper
        shifts = np.rint((PER_UNIT * target / size) * rounded)
        sums = np.concatenate([shifts, rounded[rows] * rounded[columns]])
        values: list[int] = sums.astype(np.int64).tolist()
        return (int(reward * PER_UNIT), *values) if self.family.anchored else tuple(values)

    def round_features(self, point: ExpansionPoint) -> FloatArray:
        """Return the rounded features that are counted in place of the exact ones: (d,)."""
        size = PER_FEATURE * math.sqrt(self._weight_and_target(0.0, point)[0])
        return np.asarray(np.rint(size * point.x) / size)

    def _weight_and_target(self, reward: float, point: ExpansionPoint) -> tuple[float, float]:
        """Return the weight of a reward, and the target that it pulls the linear predictor to."""
        if not isinstance(self.family, Logistic):
            return 1.0, reward / self.scale
        weight, target = self.family.observation_terms(
            np.array(reward), np.array([point.log_odds, 1.0])
        )
        return float(weight), float(target)

    @property
    def first_is_reward(self) -> bool:
        """Whether the first of the sums is that of the rewards."""
        return True

    def statistic(
        self, quanta: Sequence[int], pulls: float, count: float | None = None
    ) -> FloatArray:
        """Return the sum of the family's statistics: (D,)."""
        first = self.n_sums - len(self._units)
        return np.asarray(self._units * from_quanta(quanta[first : self.n_sums]))

    def belief_at(self, quanta: Sequence[int], x: FloatArray) -> FloatArray:
        """Return shift and precision of the mean at features: (d,) -> (2, 1, 1)."""
        belief = self.family.prior() + (self.statistic(quanta, 1.0) if quanta else 0.0)
        return self.family.at_context(belief[:, None, None], x[None])

    def average_features(self, rows: Iterable[Sequence[int]]) -> FloatArray:
        """Return the weighted average features of the pulls in these rows of sums: (d,).

        The first row of the Gram matrix holds them, because the first feature is 1.
        """
        d = self.family.features
        first = self.n_sums - len(self._units) + d
        total = [sum(row) for row in zip(*(r[first : first + d] for r in rows), strict=True)]
        if not total or total[0] <= 0:
            return np.array([1.0, *[0.0] * (d - 1)])
        return np.array([entry / total[0] for entry in total])

    def fingerprint_parts(self) -> dict[str, object]:
        """Return what must be equal for evidence of two agents to mean the same."""
        fields = [[name, *_describe_field(field)] for name, field in self.context]
        return {"unit": self._units, "scale": self.scale, "context": json.dumps(fields)}

    @cached_property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.family.features)
        return rows, columns

    @cached_property
    def _units(self) -> FloatArray:
        """The amount that one unit of each sum adds to the belief: (D,)."""
        d = self.family.features
        units = np.ones(d + d * (d + 1) // 2)
        if isinstance(self.family, Linear):
            units /= self.family.sigma**2
            units[:d] *= self.scale
        return units


def context_family(family: Model, context: Contexts | None) -> Linear | Logistic | None:
    """Return the family for contexts of this schema, None if both are plain; refuse a mismatch."""
    if not is_contextual(family):
        if context is not None:
            raise ValueError(
                f"context does not go with family {get_family_name(family)!r}: use 'logistic' for "
                "rewards of 0 or 1, 'linear' for others"
            )
        return None
    if context is None:
        raise ValueError(
            f"family {get_family_name(family)!r} needs a context: the known fields of a visitor, "
            'such as {country = ["de", "fr"], basket = {low = 0, high = 500}}'
        )
    if not isinstance(family, Linear | Logistic):
        raise ValueError(
            f"family must be 'logistic' or 'linear' where there is a context, got {family!r}"
        )
    if family.shared:
        raise ValueError(
            "family.shared needs features of arms, which live agents do not have: leave it out"
        )
    return family.with_features(context.n_features)


def _describe_field(field: Field) -> list[object]:
    """Return what decides the features of a field; frequencies matter only in the lab."""
    if isinstance(field, Category):
        return ["categories", *field.names, field.optional]
    if isinstance(field, Flag):
        return ["flag", field.optional]
    return ["number", float(field.low), float(field.high), field.optional]
