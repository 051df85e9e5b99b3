"""Means over runs and how far to trust them: Student t intervals, single and paired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import checks

if TYPE_CHECKING:
    from posse.lab.results import Result

T = TypeVar("T")


class Interval(NamedTuple, Generic[T]):
    """A mean, its standard error and the ends of its confidence interval."""

    mean: T
    standard_error: T
    low: T
    high: T


def mean_interval(
    values: ArrayLike, axis: int = 0, level: float = 0.95
) -> Interval[NDArray[np.float64]]:
    """Average along an axis of independent runs, with its Student t interval.

    One run has a mean but no error: the other three are nan.
    """
    from scipy.special import stdtrit

    level = checks.number("level", level, above=0, below=1)
    sample = np.asarray(values, dtype=np.float64)
    runs = sample.shape[axis] if sample.ndim else 0
    if runs == 0:
        raise ValueError("values must hold at least one run, got none")
    mean = sample.mean(axis=axis)
    if runs == 1:
        unknown = mean * np.nan
        return Interval(mean, unknown, unknown, unknown)
    error = sample.std(axis=axis, ddof=1) / np.sqrt(runs)
    margin = stdtrit(runs - 1, (1 + level) / 2) * error
    return Interval(mean, error, mean - margin, mean + margin)


def paired_difference(a: Result, b: Result, level: float = 0.95) -> Interval[float]:
    """Subtract the final regret of `b` from that of `a`, paired run by run, with its interval.

    Results of one seed met the same problems (common random numbers), so the noise they share
    cancels and the interval is narrower than two separate ones suggest.
    """
    if a.runs != b.runs or a.horizon != b.horizon:
        raise ValueError(
            "a and b must have the same runs and horizon, "
            f"got {a.runs} runs to {a.horizon} and {b.runs} runs to {b.horizon}"
        )
    return Interval(*map(float, mean_interval(a.regret[:, -1] - b.regret[:, -1], level=level)))
