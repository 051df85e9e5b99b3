"""Curves over rounds: mean and 95% band, drawn by the page's script from embedded data."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import theory
from posse.bandits import Bandit
from posse.lab import plots
from posse.lab.atomic_files import atomic_write
from posse.lab.report.html import Html, render_element
from posse.lab.report.text import to_json
from posse.lab.results import Result
from posse.lab.statistics import mean_interval
from posse.randomness import FloatArray

Numbers = Sequence[float | None]  # None: unknown
MOST_POINTS = 500  # of a curve; a screen cannot show more


@dataclass(frozen=True)
class Curve:
    """The mean over runs and its 95% band at the rounds that are drawn."""

    name: str
    times: Sequence[int]
    mean: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class LeastSlope:
    """The slope of Lai and Robbins, and the name of its line in the chart."""

    slope: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Curves of one quantity, drawn where `place_chart` puts their figure.

    log: whether the axis of the quantity is logarithmic at first, since curves are far apart
    """

    id: str
    curves: Sequence[Curve]
    log: bool = False
    bound: LeastSlope | None = None
    quantity: str = "Regret per agent"


@dataclass(frozen=True)
class EmbeddedCharts:
    """The data that the script reads; curves take colours and dashes in turn.

    dashes: in line widths
    """

    charts: Sequence[Chart]
    colours: int = len(plots.COLOURS)
    dashes: Sequence[Sequence[float]] = plots.DASHES


def average_curve(name: str, times: NDArray[np.int64], values: FloatArray) -> Curve:
    """Average values (R, len(times)) over runs, with a 95% band."""
    # Thinning keeps the first and the last round, so that a curve ends at the final regret.
    columns = plots.choose_points(len(times), MOST_POINTS)
    mean, _, low, high = map(_round_numbers, mean_interval(values[:, columns]))
    return Curve(name, times[columns].tolist(), mean, low, high)


def chart_results(
    id_: str, results: Mapping[str, Result], bound: LeastSlope | None = None
) -> Chart | None:
    """Chart the regret of each result over time; None where only one round was recorded."""
    # One point is no curve.
    if any(len(result.times) == 1 for result in results.values()):
        return None
    curves = [average_curve(name, result.times, result.regret) for name, result in results.items()]
    # By final regrets, as in the printed figures, so that both have the same axes.
    wide = plots.is_wide([result.summary().mean for result in results.values()])
    return Chart(id_, curves, wide, bound)


def least_slope(bandit: Bandit, n_agents: int) -> LeastSlope | None:
    """Give the least slope of any consistent algorithm, where the means are fixed."""
    # The bound is a number of the problem: means that are drawn for each run, or drift, have none.
    lasting = isinstance(bandit.means, tuple) and bandit.drift is None
    if not lasting or not callable(getattr(bandit.family, "divergence", None)):
        return None
    slope = theory.lai_robbins(bandit, n_agents)
    if slope == 0:  # all arms are alike
        return None
    text = f"Lai-Robbins: no algorithm grows slower than {slope:.3g} ln t in the long run"
    return LeastSlope(slope, text)


def place_chart(chart: Chart) -> Html:
    """Render the place of a chart; a page draws its charts in the order of `render_document`."""
    return render_element("figure", data_chart=chart.id)


def embed_charts(charts: Sequence[Chart]) -> str:
    """Write the data of the charts as JSON for the script."""
    return to_json(EmbeddedCharts(charts))


def write_csv(curves: Sequence[Curve], path: Path) -> Path:
    """Write the drawn curves as a table: curve, round, mean regret per agent, 95% interval."""
    # newline="": the csv module writes the ends of lines itself.
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["curve", "round", "regret", "low", "high"])
        for curve in curves:
            rows = zip(curve.times, curve.mean, curve.low, curve.high, strict=True)
            writer.writerows([curve.name, *row] for row in rows)
    return path


def _round_numbers(values: Any) -> list[float | None]:
    """Round to five digits: more cannot be seen, and they would fill the page."""
    return [None if np.isnan(x) else float(f"{x:.5g}") for x in values]
