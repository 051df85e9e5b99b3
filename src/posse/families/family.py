"""What every family of rewards supplies: the contract, and the intervals it speaks of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import validation
from posse.randomness import FloatArray, Numbers, Randomness


class Interval(NamedTuple):
    """An interval of the real line; infinite ends never belong to it."""

    low: float
    high: float
    closed: bool = False

    def contains(self, values: FloatArray) -> NDArray[np.bool_]:
        """Which of the values are finite and inside."""
        if self.closed:
            inside = (values >= self.low) & (values <= self.high)
        else:
            inside = (values > self.low) & (values < self.high)
        return np.asarray(np.isfinite(values) & inside)

    def covers(self, interval: Interval) -> bool:
        """Whether the other interval lies inside this one."""
        ends = self.closed or not interval.closed  # an open interval lacks the ends of a closed one
        low = self.low < interval.low or (
            self.low == interval.low and (ends or math.isinf(self.low))
        )
        high = interval.high < self.high or (
            interval.high == self.high and (ends or math.isinf(self.high))
        )
        return low and high

    def __str__(self) -> str:
        opening = "[" if self.closed and math.isfinite(self.low) else "("
        closing = "]" if self.closed and math.isfinite(self.high) else ")"
        return f"{opening}{self.low:g}, {self.high:g}{closing}"


LARGEST_MEAN = 1e30  # so that no square of a mean times a precision overflows
REAL_LINE = Interval(-math.inf, math.inf)
POSITIVE = Interval(0.0, math.inf)
UNIT = Interval(0.0, 1.0, closed=True)


class Family(Protocol):
    """A reward model with its prior; beliefs have shape (D, ...), everything else follows (...).

    `parameters` names what the likelihood depends on: the mean and, in some families, a nuisance
    parameter that the belief covers too.  The mean is what policies sample, bound and rank.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]

    @property
    def means(self) -> Interval:
        """Where the means of arms may lie."""

    @property
    def rewards(self) -> Interval:
        """Where rewards may lie for a belief to learn from them."""

    def prior(self) -> FloatArray:
        """The prior's coordinates, (D,)."""

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """What one observation adds to the coordinates at learning rate 1: (...) -> (D, ...)."""

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """The posterior expectation of the mean: (D, ...) -> (...)."""

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """One posterior sample of the mean for each entry: (D, ...) -> (...)."""

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """The posterior quantile of the mean at a level in [0, 1]: (D, ...) -> (...)."""

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The posterior probability that the mean is at most this: (D, ...) -> (...)."""

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The normalised log-density at a mean; joint where a nuisance parameter is given."""

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The log-likelihood of rewards, up to a term free of the parameters."""

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """Rewards of arms with these means: (...) -> (...).

        One variate each whatever the mean (inverse CDF or location-scale, no rejection), so that
        algorithms can be compared under common random numbers.
        """


class ContextualFamily(Protocol):
    """A reward model in which what an arm pays depends on features: of the visitor, or of the arm.

    Its belief (D, ..., K) is about weights of features, and obeys the same two equations. Read at a
    context it is a belief about plain means: `at` gives one of the family `at_mean`, from which
    policies choose and which `posse.summarise` reads.
    """

    name: ClassVar[str]
    anchored: ClassVar[bool]  # whether `statistic` depends on what was believed

    @property
    def features(self) -> int:
        """How many features a context has, d; 0: not said yet, see `with_features`."""

    @property
    def shared(self) -> bool:
        """Whether all arms have the same weights, and differ by their features alone."""

    @property
    def at_mean(self) -> Family:
        """The family of the plain beliefs that `at` gives."""

    @property
    def rewards(self) -> Interval:
        """Where rewards may lie for a belief to learn from them."""

    def with_features(self, features: int) -> ContextualFamily:
        """The same model for contexts of so many features; refused where it says another number."""

    def prior(self) -> FloatArray:
        """The prior's coordinates, (D,)."""

    def at_context(self, belief: FloatArray, contexts: FloatArray) -> FloatArray:
        """The belief about the means at contexts: (D, ..., K) -> (2, ..., K).

        contexts: (..., d), or (..., K, d) where arms have features of their own; of a shared theta
        the belief is (D, ..., 1).
        """

    def statistic(
        self, rewards: FloatArray, contexts: FloatArray, at: FloatArray | None = None
    ) -> FloatArray:
        """What observations add at learning rate 1: (...), (..., d) -> (D, ...).

        at: (2, ...) what was believed of the arm played there; needed if `anchored`.
        """

    def inverse_link(self, predictor: FloatArray) -> FloatArray:
        """The mean of an arm, from features times weights."""


Model = Family | ContextualFamily


def is_contextual(family: Any) -> TypeGuard[ContextualFamily]:
    """Whether a family's beliefs are to be read at contexts."""
    return hasattr(family, "at_mean")


def require_plain_family(family: Model) -> Family:
    """The family, refused if its beliefs are to be read at contexts."""
    if is_contextual(family):
        raise ValueError(f"family {family.name!r} needs contexts, which are not known here")
    untyped: Any = family
    return cast(Family, untyped)


def check_family(
    label: str, family: Any, methods: Iterable[str], ranges: Iterable[str] = ()
) -> None:
    """Refuse an object that lacks what is needed of a family: methods, and ranges of numbers."""
    missing = [name for name in methods if not callable(getattr(family, name, None))]
    missing += [name for name in ranges if not hasattr(family, name)]
    if missing:
        raise ValueError(
            f"{label} {validation.format_value(family)} lacks {' and '.join(missing)}: "
            "see posse.families.Family for what a family supplies"
        )
    for name in ranges:
        if not isinstance(getattr(family, name), Interval):
            raise ValueError(
                f"{label} {validation.format_value(family)} must have {name} such as "
                f"posse.families.Interval(0, 1), got {getattr(family, name)!r}"
            )


def get_family_name(family: Any) -> str:
    """The name of a family in sentences; one's own class need not have one."""
    return str(getattr(family, "name", type(family).__name__))


def check_means(family: Family, means: ArrayLike, drawn: bool = False) -> FloatArray:
    """The means (..., K) as an array of floats, refused unless each lies in the family's range.

    drawn: whether they are those of one run.
    """
    try:
        if np.asarray(means).dtype.kind not in "iuf":  # NumPy would read "0.5" as a number
            raise TypeError
        values = np.asarray(means, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"means must be numbers, got {means!r}") from None
    axes = ("agents",) if drawn else ("runs", "agents")
    if not 1 <= values.ndim <= 1 + len(axes) or values.shape[-1] < 2 or not values.size:
        forms = "(K,) or (agents, K)" if drawn else "(K,), (runs, K) or (runs, agents, K)"
        raise ValueError(f"means must hold at least 2 arms, as {forms}, got shape {values.shape}")
    outside = ~family.means.contains(values) | (np.abs(values) > LARGEST_MEAN)
    if outside.any():
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        location = [f" of {axis[:-1]} {i}" for axis, i in zip(axes, index[:-1], strict=False)]
        raise ValueError(
            f"means: arm {index[-1]}{''.join(reversed(location))} "
            f"has mean {float(values[index])!r}, "
            f"but {get_family_name(family)} means must be numbers in {family.means} "
            "of size 1e30 at most"
        )
    return values


def clip_means(family: Family, means: FloatArray) -> FloatArray:
    """The nearest means that the family has, for what was moved beyond them."""
    low = max(family.means.low, -LARGEST_MEAN)
    high = min(family.means.high, LARGEST_MEAN)
    if not family.means.closed:  # the ends themselves are outside
        margin = 1 / LARGEST_MEAN
        low, high = (
            max(low + margin, np.nextafter(low, high)),
            min(high - margin, np.nextafter(high, low)),
        )
    return np.clip(means, low, high)
