"""What results of the arena show: ranks that admit doubt, ratios, tails and a Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse.lab.statistics import Estimate, holm, mean_interval, p_value
from posse.randomness import FloatArray

SIGNIFICANT = 0.05
# Of fewer runs nothing is claimed: Student's t leans on a normal law that regret does not have.
FEWEST_RUNS = 10
# The runs that a percentile needs, so that two of them lie beyond it.
RUNS_BEYOND = {95: 40, 99: 200}


def percentile(regrets: FloatArray, percent: int) -> float | None:
    """A percentile of runs, where there are enough of them."""
    enough = len(regrets) >= RUNS_BEYOND[percent]
    return float(np.percentile(regrets, percent)) if enough else None


def paired(a: FloatArray, b: FloatArray) -> tuple[Estimate[float], float | None]:
    """The mean of a - b over paired runs with its interval, and its p-value if runs allow one."""
    interval = Estimate(*map(float, mean_interval(a - b)))
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


class Order(NamedTuple):
    """Who is better than whom beyond doubt, by name."""

    rank: Mapping[str, int]  # 1 + those that are better
    shared: Mapping[str, float]  # the same, ranks of undecided ties shared


def order(
    names: Sequence[str], p_better: Mapping[tuple[str, str], tuple[float, float | None]]
) -> Order:
    """Ranks from (difference a - b, its p-value) of every pair (a, b), after Holm's correction.

    Shared ranks count half of those of whom it is not known who is better.
    """
    above = dict.fromkeys(names, 0)
    doubtful = dict.fromkeys(names, 0)
    corrected = adjusted([p for _, p in p_better.values()])
    for ((a, b), (difference, _)), p in zip(p_better.items(), corrected, strict=True):
        if p is not None and p < SIGNIFICANT:
            above[a if difference > 0 else b] += 1
        else:
            doubtful[a] += 1
            doubtful[b] += 1
    rank = {name: 1 + above[name] for name in names}
    return Order(rank, {name: rank[name] + doubtful[name] / 2 for name in names})


class LogRatio(NamedTuple):
    """The logarithm of a ratio of mean regrets and its variance, by the delta method."""

    value: float
    variance: float
    runs: int  # that it was estimated from


def log_ratio(a: FloatArray, b: FloatArray) -> LogRatio | None:
    """ln(mean a / mean b) of paired runs; None where one of the means is not above 0."""
    mean_a, mean_b = float(a.mean()), float(b.mean())
    if not (mean_a > 0 and mean_b > 0):
        return None
    moves = a / mean_a - b / mean_b
    variance = float(moves.var(ddof=1) / len(moves)) if len(moves) > 1 else np.nan
    return LogRatio(float(np.log(mean_a / mean_b)), variance, len(moves))


def mean_log_ratio(ratios: Sequence[LogRatio]) -> tuple[Estimate[float], float]:
    """Average log-ratios of independent instances: its interval and p-value of no difference.

    By Student's t with Satterthwaite's degrees of freedom: a few instances of few runs know their
    variances badly, and a normal law would claim far too much.
    """
    from scipy.special import stdtr, stdtrit

    value = float(np.mean([ratio.value for ratio in ratios]))
    variance = sum(ratio.variance for ratio in ratios)
    error = float(np.sqrt(variance)) / len(ratios)
    if not error > 0:  # nan where there is but one run
        return Estimate(value, error, value - error, value + error), float(value == 0)
    freedom = variance**2 / sum(ratio.variance**2 / (ratio.runs - 1) for ratio in ratios)
    margin = float(stdtrit(freedom, 0.975)) * error
    p = float(2 * stdtr(freedom, -abs(value) / error))
    return Estimate(value, error, value - margin, value + margin), p


def on_front(costs: ArrayLike) -> NDArray[np.bool_]:
    """Which rows (n, 2) no other beats: none is as low in both columns and lower in one."""
    points = np.asarray(costs, dtype=np.float64)
    found = np.zeros(len(points), dtype=bool)
    best, at = np.inf, np.inf
    for k in np.lexsort((points[:, 1], points[:, 0])):
        first, second = points[k]
        # equal points are all on it
        if second < best or (second == best and first == at):
            found[k] = True
            best, at = second, first
    return found
