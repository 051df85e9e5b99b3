"""Final regrets of a report: means, pairs and tails."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posse.lab.pages import charts
from posse.lab.pages.charts import Dot, Line
from posse.lab.pages.document import Section, figure, folded, paragraph
from posse.lab.pages.formats import counted, interval, number, probability, share
from posse.lab.pages.labels import shortened
from posse.lab.pages.markup import Html, element, named
from posse.lab.pages.scales import Scale
from posse.lab.pages.tables import Cell, Content, badge, table
from posse.lab.pages.words import undecided, unseen_tails
from posse.lab.report import words
from posse.lab.report.data import Report
from posse.lab.report.drawing import RUG, dots, marked, marks, rug
from posse.lab.report.numbers import LOWEST, MORE, Pair, Tail

_BADGES = {LOWEST: "good", MORE: "bad"}
_FAR = 3.0  # times the lowest regret
_FEW, _MANY = 15, 300  # pairs that are shown at once, and that are shown at all


def final(report: Report) -> Section:
    """The mean of each, the difference to the lowest, and all of it as a table."""
    rows, several = report.finals, len(report.finals) > 1
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
