"""Side sums of an agent: observations of holdouts and metrics, and what they show.

They are exact sums over closed decisions of all agents (side rows, in
`posse.live.ledger`). Visits of one visitor are not independent, so the uplift is
summed in buckets of visitors, and its interval comes from the spread between buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.confidence_sequences import bounded_mean_interval, cluster_difference_interval
from posse.live.agent.evidence import Evidence
from posse.live.agent.measures import (
    BUCKETS,
    METRIC,
    SIDES,
    UPLIFT,
    Measures,
    Metric,
    name_bucket_row,
    name_metric_row,
)
from posse.live.agent.rendezvous_hashing import VisitorHash
from posse.live.exchange import Exchange
from posse.live.ledger import NO_CELL, PER_UNIT, Cell
from posse.randomness import FloatArray

ERROR = 0.05  # of the interval of the uplift, and of all intervals of one metric together
LEAST_CLOSED = 100  # closed decisions of each side, before there is an interval
LEAST_BUCKETS = 8  # with decisions, on each side

Cells = Mapping[tuple[str, ...], Cell]


@dataclass(frozen=True)
class UpliftSide:
    """The closed decisions of one side, and their mean reward; None if there are none."""

    decisions: int
    mean: float | None


@dataclass(frozen=True)
class Uplift:
    """What the bandit earned beyond the control arm, on average over closed decisions so far.

    low, high: a 95% interval that is valid however often one looks; null while there are too few
    decisions on a side. sentence: all of it for people.
    """

    control_arm: str
    holdout: float
    bandit: UpliftSide
    control: UpliftSide
    uplift: float | None
    low: float | None
    high: float | None
    sentence: str


@dataclass(frozen=True)
class MetricStatus:
    """A metric of an arm: its mean with an interval that is valid at every look, and its limit.

    limit: the number that the mean should not cross, which for a relative limit follows the control
    arm's interval; null if there is none. breached: whether the whole interval is beyond the limit.
    """

    metric: str
    arm: str
    decisions: int
    mean: float | None
    low: float | None
    high: float | None
    limit: float | None
    breached: bool
    sentence: str


class SideSums:
    """Collects what an experiment measures, and reports it."""

    def __init__(
        self,
        measures: Measures,
        exchange: Exchange,
        evidence: Evidence,
        visitor_hash: VisitorHash,
    ) -> None:
        self.measures = measures
        self._exchange = exchange
        self._visitor_hash = visitor_hash
        self._scale = evidence.scale
        self._largest = max(abs(end) for end in evidence.reward_range)
        self._metrics = {metric.name: metric for metric in measures.metrics}

    @staticmethod
    def largest_observation(evidence: Evidence) -> float:
        """Return the largest observation of a side row: of a reward, or 1, that of a metric."""
        return max(1.0, max(abs(end) for end in evidence.reward_range) / evidence.scale)

    # ---- observations

    def assign_bucket(self, key: str, playable: Sequence[str]) -> int | None:
        """Return the bucket of a visitor (or of a decision without one), None if it is in neither.

        The buckets of the bandit are 0, 1, 2 ..., those of the holdout -1, -2, -3 ... Where the
        control arm may not be played, there is nothing to compare with.
        """
        holdout = self.measures.holdout
        if holdout is None or self.measures.control_arm not in playable:
            return None
        bucket = int(self._visitor_hash.uniform(key, UPLIFT, "bucket") * BUCKETS)
        held_out = self._visitor_hash.uniform(key, UPLIFT, "side") < holdout
        return -1 - bucket if held_out else bucket

    def row_names(self, arm: str, bucket: int | None) -> list[str]:
        """Return the side rows to which a decision may add."""
        names = [name_metric_row(name, arm) for name in self._metrics]
        return names if bucket is None else [*names, name_bucket_row(bucket)]

    def observe_reward(self, bucket: int, reward: float, incarnation: int) -> None:
        """Add the final reward of a decision to its bucket."""
        cell = (
            int(reward / self._scale * PER_UNIT),
            int((reward / self._largest) ** 2 * PER_UNIT),
            PER_UNIT,
        )
        self._exchange.observe_side(name_bucket_row(bucket), cell, incarnation)

    def observe_metrics(self, arm: str, values: Mapping[str, float], incarnation: int) -> None:
        """Add metrics of a decision for an arm."""
        for name, value in values.items():
            y = value / self._metrics[name].scale
            cell = (int(y * PER_UNIT), int(y * y * PER_UNIT), PER_UNIT)
            self._exchange.observe_side(name_metric_row(name, arm), cell, incarnation)

    # ---- reports

    def report_uplift(self, lock: AbstractContextManager[Any]) -> Uplift:
        """Compare the bandit with the control arm; needs a holdout."""
        with lock:
            cells = self._exchange.side_cells()
        arm = self.measures.control_arm
        holdout = self.measures.holdout
        assert arm is not None
        assert holdout is not None
        tables = [self._read_buckets(cells, side) for side in range(len(SIDES))]
        sides = [_describe_side(counts, sums) for counts, sums, _ in tables]
        uplift = low = high = None
        if all(side.mean is not None for side in sides):
            (n1, s1, q1), (n0, s0, q0) = tables
            total = n1.sum() + n0.sum()
            mean = (s1.sum() + s0.sum()) / total
            variance = max(0.0, float((q1.sum() + q0.sum()) / total - mean**2))
            ends = cluster_difference_interval((n1, s1), (n0, s0), variance, ERROR)
            uplift = ends[0]
            enough = all(
                n.sum() >= LEAST_CLOSED and (n > 0).sum() >= LEAST_BUCKETS for n in (n1, n0)
            )
            if enough and np.isfinite(ends).all():
                low, high = ends[1:]
        sentence = _describe_uplift(arm, sides, uplift, low, high)
        return Uplift(arm, holdout, sides[0], sides[1], uplift, low, high, sentence)

    def _read_buckets(self, cells: Cells, side: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return counts, sums and sums of squares of the buckets of a side, (B,) each."""
        names = (f"{SIDES[side]} {number}" for number in range(BUCKETS))
        rows = np.array([cells.get((UPLIFT, name), NO_CELL) for name in names], dtype=float)
        rows /= PER_UNIT
        return rows[:, 2], rows[:, 0] * self._scale, rows[:, 1] * self._largest**2

    def report_metrics(
        self, arms: Sequence[str], lock: AbstractContextManager[Any]
    ) -> list[MetricStatus]:
        """Describe every metric of every arm, and which limits are breached."""
        with lock:
            cells = self._exchange.side_cells()
        return [
            status
            for metric in self.measures.metrics
            for status in self._report_metric(metric, arms, cells)
        ]

    def _report_metric(
        self, metric: Metric, arms: Sequence[str], cells: Cells
    ) -> list[MetricStatus]:
        # one error for all arms of a metric: a guardrail watches them all
        error = ERROR / max(1, len(arms))
        rows = {
            arm: [part / PER_UNIT for part in cells.get((METRIC, metric.name, arm), NO_CELL)]
            for arm in arms
        }
        intervals = {
            arm: bounded_mean_interval(
                count, total * metric.scale, squares * metric.scale**2, metric.range, error
            )
            for arm, (total, squares, count) in rows.items()
        }
        return [
            _judge_metric(
                metric, arm, row, intervals[arm], self._find_limit(metric, arm, intervals)
            )
            for arm, row in rows.items()
        ]

    def _find_limit(
        self, metric: Metric, arm: str, intervals: Mapping[str, tuple[float, float]]
    ) -> float | None:
        """Return the number that the mean of an arm should not cross."""
        share = metric.relative_limit
        if share is None:
            assert not isinstance(metric.limit, str)
            return metric.limit
        control = self.measures.control_arm
        if control is None or arm == control or control not in intervals:
            return None
        low, high = intervals[control]
        return (high if metric.worse == "higher" else low) * (1.0 + share)


def _judge_metric(
    metric: Metric,
    arm: str,
    row: Sequence[float],
    interval: tuple[float, float],
    limit: float | None,
) -> MetricStatus:
    total, _, count = row
    if count == 0:
        sentence = f"{arm} has no {metric.name} yet"
        return MetricStatus(metric.name, arm, 0, None, None, None, limit, False, sentence)
    mean = total * metric.scale / count
    low, high = interval
    breached = limit is not None and (low > limit if metric.worse == "higher" else high < limit)
    sentence = f"{metric.name} of {arm} is {mean:.4g}, between {low:.4g} and {high:.4g}"
    if breached:
        side = "above" if metric.worse == "higher" else "below"
        sentence += f", {side} its limit of {limit:.4g}: consider `posse pause {arm}`"
    return MetricStatus(metric.name, arm, round(count), mean, low, high, limit, breached, sentence)


def _describe_side(counts: FloatArray, sums: FloatArray) -> UpliftSide:
    count = float(counts.sum())
    return UpliftSide(round(count), float(sums.sum()) / count if count else None)


def _describe_uplift(
    arm: str,
    sides: Sequence[UpliftSide],
    uplift: float | None,
    low: float | None,
    high: float | None,
) -> str:
    """Say in one sentence what the bandit earned."""
    if uplift is None:
        empty = next(name for name, side in zip(SIDES, sides, strict=True) if side.mean is None)
        return f"no uplift yet: there is no closed decision of the {empty} side"
    sentence = f"the bandit earned {uplift:+.4g} a decision compared with {arm}"
    if low is None or high is None:
        return (
            f"{sentence}, by too few decisions for an interval: {sides[0].decisions:,} of the "
            f"bandit and {sides[1].decisions:,} of {arm}"
        )
    return f"{sentence}, between {low:+.4g} and {high:+.4g} (95%, valid at every look)"
