"""Measures: what an experiment measures beside the rewards of its arms, and acts on no belief by.

A holdout is a share of visitors who get the control arm, for the uplift: what the bandit earns
beyond that arm. A metric is a further number of a decision, such as a latency, perhaps with a
limit (a guardrail).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posse import validation
from posse.live.ledger import MOST_ARMS, name_side_row

SIDES = ("bandit", "control")
UPLIFT = "uplift"  # the first part of the name of a side row
METRIC = "metric"
BUCKETS = 32  # of visitors, on each side of an uplift
LARGEST_HOLDOUT = 0.5
MOST_METRICS = 20
LONGEST_ARM = 150  # characters, where there are metrics: a row is named by both
WORSE = ("higher", "lower")
METRIC_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
RELATIVE = re.compile(r"([+-])(\d+(?:\.\d+)?)%")
METRIC_KEYS = ("range", "worse", "limit")
EXAMPLE = '{range = [0, 10000], worse = "higher", limit = 300}'


@dataclass(frozen=True)
class Metric:
    """A number of every decision: its range, and a limit that no arm's mean should exceed.

    worse: "higher" or "lower", which is needed for a limit. limit: a number, or relative to the
    control arm such as "+5%".
    """

    name: str
    range: tuple[float, float]
    worse: str | None = None
    limit: float | str | None = None

    def __post_init__(self) -> None:
        label = f"metrics.{self.name}"
        low, high = (validation.validate_number(f"{label}.range", end) for end in self.range)
        if not low < high:
            raise ValueError(f"{label}.range must be two rising numbers, got [{low:g}, {high:g}]")
        if self.worse is not None:
            validation.validate_choice(f"{label}.worse", self.worse, WORSE)
        if self.limit is None:
            return
        if self.worse is None:
            raise ValueError(f'{label}.limit needs worse = "higher" or worse = "lower"')
        if isinstance(self.limit, str):
            self._check_relative_limit(label)
            return
        validation.validate_number(f"{label}.limit", self.limit, at_least=low, at_most=high)

    def _check_relative_limit(self, label: str) -> None:
        sign = "+" if self.worse == "higher" else "-"
        matched = RELATIVE.fullmatch(str(self.limit))
        if matched is None or matched[1] != sign:
            raise ValueError(
                f'{label}.limit must be a number, or text such as "{sign}5%", got '
                f"{validation.format_value(self.limit)}"
            )
        if self.range[0] < 0:
            raise ValueError(
                f"{label}.limit = {self.limit!r} needs a range that begins at 0 or above"
            )

    @property
    def relative_limit(self) -> float | None:
        """The share by which a mean may differ from the control arm's; None: the limit is none."""
        if not isinstance(self.limit, str):
            return None
        return float(self.limit.rstrip("%")) / 100

    @property
    def scale(self) -> float:
        """The number that a value is divided by: the largest."""
        return max(abs(end) for end in self.range)

    def validate_value(self, value: Any) -> float:
        """Return a value within the range, or refuse it with one sentence."""
        return float(
            validation.validate_number(
                f"metrics.{self.name}", value, at_least=self.range[0], at_most=self.range[1]
            )
        )


@dataclass(frozen=True)
class Measures:
    """A control arm, the share of visitors who get it (the holdout), and metrics."""

    control_arm: str | None = None
    holdout: float | None = None
    metrics: tuple[Metric, ...] = ()

    def __post_init__(self) -> None:
        if self.holdout is not None:
            validation.validate_number("holdout", self.holdout, above=0, at_most=LARGEST_HOLDOUT)
            if self.control_arm is None:
                raise ValueError("holdout needs control_arm: the arm that these visitors get")
        if len(self.metrics) > MOST_METRICS:
            raise ValueError(f"metrics must be at most {MOST_METRICS}, got {len(self.metrics)}")
        for metric in self.metrics:
            if metric.relative_limit is not None and self.control_arm is None:
                raise ValueError(
                    f"metrics.{metric.name}.limit = {metric.limit!r} needs control_arm: the arm "
                    "that others are compared with"
                )

    def __bool__(self) -> bool:
        """Whether anything is measured."""
        return self.holdout is not None or bool(self.metrics)

    def check_arms(self, arms: Sequence[str]) -> None:
        """Refuse arms that do not go with these measures, with one sentence."""
        if self.control_arm is not None and self.control_arm not in arms:
            validation.validate_choice("control_arm", self.control_arm, arms)
        if self.metrics and max(map(len, arms)) > LONGEST_ARM:
            raise ValueError(f"arms must have at most {LONGEST_ARM} characters where metrics are")
        rows = len(arms) + len(self.name_rows(arms))
        if rows > MOST_ARMS:
            raise ValueError(
                f"{len(arms)} arms with {len(self.metrics)} metrics are {rows} rows, at most "
                f"{MOST_ARMS}: measure less, or play fewer arms"
            )

    def name_rows(self, arms: Sequence[str]) -> list[str]:
        """Return the names of all side rows of an experiment with these arms."""
        names = [name_metric_row(metric.name, arm) for metric in self.metrics for arm in arms]
        if self.holdout is not None:
            names += map(name_bucket_row, range(-BUCKETS, BUCKETS))
        return names

    def fingerprint_terms(self) -> dict[str, float | str | None]:
        """Return what must be equal at all agents of an experiment."""
        terms: dict[str, float | str | None] = {}
        if self.holdout is not None:
            terms |= {"holdout": self.holdout, "control_arm": self.control_arm}
        for metric in self.metrics:
            low, high = metric.range
            terms[f"metric {metric.name}"] = f"{low:.12g} {high:.12g}"
        return terms

    def validate_metrics(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return the values of metrics of one decision, or refuse them with one sentence."""
        by_name = {metric.name: metric for metric in self.metrics}
        if not by_name:
            raise ValueError("metrics must be left out: this experiment has none")
        if not values:
            raise ValueError(f"metrics must have at least one of {', '.join(by_name)}")
        for name in values:
            validation.validate_choice("metrics: key", name, list(by_name))
        return {name: by_name[name].validate_value(value) for name, value in values.items()}


def read_metrics(data: Any) -> tuple[Metric, ...]:
    """Read metrics from a table of tables by name."""
    if not isinstance(data, Mapping):
        raise ValueError(
            f"metrics must be tables such as [metrics.latency], got {validation.format_value(data)}"
        )
    return tuple(_read_metric(name, table) for name, table in data.items())


def _read_metric(name: str, table: Any) -> Metric:
    if not METRIC_NAME.fullmatch(name):
        raise ValueError(
            f"metrics: a name must be 1 to 40 small letters, digits or _ and begin with a letter, "
            f"got {validation.format_value(name)}"
        )
    if not isinstance(table, Mapping):
        got = validation.format_value(table)
        raise ValueError(f"metrics.{name} must be a table such as {EXAMPLE}, got {got}")
    for key in table:
        validation.validate_choice(f"metrics.{name}: key", key, METRIC_KEYS)
    ends = table.get("range")
    if not isinstance(ends, list) or len(ends) != 2:
        raise ValueError(
            f"metrics.{name}.range must be the lowest and the highest value, such as [0, 10000], "
            f"got {validation.format_value(ends)}"
        )
    limit = table.get("limit")
    if isinstance(limit, bool) or not isinstance(limit, int | float | str | None):
        raise ValueError(
            f"metrics.{name}.limit must be a number or text, got {validation.format_value(limit)}"
        )
    return Metric(name, (ends[0], ends[1]), table.get("worse"), limit)


def name_metric_row(metric: str, arm: str) -> str:
    """Return the name of the side row of a metric of an arm."""
    return name_side_row(METRIC, metric, arm)


def name_bucket_row(bucket: int) -> str:
    """Return the name of the side row of a bucket: below 0 are those of the holdout."""
    side, number = (SIDES[1], -1 - bucket) if bucket < 0 else (SIDES[0], bucket)
    return name_side_row(UPLIFT, f"{side} {number}")
