"""The page of a report: its first lines, curves, settings and files around the other sections."""

from __future__ import annotations

from posse.lab.pages import curves
from posse.lab.pages.document import Section, document, facts, folded, paragraph, printing
from posse.lab.pages.formats import counted
from posse.lab.pages.markup import Html, element
from posse.lab.pages.tables import table
from posse.lab.report import insides, regrets, words
from posse.lab.report.data import File, Report, settings_text
from posse.lab.report.numbers import LOWEST

_LONGEST = 20_000  # letters of settings on the page: their file has all

# Sections are short: a page for each, as the paper's figures have, would be half empty.
_ON_PAPER = "@media print { section { break-before: auto; margin-top: 1.5rem; } }\n"


def render(report: Report) -> str:
    """The whole page; its tables are plain HTML, its curves are drawn from the embedded data."""
    sections = [
        _over_time(report),
        regrets.final(report),
        regrets.pairs(report),
        regrets.tails(report),
        insides.agents(report),
        insides.messages(report),
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
    rerun, text = report.rerun, settings_text(report)
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
