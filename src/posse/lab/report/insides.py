"""What happened inside the runs of a report, where it was kept: agents and messages."""

from __future__ import annotations

import numpy as np

from posse.lab.pages import charts, curves
from posse.lab.pages.charts import Dot, Point
from posse.lab.pages.document import Section, figure, paragraph
from posse.lab.pages.formats import interval, number
from posse.lab.pages.markup import Html, element, named
from posse.lab.pages.scales import scale_of
from posse.lab.pages.tables import Cell, Content, table
from posse.lab.report import words
from posse.lab.report.data import Report
from posse.lab.report.drawing import dots, marked, marks, rug
from posse.lab.statistics import Estimate, on_front


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
    rows, looks = report.messages, marks(report.comparison)
    points = []
    for row in rows:
        name = words.short(row.name)
        title = f"{name}: regret {number(row.regret)}, {number(row.a_round, 3)} numbers a round"
        points.append(Point(row.name, row.a_round, row.regret, title, *looks[row.name]))
    on = on_front([(point.x, point.y) for point in points])
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
