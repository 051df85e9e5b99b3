"""The arena's report as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from pathlib import Path

from posse.lab.arena.data import ArenaReport
from posse.lab.arena.page import overall
from posse.lab.arena.page.command import command
from posse.lab.arena.page.instance import section
from posse.lab.arena.page.marks import sources
from posse.lab.arena.page.words import caution, details, headline
from posse.lab.files import atomic_write
from posse.lab.pages.document import (
    Section,
    all_numbers,
    asset,
    document,
    facts,
    paragraph,
    printing,
)
from posse.lab.pages.formats import duration
from posse.lab.pages.markup import element
from posse.lab.pages.tables import table

_ASSETS = Path(__file__).parent
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
        style=asset(_ASSETS / "page.css"),
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
