"""The arena over all instances: ranks, the price in numbers sent, and who wins where."""

from __future__ import annotations

import math
from collections.abc import Mapping

from posse.lab.arena.data import (
    BETTER,
    MARKS,
    WORSE,
    YOURS,
    ArenaReport,
    InstanceReport,
    Score,
    Standing,
)
from posse.lab.arena.page.instance import anchor
from posse.lab.arena.page.marks import legend, look, named, plain
from posse.lab.pages import charts
from posse.lab.pages.charts import Dot, Line, Point
from posse.lab.pages.document import Section, figure
from posse.lab.pages.formats import counted, interval, number
from posse.lab.pages.heat import Field, heat_map
from posse.lab.pages.markup import Html, element, isolated
from posse.lab.pages.scales import scale_of
from posse.lab.pages.tables import Cell, Content, table
from posse.lab.pages.words import listed

_WARMEST = 4.0  # the ratio (or its inverse) from which on the map's colour says no more


def ranks(report: ArenaReport) -> Section:
    """Everybody over all instances: the ratio to the reference as dots and all as a table."""
    parts: list[str] = []
    compared = [each for each in report.standings if each.ratio is not None]
    if len(compared) > 1:
        parts += [_ratios(report), legend(each.source for each in report.standings)]
    parts.append(_table(report))
    if report.notes:
        notes = element("ul", *(element("li", note) for note in report.notes), class_="quiet")
        parts += [element("h3", "How ranks are made, and what these runs cannot show"), notes]
    return Section("ranks", "Over all instances", parts, link="Ranks")


def communication(report: ArenaReport) -> Section | None:
    """Regret against numbers sent over all instances."""
    shown = [each for each in report.standings if None not in (each.ratio, each.numbers_sent)]
    if len(shown) < 2:
        return None
    shown.sort(key=lambda each: (each.source != YOURS, not each.on_front))
    points = {each.algorithm: _point(each) for each in shown}
    front = [points[each.algorithm] for each in shown if each.on_front]
    front.sort(key=lambda point: point.x)
    title = "Regret against numbers sent, over all instances"
    ratio = f"regret over that of {report.reference}, geometric mean"
    drawn = charts.plane(
        f"{title}; the table above has the numbers.",
        list(points.values()),
        scale_of([point.x for point in points.values()], log=True),
        scale_of([1.0, *(point.y for point in points.values())], log=True),
        ("numbers sent per agent and round", ratio),
        front=front,
        level=Line(1.0, report.reference),
    )
    said = [
        "Down is less regret, left is less talk. The line is the Pareto front: whoever is on it is "
        "beaten by nobody in both. From the silent to the talkative: "
        + ", ".join(point.name for point in front)
        + ". A mark without room for its name tells it when pointed at."
        if front
        else ""
    ]
    missing = [plain(each.algorithm, each.source) for each in report.standings if each not in shown]
    if missing:
        said.append(f"Not in the picture, for want of a method numbers_sent: {listed(missing)}.")
    marks = legend(each.source for each in shown)
    return Section("communication", "Regret against communication", [*said, figure(drawn), marks])


def map_of(report: ArenaReport, sources: Mapping[str, str]) -> Section | None:
    """The ratio to the reference of every algorithm on every instance."""
    place = {each.algorithm: i for i, each in enumerate(report.standings)}
    entrants = sorted(report.entrants, key=lambda each: place.get(each.rival, len(place)))
    if len(entrants) < 2 or not report.instances:
        return None
    rows = []
    for instance in report.instances:
        scores = {score.algorithm: score for score in instance.scores}
        why = {each.algorithm: each.why for each in instance.refusals}
        fields = [
            _field(instance, each.name, scores.get(each.name), why.get(each.name))
            for each in entrants
        ]
        name = element(
            "a", f"{instance.number}. {instance.name}", href=f"#{anchor(instance.number)}"
        )
        rows.append((name, fields))
    drawn = heat_map(
        "Ratios of regret",
        "Instance",
        [named(each.name, each.source) for each in entrants],
        rows,
        [each.source == YOURS for each in entrants],
    )
    said = (
        f"Regret over that of {report.reference}: below 1 is better. Bold: decided after Holm's "
        "correction. An empty field: could not play (its reason when pointed at, and below)."
    )
    return Section(
        "map", "Who wins where", [said, drawn, legend(sources.values())], link="Heat map"
    )


def refusals(report: ArenaReport, sources: Mapping[str, str]) -> Section | None:
    """Who could not play, where and why."""
    where: dict[tuple[str, str], list[int]] = {}
    for instance in report.instances:
        for each in instance.refusals:
            where.setdefault((each.algorithm, each.why), []).append(instance.number)
    if not where:
        return None
    rows = [[named(name, sources[name]), _links(on), why] for (name, why), on in where.items()]
    headers = ["Algorithm", "Instances", "Why"]
    drawn = table("Who could not play", headers, rows, "sentences", heading=False)
    return Section("refusals", "Who could not play, and why", [drawn], link="Could not play")


def _ratios(report: ArenaReport) -> Html:
    rows = [
        Dot(
            named(each.algorithm, each.source),
            each.ratio,
            each.ratio_low,
            each.ratio_high,
            f"{plain(each.algorithm, each.source)}: {_ratio(each)}",
            look(each.source).kind,
            look(each.source).glyph,
            own=each.source == YOURS,
        )
        for each in report.standings
    ]
    values = [value for row in rows for value in (row.at, row.low, row.high)]
    scale = scale_of(values, log=True)  # twice and half are equally far from 1
    title = f"Regret over that of {report.reference}, geometric mean and 95% interval"
    drawn = charts.dots(f"{title}; left is better.", rows, scale, [Line(1.0, report.reference)])
    return figure(Html(element("h3", f"{title} (left is better)") + drawn))


def _table(report: ArenaReport) -> Html:
    reference = report.reference
    tails = [_worst_tail(report, each) for each in report.standings]
    known = any(ratio is not None for ratio, _ in tails)  # few runs know no tails
    headers = [
        "Algorithm",
        "Rank",
        f"Regret over {reference}'s [95% interval]",
        f"Better / undecided / worse than {reference}",
        "Mean rank",
        "Instances with rank 1",
        "Numbers sent a round",
        "Worst instance",
        *([f"Worst tail over {reference}'s"] if known else []),
        "Instances",
        "Source",
    ]
    rows: list[list[Content]] = []
    for each, tail in zip(report.standings, tails, strict=True):
        rows.append(
            [
                Cell(named(each.algorithm, each.source)),
                Cell(None if each.rank is None else str(each.rank), each.rank),
                Cell("1" if each.algorithm == reference else _ratio(each), each.ratio),
                Cell(_tally(each, reference), None if each.algorithm == reference else each.better),
                Cell(number(each.mean_rank, 3), each.mean_rank),
                Cell(str(each.firsts) if each.rank is not None else None, each.firsts),
                Cell(number(each.numbers_sent, 3), each.numbers_sent),
                Cell(_at(each.worst_ratio, each.worst_instance), each.worst_ratio),
                *([Cell(_at(*tail), tail[0])] if known else []),
                Cell(str(each.instances), each.instances),
                MARKS.get(each.source, each.source),
            ]
        )
    own = [each.source == YOURS for each in report.standings]
    return table("Ranks", headers, rows, "numbers standings", sortable=True, marked=own)


def _ratio(standing: Standing) -> str:
    return interval(standing.ratio, standing.ratio_low, standing.ratio_high, 3)


def _tally(standing: Standing, reference: str) -> str | None:
    if standing.algorithm == reference:
        return None
    return f"{standing.better} / {standing.undecided} / {standing.worse}"


def _at(ratio: float | None, instance: int | None) -> Html | None:
    """A ratio and the instance it is of."""
    if ratio is None or instance is None:
        return None
    return Html(f"{number(ratio, 3)} ({_link(instance)})")


def _link(number: int) -> Html:
    return element("a", str(number), href=f"#{anchor(number)}")


def _links(numbers: list[int]) -> Html:
    return Html(", ".join(map(_link, numbers)))


def _worst_tail(report: ArenaReport, standing: Standing) -> tuple[float | None, int | None]:
    """The largest ratio of the 99th (where unknown 95th) percentile to the reference's."""
    names = {each.name for each in report.entrants if each.rival == standing.algorithm}
    found: list[tuple[float, int]] = []
    for instance in report.instances:
        against = [each for each in instance.scores if each.algorithm == report.reference]
        versions = [each for each in instance.scores if each.algorithm in names]
        ranked = [each for each in versions if each.rank is not None] or versions
        for score in ranked[:1]:
            ratio = _tail_ratio(score, against[0]) if against else None
            if ratio is not None:
                found.append((ratio, instance.number))
    return max(found, default=(None, None))


def _tail_ratio(score: Score, against: Score) -> float | None:
    for one, two in (
        (score.percentile_99, against.percentile_99),
        (score.percentile_95, against.percentile_95),
    ):
        if one is not None and two:
            return one / two
    return None


def _point(standing: Standing) -> Point:
    assert standing.ratio is not None
    assert standing.numbers_sent is not None
    name, mark = plain(standing.algorithm, standing.source), look(standing.source)
    title = f"{name}: {_ratio(standing)}, {number(standing.numbers_sent, 3)} numbers sent"
    return Point(name, standing.numbers_sent, standing.ratio, title, mark.kind, mark.glyph)


def _field(instance: InstanceReport, name: str, score: Score | None, why: str | None) -> Field:
    where = f"{isolated(name)} on {instance.number}. {instance.name}"
    if score is None or score.ratio is None:
        return Field("", None, f"{where}: {why or 'no ratio'}")
    ratio = score.ratio
    shade = math.log(ratio) / math.log(_WARMEST) if ratio > 0 else -1.0
    title = f"{where}: {number(ratio, 3)}, {score.verdict}"
    return Field(_short(ratio), shade, title, strong=score.verdict in (BETTER, WORSE))


def _short(ratio: float) -> str:
    places = 2 if ratio < 1.995 else 1 if ratio < 9.95 else 0
    return f"{ratio:,.{places}f}"


def facts_of(report: ArenaReport) -> list[str]:
    """How the report was made, in short facts."""
    made = report.made
    return [
        f"{made.mode.capitalize()} form",
        counted(len(report.instances), "instance"),
        counted(len(report.entrants), "algorithm"),
        f"{counted(made.runs, 'run')} an instance",
        f"seed {made.seed}",
    ]
