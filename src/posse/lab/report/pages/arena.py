"""The arena's report as one HTML page: result in words, leaderboard, map, instances, settings."""

from __future__ import annotations

import shlex
from pathlib import Path

from posse.lab.arena import (
    PLAIN,
    YOURS,
    ArenaReport,
    LeaderboardRow,
    choose_form,
    list_players,
    load_suite,
)
from posse.lab.atomic_files import atomic_write
from posse.lab.report.document import (
    Section,
    link_data_files,
    printing_script,
    read_asset,
    render_document,
    render_facts,
    render_paragraph,
)
from posse.lab.report.html import render_element, render_table
from posse.lab.report.pages import arena_sections as sections
from posse.lab.report.pages.arena_sections import name_with_sign
from posse.lab.report.text import count_things, format_duration, format_interval, list_names

_ASSETS = Path(__file__).parent.parent / "assets"
PAGE = "index.html"


# The command that plays the same arena again.


def write_command(report: ArenaReport) -> str:
    """Write the command line; of user-defined algorithms only the name is known, not the file."""
    yours = [entrant.name for entrant in report.entrants if entrant.source == YOURS]
    built_in = [entrant.name for entrant in report.entrants if entrant.source != YOURS]
    numbers = [instance.number for instance in report.instances]
    kind = report.made.suite
    words = ["posse", "arena", *(f"MINE.py:{name.removesuffix(' (yours)')}" for name in yours)]
    if kind != PLAIN:
        words += ["--suite", kind]
    words += _form_options(report)
    if numbers != [instance.number for instance in load_suite().instances_of(kind)]:
        words += ["--instances", ",".join(map(str, numbers))]
    if built_in != list(list_players(kind)):
        words += ["--algorithms", ",".join(built_in)]
    return shlex.join(words)


def _form_options(report: ArenaReport) -> list[str]:
    """Write the options of the first form that plays the same rounds, and what differs from it."""
    provenance = report.made
    instances = {
        instance.number: instance for instance in load_suite().instances_of(provenance.suite)
    }
    horizons = {
        played.number: played.horizon for played in report.instances if played.number in instances
    }
    longest = max(horizons.values(), default=1)
    forms = [
        ("", choose_form(False, None, None, None)),
        ("--full", choose_form(True, None, None, None)),
    ]
    if provenance.mode == "full":
        forms.reverse()
    # The command shall be short: options appear only where the defaults play something else.
    with_horizon = f"--horizon {longest}", choose_form(False, None, longest, None)
    matching = [
        (option, candidate)
        for option, candidate in forms
        if all(candidate.horizon(instances[k]) == rounds for k, rounds in horizons.items())
    ]
    option, closest_form = [*matching, with_horizon][0]
    runs = ["--runs", str(provenance.runs)] if provenance.runs != closest_form.runs else []
    seed = ["--seed", str(provenance.seed)] if provenance.seed != closest_form.seed else []
    return [*option.split(), *runs, *seed]


# The result in words: the winner, how sure that is, and the limits of these runs.


def write_headline(report: ArenaReport) -> str:
    """Say which algorithm wins over all instances, and how sure that is."""
    ranked = [standing for standing in report.standings if standing.rank is not None]
    if not report.instances or not ranked:
        return "Nothing was played, so there is nothing to rank."
    if len(ranked) == 1:
        return f"{_name_of(ranked[0])} played alone: there is nobody to compare it with."
    # A cycle of significant pairs can leave nobody with rank 1; then the lowest ratio leads.
    winners = [standing for standing in ranked if standing.rank == 1] or ranked[:1]
    instances = count_things(len(report.instances), "instance")
    if len(winners) == 1:
        n_played = winners[0].instances
        plays_all = n_played == len(report.instances)
        remark = "" if plays_all else f" (it plays {n_played:,} of them)"
        return (
            f"{_name_of(winners[0])} ranks first in mean regret over {instances}{remark}: nobody "
            "is better beyond doubt, and everybody else is beaten by somebody."
        )
    names = list_names([_name_of(standing) for standing in winners])
    return (
        f"{names} share the first place in mean regret over {instances}: nobody is better than any "
        "of them beyond doubt."
    )


def write_details(report: ArenaReport) -> list[str]:
    """Describe the standing of the winner and of the reader's own algorithms, a sentence each."""
    ranked = [standing for standing in report.standings if standing.rank is not None]
    if len(ranked) < 2:
        return []
    first = ranked[0]
    yours = [standing for standing in ranked if standing.source == YOURS and standing is not first]
    return [_describe_standing(standing, report, len(ranked)) for standing in [first, *yours]]


def write_caution(report: ArenaReport) -> str:
    """Warn of short horizons and few runs in a sentence, if there is a reason."""
    reasons = []
    shorter = sum(instance.horizon < instance.full_horizon for instance in report.instances)
    if shorter:
        reasons.append(
            f"{shorter} of {count_things(len(report.instances), 'instance')} stopped early"
        )
    rows = [row for instance in report.instances for row in instance.scoreboard.rows]
    if any(row.tail.percentile_99 is None for row in rows):
        reasons.append(f"the tails do not show in {count_things(report.made.runs, 'run')}")
    if not reasons:
        return ""
    summary = f"{report.made.mode.capitalize()} form: {', and '.join(reasons)}."
    return f"{summary} What else these runs cannot show stands below the ranks."


def _describe_standing(standing: LeaderboardRow, report: ArenaReport, ranked: int) -> str:
    name = _name_of(standing)
    name = f"{name} (yours)" if standing.source == YOURS else name
    ahead = (standing.rank or 1) - 1
    better = {0: "nobody is", 1: "one is"}.get(ahead, f"{ahead} are")
    rank = f"{name} has rank {standing.rank} of {ranked} ({better} better beyond doubt)"
    if standing.algorithm == report.reference or standing.ratio is None:
        return f"{rank}; it is what the others are compared with." if standing.ratio else f"{rank}."
    ratio = format_interval(standing.ratio, standing.ratio_low, standing.ratio_high, 3)
    instances = f"on {standing.instances} of {count_things(len(report.instances), 'instance')}"
    return (
        f"{rank}: {ratio} times the regret of {report.reference} (geometric mean, 95% interval) "
        f"{instances}; after Holm's correction better than {report.reference} on "
        f"{standing.better}, worse on {standing.worse}, undecided on {standing.undecided}."
    )


def _name_of(standing: LeaderboardRow) -> str:
    return name_with_sign(standing.algorithm, standing.source)


# The page.


def write_page(report: ArenaReport, folder: Path) -> Path:
    """Write the page into the folder, with links to the tables and data that lie there."""
    folder.mkdir(parents=True, exist_ok=True)
    data_files = sorted(path.name for kind in ("csv", "json") for path in folder.glob(f"*.{kind}"))
    path = folder / PAGE
    with atomic_write(path) as temporary:
        temporary.write_text(render(report, data_files), encoding="utf-8")
    return path


def render(report: ArenaReport, data_files: list[str] | None = None) -> str:
    """Render the whole page; it needs a script only for sorting and printing.

    data_files: names in the same folder that can be downloaded
    """
    sources = sections.sources_by_name(report)
    optional_sections = [
        _render_result(report, data_files or []),
        sections.render_ranks(report) if report.standings else None,
        sections.render_communication(report),
        sections.render_map(report, sources),
        *(
            sections.render_instance(instance, report.reference, sources)
            for instance in report.instances
        ),
        sections.render_refusals(report, sources),
        _render_settings(report),
    ]
    return render_document(
        report.title,
        [section for section in optional_sections if section is not None],
        summary=render_facts(sections.facts_of(report)),
        style=read_asset(_ASSETS / "arena.css"),
        script=printing_script(),
    )


def _render_result(report: ArenaReport, data_files: list[str]) -> Section:
    parts: list[str] = [
        render_paragraph(write_headline(report), "headline"),
        *write_details(report),
    ]
    if caution := write_caution(report):
        parts.append(render_paragraph(caution, "note"))
    if data_files:
        parts.append(link_data_files(data_files))
    return Section("result", "Result", parts)


def _render_settings(report: ArenaReport) -> Section:
    provenance = report.made
    rows: list[list[str | None]] = [
        ["Form", provenance.mode],
        ["Runs", f"{provenance.runs:,}"],
        ["Seed", str(provenance.seed)],
        ["Time taken", format_duration(provenance.seconds)],
        ["Machine", provenance.machine],
        [
            "Versions",
            ", ".join(f"{name} {version}" for name, version in provenance.versions.items()),
        ],
    ]
    settings_table = render_table(
        "Settings", ["Setting", "Value"], rows, "sentences", heading=False
    )
    explanation = render_paragraph("To play it again (what was played is read from the folder):")
    parts = [settings_table, explanation, render_element("pre", write_command(report))]
    return Section("made", "How it was made", parts, link="How made")
