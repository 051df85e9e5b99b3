"""The report of the paper as data, and the statistics behind it.

The first part lists every field that the page and report.json may read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posse.lab.paper.panels import PUBLISHED_ROUNDS, PanelOutcome
from posse.lab.report import (
    Chart,
    LeastSlope,
    Scoreboard,
    adjust_scoreboards,
    build_scoreboard,
    chart_results,
    compare_pairs,
    least_slope,
)
from posse.lab.results import Result
from posse.lab.statistics import Estimate, Growth, fit_growth, mean_interval


@dataclass(frozen=True)
class CurveGrowth:
    """How the regret of a curve grows at the end.

    slope:       regret per unit of ln t over the rounds that the panel names
    least_slope: the least that any consistent algorithm has in the long run (Lai and Robbins)
    growth:      one of the words in `analysis`
    """

    curve: str
    slope: Estimate[float]
    least_slope: float
    growth: str


@dataclass(frozen=True)
class PublishedValue:
    """A value read off a published figure beside ours; verdict: agrees, differs or undecided."""

    curve: str
    time: int
    published: float
    ours: float
    standard_error: float
    difference: float
    in_errors: float | None
    verdict: str


@dataclass(frozen=True)
class PanelReport:
    """Everything that the page shows of a panel.

    scoreboard:   final regrets of its curves, and paired differences of chosen curves after Holm's
                  correction over all panels of the report
    slope_rounds: the first and last round of the window that all slopes are taken over
    files:        those that can be downloaded, relative to the page
    """

    id: str
    figure: str
    title: str
    caption: str
    note: str | None
    runs: int
    engine: str
    seconds: float
    settings: str
    slope_rounds: tuple[int, int]
    chart: Chart
    scoreboard: Scoreboard
    growth: Sequence[CurveGrowth]
    published: Sequence[PublishedValue] = ()
    files: Sequence[str] = ()


@dataclass(frozen=True)
class ClaimReport:
    """A sentence of the paper, its verdict (one of those in `claims`) and the evidence for it."""

    figure: str
    claim: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class PaperProvenance:
    """How a report of the paper was computed."""

    mode: str
    variant: str
    seed: int
    seconds: float
    versions: Mapping[str, str]
    machine: str


@dataclass(frozen=True)
class PaperReport:
    """A reproduction of the paper: its claims and its panels."""

    title: str
    summary: PaperProvenance
    claims: Sequence[ClaimReport]
    panels: Sequence[PanelReport]


# Statistics of the paper's panels: growth of regret, agreement with published values,
# scoreboards.
#
# All slopes are over one window: the later half of ln t, from a tenth of the horizon on.

LOGARITHMIC = "logarithmic"
FASTER = "faster than logarithmic"
UNDECIDED = "undecided"
BELOW = "below the Lai-Robbins line"
WHY_BELOW = (
    "A slope below the Lai-Robbins line cannot last: in the long run no algorithm that learns on "
    "every problem stays below it. These rounds are too few to show that: agents on a network that "
    "mixes slowly have explored more than they had to by then, and nothing is left to learn until "
    "ln t has grown."
)

# Slopes of the two halves that differ by less than this share count as one slope. Regret like
# t^0.25 would show 0.28, like the square root of t 0.57.
SAME_SLOPE = 0.25


def classify_growth(fit: Growth, least: float) -> str:
    """Classify the growth of a curve by 95% intervals.

    least: the slope of Lai and Robbins. Significantly below it no rate is known; a slope that
    significantly rises is faster than ln t; one whose rise is surely less than SAME_SLOPE is
    logarithmic; between these the runs do not decide.
    """
    # First of all: below the bound the rounds are too few for any rate.
    if fit.late.high < least:
        return BELOW
    if not fit.is_logarithmic(least):
        return FASTER
    if fit.acceleration.high <= SAME_SLOPE * fit.slope.mean:
        return LOGARITHMIC
    return UNDECIDED


def slope_window(result: Result) -> tuple[int, int]:
    """Give the first and last round of the window of slopes."""
    return fit_growth(result).late_rounds


# Values read off the authors' figures, to 0.05, and whether ours agree with them.

AGREES = "agrees"
DIFFERS = "differs"
AGREEMENT_UNDECIDED = "undecided"

# dec-TS on 17 Gaussian arms, regret per agent at PUBLISHED_ROUNDS, means over so many runs:
PUBLISHED_RUNS = 1000
PUBLISHED_VALUES = {
    "cycle 36": (7.8, 10.6, 11.7, 12.4, 13.1, 13.8),
    "cycle 64": (7.3, 9.4, 9.7, 9.9, 10.0, 10.2),
    "cycle 100": (7.3, 8.7, 8.9, 8.9, 8.9, 8.9),
    "complete 64": (4.2, 4.9, 5.6, 6.3, 7.0, 7.8),
    "grid 64, published matrix": (8.4, 13.0, 14.9, 15.0, 15.1, 15.1),
}
# Reading a curve adds this much; the time axis of the figures may be one round off, which counts
# while regret still rises steeply.
READING_ERROR = 0.1
EARLY_READING_ERROR = 0.3
# Intervals of three standard errors: of 30 values one in a dozen reports would differ by chance.
STANDARD_ERRORS = 3
# An interval that is wider to each side than this share of the value tells nothing.
WIDE_SHARE = 0.1


def compare_published(outcome: PanelOutcome) -> list[PublishedValue]:
    """Compare published values with ours; theirs have the error of ours at 1000 runs."""
    rows = []
    for name, values in PUBLISHED_VALUES.items():
        if name not in outcome.results:
            continue
        result = outcome.results[name]
        # The authors' runs had their own noise, of which only the number of runs is known: their
        # standard error is taken as ours, scaled to 1000 runs.
        mean, error, _, _ = mean_interval(result.regret)
        for time, value in zip(PUBLISHED_ROUNDS, values, strict=True):
            (column,) = (result.times == time).nonzero()[0]
            ours = float(mean[column])
            standard_error = float(error[column])
            both = standard_error * math.sqrt(1 + result.runs / PUBLISHED_RUNS)
            reading = EARLY_READING_ERROR if time < PUBLISHED_ROUNDS[1] else READING_ERROR
            rows.append(
                PublishedValue(
                    curve=name,
                    time=time,
                    published=value,
                    ours=ours,
                    standard_error=standard_error,
                    difference=ours - value,
                    in_errors=(ours - value) / both if both > 0 else None,
                    verdict=_judge_agreement(
                        ours - value, STANDARD_ERRORS * both, reading, WIDE_SHARE * value
                    ),
                )
            )
    return rows


def summarise_agreement(rows: Sequence[PublishedValue], runs: int) -> str:
    """Say how many published values agree, at how many runs, and which do not."""
    agree = sum(row.verdict == AGREES for row in rows)
    text = f"{agree} of {len(rows)} published values agree with ours at {runs:,} runs"
    for verdict in (DIFFERS, AGREEMENT_UNDECIDED):
        places = [f"{row.curve} at t = {row.time}" for row in rows if row.verdict == verdict]
        if places:
            text += f"; {verdict}: {', '.join(places)}"
    return text


def _judge_agreement(difference: float, margin: float, reading: float, wide: float) -> str:
    """Judge by the interval: it differs if all of it is farther off than the reading error."""
    if abs(difference) > reading + margin:
        return DIFFERS
    return AGREES if margin <= wide else AGREEMENT_UNDECIDED


# The numbers of a panel: scoreboards and growth.


def score_panels(outcomes: Mapping[str, PanelOutcome]) -> dict[str, Scoreboard]:
    """Score the curves of each panel, and compare the pairs that the panel names.

    Holm's correction is over the pairs of all panels together.
    """
    scoreboards = adjust_scoreboards([score_panel(outcome) for outcome in outcomes.values()])
    return dict(zip(outcomes, scoreboards, strict=True))


def score_panel(outcome: PanelOutcome) -> Scoreboard:
    """Score the curves of one panel, before any correction of its pairs."""
    regrets = {name: result.regret[:, -1] for name, result in outcome.results.items()}
    # Means are drawn anew in each run of some panels, so gaps come from the panel's bandit.
    scoreboard = build_scoreboard(
        outcome.results,
        pairs=compare_pairs(regrets, outcome.panel.pairs_to_compare(), fewest_runs=2),
        gaps={name: outcome.gaps_of(name) for name in outcome.results},
    )
    # The paper's table has a 95th percentile whatever the number of runs.
    rows = []
    for row in scoreboard.rows:
        percentile_95 = float(np.percentile(regrets[row.algorithm], 95))
        rows.append(replace(row, tail=replace(row.tail, percentile_95=percentile_95)))
    return replace(scoreboard, rows=rows)


def measure_growth(outcome: PanelOutcome) -> list[CurveGrowth]:
    """Measure how each curve grows at the end, beside the least slope in the long run."""
    rows = []
    for name, result in outcome.results.items():
        fit = fit_growth(result)
        least_slope = outcome.least_slope(name)
        rows.append(CurveGrowth(name, fit.late, least_slope, classify_growth(fit, least_slope)))
    return rows


def shared_least_slope(outcome: PanelOutcome) -> LeastSlope | None:
    """Give the least slope of any consistent algorithm, if all curves share N and means."""
    # The bound falls with the number of agents: one line cannot serve curves of several N.
    sizes = {result.n_agents for result in outcome.results.values()}
    return least_slope(outcome.panel.bandit, *sizes) if len(sizes) == 1 else None


def build_panel_report(
    id_: str,
    outcome: PanelOutcome,
    scoreboard: Scoreboard,
    seconds: float,
    settings: str,
    files: Sequence[str] = (),
) -> PanelReport:
    """Build the report of a panel."""
    panel = outcome.panel
    first = next(iter(outcome.results.values()))
    chart = chart_results(id_, outcome.results, shared_least_slope(outcome))
    assert chart is not None  # panels record many rounds
    return PanelReport(
        id=id_,
        figure=panel.figure,
        title=panel.title,
        caption=panel.caption,
        note=panel.note or None,
        runs=first.runs,
        engine=first.engine,
        seconds=seconds,
        settings=settings,
        slope_rounds=slope_window(first),
        chart=chart,
        scoreboard=scoreboard,
        growth=measure_growth(outcome),
        published=compare_published(outcome) if id_ == "published" else (),
        files=files,
    )
