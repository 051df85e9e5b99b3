"""The protocols of reward families, and the intervals of their means and rewards.

Invariant of every family: the coordinates of a belief are affine in the natural parameters of the
posterior. Hence an observation adds `statistic`, and log-linear pooling averages coordinates
(`posse.beliefs`); nothing else in the library may depend on a family's parametrisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import rules, validation
from posse.randomness import FloatArray, Numbers, Randomness


class Interval(NamedTuple):
    """An interval of the real line; infinite ends never belong to it."""

    low: float
    high: float
    closed: bool = False

    def contains(self, values: FloatArray) -> NDArray[np.bool_]:
        """Return which of the values are finite and inside."""
        if self.closed:
            inside = (values >= self.low) & (values <= self.high)
        else:
            inside = (values > self.low) & (values < self.high)
        return np.asarray(np.isfinite(values) & inside)

    def covers(self, interval: Interval) -> bool:
        """Return whether another interval lies inside this one."""
        ends = (
            self.closed or not interval.closed
        )  # an open interval does not contain the ends of a closed one
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


# The square of a mean times a precision must not overflow.
LARGEST_MEAN = 1e30
REAL_LINE = Interval(-math.inf, math.inf)
POSITIVE = Interval(0.0, math.inf)
UNIT = Interval(0.0, 1.0, closed=True)


class Family(Protocol):
    """A reward model with its prior; beliefs have shape (D, ...), everything else follows (...).

    `parameters` names the parameters of the likelihood: the mean and, in some families, a nuisance
    parameter, which the belief covers as well. Policies sample, bound and rank the mean.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]

    @property
    def means(self) -> Interval:
        """The range of the means of arms."""

    @property
    def rewards(self) -> Interval:
        """The range of rewards that a belief can learn from."""

    def prior(self) -> FloatArray:
        """The prior's coordinates, (D,)."""

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """Return what one observation adds to the coordinates at rate 1: (...) -> (D, ...)."""

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """The posterior expectation of the mean: (D, ...) -> (...)."""

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """One posterior sample of the mean for each entry: (D, ...) -> (...)."""

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """The posterior quantile of the mean at a level in [0, 1]: (D, ...) -> (...)."""

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """Return the posterior probability that the mean is at most this: (D, ...) -> (...)."""

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """Return the normalised log-density at a mean, joint with a given nuisance parameter."""

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """Return the log-likelihood of rewards, up to a term without the parameters."""

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """Draw rewards of arms with these means: (...) -> (...).

        Each reward uses one variate whatever the mean (inverse CDF or location-scale, no
        rejection), so that algorithms can be compared under common random numbers.
        """


class ContextualFamily(Protocol):
    """A reward model in which the mean of an arm depends on features of the visitor or of the arm.

    Its belief (D, ..., K) is about weights of features and obeys the same two equations. At a
    context it becomes a belief about plain means: `at_context` returns a belief of the family
    `at_mean`, from which policies choose and which `posse.summarise` takes.
    """

    name: ClassVar[str]
    anchored: ClassVar[bool]  # whether `statistic` depends on the belief at the time

    @property
    def features(self) -> int:
        """The number of features of a context, d; 0 until `with_features` sets it."""

    @property
    def shared(self) -> bool:
        """Whether all arms have the same weights and differ only by their features."""

    @property
    def at_mean(self) -> Family:
        """The family of the plain beliefs that `at_context` returns."""

    @property
    def rewards(self) -> Interval:
        """The range of rewards that a belief can learn from."""

    def with_features(self, features: int) -> ContextualFamily:
        """Return the same model for this number of features; refuse another number if set."""

    def prior(self) -> FloatArray:
        """The prior's coordinates, (D,)."""

    def at_context(self, belief: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return the belief about the means at contexts: (D, ..., K) -> (2, ..., K).

        contexts: (..., d), or (..., K, d) if arms have features; the belief about a shared theta
        is (D, ..., 1).
        """

    def statistic(
        self, rewards: FloatArray, contexts: FloatArray, at: FloatArray | None = None
    ) -> FloatArray:
        """Return what observations add at learning rate 1: (...), (..., d) -> (D, ...).

        at: (2, ...) the belief about the arm played at the context; needed if `anchored`.
        """

    def inverse_link(self, predictor: FloatArray) -> FloatArray:
        """Return the mean of an arm from its linear predictor, features times weights."""


Model = Family | ContextualFamily


def is_contextual(family: Any) -> TypeGuard[ContextualFamily]:
    """Return whether the beliefs of a family are evaluated at contexts."""
    # by attribute, not by class: user-defined families need no base class
    return hasattr(family, "at_mean")


def require_plain_family(family: Model) -> Family:
    """Return a family without contexts, or raise a ValueError."""
    if is_contextual(family):
        raise ValueError(f"family {family.name!r} needs contexts, and there are none here")
    untyped: Any = family
    return cast(Family, untyped)


def check_family(
    label: str, family: Any, methods: Iterable[str], ranges: Iterable[str] = ()
) -> None:
    """Refuse an object that lacks methods of a family, or intervals such as `means`."""
    rules.refuse_rules(label, family)
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
    """Return the name of a family for messages; a user-defined class need not have one."""
    return str(getattr(family, "name", type(family).__name__))


def check_means(family: Family, means: ArrayLike, drawn: bool = False) -> FloatArray:
    """Return the means (..., K) as floats, or raise a ValueError if one is out of range.

    drawn: whether they are random means of one run.
    """
    try:
        # NumPy would read the text "0.5" as a number, and True as 1.
        if np.asarray(means).dtype.kind not in "iuf":
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
    """Clip means to the range of the family."""
    low = max(family.means.low, -LARGEST_MEAN)
    high = min(family.means.high, LARGEST_MEAN)
    # The ends of an open range are not allowed: move inside by the smallest safe margin.
    if not family.means.closed:
        margin = 1 / LARGEST_MEAN
        low, high = (
            max(low + margin, np.nextafter(low, high)),
            min(high - margin, np.nextafter(high, low)),
        )
    return np.clip(means, low, high)
