"""A section for an instance: what it asks, regret with its bound, regret against communication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posse.lab.arena.data import BETTER, WORSE, YOURS, InstanceReport, Score
from posse.lab.arena.page.marks import legend, look, named, plain
from posse.lab.pages import charts
from posse.lab.pages.charts import Dot, Line, Point
from posse.lab.pages.document import Section, figure, folded, paragraph
from posse.lab.pages.formats import counted, interval, number, probability, share
from posse.lab.pages.markup import Html, element
from posse.lab.pages.scales import centred, scale_of
from posse.lab.pages.tables import Cell, Content, badge, table

BOUND_NAME = "Lai–Robbins"
BADGES = {BETTER: "good", WORSE: "bad"}


def section(instance: InstanceReport, reference: str, sources: Mapping[str, str]) -> Section:
    """Everything the page shows of an instance."""
    parts: list[str] = [paragraph(_facts(instance), "caption"), f"Why: {instance.why}"]
    if instance.scores:
        used = [sources[score.algorithm] for score in instance.scores]
        drawn = [_regret(instance, reference, sources)]
        if any(score.difference is not None for score in instance.scores):
            drawn.append(_differences(instance, reference, sources))
        parts += [
            element("div", *drawn, class_="side-by-side"),
            _communication(instance, sources),
            legend(used),
            folded("All numbers", numbers(instance, reference, sources)),
        ]
    else:
        parts.append(paragraph("Nobody could play it.", "note"))
    parts.append(_refusals(instance, sources))
    link = str(instance.number)
    title = f"{instance.number}. {instance.name}"
    return Section(anchor(instance.number), title, parts, link=link, tooltip=instance.name)


def anchor(number: int) -> str:
    """The name of the instance's section in links."""
    return f"instance-{number}"


def numbers(instance: InstanceReport, reference: str, sources: Mapping[str, str]) -> Html:
    """All numbers of an instance, a row for each algorithm."""
    headers = [
        "Algorithm",
        "Rank",
        "Mean regret [95% interval]",
        f"Difference to {reference} [95% interval]",
        "p after Holm",
        f"Against {reference}",
        "95th percentile run",
        "99th percentile run",
        "Worst agent",
        "Wrong final arm",
        "Numbers sent a round",
        "Engine",
    ]
    rows: list[list[Content]] = [
        [
            Cell(named(score.algorithm, sources[score.algorithm])),
            Cell(_rank(score), score.rank),
            Cell(interval(score.mean, score.low, score.high), score.mean),
            Cell(
                interval(score.difference, score.difference_low, score.difference_high),
                score.difference,
            ),
            Cell(probability(score.adjusted_p), score.adjusted_p),
            badge(score.verdict, BADGES.get(score.verdict, "plain")),
            Cell(number(score.percentile_95), score.percentile_95),
            Cell(number(score.percentile_99), score.percentile_99),
            Cell(number(score.worst_agent), score.worst_agent),
            Cell(share(score.wrong_share), score.wrong_share),
            Cell(number(score.numbers_sent, 3), score.numbers_sent),
            score.engine,
        ]
        for score in instance.scores
    ]
    own = [sources[score.algorithm] == YOURS for score in instance.scores]
    title = f"Regret per agent at round {instance.horizon:,}"
    return table(title, headers, rows, sortable=True, marked=own)


def _facts(instance: InstanceReport) -> str:
    rounds = counted(instance.horizon, "round")
    if instance.horizon < instance.full_horizon:
        rounds += f" (the suite asks for {instance.full_horizon:,})"
    return (
        f"{instance.arms} · {instance.network} · {counted(instance.n_agents, 'agent')}, "
        f"{counted(instance.n_arms, 'arm')} · {rounds} · {counted(instance.runs, 'run')}"
    )


def _rank(score: Score) -> str | None:
    return None if score.rank is None else str(score.rank)


def _dot(
    score: Score, values: Sequence[float | None], said: str, sources: Mapping[str, str]
) -> Dot:
    source = sources[score.algorithm]
    at, low, high = values
    title = f"{plain(score.algorithm, source)}: {said} {interval(at, low, high)}"
    name, mark = named(score.algorithm, source), look(source)
    return Dot(name, at, low, high, title, mark.kind, mark.glyph, own=source == YOURS)


def _regret(instance: InstanceReport, reference: str, sources: Mapping[str, str]) -> Html:
    scores = instance.scores
    bound = instance.lower_bound
    rows = [_dot(each, (each.mean, each.low, each.high), "regret", sources) for each in scores]
    scale = scale_of([*(each.mean for each in scores), *(each.high for each in scores), bound])
    lines = [Line(each.mean, reference) for each in scores if each.algorithm == reference]
    if bound is not None:
        lines.append(Line(bound, BOUND_NAME, "bound"))
    title = "Regret per agent" + (", logarithmic axis" if scale.log else "")
    meaning = f"{title} of each algorithm with its 95% interval; the table below has the numbers."
    return figure(Html(element("h3", title) + charts.dots(meaning, rows, scale, lines)))


def _differences(instance: InstanceReport, reference: str, sources: Mapping[str, str]) -> Html:
    """Differences up to the reference's own regret: those beyond it are far from undecided."""
    scores = instance.scores
    most = next((each.mean for each in scores if each.algorithm == reference), 0.0)
    rows = [
        _dot(
            each,
            (each.difference, each.difference_low, each.difference_high),
            f"difference to {reference}",
            sources,
        )
        for each in scores
    ]
    scale = centred([end for row in rows for end in (row.at, row.low, row.high)], most)
    title = f"Paired difference to {reference}"
    meaning = f"{title} of each algorithm with its 95% interval; left of 0 is better."
    drawn = charts.dots(meaning, rows, scale, [Line(0.0, "")])
    return figure(Html(element("h3", f"{title} (left is better)") + drawn))


def _communication(instance: InstanceReport, sources: Mapping[str, str]) -> Html:
    """Regret against numbers sent; the reader's own and the front get their names first."""
    shown = [each for each in instance.scores if each.numbers_sent is not None]
    shown.sort(key=lambda each: (sources[each.algorithm] != YOURS, not each.on_front))
    if len(shown) < 2:
        return Html()
    points = {each.algorithm: _point(each, sources) for each in shown}
    level = instance.lower_bound
    title = "Regret against numbers sent"
    return figure(
        Html(
            element("h3", title)
            + charts.plane(
                f"{title}; the table below has the numbers.",
                list(points.values()),
                scale_of([point.x for point in points.values()], log=True),
                scale_of([*(point.y for point in points.values()), level]),
                ("numbers sent per agent and round", "regret per agent"),
                front=[points[each.algorithm] for each in shown if each.on_front],
                level=None if level is None else Line(level, BOUND_NAME, "bound"),
                height=360,
            )
        )
    )


def _point(score: Score, sources: Mapping[str, str]) -> Point:
    source = sources[score.algorithm]
    assert score.numbers_sent is not None
    name = plain(score.algorithm, source)
    title = f"{name}: regret {number(score.mean)}, {number(score.numbers_sent, 3)} numbers sent"
    mark = look(source)
    return Point(name, score.numbers_sent, score.mean, title, mark.kind, mark.glyph)


def _refusals(instance: InstanceReport, sources: Mapping[str, str]) -> Html:
    if not instance.refusals:
        return Html()
    items = [
        element("li", named(each.algorithm, sources[each.algorithm]), f": {each.why}")
        for each in instance.refusals
    ]
    title = f"{counted(len(items), 'algorithm')} could not play"
    return folded(title, element("ul", *items))
