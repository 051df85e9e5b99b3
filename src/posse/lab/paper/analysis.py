"""What the report says of a panel, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from posse.lab.pages.curves import LeastSlope, least_slope, of_results
from posse.lab.paper import published, rates
from posse.lab.paper.data import Difference, Final, PanelReport
from posse.lab.paper.runs import Outcome
from posse.lab.statistics import (
    SIGNIFICANT,
    growth,
    holm,
    of_agents,
    p_value,
    paired_difference,
    wrong_leader,
)


def table(outcome: Outcome) -> list[Final]:
    """Final regrets: the mean, and the tails that a mean hides."""
    rows = []
    for name, result in outcome.results.items():
        gaps = outcome.gaps(name)  # (R, K)
        fit, least = growth(result), outcome.least_slope(name)
        summary = result.summary()
        rows.append(
            Final(
                name=name,
                mean=summary.mean,
                standard_error=_known(summary.standard_error),
                low=_known(summary.low),
                high=_known(summary.high),
                percentile_95=float(np.percentile(result.regret[:, -1], 95)),
                worst_agent=float(of_agents(result.pulls, gaps).max(axis=1).mean()),
                wrong_leader=wrong_leader(result.pulls, gaps),
                slope=fit.late.mean,
                slope_low=_known(fit.late.low),
                slope_high=_known(fit.late.high),
                least_slope=least,
                growth=rates.rate(fit, least),
            )
        )
    return rows


def comparisons(outcomes: Mapping[str, Outcome]) -> dict[str, list[Difference]]:
    """Paired differences of each panel, with p-values adjusted for all of them together."""
    rows: list[tuple[str, Difference]] = []
    for id_, outcome in outcomes.items():
        for first, second in outcome.panel.compared():
            a, b = outcome.results[first], outcome.results[second]
            interval = paired_difference(a, b)
            p = p_value(interval, a.runs) if a.runs > 1 else 1.0
            low, high = _known(interval.low), _known(interval.high)
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
        slope_rounds=rates.window(first),
        chart=chart,
        table=table(outcome),
        comparisons=compared,
        published=published.compare(outcome) if id_ == "published" else (),
        files=files,
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
