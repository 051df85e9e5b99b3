"""How algorithms are shown everywhere on the page: names, colours and glyphs, and rows of dots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from posse.lab.plots import COLOURS
from posse.lab.report import charts, curves
from posse.lab.report.charts import Dot, Line, Point, Scale, scale_of, shortened, swatch
from posse.lab.report.comparison_report import File, Report, settings_text
from posse.lab.report.document import Section, document, facts, figure, folded, paragraph, printing
from posse.lab.report.html import Cell, Content, Html, badge, element, named, table
from posse.lab.report.pages import comparison_text as words
from posse.lab.report.scoreboard import LOWEST, MORE, Pair, Tail
from posse.lab.report.text import (
    counted,
    interval,
    number,
    probability,
    share,
    undecided,
    unseen_tails,
)
from posse.lab.statistics import Estimate, find_pareto_front
from posse.randomness import FloatArray

_GLYPHS = ("circle", "square", "diamond", "star")  # 4 and 7 colours: 28 pairs before one comes back
RUG = 100  # values of which each is a line; of more, so many quantiles are


class Mark(NamedTuple):
    """The class of a colour, that of its curve, and a glyph for those who do not see it."""

    kind: str
    glyph: str


def marks(names: Iterable[str]) -> dict[str, Mark]:
    """The mark of each algorithm, in the comparison's order."""
    return {
        name: Mark(f"c{i % len(COLOURS)}", _GLYPHS[i % len(_GLYPHS)])
        for i, name in enumerate(names)
    }


def marked(name: str, mark: Mark) -> Html:
    """A name with its mark before it."""
    return element("span", swatch(mark.glyph, mark.kind), named(name), class_="marked")


def dots(title: str, rows: Sequence[Dot]) -> Html:
    """A row for each algorithm: a value with its interval, or the single values behind it."""
    values = [value for row in rows for value in (row.at, row.high, *row.rug)]
    scale = scale_of(values)
    title += ", logarithmic axis" if scale.log else ""
    meaning = f"{title}, of each algorithm; the table below has the numbers."
    return figure(Html(element("h3", title) + charts.dots(meaning, rows, scale)))


def rug(values: FloatArray) -> list[float]:
    """All values, or quantiles of many, from the lowest to the highest."""
    if len(values) > RUG:
        values = np.quantile(values, np.linspace(0, 1, RUG))
    return [float(value) for value in np.sort(values)]


# Final regrets of a report: means, pairs and tails.

_BADGES = {LOWEST: "good", MORE: "bad"}
_FAR = 3.0  # times the lowest regret
# pairs that are shown at once, and that are shown at all
_FEW = 15
_MANY = 300


def final(report: Report) -> Section:
    """The mean of each, the difference to the lowest, and all of it as a table."""
    rows = report.finals
    several = len(report.finals) > 1
    drawn = [_means(report), *([_differences(report)] if several else [])]
    parts: list[str] = [element("div", *drawn, class_="side-by-side" if several else None)]
    looks = marks(report.comparison)
    known = any(row.best_arm_share is not None for row in rows)
    mixed = report.comparison.is_mixed
    headers = ["Algorithm", "Mean [95% interval]", "Standard error"]
    headers += ["Pulls of a best arm"] * known + ["Engine"] * mixed
    headers += ["Beside the lowest"] * several
    cells: list[list[Content]] = []
    for row in rows:
        s = row.summary
        line: list[Content] = [Cell(marked(row.name, looks[row.name]))]
        line.append(Cell(interval(s.mean, s.low, s.high), s.mean))
        line.append(_number(s.standard_error, 3))
        line += [Cell(share(row.best_arm_share), row.best_arm_share)] * known
        line += [row.engine] * mixed
        line += [badge(row.verdict, _BADGES.get(row.verdict, "plain"))] * several
        cells.append(line)
    kind = "numbers" if several else "numbers even"
    title = "Final regret of each algorithm"
    parts.append(table(title, headers, cells, kind, heading=False, sortable=True))
    if report.regret is None:
        only = f"Only round {report.first.horizon:,} was recorded, so there are no curves"
        parts.append(f"{only}: record=50 keeps 50 rounds.")
    return Section("final", f"Final regret, round {report.first.horizon:,}", parts, "Final regret")


def pairs(report: Report) -> Section | None:
    """Every pair; many of them are folded away, very many are left to their file."""
    compared = report.pairs
    if not compared:
        return None
    said = (
        "Regret of the first minus that of the second, run by run: the luck that both had cancels. "
        f"p-values are Student's t, corrected for {counted(len(compared), 'pair')} (Holm)."
    )
    notes = [undecided(report.first.runs), words.across_engines(report.comparison)]
    parts: list[str] = [said, *(paragraph(note, "note") for note in notes if note)]
    drawn = _pairs(compared[:_MANY])
    if len(compared) > _MANY:
        parts.append(f"These are {_MANY} of {len(compared):,}; files/pairs.csv has all.")
    if len(compared) > _FEW:
        drawn = folded(counted(min(_MANY, len(compared)), "pair"), drawn)
    return Section("pairs", "Paired differences", [*parts, drawn], link="Pairs")


def tails(report: Report) -> Section | None:
    """Single runs: their spread, percentiles, and which run was the worst."""
    rows = report.tails
    if report.first.runs == 1:
        return None
    looks = marks(report.comparison)
    optional = {
        "95th percentile": [row.percentile_95 for row in rows],
        "99th percentile": [row.percentile_99 for row in rows],
    }
    known = {name: values for name, values in optional.items() if None not in values}
    wrong = any(row.wrong_leader is not None for row in rows)
    headers = ["Algorithm", "Lowest run", "Median run", *known, "Worst run", "Its number"]
    headers += ["Wrong final leader"] * wrong
    cells: list[list[Content]] = []
    for i, row in enumerate(rows):
        line: list[Content] = [Cell(marked(row.name, looks[row.name]))]
        line += [_number(value) for value in (row.lowest, row.median)]
        line += [_number(values[i]) for values in known.values()]
        line += [_number(row.worst), Cell(f"{row.worst_run:,}", row.worst_run)]
        line += [Cell(share(row.wrong_leader), row.wrong_leader)] * wrong
        cells.append(line)
    shown = table("Tails", headers, cells, "numbers even", heading=False, sortable=True)
    said = [_said(rows), unseen_tails(report.first.runs)]
    if wrong:
        said.append("Wrong final leader: runs in which the arm played most was not a best one.")
    quiet = paragraph(" ".join(filter(None, said)), "quiet")
    return Section("tails", "Tails", [_runs(report), shown, quiet])


def _number(value: float | None, digits: int = 4) -> Cell:
    return Cell(number(value, digits), value if value is None or math.isfinite(value) else None)


def _means(report: Report) -> Html:
    looks = marks(report.comparison)
    rows = []
    for row in report.finals:
        s = row.summary
        low, high = (None, None) if s.runs == 1 else (s.low, s.high)
        title = f"{words.short(row.name)}: {interval(s.mean, low, high)}"
        rows.append(Dot(named(row.name), s.mean, low, high, title, *looks[row.name]))
    return dots("Mean regret per agent", rows)


def _differences(report: Report) -> Html:
    """Differences; an arrow is far beyond what the lowest loses itself, and would hide the rest."""
    looks = marks(report.comparison)
    rows = []
    for row in report.finals:
        at = low = high = None
        if row.against is not None:
            at, _, low, high = (-each for each in row.against.difference)
            low, high = (None, None) if report.first.runs == 1 else (high, low)
        title = f"{words.short(row.name)}: {interval(at, low, high)}"
        rows.append(Dot(named(row.name), at, low, high, title, *looks[row.name]))
    lowest = next(row for row in report.finals if row.verdict == LOWEST)
    ends = [end for row in rows for end in (row.at, row.low, row.high) if end is not None]
    near = max((end for end in ends if end <= _FAR * lowest.summary.mean), default=0.0)
    end = near if near > 0 else max(ends) or 1.0
    scale = Scale(-max(0.15 * end, min(end, -min(ends))), 1.05 * end)
    title = f"Paired difference to {shortened(lowest.name)}"
    meaning = f"{title} of each algorithm with its 95% interval; right of 0 is more regret."
    return figure(Html(element("h3", title) + charts.dots(meaning, rows, scale, [Line(0.0, "")])))


def _pairs(compared: Sequence[Pair]) -> Html:
    headers = ["First", "Second", "Difference [95% interval]", "p", "p after Holm", "Verdict"]
    cells: list[list[Content]] = []
    for pair in compared:
        d = pair.difference
        verdict = badge("first is better", "good") if pair.decided else badge("undecided")
        cells.append(
            [
                Cell(named(pair.first)),
                Cell(named(pair.second)),
                Cell(interval(d.mean, d.low, d.high), d.mean),
                Cell(probability(pair.p), pair.p),
                Cell(probability(pair.adjusted_p), pair.adjusted_p),
                verdict,
            ]
        )
    return table(
        "Paired differences", headers, cells, "numbers pairs", heading=False, sortable=True
    )


def _runs(report: Report) -> Html:
    looks = marks(report.comparison)
    rows = []
    for row in report.tails:
        title = f"{words.short(row.name)}: median {number(row.median)}, worst {number(row.worst)}"
        rows.append(
            Dot(named(row.name), row.median, None, None, title, *looks[row.name], rug=rug(row.runs))
        )
    return dots("Regret per agent of single runs, and their median", rows)


def _said(rows: Sequence[Tail]) -> str:
    many = len(rows[0].runs) > RUG
    each = f"a line is one of {RUG} quantiles of the runs" if many else "a line is a run"
    return f"In the chart {each}, the mark their median."


# What happened inside the runs of a report, where it was kept: agents and messages.


def agents(report: Report) -> Section | None:
    """Single agents: the best, median and worst of a run, and who loses most on average."""
    if not report.agents:
        return None
    looks = marks(report.comparison)
    headers = ["Algorithm", "Best agent", "Median agent", "Worst agent", "Spread"]
    headers += ["Most on average", "Which agent"]
    cells: list[list[Content]] = []
    rows = []
    for row in report.agents:
        worst = int(row.means.argmax())
        estimates = (row.best, row.median, row.worst, row.spread)
        cells.append(
            [
                Cell(marked(row.name, looks[row.name])),
                *map(_estimate, estimates),
                Cell(number(row.means[worst]), float(row.means[worst])),
                Cell(f"{worst:,}", worst),
            ]
        )
        middle = float(np.median(row.means))
        title = f"{words.short(row.name)}: median {number(middle)}"
        look = looks[row.name]
        rows.append(Dot(named(row.name), middle, None, None, title, *look, rug=rug(row.means)))
    drawn = dots("Regret of single agents, mean of all runs, and their median", rows)
    said = (
        "Best, median and worst agent: of each run, averaged over runs, with 95% intervals. "
        "Spread: the standard deviation between the agents of a run. Most on average: the agent "
        "(counted from 0) whose mean over runs is highest; of agents alike it is one by chance."
    )
    shown = table("Agents", headers, cells, "numbers even", heading=False, sortable=True)
    return Section("agents", "Agents", [drawn, shown, paragraph(said, "quiet")])


def messages(report: Report) -> Section | None:
    """Numbers sent: over time, against regret, and as a table."""
    rows = report.messages
    if not rows:
        return None
    looks = marks(report.comparison)
    headers = ["Algorithm", "Numbers sent [95% interval]", "A round", "Regret per agent"]
    cells: list[list[Content]] = [
        [
            Cell(marked(row.name, looks[row.name])),
            _estimate(row.sent),
            Cell(number(row.a_round, 3), row.a_round),
            Cell(number(row.regret), row.regret),
        ]
        for row in rows
    ]
    parts: list[str] = [f"How many numbers an agent sends until round {report.first.horizon:,}."]
    if report.sent is not None:
        parts.append(curves.place(report.sent))
    if len(rows) > 1:
        parts.append(_against_regret(report))
    parts.append(table("Messages", headers, cells, "numbers even", heading=False, sortable=True))
    return Section("messages", "Messages", parts)


def _against_regret(report: Report) -> Html:
    rows = report.messages
    looks = marks(report.comparison)
    points = []
    for row in rows:
        name = words.short(row.name)
        title = f"{name}: regret {number(row.regret)}, {number(row.a_round, 3)} numbers a round"
        points.append(Point(row.name, row.a_round, row.regret, title, *looks[row.name]))
    on = find_pareto_front([(point.x, point.y) for point in points])
    title = "Regret against numbers sent"
    drawn = charts.plane(
        f"{title}; the table below has the numbers.",
        points,
        scale_of([point.x for point in points], log=True),
        scale_of([point.y for point in points]),
        ("numbers sent per agent and round", "regret per agent"),
        front=[point for point, best in zip(points, on, strict=True) if best],
        height=320,
    )
    caption = (
        "Down is less regret, left is less talk; who is on the line is beaten in both by none."
    )
    return figure(Html(element("h3", title) + drawn), caption)


def _estimate(estimate: Estimate[float]) -> Cell:
    mean, _, low, high = estimate
    return Cell(interval(mean, low, high) if low < high else number(mean), mean)


# The page of a report: its first lines, curves, settings and files around the other sections.

_LONGEST = 20_000  # letters of settings on the page: their file has all

# Sections are short: a page for each, as the paper's figures have, would be half empty.
_ON_PAPER = "@media print { section { break-before: auto; margin-top: 1.5rem; } }\n"


def render(report: Report) -> str:
    """The whole page; its tables are plain HTML, its curves are drawn from the embedded data."""
    sections = [
        _over_time(report),
        final(report),
        pairs(report),
        tails(report),
        agents(report),
        messages(report),
        _settings(report),
        _files(report),
    ]
    return document(
        report.title,
        [section for section in sections if section is not None],
        summary=_first_lines(report),
        style=_ON_PAPER,
        script=printing(),
        charts=[chart for chart in (report.regret, report.sent) if chart is not None],
    )


def _first_lines(report: Report) -> Html:
    (lowest,) = [row.name for row in report.finals if row.verdict == LOWEST]
    (tail,) = [row for row in report.tails if row.name == lowest]
    said = [paragraph(words.headline(report.finals), "headline")]
    if worst := words.worst_run(tail):
        said.append(paragraph(worst))
    return Html("\n".join([*said, facts(words.facts(report.comparison))]))


def _over_time(report: Report) -> Section | None:
    if report.regret is None:
        return None
    runs = report.first.runs
    said = "One run." if runs == 1 else f"Means of {counted(runs, 'run')} in their 95% bands."
    parts = [paragraph(said, "caption"), curves.place(report.regret)]
    return Section("curves", "Regret over time", parts, link="Curves")


def _settings(report: Report) -> Section:
    rerun = report.rerun
    text = settings_text(report)
    parts: list[str] = []
    if rerun.toml is None:
        parts.append(f"No file gives these numbers again: {rerun.why_not}.")
    else:
        parts.append("This file gives the same numbers again:")
        parts.append(element("pre", "posse run files/experiment.toml"))
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more letters"
    parts.append(folded("The experiment" if rerun.toml else "All settings", element("pre", text)))
    if hint := words.not_kept(report.first):
        parts.append(paragraph(hint, "note"))
    return Section("settings", "Settings", parts)


def _files(report: Report) -> Section:
    rows = [
        [_link(file), f"{file.meaning} ({file.missing})" if file.missing else file.meaning]
        for file in report.files
    ]
    shown = table("Files", ["File", "What is in it"], rows, "sentences", heading=False)
    return Section("files", "Files", [shown])


def _link(file: File) -> Html:
    name = file.path.rpartition("/")[2]
    return element("a", name, href=file.path) if not file.missing else element("s", name)
