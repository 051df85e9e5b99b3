"""The report of a reproduction as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from posse.lab.paper import analysis as published
from posse.lab.paper import analysis as rates
from posse.lab.paper import claims
from posse.lab.paper.report_data import ClaimReport, PanelReport, PaperProvenance, PaperReport
from posse.lab.report import curves
from posse.lab.report.document import (
    Section,
    all_numbers,
    asset,
    document,
    facts,
    files,
    folded,
    paragraph,
)
from posse.lab.report.html import Html, badge, element, markup, table
from posse.lab.report.scoreboard import PairedDifference
from posse.lab.report.text import (
    counted,
    duration,
    interval,
    number,
    probability,
    share,
    with_error,
)

_ASSETS = Path(__file__).parent.parent / "assets"
_BADGES = {
    claims.HOLDS: "good",
    claims.FAILS: "bad",
    claims.ONLY_PUBLISHED: "partly",
    claims.BELOW: "partly",
    rates.FASTER: "partly",
    "significant": "good",
    published.AGREES: "good",
    published.DIFFERS: "bad",
}


def render(report: PaperReport, beside: Sequence[str] = ()) -> str:
    """The whole page; its tables are plain HTML, its charts are drawn from the embedded data.

    beside: files in the same folder that hold all numbers
    """
    panels = report.panels
    return document(
        report.title,
        [_claims(report.claims, panels, beside), *map(_panel, panels)],
        summary=_summary(report.summary, panels),
        style=asset(_ASSETS / "paper.css"),
        charts=[panel.chart for panel in panels],
    )


def _summary(provenance: PaperProvenance, panels: Sequence[PanelReport]) -> Html:
    runs = sorted({panel.runs for panel in panels})
    counts = f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}" if runs else "no"
    parts = [
        f"{provenance.mode.capitalize()} run, {provenance.variant}",
        f"{counts} runs per curve",
        f"seed {provenance.seed}",
        f"run time {duration(provenance.seconds)}",
        ", ".join(f"{name} {version}" for name, version in provenance.versions.items()),
        provenance.machine,
    ]
    return facts(parts)


def _claims(
    rows: Sequence[ClaimReport], panels: Sequence[PanelReport], beside: Sequence[str]
) -> Section:
    """What was tested, with its tally; what was not is folded away below."""
    tested = [row for row in rows if row.verdict != claims.UNTESTED]
    untested = [row for row in rows if row.verdict == claims.UNTESTED]
    verdicts = [row.verdict for row in tested]
    tally = " ".join(_badge(each, f": {verdicts.count(each)}") for each in dict.fromkeys(verdicts))
    values = [value for panel in panels for value in panel.published]
    runs = max((panel.runs for panel in panels), default=0)
    parts = [paragraph(Html(tally), "tally"), _claims_table(tested, panels)]
    if values:
        parts.append(paragraph(f"{published.sentence(values, runs)}."))
    if untested:
        title = f"{counted(len(untested), 'claim')} not tested here"
        parts.append(folded(title, _claims_table(untested, panels)))
    if beside:
        parts.append(all_numbers(beside))
    return Section("claims", "Claims", parts)


def _claims_table(rows: Sequence[ClaimReport], panels: Sequence[PanelReport]) -> Html:
    headers = ["Figure", "Claim of the paper", "Verdict", "What shows it"]
    cells = [
        [_figure_link(row.figure, panels), row.claim, _badge(row.verdict), row.detail]
        for row in rows
    ]
    return table("Claims", headers, cells, "claims", heading=False)


def _figure_link(figure: str, panels: Sequence[PanelReport]) -> str:
    """A link to the figure's first panel: figure 1 begins with panel 1a."""
    for panel in panels:
        if panel.figure.rstrip("abcdefgh") == figure or panel.figure == figure:
            return element("a", figure, href=f"#{panel.id}")
    return figure


def _heading(figure: str) -> str:
    """What a panel is called: "Figure 1a", or the name of what is no figure."""
    return f"Figure {figure}" if figure[:1].isdigit() else figure.capitalize()


def _panel(panel: PanelReport) -> Section:
    details = f"Settings, {panel.engine} engine, {panel.runs:,} runs, {duration(panel.seconds)}"
    caption = markup(panel.caption) + files(panel.files)
    label = _heading(panel.figure)
    parts = [
        paragraph(Html(caption), "caption"),
        curves.place(panel.chart),
        paragraph(panel.note, "note") if panel.note else "",
        _tabulate_curves(panel),
        _tabulate_pairs(panel.scoreboard.pairs),
        _published(panel),
        folded(details, element("pre", panel.settings)),
    ]
    return Section(panel.id, f"{label}: {panel.title}", parts, link=label, tooltip=panel.title)


def _tabulate_curves(panel: PanelReport) -> Html:
    first, last = panel.slope_rounds
    headers = [
        "Curve",
        "Mean [95% interval]",
        "Standard error",
        "95th percentile run",
        "Worst agent",
        "Wrong final leader",
        f"Slope per unit of ln t, rounds {first:,} to {last:,} [95% interval]",
        "Least slope in the long run",
        "Growth",
    ]
    rows = [
        [
            row.algorithm,
            interval(row.regret.mean, row.regret.low, row.regret.high),
            number(row.regret.standard_error, 3),
            number(row.tail.percentile_95),
            number(row.worst_agent),
            share(row.tail.wrong_leader),
            interval(growth.slope.mean, growth.slope.low, growth.slope.high),
            number(growth.least_slope, 3),
            _badge(growth.growth),
        ]
        for row, growth in zip(panel.scoreboard.rows, panel.growth, strict=True)
    ]
    is_below = any(growth.growth == rates.BELOW for growth in panel.growth)
    explanation = paragraph(rates.WHY_BELOW, "quiet") if is_below else ""
    return Html(table("Final regret per agent", headers, rows) + explanation)


def _tabulate_pairs(pairs: Sequence[PairedDifference]) -> Html:
    headers = ["First − second", "Difference [95% interval]", "p", "After Holm's correction"]
    rows = [
        [
            f"{pair.first} − {pair.second}",
            interval(pair.difference.mean, pair.difference.low, pair.difference.high),
            probability(pair.p),
            _badge("significant" if pair.is_significant else "not significant"),
        ]
        for pair in pairs
    ]
    return table("Paired differences of final regret per agent", headers, rows)


def _published(panel: PanelReport) -> Html:
    headers = [
        "Curve",
        "Round",
        "Published",
        f"Ours ± standard error, {panel.runs:,} runs",
        "Difference",
        "In standard errors",
        "Verdict",
    ]
    cells = [
        [
            row.curve,
            f"{row.time:,}",
            number(row.published),
            with_error(row.ours, row.standard_error),
            number(row.difference, 3),
            number(row.in_errors, 3),
            _badge(row.verdict),
        ]
        for row in panel.published
    ]
    return table("Against the published regret per agent", headers, cells)


def _badge(text: str, more: str = "") -> Html:
    return badge(text + more, _BADGES.get(text, "plain"))
