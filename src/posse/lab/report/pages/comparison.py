"""The page of a comparison: curves, final regrets, pairs, tails, agents, messages, settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from posse.lab.plots import COLOURS
from posse.lab.report import charts, curves
from posse.lab.report.charts import (
    AxisScale,
    DotRow,
    PlanePoint,
    ReferenceLine,
    draw_swatch,
    fit_scale,
    shorten_name,
)
from posse.lab.report.comparison_report import ComparisonReport, ReportFile, settings_text
from posse.lab.report.document import (
    Section,
    fold_content,
    printing_script,
    render_document,
    render_facts,
    render_figure,
    render_paragraph,
)
from posse.lab.report.html import (
    CellContent,
    Html,
    TableCell,
    render_badge,
    render_element,
    render_name,
    render_table,
)
from posse.lab.report.pages import comparison_text as words
from posse.lab.report.scoreboard import REFERENCE, UNDECIDED, WORSE, PairedDifference
from posse.lab.report.text import (
    count_things,
    format_interval,
    format_number,
    format_p_value,
    format_share,
    warn_few_runs,
    warn_unseen_tails,
)
from posse.lab.statistics import Estimate
from posse.randomness import FloatArray

# Four glyphs and seven colours: 28 marks before one comes back.
_GLYPHS = ("circle", "square", "diamond", "star")
RUG_LINES = 100  # lines of a rug plot at most; more values are drawn as quantiles


class Mark(NamedTuple):
    """The style class of an algorithm's colour, and its glyph for readers who see no colours."""

    kind: str
    glyph: str


def assign_marks(names: Iterable[str]) -> dict[str, Mark]:
    """Give each algorithm its mark, in the order of the comparison."""
    return {
        name: Mark(f"c{i % len(COLOURS)}", _GLYPHS[i % len(_GLYPHS)])
        for i, name in enumerate(names)
    }


def _name_with_mark(name: str, mark: Mark) -> Html:
    return render_element(
        "span", draw_swatch(mark.glyph, mark.kind), render_name(name), class_="marked"
    )


def _dot_figure(title: str, dots: Sequence[DotRow]) -> Html:
    """Draw a row for each algorithm: a value with its interval, or the values behind it."""
    values = [value for dot in dots for value in (dot.at, dot.high, *dot.rug)]
    scale = fit_scale(values)
    title += ", logarithmic axis" if scale.log else ""
    meaning = f"{title}, of each algorithm; the table below has the numbers."
    return render_figure(Html(render_element("h3", title) + charts.draw_dots(meaning, dots, scale)))


def thin_rug(values: FloatArray) -> list[float]:
    """Sort the values of a rug plot; many values become quantiles."""
    if len(values) > RUG_LINES:
        values = np.quantile(values, np.linspace(0, 1, RUG_LINES))
    return [float(value) for value in np.sort(values)]


# Final regrets: means, pairs and tails.

# The reference is the algorithm with the lowest mean, so no other is significantly better.
_VERDICTS = {REFERENCE: "lowest", WORSE: "more", UNDECIDED: "undecided"}
_BADGES = {REFERENCE: "good", WORSE: "bad"}
_FAR_RATIO = 3.0  # differences beyond so many times the lowest regret are drawn as arrows
_FOLDED_PAIRS = 15  # more pairs than this are folded away
_MOST_PAIRS = 300  # more pairs than this are left to their file


def render_final(report: ComparisonReport) -> Section:
    """Show the mean of each algorithm, the difference to the lowest, and both as a table."""
    rows = report.scoreboard.rows
    several = len(rows) > 1
    drawings = [_draw_means(report), *([_draw_differences(report)] if several else [])]
    parts: list[str] = [
        render_element("div", *drawings, class_="side-by-side" if several else None)
    ]
    marks = assign_marks(report.comparison)
    # A column that no algorithm fills is left out.
    has_shares = any(row.best_arm_share is not None for row in rows)
    is_mixed = report.comparison.is_mixed
    headers = ["Algorithm", "Mean [95% interval]", "Standard error"]
    headers += ["Pulls of a best arm"] * has_shares + ["Engine"] * is_mixed
    headers += ["Beside the lowest"] * several
    table_rows: list[list[CellContent]] = []
    for row in rows:
        mean, error, low, high = row.regret
        cells: list[CellContent] = [TableCell(_name_with_mark(row.algorithm, marks[row.algorithm]))]
        cells.append(TableCell(format_interval(mean, low, high), mean))
        cells.append(_number_cell(error, 3))
        cells += [TableCell(format_share(row.best_arm_share), row.best_arm_share)] * has_shares
        cells += [row.engine] * is_mixed
        cells += [render_badge(_VERDICTS[row.verdict], _BADGES.get(row.verdict, "plain"))] * several
        table_rows.append(cells)
    kind = "numbers" if several else "numbers even"
    title = "Final regret of each algorithm"
    parts.append(render_table(title, headers, table_rows, kind, heading=False, sortable=True))
    horizon = report.first_result.horizon
    if report.regret_chart is None:
        reason = f"Only round {horizon:,} was recorded, so there are no curves"
        parts.append(f"{reason}: record=50 keeps 50 rounds.")
    return Section("final", f"Final regret, round {horizon:,}", parts, "Final regret")


def render_pairs(report: ComparisonReport) -> Section | None:
    """Show every pair; many of them are folded away, very many are left to their file."""
    pairs = report.scoreboard.pairs
    if not pairs:
        return None
    explanation = (
        "Regret of the first minus that of the second, run by run: the luck that both had cancels. "
        f"p-values are Student's t, corrected for {count_things(len(pairs), 'pair')} (Holm)."
    )
    notes = [warn_few_runs(report.first_result.runs), words.explain_engines(report.comparison)]
    parts: list[str] = [explanation, *(render_paragraph(note, "note") for note in notes if note)]
    # Thousands of pairs would make the page slow; the first ones are those of the best algorithms.
    pairs_table = _tabulate_pairs(pairs[:_MOST_PAIRS])
    if len(pairs) > _MOST_PAIRS:
        parts.append(f"These are {_MOST_PAIRS} of {len(pairs):,}; files/pairs.csv has all.")
    if len(pairs) > _FOLDED_PAIRS:
        pairs_table = fold_content(count_things(min(_MOST_PAIRS, len(pairs)), "pair"), pairs_table)
    return Section("pairs", "Paired differences", [*parts, pairs_table], link="Pairs")


def render_tails(report: ComparisonReport) -> Section | None:
    """Show single runs: their spread, percentiles, and the number of the worst run."""
    rows = report.scoreboard.rows
    if report.first_result.runs == 1:
        return None
    marks = assign_marks(report.comparison)
    percentiles = {
        "95th percentile": [row.tail.percentile_95 for row in rows],
        "99th percentile": [row.tail.percentile_99 for row in rows],
    }
    # All algorithms have the same number of runs, so a percentile is known of all or of none.
    percentiles = {name: values for name, values in percentiles.items() if None not in values}
    has_leaders = any(row.tail.wrong_leader is not None for row in rows)
    headers = ["Algorithm", "Lowest run", "Median run", *percentiles, "Worst run", "Its number"]
    headers += ["Wrong final leader"] * has_leaders
    table_rows: list[list[CellContent]] = []
    for i, row in enumerate(rows):
        tail = row.tail
        cells: list[CellContent] = [TableCell(_name_with_mark(row.algorithm, marks[row.algorithm]))]
        cells += [_number_cell(value) for value in (tail.lowest_run, tail.median_run)]
        cells += [_number_cell(values[i]) for values in percentiles.values()]
        cells += [
            _number_cell(tail.worst_run),
            TableCell(f"{tail.worst_run_number:,}", tail.worst_run_number),
        ]
        cells += [TableCell(format_share(tail.wrong_leader), tail.wrong_leader)] * has_leaders
        table_rows.append(cells)
    tails_table = render_table(
        "Tails", headers, table_rows, "numbers even", heading=False, sortable=True
    )
    is_thinned = report.first_result.runs > RUG_LINES
    line = f"one of {RUG_LINES} quantiles of the runs" if is_thinned else "a run"
    notes = [f"In the chart a line is {line}, the mark their median."]
    notes.append(warn_unseen_tails(report.first_result.runs))
    if has_leaders:
        notes.append("Wrong final leader: runs in which the arm played most was not a best one.")
    quiet = render_paragraph(" ".join(filter(None, notes)), "quiet")
    return Section("tails", "Tails", [_draw_runs(report), tails_table, quiet])


def _number_cell(value: float | None, digits: int = 4) -> TableCell:
    return TableCell(
        format_number(value, digits), value if value is None or math.isfinite(value) else None
    )


def _draw_means(report: ComparisonReport) -> Html:
    marks = assign_marks(report.comparison)
    dots = []
    for row in report.scoreboard.rows:
        mean, _, low, high = row.regret
        title = f"{words.short_name(row.algorithm)}: {format_interval(mean, low, high)}"
        dots.append(
            DotRow(render_name(row.algorithm), mean, low, high, title, *marks[row.algorithm])
        )
    return _dot_figure("Mean regret per agent", dots)


def _draw_differences(report: ComparisonReport) -> Html:
    """Draw differences to the lowest; those far beyond its own regret are arrows.

    Otherwise one algorithm that loses much would squeeze all others together.
    """
    marks = assign_marks(report.comparison)
    dots = []
    for row in report.scoreboard.rows:
        mean = low = high = None
        if row.difference is not None:
            mean, _, low, high = row.difference.difference
        title = f"{words.short_name(row.algorithm)}: {format_interval(mean, low, high)}"
        dots.append(
            DotRow(render_name(row.algorithm), mean, low, high, title, *marks[row.algorithm])
        )
    lowest = report.scoreboard.reference_row
    assert lowest is not None
    ends = [
        end
        for dot in dots
        for end in (dot.at, dot.low, dot.high)
        if end is not None and math.isfinite(end)
    ]
    # The axis ends at the largest difference that is not far; where all are far, at the largest.
    near = max((end for end in ends if end <= _FAR_RATIO * lowest.regret.mean), default=0.0)
    end = near if near > 0 else max(ends) or 1.0
    scale = AxisScale(-max(0.15 * end, min(end, -min(ends))), 1.05 * end)
    title = f"Paired difference to {shorten_name(lowest.algorithm)}"
    meaning = f"{title} of each algorithm with its 95% interval; right of 0 is more regret."
    return render_figure(
        Html(
            render_element("h3", title)
            + charts.draw_dots(meaning, dots, scale, [ReferenceLine(0.0, "")])
        )
    )


def _tabulate_pairs(pairs: Sequence[PairedDifference]) -> Html:
    headers = ["First", "Second", "Difference [95% interval]", "p", "p after Holm", "Verdict"]
    rows: list[list[CellContent]] = []
    for pair in pairs:
        mean, _, low, high = pair.difference
        verdict = (
            render_badge("first is better", "good")
            if pair.is_significant
            else render_badge("undecided")
        )
        rows.append(
            [
                TableCell(render_name(pair.first)),
                TableCell(render_name(pair.second)),
                TableCell(format_interval(mean, low, high), mean),
                TableCell(format_p_value(pair.p), pair.p),
                TableCell(format_p_value(pair.adjusted_p), pair.adjusted_p),
                verdict,
            ]
        )
    return render_table(
        "Paired differences", headers, rows, "numbers pairs", heading=False, sortable=True
    )


def _draw_runs(report: ComparisonReport) -> Html:
    marks = assign_marks(report.comparison)
    dots = []
    for row in report.scoreboard.rows:
        median = row.tail.median_run
        title = (
            f"{words.short_name(row.algorithm)}: median {format_number(median)}, "
            f"worst {format_number(row.tail.worst_run)}"
        )
        # A median beside all runs shows what a mean with an interval hides: rare disasters.
        rug = thin_rug(report.comparison[row.algorithm].regret[:, -1])
        mark = marks[row.algorithm]
        dots.append(DotRow(render_name(row.algorithm), median, None, None, title, *mark, rug=rug))
    return _dot_figure("Regret per agent of single runs, and their median", dots)


# Agents and messages, where they were recorded.


def render_agents(report: ComparisonReport) -> Section | None:
    """Show single agents: the best, median and worst of a run, and the worst on average."""
    if not report.agents:
        return None
    marks = assign_marks(report.comparison)
    headers = ["Algorithm", "Best agent", "Median agent", "Worst agent", "Spread"]
    headers += ["Most on average", "Which agent"]
    rows: list[list[CellContent]] = []
    dots = []
    for spread in report.agents:
        name = spread.algorithm
        worst = int(spread.means.argmax())
        estimates = (spread.best, spread.median, spread.worst, spread.spread)
        rows.append(
            [
                TableCell(_name_with_mark(name, marks[name])),
                *map(_estimate_cell, estimates),
                TableCell(format_number(spread.means[worst]), float(spread.means[worst])),
                TableCell(f"{worst:,}", worst),
            ]
        )
        median = float(np.median(spread.means))
        title = f"{words.short_name(name)}: median {format_number(median)}"
        rug = thin_rug(spread.means)
        dots.append(DotRow(render_name(name), median, None, None, title, *marks[name], rug=rug))
    drawing = _dot_figure("Regret of single agents, mean of all runs, and their median", dots)
    explanation = (
        "Best, median and worst agent: of each run, averaged over runs, with 95% intervals. "
        "Spread: the standard deviation between the agents of a run. Most on average: the agent "
        "(counted from 0) whose mean over runs is highest; of agents alike it is one by chance."
    )
    agents_table = render_table(
        "Agents", headers, rows, "numbers even", heading=False, sortable=True
    )
    return Section(
        "agents", "Agents", [drawing, agents_table, render_paragraph(explanation, "quiet")]
    )


def render_messages(report: ComparisonReport) -> Section | None:
    """Show the numbers sent: over time, against regret, and as a table."""
    marks = assign_marks(report.comparison)
    headers = ["Algorithm", "Numbers sent [95% interval]", "A round", "Regret per agent"]
    rows: list[list[CellContent]] = [
        [
            TableCell(_name_with_mark(row.algorithm, marks[row.algorithm])),
            _estimate_cell(row.numbers_sent),
            TableCell(format_number(row.sent_per_round, 3), row.sent_per_round),
            TableCell(format_number(row.regret.mean), row.regret.mean),
        ]
        for row in report.scoreboard.rows
        if row.numbers_sent is not None
    ]
    if not rows:
        return None
    horizon = report.first_result.horizon
    parts: list[str] = [f"How many numbers an agent sends until round {horizon:,}."]
    if report.sent_chart is not None:
        parts.append(curves.place_chart(report.sent_chart))
    if len(rows) > 1:
        parts.append(_draw_regret_against_sent(report))
    parts.append(
        render_table("Messages", headers, rows, "numbers even", heading=False, sortable=True)
    )
    return Section("messages", "Messages", parts)


def _draw_regret_against_sent(report: ComparisonReport) -> Html:
    marks = assign_marks(report.comparison)
    points = []
    front = []
    for row in report.scoreboard.rows:
        if row.sent_per_round is None:
            continue
        mean = row.regret.mean
        title = (
            f"{words.short_name(row.algorithm)}: regret {format_number(mean)}, "
            f"{format_number(row.sent_per_round, 3)} numbers a round"
        )
        mark = marks[row.algorithm]
        points.append(PlanePoint(row.algorithm, row.sent_per_round, mean, title, *mark))
        if row.on_front:
            front.append(points[-1])
    title = "Regret against numbers sent"
    drawing = charts.draw_plane(
        f"{title}; the table below has the numbers.",
        points,
        fit_scale([point.x for point in points], log=True),
        fit_scale([point.y for point in points]),
        ("numbers sent per agent and round", "regret per agent"),
        front=front,
        height=320,
    )
    caption = (
        "Down is less regret, left is less talk; who is on the line is beaten in both by none."
    )
    return render_figure(Html(render_element("h3", title) + drawing), caption)


def _estimate_cell(estimate: Estimate[float]) -> TableCell:
    mean, _, low, high = estimate
    return TableCell(format_interval(mean, low, high) if low < high else format_number(mean), mean)


# The page: its first lines, curves, settings and files around the other sections.

_MOST_LETTERS = 20_000  # of the settings on the page: their file has all

# Sections are short: a page for each, as the paper's figures have, would be half empty.
_PRINT_STYLE = "@media print { section { break-before: auto; margin-top: 1.5rem; } }\n"


def render(report: ComparisonReport) -> str:
    """Render the whole page; its tables are plain HTML, its curves are drawn by a script."""
    sections = [
        _render_curves(report),
        render_final(report),
        render_pairs(report),
        render_tails(report),
        render_agents(report),
        render_messages(report),
        _render_settings(report),
        _render_files(report),
    ]
    return render_document(
        report.title,
        [section for section in sections if section is not None],
        summary=_render_summary(report),
        style=_PRINT_STYLE,
        script=printing_script(),
        charts=[chart for chart in (report.regret_chart, report.sent_chart) if chart is not None],
    )


def _render_summary(report: ComparisonReport) -> Html:
    lowest = report.scoreboard.reference_row
    assert lowest is not None
    headline = words.write_headline(report.scoreboard, report.first_result.horizon)
    lines = [render_paragraph(headline, "headline")]
    if worst := words.describe_worst_run(lowest):
        lines.append(render_paragraph(worst))
    return Html("\n".join([*lines, render_facts(words.list_facts(report.comparison))]))


def _render_curves(report: ComparisonReport) -> Section | None:
    if report.regret_chart is None:
        return None
    runs = report.first_result.runs
    caption = (
        "One run." if runs == 1 else f"Means of {count_things(runs, 'run')} in their 95% bands."
    )
    parts = [render_paragraph(caption, "caption"), curves.place_chart(report.regret_chart)]
    return Section("curves", "Regret over time", parts, link="Curves")


def _render_settings(report: ComparisonReport) -> Section:
    rerun = report.rerun
    text = settings_text(report)
    parts: list[str] = []
    if rerun.toml is None:
        parts.append(f"No file gives these numbers again: {rerun.why_not}.")
    else:
        parts.append("This file gives the same numbers again:")
        parts.append(render_element("pre", "posse run files/experiment.toml"))
    # Means of many runs, or an edge list, can be megabytes of settings.
    if len(text) > _MOST_LETTERS:
        text = f"{text[:_MOST_LETTERS]}\n… {len(text) - _MOST_LETTERS:,} more letters"
    parts.append(
        fold_content(
            "The experiment" if rerun.toml else "All settings", render_element("pre", text)
        )
    )
    if hint := words.hint_at_keep(report.first_result):
        parts.append(render_paragraph(hint, "note"))
    return Section("settings", "Settings", parts)


def _render_files(report: ComparisonReport) -> Section:
    rows = [
        [_link_file(file), f"{file.meaning} ({file.missing})" if file.missing else file.meaning]
        for file in report.files
    ]
    files_table = render_table("Files", ["File", "What is in it"], rows, "sentences", heading=False)
    return Section("files", "Files", [files_table])


def _link_file(file: ReportFile) -> Html:
    name = file.path.rpartition("/")[2]
    return (
        render_element("a", name, href=file.path) if not file.missing else render_element("s", name)
    )
