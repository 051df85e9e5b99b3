"""What the report says of a panel, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posse import theory
from posse.lab.paper import published
from posse.lab.paper.runs import Outcome
from posse.lab.statistics import Growth, growth, holm, mean_interval, p_value, paired_difference

SIGNIFICANT = 0.05


def curves(outcome: Outcome) -> list[dict[str, Any]]:
    """The mean of each curve and its 95% band."""
    drawn = []
    for name, result in outcome.results.items():
        mean, _, low, high = mean_interval(result.regret)
        drawn.append(
            {
                "name": name,
                "times": result.times.tolist(),
                "mean": _short(mean),
                "low": _short(low),
                "high": _short(high),
            }
        )
    return drawn


def table(outcome: Outcome) -> list[dict[str, Any]]:
    """Final regrets: the mean, and the tails that a mean hides."""
    rows = []
    for name, result in outcome.results.items():
        gaps = outcome.gaps(name)  # (R, K)
        of_agents = np.einsum("rnk,rk->rn", result.pulls, gaps)
        leader = result.pulls.sum(axis=1).argmax(axis=1)  # the arm played most, run by run
        wrong = gaps[np.arange(result.runs), leader] > 0
        fit = growth(result)
        summary = result.summary()
        rows.append(
            {
                "name": name,
                "mean": summary.mean,
                "standard_error": _known(summary.standard_error),
                "low": _known(summary.low),
                "high": _known(summary.high),
                "percentile_95": float(np.percentile(result.regret[:, -1], 95)),
                "worst_agent": float(of_agents.max(axis=1).mean()),
                "wrong_leader": float(wrong.mean()),
                "slope": fit.slope.mean,
                "slope_low": _known(fit.slope.low),
                "slope_high": _known(fit.slope.high),
                "growth": _word(fit, outcome.least_slope(name), summary.mean),
            }
        )
    return rows


def comparisons(outcomes: Mapping[str, Outcome]) -> dict[str, list[dict[str, Any]]]:
    """Paired differences of each panel, with p-values adjusted for all of them together."""
    rows: dict[str, list[dict[str, Any]]] = {id_: [] for id_ in outcomes}
    for id_, outcome in outcomes.items():
        for first, second in outcome.panel.compared():
            a, b = outcome.results[first], outcome.results[second]
            interval = paired_difference(a, b)
            rows[id_].append(
                {
                    "first": first,
                    "second": second,
                    "difference": interval.mean,
                    "low": _known(interval.low),
                    "high": _known(interval.high),
                    "p": p_value(interval, a.runs) if a.runs > 1 else 1.0,
                }
            )
    every = [row for group in rows.values() for row in group]
    for row, adjusted in zip(every, holm([row["p"] for row in every]), strict=True):
        row["significant"] = bool(adjusted < SIGNIFICANT)
    return rows


def lai_robbins(outcome: Outcome) -> dict[str, Any] | None:
    """The least slope of any consistent algorithm, where all curves have the same N and means."""
    sizes = {result.n_agents for result in outcome.results.values()}
    if callable(outcome.panel.bandit.means) or len(sizes) > 1:
        return None
    (n_agents,) = sizes
    slope = theory.lai_robbins(outcome.panel.bandit, n_agents)
    text = f"Lai-Robbins: no algorithm grows slower than {slope:.3g} ln t in the long run"
    return {"slope": slope, "text": text}


def panel_report(
    id_: str, outcome: Outcome, compared: Sequence[Mapping[str, Any]], seconds: float, settings: str
) -> dict[str, Any]:
    """Everything the page shows of a panel."""
    panel = outcome.panel
    first = next(iter(outcome.results.values()))
    return {
        "id": id_,
        "figure": panel.figure,
        "title": panel.title,
        "caption": panel.caption,
        "note": panel.note or None,
        "runs": first.runs,
        "engine": first.engine,
        "seconds": seconds,
        "settings": settings,
        "curves": curves(outcome),
        "lai_robbins": lai_robbins(outcome),
        "table": table(outcome),
        "comparisons": list(compared),
        "published": published.compare(outcome) if id_ == "published" else [],
    }


def _word(fit: Growth, least: float, mean: float) -> str:
    """How regret grows, in a word or two."""
    if not fit.slope.high > 0.005 * mean:
        return "flat"
    return "logarithmic" if fit.is_logarithmic(least) else "faster than logarithmic"


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _short(values: Any) -> list[float | None]:
    """Numbers of five digits: more cannot be seen, and they would fill the page."""
    return [None if np.isnan(x) else float(f"{x:.5g}") for x in values]
