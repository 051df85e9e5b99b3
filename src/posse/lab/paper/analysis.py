"""How regret grows at the end of a panel: like ln t, faster, or slower than anything can for long.

A slope is taken over one window everywhere, the later half of ln t from a tenth of the horizon on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from posse.lab.paper.panels import PUBLISHED_ROUNDS, Outcome
from posse.lab.paper.report_data import Difference, Final, PanelReport, PublishedValue
from posse.lab.report.curves import LeastSlope, least_slope, of_results
from posse.lab.results import Result
from posse.lab.statistics import (
    SIGNIFICANT,
    Growth,
    agent_regrets,
    fit_growth,
    holm,
    mean_interval,
    p_value,
    paired_difference,
    wrong_leader_share,
)

LOGARITHMIC = "logarithmic"
FASTER = "faster than logarithmic"
UNDECIDED = "undecided"
BELOW = "below the Lai-Robbins line"
WHY_BELOW = (
    "A slope below the Lai-Robbins line cannot last: in the long run no algorithm that learns on "
    "every problem stays below it. These rounds are too few to show that; and where beliefs are "
    "surer than their evidence allows, as merged ones are, agents explore less than they must."
)

# Slopes of the two halves that differ by less than this share count as one slope. Regret like
# t^0.25 would show 0.28, like the square root of t 0.57.
SAME_SLOPE = 0.25


def rate(fit: Growth, least: float) -> str:
    """The word for a curve, each decided by 95% intervals.

    least: the slope of Lai and Robbins. Significantly below it no rate can be told; a slope that
    significantly rises is faster than ln t; one whose rise is surely less than SAME_SLOPE is
    logarithmic; between these the runs do not decide.
    """
    if fit.late.high < least:
        return BELOW
    if not fit.is_logarithmic(least):
        return FASTER
    if fit.acceleration.high <= SAME_SLOPE * fit.slope.mean:
        return LOGARITHMIC
    return UNDECIDED


def window(result: Result) -> tuple[int, int]:
    """The first and last round of the window of slopes."""
    return fit_growth(result).late_rounds


# Values read off the authors' figures, to 0.05, and whether ours agree with them.

AGREES = "agrees"
DIFFERS = "differs"
AGREEMENT_UNDECIDED = "undecided"

# dec-TS on 17 Gaussian arms, regret per agent at PUBLISHED_ROUNDS, means over so many runs:
RUNS = 1000
VALUES = {
    "cycle 36": (7.8, 10.6, 11.7, 12.4, 13.1, 13.8),
    "cycle 64": (7.3, 9.4, 9.7, 9.9, 10.0, 10.2),
    "cycle 100": (7.3, 8.7, 8.9, 8.9, 8.9, 8.9),
    "complete 64": (4.2, 4.9, 5.6, 6.3, 7.0, 7.8),
    "grid 64, published matrix": (8.4, 13.0, 14.9, 15.0, 15.1, 15.1),
}
# Reading a curve adds this much; the time axis of the figures may be one round off, which counts
# while regret still rises steeply.
READING = 0.1
READING_EARLY = 0.3
# Intervals of three standard errors: of 30 values one in a dozen reports would differ by chance.
ERRORS = 3
# An interval that is wider to each side than this share of the value tells nothing.
WIDE = 0.1


def compare(outcome: Outcome) -> list[PublishedValue]:
    """Each published value beside ours; theirs has the error of ours at 1000 runs."""
    rows = []
    for name, values in VALUES.items():
        if name not in outcome.results:
            continue
        result = outcome.results[name]
        mean, error, _, _ = mean_interval(result.regret)
        for time, value in zip(PUBLISHED_ROUNDS, values, strict=True):
            (column,) = (result.times == time).nonzero()[0]
            ours = float(mean[column])
            standard_error = float(error[column])
            both = standard_error * math.sqrt(1 + result.runs / RUNS)
            reading = READING_EARLY if time < PUBLISHED_ROUNDS[1] else READING
            rows.append(
                PublishedValue(
                    curve=name,
                    time=time,
                    published=value,
                    ours=ours,
                    standard_error=standard_error,
                    difference=ours - value,
                    in_errors=(ours - value) / both if both > 0 else None,
                    verdict=_verdict(ours - value, ERRORS * both, reading, WIDE * value),
                )
            )
    return rows


def sentence(rows: Sequence[PublishedValue], runs: int) -> str:
    """How many values agree at how many runs, and which do not."""
    agree = sum(row.verdict == AGREES for row in rows)
    text = f"{agree} of {len(rows)} published values agree with ours at {runs:,} runs"
    for verdict in (DIFFERS, AGREEMENT_UNDECIDED):
        found = [f"{row.curve} at t = {row.time}" for row in rows if row.verdict == verdict]
        if found:
            text += f"; {verdict}: {', '.join(found)}"
    return text


def _verdict(difference: float, margin: float, reading: float, wide: float) -> str:
    """Differs when the whole interval is farther off than reading explains."""
    if abs(difference) > reading + margin:
        return DIFFERS
    return AGREES if margin <= wide else AGREEMENT_UNDECIDED


# What the report says of a panel, in numbers.


def table(outcome: Outcome) -> list[Final]:
    """Final regrets: the mean, and the tails that a mean hides."""
    rows = []
    for name, result in outcome.results.items():
        gaps = outcome.gaps(name)  # (R, K)
        fit = fit_growth(result)
        least = outcome.least_slope(name)
        summary = result.summary()
        rows.append(
            Final(
                name=name,
                mean=summary.mean,
                standard_error=_known(summary.standard_error),
                low=_known(summary.low),
                high=_known(summary.high),
                percentile_95=float(np.percentile(result.regret[:, -1], 95)),
                worst_agent=float(agent_regrets(result.pulls, gaps).max(axis=1).mean()),
                wrong_leader=wrong_leader_share(result.pulls, gaps),
                slope=fit.late.mean,
                slope_low=_known(fit.late.low),
                slope_high=_known(fit.late.high),
                least_slope=least,
                growth=rate(fit, least),
            )
        )
    return rows


def comparisons(outcomes: Mapping[str, Outcome]) -> dict[str, list[Difference]]:
    """Paired differences of each panel, with p-values adjusted for all of them together."""
    rows: list[tuple[str, Difference]] = []
    for id_, outcome in outcomes.items():
        for first, second in outcome.panel.compared():
            a = outcome.results[first]
            b = outcome.results[second]
            interval = paired_difference(a, b)
            p = p_value(interval, a.runs) if a.runs > 1 else 1.0
            low = _known(interval.low)
            high = _known(interval.high)
            rows.append((id_, Difference(first, second, interval.mean, low, high, p)))
    found: dict[str, list[Difference]] = {id_: [] for id_ in outcomes}
    for (id_, row), adjusted in zip(rows, holm([row.p for _, row in rows]), strict=True):
        found[id_].append(replace(row, significant=bool(adjusted < SIGNIFICANT)))
    return found


def lai_robbins(outcome: Outcome) -> LeastSlope | None:
    """The least slope of any consistent algorithm, where all curves have the same N and means."""
    sizes = {result.n_agents for result in outcome.results.values()}
    return least_slope(outcome.panel.bandit, *sizes) if len(sizes) == 1 else None


def panel_report(
    id_: str,
    outcome: Outcome,
    compared: Sequence[Difference],
    seconds: float,
    settings: str,
    files: Sequence[str] = (),
) -> PanelReport:
    """Everything the page shows of a panel."""
    panel = outcome.panel
    first = next(iter(outcome.results.values()))
    chart = of_results(id_, outcome.results, lai_robbins(outcome))
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
        slope_rounds=window(first),
        chart=chart,
        table=table(outcome),
        comparisons=compared,
        published=compare(outcome) if id_ == "published" else (),
        files=files,
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
