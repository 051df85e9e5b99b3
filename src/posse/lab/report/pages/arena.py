"""The command that plays the same arena again."""

from __future__ import annotations

import shlex
from pathlib import Path

from posse.lab.arena.players import line_up
from posse.lab.arena.report_data import YOURS, ArenaReport, Standing
from posse.lab.arena.suite import PLAIN, suite
from posse.lab.arena.tournament import form
from posse.lab.atomic_files import atomic_write
from posse.lab.report.document import (
    Section,
    all_numbers,
    asset,
    document,
    facts,
    paragraph,
    printing,
)
from posse.lab.report.html import element, table
from posse.lab.report.pages import arena_sections as overall
from posse.lab.report.pages.arena_sections import plain, section, sources
from posse.lab.report.text import counted, duration, interval, listed


def command(report: ArenaReport) -> str:
    """What to type; of one's own algorithms only the name is known, not the file."""
    own = [each.name for each in report.entrants if each.source == YOURS]
    others = [each.name for each in report.entrants if each.source != YOURS]
    numbers = [each.number for each in report.instances]
    words = ["posse", "arena", *(f"MINE.py:{name.removesuffix(' (yours)')}" for name in own)]
    words += ["--suite", kind] if (kind := report.made.suite) != PLAIN else []
    words += _form(report)
    if numbers != [each.number for each in suite().of(kind)]:
        words += ["--instances", ",".join(map(str, numbers))]
    if others != list(line_up(kind)):
        words += ["--algorithms", ",".join(others)]
    return shlex.join(words)


def _form(report: ArenaReport) -> list[str]:
    """The options of the first form that plays the same rounds, and what it does not say itself."""
    made = report.made
    instances = {each.number: each for each in suite().of(made.suite)}
    played = {each.number: each.horizon for each in report.instances if each.number in instances}
    most = max(played.values(), default=1)
    forms = [("", form(False, None, None, None)), ("--full", form(True, None, None, None))]
    if made.mode == "full":
        forms.reverse()
    asked = f"--horizon {most}", form(False, None, most, None)
    same = [
        (option, usual)
        for option, usual in forms
        if all(usual.horizon(instances[each]) == rounds for each, rounds in played.items())
    ]
    option, usual = [*same, asked][0]
    runs = ["--runs", str(made.runs)] if made.runs != usual.runs else []
    seed = ["--seed", str(made.seed)] if made.seed != usual.seed else []
    return [*option.split(), *runs, *seed]


# The arena's report in words: who wins, how sure that is, and what these runs cannot show.


def headline(report: ArenaReport) -> str:
    """Who wins over all instances, and how sure that is."""
    ranked = [each for each in report.standings if each.rank is not None]
    if not report.instances or not ranked:
        return "Nothing was played, so there is nothing to rank."
    if len(ranked) == 1:
        return f"{_name(ranked[0])} played alone: there is nobody to compare it with."
    first = [each for each in ranked if each.rank == 1] or ranked[:1]
    on = f"{counted(len(report.instances), 'instance')}"
    if len(first) == 1:
        played = first[0].instances
        but = "" if played == len(report.instances) else f" (it plays {played:,} of them)"
        return (
            f"{_name(first[0])} ranks first in mean regret over {on}{but}: nobody is better beyond "
            "doubt, and everybody else is beaten by somebody."
        )
    names = listed([_name(each) for each in first])
    return (
        f"{names} share the first place in mean regret over {on}: nobody is better than any of "
        "them beyond doubt."
    )


def details(report: ArenaReport) -> list[str]:
    """What the first and the reader's own have done, a sentence each."""
    ranked = [each for each in report.standings if each.rank is not None]
    if len(ranked) < 2:
        return []
    first = ranked[0]
    own = [each for each in ranked if each.source == YOURS and each is not first]
    return [_standing(each, report, len(ranked)) for each in [first, *own]]


def caution(report: ArenaReport) -> str:
    """What stands against reading more into the result, in a sentence, if anything does."""
    found = []
    shorter = sum(each.horizon < each.full_horizon for each in report.instances)
    if shorter:
        found.append(f"{shorter} of {counted(len(report.instances), 'instance')} stopped early")
    if any(score.percentile_99 is None for each in report.instances for score in each.scores):
        found.append(f"the tails do not show in {counted(report.made.runs, 'run')}")
    if not found:
        return ""
    form = f"{report.made.mode.capitalize()} form: {', and '.join(found)}."
    return f"{form} What else these runs cannot show stands below the ranks."


def _standing(standing: Standing, report: ArenaReport, ranked: int) -> str:
    who = f"{_name(standing)} (yours)" if standing.source == YOURS else _name(standing)
    ahead = {1: "nobody is", 2: "one is"}.get(standing.rank or 1, f"{(standing.rank or 1) - 1} are")
    rank = f"{who} has rank {standing.rank} of {ranked} ({ahead} better beyond doubt)"
    if standing.algorithm == report.reference or standing.ratio is None:
        return f"{rank}; it is what the others are compared with." if standing.ratio else f"{rank}."
    ratio = interval(standing.ratio, standing.ratio_low, standing.ratio_high, 3)
    where = f"on {standing.instances} of {counted(len(report.instances), 'instance')}"
    return (
        f"{rank}: {ratio} times the regret of {report.reference} (geometric mean, 95% interval) "
        f"{where}; after Holm's correction better than {report.reference} on {standing.better}, "
        f"worse on {standing.worse}, undecided on {standing.undecided}."
    )


def _name(standing: Standing) -> str:
    return plain(standing.algorithm, standing.source)


# The arena's report as one HTML page that needs nothing but a browser.

_ASSETS = Path(__file__).parent.parent / "assets"
NAME = "index.html"


def write(report: ArenaReport, folder: Path) -> Path:
    """Write the page into the folder, with links to the tables and data that lie there."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = sorted(each.name for kind in ("csv", "json") for each in folder.glob(f"*.{kind}"))
    path = folder / NAME
    with atomic_write(path) as temporary:
        temporary.write_text(render(report, beside), encoding="utf-8")
    return path


def render(report: ArenaReport, beside: list[str] | None = None) -> str:
    """The whole page; it needs a script only for sorting and printing.

    beside: files in the same folder that can be downloaded
    """
    by_name = sources(report)
    found = [
        _words(report, beside or []),
        overall.ranks(report) if report.standings else None,
        overall.communication(report),
        overall.map_of(report, by_name),
        *(section(each, report.reference, by_name) for each in report.instances),
        overall.refusals(report, by_name),
        _made(report),
    ]
    return document(
        report.title,
        [each for each in found if each is not None],
        summary=facts(overall.facts_of(report)),
        style=asset(_ASSETS / "arena.css"),
        script=printing(),
    )


def _words(report: ArenaReport, beside: list[str]) -> Section:
    parts: list[str] = [paragraph(headline(report), "headline"), *details(report)]
    if said := caution(report):
        parts.append(paragraph(said, "note"))
    if beside:
        parts.append(all_numbers(beside))
    return Section("result", "Result", parts)


def _made(report: ArenaReport) -> Section:
    made = report.made
    rows: list[list[str | None]] = [
        ["Form", made.mode],
        ["Runs", f"{made.runs:,}"],
        ["Seed", str(made.seed)],
        ["Time taken", duration(made.seconds)],
        ["Machine", made.machine],
        ["Versions", ", ".join(f"{name} {version}" for name, version in made.versions.items())],
    ]
    drawn = table("Settings", ["Setting", "Value"], rows, "sentences", heading=False)
    again = paragraph("To play it again (what was played is read from the folder):")
    parts = [drawn, again, element("pre", command(report))]
    return Section("made", "How it was made", parts, link="How made")


# The arena's report as an HTML page: `document` is the whole, made of the parts beside it.

__all__ = ["render", "write"]
