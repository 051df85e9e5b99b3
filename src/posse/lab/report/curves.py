"""Curves over rounds: the page's script draws them and reads their values to who points at them."""

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
from posse.lab.report.html import Html, element
from posse.lab.report.text import to_json
from posse.lab.results import Result
from posse.lab.statistics import mean_interval
from posse.randomness import FloatArray

Numbers = Sequence[float | None]  # None: unknown
POINTS = 500  # of a curve: a screen shows no more


@dataclass(frozen=True)
class Curve:
    """The mean over runs and its 95% band at the rounds shown."""

    name: str
    times: Sequence[int]
    mean: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class LeastSlope:
    """The slope of Lai and Robbins, and what the line in the chart is called."""

    slope: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Curves of one quantity, which the page draws where `place` puts its figure.

    log: whether curves are so far apart that the axis of the quantity begins logarithmic
    """

    id: str
    curves: Sequence[Curve]
    log: bool = False
    bound: LeastSlope | None = None
    quantity: str = "Regret per agent"


@dataclass(frozen=True)
class Drawn:
    """What the script reads; curve 0, 1, ... have so many colours, and these dashes, in turn.

    dashes: in line widths
    """

    charts: Sequence[Chart]
    colours: int = len(plots.COLOURS)
    dashes: Sequence[Sequence[float]] = plots.DASHES


def curve(name: str, times: NDArray[np.int64], values: FloatArray) -> Curve:
    """The mean of values (R, len(times)) over runs, with its 95% band."""
    shown = plots.choose_points(len(times), POINTS)
    mean, _, low, high = map(_short, mean_interval(values[:, shown]))
    return Curve(name, times[shown].tolist(), mean, low, high)


def of_results(
    id_: str, results: Mapping[str, Result], bound: LeastSlope | None = None
) -> Chart | None:
    """The regret of each result over time; None where only one round was recorded."""
    if any(len(result.times) == 1 for result in results.values()):
        return None
    drawn = [curve(name, result.times, result.regret) for name, result in results.items()]
    wide = plots.is_wide([result.summary().mean for result in results.values()])
    return Chart(id_, drawn, wide, bound)


def least_slope(bandit: Bandit, n_agents: int) -> LeastSlope | None:
    """The least slope of any consistent algorithm, where all runs have the same lasting means."""
    lasting = isinstance(bandit.means, tuple) and bandit.drift is None
    if not lasting or not callable(getattr(bandit.family, "divergence", None)):
        return None
    slope = theory.lai_robbins(bandit, n_agents)
    if slope == 0:  # all arms are alike
        return None
    text = f"Lai-Robbins: no algorithm grows slower than {slope:.3g} ln t in the long run"
    return LeastSlope(slope, text)


def place(chart: Chart) -> Html:
    """Where the chart is drawn; a page has its charts in the order that `document` is given."""
    return element("figure", data_chart=chart.id)


def embedded(charts: Sequence[Chart]) -> str:
    """What the script draws, in JSON."""
    return to_json(Drawn(charts))


def write_csv(curves: Sequence[Curve], path: Path) -> Path:
    """Write the drawn curves as a table: curve, round, mean regret per agent, 95% interval."""
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["curve", "round", "regret", "low", "high"])
        for each in curves:
            rows = zip(each.times, each.mean, each.low, each.high, strict=True)
            writer.writerows([each.name, *row] for row in rows)
    return path


def _short(values: Any) -> list[float | None]:
    """Numbers of five digits: more cannot be seen, and they would fill the page."""
    return [None if np.isnan(x) else float(f"{x:.5g}") for x in values]
