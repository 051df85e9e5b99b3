"""Means over runs and how far to trust them: intervals, paired differences, rates of growth."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import validation
from posse.lab.run_ranges import words
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from posse.lab.results import Result

T = TypeVar("T")

SIGNIFICANT = 0.05
# Of fewer runs nothing is claimed: Student's t leans on a normal law that regret does not have.
FEWEST_RUNS = 10
# The runs that a percentile needs, so that two of them lie beyond it.
RUNS_BEYOND = {95: 40, 99: 200}


class Estimate(NamedTuple, Generic[T]):
    """A mean, its standard error and the ends of its confidence interval."""

    mean: T
    standard_error: T
    low: T
    high: T


def mean_interval(
    values: ArrayLike, axis: int = 0, level: float = 0.95
) -> Estimate[NDArray[np.float64]]:
    """Average along an axis of independent runs, with its Student t interval.

    One run has a mean but no error: the other three are nan.
    """
    from scipy.special import stdtrit

    level = validation.validate_number("level", level, above=0, below=1)
    sample = np.asarray(values, dtype=np.float64)
    runs = sample.shape[axis] if sample.ndim else 0
    if runs == 0:
        raise ValueError("values must hold at least one run, got none")
    mean = sample.mean(axis=axis)
    if runs == 1:
        unknown = mean * np.nan
        return Estimate(mean, unknown, unknown, unknown)
    error = sample.std(axis=axis, ddof=1) / np.sqrt(runs)
    margin = stdtrit(runs - 1, (1 + level) / 2) * error
    return Estimate(mean, error, mean - margin, mean + margin)


class Growth(NamedTuple):
    """How regret grows: its slope against ln t, that of the later half, and how much it rose.

    rounds, late_rounds: the first and last round that each of the first two slopes is taken over.
    """

    slope: Estimate[float]
    late: Estimate[float]
    acceleration: Estimate[float]
    rounds: tuple[int, int]
    late_rounds: tuple[int, int]

    def is_logarithmic(self, least: float = 0.0) -> bool:
        """Whether regret grows no faster than ln t: its slope does not significantly rise.

        least: a slope that any algorithm reaches in the end (Lai and Robbins); below it a rising
        slope is no sign of faster growth.
        """
        rises = self.acceleration.low > 1e-9 * abs(self.slope.mean)  # not by rounding
        return not (rises and self.late.low > least)


def growth(result: Result, start: int | None = None, level: float = 0.95) -> Growth:
    """Fit regret = a + b ln t from round `start` on, run by run, with intervals over runs.

    `start` is a tenth of the horizon unless given. Logarithmic regret has the same slope in each
    half of ln t; the acceleration is the slope in the later half minus that in the earlier one.
    """
    start = max(1, result.horizon // 10) if start is None else start
    start = validation.validate_integer("start", start, at_least=1, at_most=result.horizon)
    kept = result.times >= start
    if kept.sum() < 4:
        raise ValueError(f"growth needs 4 recorded rounds from {start} on, got {kept.sum()}")
    x = np.log(result.times[kept])
    regret = result.regret[:, kept]
    late = x >= (x[0] + x[-1]) / 2
    if min(late.sum(), (~late).sum()) < 2:
        raise ValueError(f"growth needs recorded rounds early and late from {start} on")
    later = _slopes(x[late], regret[:, late])
    change = later - _slopes(x[~late], regret[:, ~late])
    slope, last, rise = (
        Estimate(*map(float, mean_interval(values, level=level)))
        for values in (_slopes(x, regret), later, change)
    )
    first = result.times[kept][0]
    middle = result.times[kept][late][0]
    end = result.horizon
    return Growth(slope, last, rise, (int(first), end), (int(middle), end))


def _slopes(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares slope of each run, weighted so that every stretch of x counts alike."""
    weights = np.gradient(x)
    centred = x - np.average(x, weights=weights)
    return np.asarray((y * centred * weights).sum(axis=1) / (centred**2 * weights).sum())


def p_value(interval: Estimate[float], runs: int) -> float:
    """The two-sided p-value of Student's t test that a mean over runs is zero."""
    from scipy.special import stdtr

    if not interval.standard_error > 0:
        return 1.0 if interval.mean == 0 else 0.0
    return float(2 * stdtr(runs - 1, -abs(interval.mean) / interval.standard_error))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for their number (Holm 1979): those below 5% are significant together."""
    p = validation.validate_array("p_values", p_values, 0, 1)
    order = np.argsort(p)
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def paired(
    a: FloatArray, b: FloatArray, level: float = 0.95
) -> tuple[Estimate[float], float | None]:
    """The mean of a - b over paired runs with its interval, and its p-value if runs allow one."""
    interval = Estimate(*map(float, mean_interval(a - b, level=level)))
    return interval, p_value(interval, len(a)) if len(a) >= FEWEST_RUNS else None


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction over those that are known."""
    known = [k for k, p in enumerate(p_values) if p is not None]
    found: list[float | None] = [None] * len(p_values)
    if known:
        corrected = holm([p for p in p_values if p is not None])
        for k, p in zip(known, corrected, strict=True):
            found[k] = float(p)
    return found


def paired_difference(a: Result, b: Result, level: float = 0.95) -> Estimate[float]:
    """Subtract the final regret of `b` from that of `a`, paired run by run, with its interval.

    Results of one seed met the same problems (common random numbers), so the noise they share
    cancels and the interval is narrower than two separate ones suggest. Across engines they share
    means and graphs but not rewards: the interval is as true but wider, and a warning says so.
    """
    if a.run_numbers != b.run_numbers or a.horizon != b.horizon:
        raise ValueError(
            f"a and b must have the same runs and horizon, got {words(a.run_numbers)} of "
            f"{a.horizon} rounds and {words(b.run_numbers)} of {b.horizon}"
        )
    if a.engine != b.engine:
        warnings.warn(
            f"a ran on the engine {a.engine!r} and b on {b.engine!r}: their runs share means and "
            "graphs but not rewards, so the interval is wider than with engine='reference' for "
            "both",
            stacklevel=2,
        )
    return paired(a.regret[:, -1], b.regret[:, -1], level)[0]


def percentile(regrets: FloatArray, percent: int) -> float | None:
    """A percentile of runs, where there are enough of them."""
    enough = len(regrets) >= RUNS_BEYOND[percent]
    return float(np.percentile(regrets, percent)) if enough else None


def of_agents(pulls: NDArray[np.int32], gaps: FloatArray) -> FloatArray:
    """Every agent's regret by its pulls (R, N, K) of arms that cost gaps (R, K): (R, N)."""
    return np.asarray(np.einsum("rnk,rk->rn", pulls, gaps))


def wrong_leader(pulls: NDArray[np.int32], gaps: FloatArray) -> float:
    """The share of runs in which the arm that was played most costs regret, by gaps (R, K)."""
    leader = pulls.sum(axis=1).argmax(axis=1)
    return float((gaps[np.arange(len(gaps)), leader] > 0).mean())


def on_front(costs: ArrayLike) -> NDArray[np.bool_]:
    """Which rows (n, 2) no other beats: none is as low in both columns and lower in one."""
    points = np.asarray(costs, dtype=np.float64)
    found = np.zeros(len(points), dtype=bool)
    best = np.inf
    at = np.inf
    for k in np.lexsort((points[:, 1], points[:, 0])):
        first, second = points[k]
        # equal points are all on it
        if second < best or (second == best and first == at):
            found[k] = True
            best = second
            at = first
    return found
