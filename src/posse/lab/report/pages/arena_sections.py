"""How an algorithm is shown everywhere on the page: its name, its mark and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from posse.lab.arena.report_data import (
    ABSTRACT,
    BASELINE,
    BETTER,
    BOUND,
    CODE,
    MARKS,
    MEMORY,
    OURS,
    PAPER,
    WORSE,
    YOURS,
    ArenaReport,
    InstanceReport,
    Score,
    Standing,
)
from posse.lab.report import charts
from posse.lab.report import html as markup
from posse.lab.report.charts import (
    Dot,
    Field,
    Line,
    Point,
    centred,
    heat_map,
    scale_of,
    shortened,
    swatch,
)
from posse.lab.report.document import Section, figure, folded, paragraph
from posse.lab.report.html import Cell, Content, Html, badge, element, isolated, table
from posse.lab.report.text import counted, interval, listed, number, probability, share

LONGEST = 60  # letters of a name in a sentence


@dataclass(frozen=True)
class Look:
    """The glyph of a source in charts, its class, and the sign after names if there is one."""

    glyph: str
    kind: str
    sign: str = ""


LOOKS = {
    PAPER: Look("circle", "paper"),
    BASELINE: Look("circle", "baseline"),
    OURS: Look("diamond", "ours"),
    CODE: Look("square", "rival"),
    ABSTRACT: Look("square", "rival", "‡"),
    MEMORY: Look("square", "rival", "†"),
    BOUND: Look("circle", "floor"),
    YOURS: Look("star", "yours"),
}


def look(source: str) -> Look:
    """The look of a source."""
    return LOOKS.get(source, Look("square", "rival"))


def sources(report: ArenaReport) -> dict[str, str]:
    """Where each algorithm and each rival comes from, by name."""
    by_rival = {each.algorithm: each.source for each in report.standings}
    return by_rival | {each.name: each.source for each in report.entrants}


def plain(name: str, source: str) -> str:
    """The name with its sign, as text for sentences and what is pointed at."""
    return shortened(name, LONGEST) + look(source).sign


def named(name: str, source: str, link: str | None = None) -> Html:
    """The name with its sign."""
    sign = look(source).sign
    mark = element("sup", sign, title=MARKS[source], class_="sign") if sign else ""
    return markup.named(name, link, mark)


def legend(used: Iterable[str]) -> Html:
    """Every source that is used: its glyph, its sign and its words."""
    seen = set(used)
    items = [
        element(
            "li",
            swatch(look(source).glyph, look(source).kind),
            f" {look(source).sign} {words}" if look(source).sign else f" {words}",
        )
        for source, words in MARKS.items()
        if source in seen
    ]
    return element("ul", *items, class_="marks", aria_label="Marks")


# A section for an instance: what it asks, regret with its bound, regret against communication.

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
    name = named(score.algorithm, source)
    mark = look(source)
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


# The arena over all instances: ranks, the price in numbers sent, and who wins where.

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
    points = {each.algorithm: _draw_overall_point(each) for each in shown}
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


def _draw_overall_point(standing: Standing) -> Point:
    assert standing.ratio is not None
    assert standing.numbers_sent is not None
    name = plain(standing.algorithm, standing.source)
    mark = look(standing.source)
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
