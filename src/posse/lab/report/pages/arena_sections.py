"""Sections of the arena's page: ranks over all instances, the map, and one for each instance.

Every algorithm looks the same everywhere on the page: its name, and the glyph and sign of its
source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from posse.lab.arena import (
    ABSTRACT,
    BASELINE,
    BOUND,
    CODE,
    MARKS,
    MEMORY,
    OURS,
    PAPER,
    TUNED,
    YOURS,
    ArenaReport,
    InstanceReport,
    LeaderboardRow,
)
from posse.lab.report import charts
from posse.lab.report import html as markup
from posse.lab.report.charts import (
    DotRow,
    HeatMapField,
    PlanePoint,
    ReferenceLine,
    centre_scale,
    draw_heat_map,
    draw_swatch,
    fit_scale,
    shorten_name,
)
from posse.lab.report.document import Section, fold_content, render_figure, render_paragraph
from posse.lab.report.html import (
    CellContent,
    Html,
    TableCell,
    isolate_name,
    render_badge,
    render_element,
    render_table,
)
from posse.lab.report.scoreboard import BETTER, WORSE, ScoreRow
from posse.lab.report.text import (
    count_things,
    format_interval,
    format_number,
    format_p_value,
    format_share,
    list_names,
)

MOST_LETTERS = 60  # of a name in a sentence


@dataclass(frozen=True)
class SourceMark:
    """The glyph of a source in charts, its style class, and the sign after names if any."""

    glyph: str
    kind: str
    sign: str = ""


SOURCE_MARKS = {
    PAPER: SourceMark("circle", "paper"),
    BASELINE: SourceMark("circle", "baseline"),
    OURS: SourceMark("diamond", "ours"),
    CODE: SourceMark("square", "rival"),
    ABSTRACT: SourceMark("square", "rival", "‡"),
    MEMORY: SourceMark("square", "rival", "†"),
    TUNED: SourceMark("square", "rival"),
    BOUND: SourceMark("circle", "floor"),
    YOURS: SourceMark("star", "yours"),
}


def mark_of(source: str) -> SourceMark:
    """Give the mark of a source."""
    return SOURCE_MARKS.get(source, SourceMark("square", "rival"))


def sources_by_name(report: ArenaReport) -> dict[str, str]:
    """Give the source of each algorithm and each rival."""
    by_rival = {standing.algorithm: standing.source for standing in report.standings}
    return by_rival | {entrant.name: entrant.source for entrant in report.entrants}


def name_with_sign(name: str, source: str) -> str:
    """Write a name with its sign as plain text, for sentences and tooltips."""
    return shorten_name(name, MOST_LETTERS) + mark_of(source).sign


def render_name(name: str, source: str, link: str | None = None) -> Html:
    """Render a name with its sign."""
    sign = mark_of(source).sign
    superscript = render_element("sup", sign, title=MARKS[source], class_="sign") if sign else ""
    return markup.render_name(name, link, superscript)


def render_legend(used: Iterable[str]) -> Html:
    """List the sources that are used: their glyphs, signs and words."""
    # In the order of MARKS, whatever the order of the algorithms.
    used_sources = set(used)
    items = []
    for source, words in MARKS.items():
        if source in used_sources:
            mark = mark_of(source)
            text = f" {mark.sign} {words}" if mark.sign else f" {words}"
            items.append(render_element("li", draw_swatch(mark.glyph, mark.kind), text))
    return render_element("ul", *items, class_="marks", aria_label="Marks")


# A section for an instance: its purpose, regret beside the bound, regret against communication.

BOUND_NAME = "Lai–Robbins"
BADGES = {BETTER: "good", WORSE: "bad"}


def render_instance(
    instance: InstanceReport, reference: str, sources: Mapping[str, str]
) -> Section:
    """Render everything that the page shows of an instance."""
    rows = instance.scoreboard.rows
    parts: list[str] = [
        render_paragraph(_describe_instance(instance), "caption"),
        f"Why: {instance.why}",
    ]
    if rows:
        drawings = [_draw_regrets(instance, reference, sources)]
        if any(row.difference is not None for row in rows):
            drawings.append(_draw_differences(instance, reference, sources))
        parts += [
            render_element("div", *drawings, class_="side-by-side"),
            _draw_communication(instance, sources),
            render_legend(sources[row.algorithm] for row in rows),
            fold_content("All numbers", tabulate_scoreboard(instance, reference, sources)),
        ]
    else:
        parts.append(render_paragraph("Nobody could play it.", "note"))
    parts.append(_list_refusals(instance, sources))
    link = str(instance.number)
    title = f"{instance.number}. {instance.name}"
    return Section(anchor_of(instance.number), title, parts, link=link, tooltip=instance.name)


def anchor_of(number: int) -> str:
    """Give the name of the instance's section in links."""
    return f"instance-{number}"


def tabulate_scoreboard(
    instance: InstanceReport, reference: str, sources: Mapping[str, str]
) -> Html:
    """Show the scoreboard of an instance, a row for each algorithm."""
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
    scores = instance.scoreboard.rows
    rows: list[list[CellContent]] = []
    for score in scores:
        mean, low, high = _difference_of(score)
        adjusted_p = score.difference.adjusted_p if score.difference else None
        tail = score.tail
        rows.append(
            [
                TableCell(render_name(score.algorithm, sources[score.algorithm])),
                TableCell(None if score.rank is None else str(score.rank), score.rank),
                TableCell(_write_regret(score), score.regret.mean),
                TableCell(format_interval(mean, low, high), mean),
                TableCell(format_p_value(adjusted_p), adjusted_p),
                render_badge(score.verdict, BADGES.get(score.verdict, "plain")),
                TableCell(format_number(tail.percentile_95), tail.percentile_95),
                TableCell(format_number(tail.percentile_99), tail.percentile_99),
                TableCell(format_number(score.worst_agent), score.worst_agent),
                TableCell(format_share(tail.wrong_leader), tail.wrong_leader),
                TableCell(format_number(score.sent_per_round, 3), score.sent_per_round),
                score.engine,
            ]
        )
    is_yours = [sources[score.algorithm] == YOURS for score in scores]
    title = f"Regret per agent at round {instance.horizon:,}"
    return render_table(title, headers, rows, sortable=True, marked=is_yours)


def _difference_of(score: ScoreRow) -> tuple[float | None, float | None, float | None]:
    """Give the difference to the reference and the ends of its 95% interval."""
    if score.difference is None:
        return None, None, None
    mean, _, low, high = score.difference.difference
    return mean, low, high


def _write_regret(score: ScoreRow) -> str:
    mean, _, low, high = score.regret
    return format_interval(mean, low, high)


def _describe_instance(instance: InstanceReport) -> str:
    rounds = count_things(instance.horizon, "round")
    if instance.horizon < instance.full_horizon:
        rounds += f" (the suite asks for {instance.full_horizon:,})"
    return (
        f"{instance.arms} · {instance.network} · {count_things(instance.n_agents, 'agent')}, "
        f"{count_things(instance.n_arms, 'arm')} · {rounds} · {count_things(instance.runs, 'run')}"
    )


def _build_dot(
    score: ScoreRow,
    values: Sequence[float | None],
    quantity: str,
    sources: Mapping[str, str],
) -> DotRow:
    source = sources[score.algorithm]
    at, low, high = values
    title = (
        f"{name_with_sign(score.algorithm, source)}: {quantity} {format_interval(at, low, high)}"
    )
    name = render_name(score.algorithm, source)
    mark = mark_of(source)
    return DotRow(name, at, low, high, title, mark.kind, mark.glyph, own=source == YOURS)


def _draw_regrets(instance: InstanceReport, reference: str, sources: Mapping[str, str]) -> Html:
    scores = instance.scoreboard.rows
    bound = instance.lower_bound
    dots = []
    for score in scores:
        mean, _, low, high = score.regret
        dots.append(_build_dot(score, (mean, low, high), "regret", sources))
    means = [score.regret.mean for score in scores]
    scale = fit_scale([*means, *(score.regret.high for score in scores), bound])
    lines = [ReferenceLine(s.regret.mean, reference) for s in scores if s.algorithm == reference]
    if bound is not None:
        lines.append(ReferenceLine(bound, BOUND_NAME, "bound"))
    title = "Regret per agent" + (", logarithmic axis" if scale.log else "")
    meaning = f"{title} of each algorithm with its 95% interval; the table below has the numbers."
    return render_figure(
        Html(render_element("h3", title) + charts.draw_dots(meaning, dots, scale, lines))
    )


def _draw_differences(instance: InstanceReport, reference: str, sources: Mapping[str, str]) -> Html:
    """Draw differences up to the reference's own regret: those beyond it are clearly decided."""
    scores = instance.scoreboard.rows
    # A rival may lose a hundred times as much; near zero, where it is close, is what matters.
    most = next((s.regret.mean for s in scores if s.algorithm == reference), 0.0)
    quantity = f"difference to {reference}"
    dots = [_build_dot(score, _difference_of(score), quantity, sources) for score in scores]
    scale = centre_scale([end for dot in dots for end in (dot.at, dot.low, dot.high)], most)
    title = f"Paired difference to {reference}"
    meaning = f"{title} of each algorithm with its 95% interval; left of 0 is better."
    drawing = charts.draw_dots(meaning, dots, scale, [ReferenceLine(0.0, "")])
    return render_figure(Html(render_element("h3", f"{title} (left is better)") + drawing))


def _draw_communication(instance: InstanceReport, sources: Mapping[str, str]) -> Html:
    """Draw regret against numbers sent; the reader's own and the front get their names first."""
    scores = [row for row in instance.scoreboard.rows if row.sent_per_round is not None]
    scores.sort(key=lambda score: (sources[score.algorithm] != YOURS, not score.on_front))
    # One point has nothing to be compared with.
    if len(scores) < 2:
        return Html()
    points = {score.algorithm: _build_point(score, sources) for score in scores}
    level = instance.lower_bound
    title = "Regret against numbers sent"
    drawing = charts.draw_plane(
        f"{title}; the table below has the numbers.",
        list(points.values()),
        fit_scale([point.x for point in points.values()], log=True),
        fit_scale([*(point.y for point in points.values()), level]),
        ("numbers sent per agent and round", "regret per agent"),
        front=[points[score.algorithm] for score in scores if score.on_front],
        level=None if level is None else ReferenceLine(level, BOUND_NAME, "bound"),
        height=360,
    )
    return render_figure(Html(render_element("h3", title) + drawing))


def _build_point(score: ScoreRow, sources: Mapping[str, str]) -> PlanePoint:
    source = sources[score.algorithm]
    sent = score.sent_per_round
    assert sent is not None
    mean = score.regret.mean
    name = name_with_sign(score.algorithm, source)
    title = f"{name}: regret {format_number(mean)}, {format_number(sent, 3)} numbers sent"
    mark = mark_of(source)
    return PlanePoint(name, sent, mean, title, mark.kind, mark.glyph)


def _list_refusals(instance: InstanceReport, sources: Mapping[str, str]) -> Html:
    if not instance.refusals:
        return Html()
    items = [
        render_element(
            "li", render_name(refusal.algorithm, sources[refusal.algorithm]), f": {refusal.why}"
        )
        for refusal in instance.refusals
    ]
    title = f"{count_things(len(items), 'algorithm')} could not play"
    return fold_content(title, render_element("ul", *items))


# The arena over all instances: the leaderboard, the price in numbers sent, and the map.

_WARMEST_RATIO = 4.0  # beyond it, and below its inverse, the colour of the map does not change


def render_ranks(report: ArenaReport) -> Section:
    """Render the leaderboard: ratios to the reference as dots, and everything as a table."""
    parts: list[str] = []
    compared = [standing for standing in report.standings if standing.ratio is not None]
    if len(compared) > 1:
        legend = render_legend(standing.source for standing in report.standings)
        parts += [_draw_ratios(report), legend]
    parts.append(_tabulate_standings(report))
    if report.notes:
        notes = render_element(
            "ul", *(render_element("li", note) for note in report.notes), class_="quiet"
        )
        parts += [
            render_element("h3", "How ranks are made, and what these runs cannot show"),
            notes,
        ]
    return Section("ranks", "Over all instances", parts, link="Ranks")


def render_communication(report: ArenaReport) -> Section | None:
    """Render regret against numbers sent over all instances."""
    drawable = [s for s in report.standings if None not in (s.ratio, s.numbers_sent)]
    if len(drawable) < 2:
        return None
    # The first points get their labels first: the reader's own, then the front.
    drawable.sort(key=lambda standing: (standing.source != YOURS, not standing.on_front))
    points = {standing.algorithm: _build_overall_point(standing) for standing in drawable}
    front = [points[standing.algorithm] for standing in drawable if standing.on_front]
    front.sort(key=lambda point: point.x)
    title = "Regret against numbers sent, over all instances"
    ratio = f"regret over that of {report.reference}, geometric mean"
    drawing = charts.draw_plane(
        f"{title}; the table above has the numbers.",
        list(points.values()),
        fit_scale([point.x for point in points.values()], log=True),
        fit_scale([1.0, *(point.y for point in points.values())], log=True),
        ("numbers sent per agent and round", ratio),
        front=front,
        level=ReferenceLine(1.0, report.reference),
    )
    sentences = [
        "Down is less regret, left is less talk. The line is the Pareto front: whoever is on it is "
        "beaten by nobody in both. From the silent to the talkative: "
        + ", ".join(point.name for point in front)
        + ". A mark without room for its name tells it when pointed at."
        if front
        else ""
    ]
    missing = [name_with_sign(s.algorithm, s.source) for s in report.standings if s not in drawable]
    if missing:
        names = list_names(missing)
        sentences.append(f"Not in the picture, for want of a method numbers_sent: {names}.")
    legend = render_legend(standing.source for standing in drawable)
    parts = [*sentences, render_figure(drawing), legend]
    return Section("communication", "Regret against communication", parts)


def render_map(report: ArenaReport, sources: Mapping[str, str]) -> Section | None:
    """Render the ratio to the reference of every algorithm on every instance."""
    # Columns are in the order of the leaderboard, versions of one algorithm side by side.
    place = {standing.algorithm: i for i, standing in enumerate(report.standings)}
    entrants = sorted(report.entrants, key=lambda entrant: place.get(entrant.rival, len(place)))
    if len(entrants) < 2 or not report.instances:
        return None
    rows = []
    for instance in report.instances:
        scores = {score.algorithm: score for score in instance.scoreboard.rows}
        reasons = {refusal.algorithm: refusal.why for refusal in instance.refusals}
        fields = [
            _build_field(instance, entrant.name, scores.get(entrant.name), reasons)
            for entrant in entrants
        ]
        anchor = f"#{anchor_of(instance.number)}"
        name = render_element("a", f"{instance.number}. {instance.name}", href=anchor)
        rows.append((name, fields))
    drawing = draw_heat_map(
        "Ratios of regret",
        "Instance",
        [render_name(entrant.name, entrant.source) for entrant in entrants],
        rows,
        [entrant.source == YOURS for entrant in entrants],
    )
    explanation = (
        f"Regret over that of {report.reference}: below 1 is better. Bold: decided after Holm's "
        "correction. An empty field: could not play (its reason when pointed at, and below)."
    )
    parts = [explanation, drawing, render_legend(sources.values())]
    return Section("map", "Who wins where", parts, link="Heat map")


def render_refusals(report: ArenaReport, sources: Mapping[str, str]) -> Section | None:
    """List the algorithms that could not play, the instances and the reasons."""
    instances: dict[tuple[str, str], list[int]] = {}
    for instance in report.instances:
        for refusal in instance.refusals:
            # One reason often holds for many instances, so they share a row.
            key = refusal.algorithm, refusal.why
            instances.setdefault(key, []).append(instance.number)
    if not instances:
        return None
    rows = [
        [render_name(name, sources[name]), Html(", ".join(map(_link_instance, numbers))), why]
        for (name, why), numbers in instances.items()
    ]
    headers = ["Algorithm", "Instances", "Why"]
    refusals_table = render_table("Who could not play", headers, rows, "sentences", heading=False)
    title = "Who could not play, and why"
    return Section("refusals", title, [refusals_table], link="Could not play")


def _draw_ratios(report: ArenaReport) -> Html:
    dots = [
        DotRow(
            render_name(standing.algorithm, standing.source),
            standing.ratio,
            standing.ratio_low,
            standing.ratio_high,
            f"{name_with_sign(standing.algorithm, standing.source)}: {_write_ratio(standing)}",
            mark_of(standing.source).kind,
            mark_of(standing.source).glyph,
            own=standing.source == YOURS,
        )
        for standing in report.standings
    ]
    values = [value for dot in dots for value in (dot.at, dot.low, dot.high)]
    scale = fit_scale(values, log=True)  # twice and half are equally far from 1
    title = f"Regret over that of {report.reference}, geometric mean and 95% interval"
    drawing = charts.draw_dots(
        f"{title}; left is better.", dots, scale, [ReferenceLine(1.0, report.reference)]
    )
    return render_figure(Html(render_element("h3", f"{title} (left is better)") + drawing))


def _tabulate_standings(report: ArenaReport) -> Html:
    reference = report.reference
    tails = [_worst_tail(report, standing) for standing in report.standings]
    has_tails = any(ratio is not None for ratio, _ in tails)  # few runs have no percentiles
    headers = [
        "Algorithm",
        "Rank",
        f"Regret over {reference}'s [95% interval]",
        f"Better / undecided / worse than {reference}",
        "Mean rank",
        "Instances with rank 1",
        "Numbers sent a round",
        "Worst instance",
        *([f"Worst tail over {reference}'s"] if has_tails else []),
        "Instances",
        "Source",
    ]
    rows: list[list[CellContent]] = []
    for standing, tail in zip(report.standings, tails, strict=True):
        is_reference = standing.algorithm == reference
        tally = f"{standing.better} / {standing.undecided} / {standing.worse}"
        worst = _write_ratio_on_instance(standing.worst_ratio, standing.worst_instance)
        rows.append(
            [
                TableCell(render_name(standing.algorithm, standing.source)),
                TableCell(None if standing.rank is None else str(standing.rank), standing.rank),
                TableCell("1" if is_reference else _write_ratio(standing), standing.ratio),
                TableCell(
                    None if is_reference else tally, None if is_reference else standing.better
                ),
                TableCell(format_number(standing.mean_rank, 3), standing.mean_rank),
                TableCell(
                    str(standing.firsts) if standing.rank is not None else None, standing.firsts
                ),
                TableCell(format_number(standing.numbers_sent, 3), standing.numbers_sent),
                TableCell(worst, standing.worst_ratio),
                *([TableCell(_write_ratio_on_instance(*tail), tail[0])] if has_tails else []),
                TableCell(str(standing.instances), standing.instances),
                MARKS.get(standing.source, standing.source),
            ]
        )
    is_yours = [standing.source == YOURS for standing in report.standings]
    return render_table("Ranks", headers, rows, "numbers standings", sortable=True, marked=is_yours)


def _write_ratio(standing: LeaderboardRow) -> str:
    return format_interval(standing.ratio, standing.ratio_low, standing.ratio_high, 3)


def _write_ratio_on_instance(ratio: float | None, instance: int | None) -> Html | None:
    if ratio is None or instance is None:
        return None
    return Html(f"{format_number(ratio, 3)} ({_link_instance(instance)})")


def _link_instance(number: int) -> Html:
    return render_element("a", str(number), href=f"#{anchor_of(number)}")


def _worst_tail(report: ArenaReport, standing: LeaderboardRow) -> tuple[float | None, int | None]:
    """Find the largest ratio of a high percentile to the reference's, and its instance."""
    names = {entrant.name for entrant in report.entrants if entrant.rival == standing.algorithm}
    ratios: list[tuple[float, int]] = []
    for instance in report.instances:
        rows = instance.scoreboard.rows
        references = [row for row in rows if row.algorithm == report.reference]
        # Of two versions the ranked one counts; bounds have no rank and only one version.
        versions = [row for row in rows if row.algorithm in names]
        ranked = [row for row in versions if row.rank is not None] or versions
        if ranked and references:
            ratio = _tail_ratio(ranked[0], references[0])
            if ratio is not None:
                ratios.append((ratio, instance.number))
    return max(ratios, default=(None, None))


def _tail_ratio(score: ScoreRow, reference: ScoreRow) -> float | None:
    """Divide the 99th percentiles, or the 95th where there are too few runs for those."""
    for numerator, denominator in (
        (score.tail.percentile_99, reference.tail.percentile_99),
        (score.tail.percentile_95, reference.tail.percentile_95),
    ):
        if numerator is not None and denominator:
            return numerator / denominator
    return None


def _build_overall_point(standing: LeaderboardRow) -> PlanePoint:
    assert standing.ratio is not None
    assert standing.numbers_sent is not None
    name = name_with_sign(standing.algorithm, standing.source)
    mark = mark_of(standing.source)
    title = (
        f"{name}: {_write_ratio(standing)}, {format_number(standing.numbers_sent, 3)} numbers sent"
    )
    return PlanePoint(name, standing.numbers_sent, standing.ratio, title, mark.kind, mark.glyph)


def _build_field(
    instance: InstanceReport, name: str, score: ScoreRow | None, reasons: Mapping[str, str]
) -> HeatMapField:
    where = f"{isolate_name(name)} on {instance.number}. {instance.name}"
    if score is None or score.ratio is None:
        return HeatMapField("", None, f"{where}: {reasons.get(name) or 'no ratio'}")
    ratio = score.ratio
    # Logarithmic, so that twice and half the regret are equally strong colours.
    shade = math.log(ratio) / math.log(_WARMEST_RATIO) if ratio > 0 else -1.0
    title = f"{where}: {format_number(ratio, 3)}, {score.verdict}"
    return HeatMapField(
        _shorten_ratio(ratio), shade, title, strong=score.verdict in (BETTER, WORSE)
    )


def _shorten_ratio(ratio: float) -> str:
    places = 2 if ratio < 1.995 else 1 if ratio < 9.95 else 0
    return f"{ratio:,.{places}f}"


def facts_of(report: ArenaReport) -> list[str]:
    """List how the report was computed, in short facts."""
    provenance = report.made
    return [
        f"{provenance.mode.capitalize()} form",
        count_things(len(report.instances), "instance"),
        count_things(len(report.entrants), "algorithm"),
        f"{count_things(provenance.runs, 'run')} an instance",
        f"seed {provenance.seed}",
    ]
