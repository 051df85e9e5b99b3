"""Statistics over runs: intervals, paired differences, Holm's correction, rates of growth."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import validation
from posse.lab.run_ranges import describe_runs
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from posse.lab.results import Result

T = TypeVar("T")

SIGNIFICANT = 0.05
# With fewer runs no p-value is given: Student's t test assumes normal means, which the skewed law
# of regret does not give for few runs.
FEWEST_RUNS = 10
# The fewest runs of a percentile, so that two runs lie beyond it.
RUNS_BEYOND = {95: 40, 99: 200}


class Estimate(NamedTuple, Generic[T]):
    """A mean, its standard error and the ends of its confidence interval."""

    mean: T
    standard_error: T
    low: T
    high: T

    def __repr__(self) -> str:
        """Show numbers in four digits: more of them is noise."""
        shown = (
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in zip(self._fields, self, strict=True)
        )
        return f"Estimate({', '.join(shown)})"


class PairedEstimate(Estimate[float]):
    """The estimate of a mean over paired runs: four numbers, and attributes beside them.

    runs: the number of pairs
    p_value: of Student's t test that the mean is 0; None for few runs
    """

    runs: int
    p_value: float | None

    def __repr__(self) -> str:
        """Show four digits, the p-value and the number of runs."""
        p = "None" if self.p_value is None else f"{self.p_value:.2g}"
        return f"{super().__repr__()[:-1]}, p_value={p}, runs={self.runs})"


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
    # The sample standard deviation (ddof=1) with Student's quantile gives exact coverage for
    # normal samples.
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
        rises = self.acceleration.low > 1e-9 * abs(self.slope.mean)  # rounding errors are no rise
        return not (rises and self.late.low > least)


def fit_growth(result: Result, start: int | None = None, level: float = 0.95) -> Growth:
    """Fit regret = a + b ln t from round `start` on, run by run, with intervals over runs.

    `start` is a tenth of the horizon unless given. Logarithmic regret has the same slope in each
    half of ln t; the acceleration is the slope in the later half minus that in the earlier one.
    """
    start = max(1, result.horizon // 10) if start is None else start
    start = validation.validate_integer("start", start, at_least=1, at_most=result.horizon)
    fitted = result.times >= start
    if fitted.sum() < 4:
        raise ValueError(f"growth needs 4 recorded rounds from {start} on, got {fitted.sum()}")
    x = np.log(result.times[fitted])
    regret = result.regret[:, fitted]
    late = x >= (x[0] + x[-1]) / 2
    if min(late.sum(), (~late).sum()) < 2:
        raise ValueError(f"growth needs recorded rounds early and late from {start} on")
    later = _fit_slopes(x[late], regret[:, late])
    change = later - _fit_slopes(x[~late], regret[:, ~late])
    slope, last, rise = (
        Estimate(*map(float, mean_interval(values, level=level)))
        for values in (_fit_slopes(x, regret), later, change)
    )
    first = result.times[fitted][0]
    middle = result.times[fitted][late][0]
    end = result.horizon
    return Growth(slope, last, rise, (int(first), end), (int(middle), end))


def _fit_slopes(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares slope of each run, weighted so that every stretch of x counts alike."""
    # Recorded rounds may be spaced anyhow on the axis of ln t: a round counts by the stretch around
    # it.
    weights = np.gradient(x)
    centred = x - np.average(x, weights=weights)
    return np.asarray((y * centred * weights).sum(axis=1) / (centred**2 * weights).sum())


def p_value(interval: Estimate[float], runs: int) -> float:
    """Give the two-sided p-value of Student's t test that a mean over runs is zero."""
    from scipy.special import stdtr

    if not interval.standard_error > 0:
        return 1.0 if interval.mean == 0 else 0.0
    return float(2 * stdtr(runs - 1, -abs(interval.mean) / interval.standard_error))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for their number (Holm 1979): those below 5% are significant together."""
    p = validation.validate_array("p_values", p_values, 0, 1)
    order = np.argsort(p)
    # The smallest p-value is multiplied by n, the next by n - 1, and so on; the running maximum
    # keeps their order.
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def compare_paired(
    a: FloatArray, b: FloatArray, level: float = 0.95
) -> tuple[Estimate[float], float | None]:
    """Give the mean of a - b over paired runs, with its interval and, for enough runs, p-value."""
    interval = Estimate(*map(float, mean_interval(a - b, level=level)))
    return interval, p_value(interval, len(a)) if len(a) >= FEWEST_RUNS else None


def correct_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's correction to the p-values that are not None."""
    places = [k for k, p in enumerate(p_values) if p is not None]
    corrected_values: list[float | None] = [None] * len(p_values)
    if places:
        corrected = holm([p for p in p_values if p is not None])
        for k, p in zip(places, corrected, strict=True):
            corrected_values[k] = float(p)
    return corrected_values


def paired_difference(a: Result, b: Result, level: float = 0.95) -> PairedEstimate:
    """Subtract the final regret of `b` from that of `a`, paired run by run, with its interval.

    Beside the four numbers it has `p_value` (of Student's t, None for few runs) and `runs`.

    Where the true means are unknown it subtracts rewards, and the better one has more.

    Results of one seed faced the same problems (common random numbers), so that shared noise
    cancels and the interval is narrower than two separate ones suggest. Across engines they share
    means and graphs but not rewards: the interval is valid but wider, and a warning says so.
    """
    if a.run_numbers != b.run_numbers or a.horizon != b.horizon:
        raise ValueError(
            f"a and b must have the same runs and horizon, got {describe_runs(a.run_numbers)} of "
            f"{a.horizon} rounds and {describe_runs(b.run_numbers)} of {b.horizon}"
        )
    if a.engine != b.engine:
        warnings.warn(
            f"a ran on the engine {a.engine!r} and b on {b.engine!r}: their runs share means and "
            "graphs but not rewards, so the interval is wider than with engine='reference' for "
            "both",
            stacklevel=2,
        )
    interval, p = compare_paired(a.curves[:, -1], b.curves[:, -1], level)
    difference = PairedEstimate(*interval)
    difference.runs = a.runs
    difference.p_value = p
    return difference


def tail_percentile(regrets: FloatArray, percent: int) -> float | None:
    """Give a percentile of runs, or None where there are too few of them."""
    enough = len(regrets) >= RUNS_BEYOND[percent]
    return float(np.percentile(regrets, percent)) if enough else None


def agent_regrets(pulls: NDArray[np.int32], gaps: FloatArray) -> FloatArray:
    """Compute the regret (R, N) of every agent from pulls (R, N, K) and gaps (R, K)."""
    return np.asarray(np.einsum("rnk,rk->rn", pulls, gaps))


def wrong_leader_share(pulls: NDArray[np.int32], gaps: FloatArray) -> float:
    """Give the share of runs whose most played arm is not a best one, by gaps (R, K)."""
    leader = pulls.sum(axis=1).argmax(axis=1)
    return float((gaps[np.arange(len(gaps)), leader] > 0).mean())


def find_pareto_front(costs: ArrayLike) -> NDArray[np.bool_]:
    """Mark the rows (n, 2) that no other dominates: as low in both columns and lower in one."""
    points = np.asarray(costs, dtype=np.float64)
    is_on_front = np.zeros(len(points), dtype=bool)
    best = np.inf
    best_first = np.inf
    for k in np.lexsort((points[:, 1], points[:, 0])):
        first, second = points[k]
        # Equal points do not dominate each other.
        if second < best or (second == best and first == best_first):
            is_on_front[k] = True
            best = second
            best_first = first
    return is_on_front
