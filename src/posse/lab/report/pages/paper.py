"""The page of the paper's reproduction: claims with verdicts, then a section for each panel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from posse.lab.paper import (
    AGREES,
    BELOW,
    DIFFERS,
    FAILS,
    FASTER,
    HOLDS,
    ONLY_PUBLISHED,
    UNTESTED,
    WHY_BELOW,
    ClaimReport,
    PanelReport,
    PaperProvenance,
    PaperReport,
    summarise_agreement,
)
from posse.lab.report import curves
from posse.lab.report.document import (
    Section,
    fold_content,
    link_data_files,
    link_files,
    read_asset,
    render_document,
    render_facts,
    render_paragraph,
)
from posse.lab.report.html import Html, escape_text, render_badge, render_element, render_table
from posse.lab.report.scoreboard import PairedDifference
from posse.lab.report.text import (
    count_things,
    format_duration,
    format_interval,
    format_number,
    format_p_value,
    format_share,
    format_with_error,
)

_ASSETS = Path(__file__).parent.parent / "assets"
_BADGES = {
    HOLDS: "good",
    FAILS: "bad",
    ONLY_PUBLISHED: "partly",
    BELOW: "partly",
    FASTER: "partly",
    "significant": "good",
    AGREES: "good",
    DIFFERS: "bad",
}


def render(report: PaperReport, data_files: Sequence[str] = ()) -> str:
    """Render the whole page; its tables are plain HTML, its charts are drawn by a script.

    beside: files in the same folder that hold all numbers
    """
    panels = report.panels
    return render_document(
        report.title,
        [_render_claims(report.claims, panels, data_files), *map(_render_panel, panels)],
        summary=_render_summary(report.summary, panels),
        style=read_asset(_ASSETS / "paper.css"),
        charts=[panel.chart for panel in panels],
    )


def _render_summary(provenance: PaperProvenance, panels: Sequence[PanelReport]) -> Html:
    runs = sorted({panel.runs for panel in panels})
    counts = f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}" if runs else "no"
    parts = [
        f"{provenance.mode.capitalize()} run, {provenance.variant}",
        f"{counts} runs per curve",
        f"seed {provenance.seed}",
        f"run time {format_duration(provenance.seconds)}",
        ", ".join(f"{name} {version}" for name, version in provenance.versions.items()),
        provenance.machine,
    ]
    return render_facts(parts)


def _render_claims(
    rows: Sequence[ClaimReport], panels: Sequence[PanelReport], data_files: Sequence[str]
) -> Section:
    """Render the claims that were tested, with a tally; the others are folded away below."""
    # Some panels alone leave most claims untested: those would hide the verdicts.
    tested = [row for row in rows if row.verdict != UNTESTED]
    untested = [row for row in rows if row.verdict == UNTESTED]
    verdicts = [row.verdict for row in tested]
    tally = " ".join(
        _render_verdict(verdict, f": {verdicts.count(verdict)}")
        for verdict in dict.fromkeys(verdicts)
    )
    values = [value for panel in panels for value in panel.published]
    runs = max((panel.runs for panel in panels), default=0)
    parts = [render_paragraph(Html(tally), "tally"), _tabulate_claims(tested, panels)]
    if values:
        parts.append(render_paragraph(f"{summarise_agreement(values, runs)}."))
    if untested:
        title = f"{count_things(len(untested), 'claim')} not tested here"
        parts.append(fold_content(title, _tabulate_claims(untested, panels)))
    if data_files:
        parts.append(link_data_files(data_files))
    return Section("claims", "Claims", parts)


def _tabulate_claims(rows: Sequence[ClaimReport], panels: Sequence[PanelReport]) -> Html:
    headers = ["Figure", "Claim of the paper", "Verdict", "What shows it"]
    cells = [
        [_link_figure(row.figure, panels), row.claim, _render_verdict(row.verdict), row.detail]
        for row in rows
    ]
    return render_table("Claims", headers, cells, "claims", heading=False)


def _link_figure(figure: str, panels: Sequence[PanelReport]) -> str:
    """Link a figure to its first panel: figure 1 begins with panel 1a."""
    for panel in panels:
        if panel.figure.rstrip("abcdefgh") == figure or panel.figure == figure:
            return render_element("a", figure, href=f"#{panel.id}")
    return figure


def _panel_label(figure: str) -> str:
    """Label a panel: "Figure 1a", or "Published" for the one that is no figure."""
    return f"Figure {figure}" if figure[:1].isdigit() else figure.capitalize()


def _render_panel(panel: PanelReport) -> Section:
    details = (
        f"Settings, {panel.engine} engine, {panel.runs:,} runs, {format_duration(panel.seconds)}"
    )
    caption = escape_text(panel.caption) + link_files(panel.files)
    label = _panel_label(panel.figure)
    parts = [
        render_paragraph(Html(caption), "caption"),
        curves.place_chart(panel.chart),
        render_paragraph(panel.note, "note") if panel.note else "",
        _tabulate_curves(panel),
        _tabulate_pairs(panel.scoreboard.pairs),
        _tabulate_published(panel),
        fold_content(details, render_element("pre", panel.settings)),
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
            format_interval(row.regret.mean, row.regret.low, row.regret.high),
            format_number(row.regret.standard_error, 3),
            format_number(row.tail.percentile_95),
            format_number(row.worst_agent),
            format_share(row.tail.wrong_leader),
            format_interval(growth.slope.mean, growth.slope.low, growth.slope.high),
            format_number(growth.least_slope, 3),
            _render_verdict(growth.growth),
        ]
        for row, growth in zip(panel.scoreboard.rows, panel.growth, strict=True)
    ]
    is_below = any(growth.growth == BELOW for growth in panel.growth)
    explanation = render_paragraph(WHY_BELOW, "quiet") if is_below else ""
    return Html(render_table("Final regret per agent", headers, rows) + explanation)


def _tabulate_pairs(pairs: Sequence[PairedDifference]) -> Html:
    headers = ["First − second", "Difference [95% interval]", "p", "After Holm's correction"]
    rows = [
        [
            f"{pair.first} − {pair.second}",
            format_interval(pair.difference.mean, pair.difference.low, pair.difference.high),
            format_p_value(pair.p),
            _render_verdict("significant" if pair.is_significant else "not significant"),
        ]
        for pair in pairs
    ]
    return render_table("Paired differences of final regret per agent", headers, rows)


def _tabulate_published(panel: PanelReport) -> Html:
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
            format_number(row.published),
            format_with_error(row.ours, row.standard_error),
            format_number(row.difference, 3),
            format_number(row.in_errors, 3),
            _render_verdict(row.verdict),
        ]
        for row in panel.published
    ]
    return render_table("Against the published regret per agent", headers, cells)


def _render_verdict(text: str, more: str = "") -> Html:
    return render_badge(text + more, _BADGES.get(text, "plain"))
