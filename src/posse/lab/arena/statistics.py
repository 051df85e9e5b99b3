"""What results of the arena show: ranks that admit doubt, and ratios over instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from posse.lab.statistics import SIGNIFICANT, Estimate, adjusted
from posse.randomness import FloatArray


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
