"""Write the report of a comparison: the page, and beside it results, settings and tables."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse import validation
from posse.lab import plots
from posse.lab.atomic_files import atomic_write
from posse.lab.comparisons import Comparison
from posse.lab.report.comparison_report import ComparisonReport, ReportFile, build_report
from posse.lab.report.curves import write_csv
from posse.lab.report.pages import comparison as page
from posse.lab.report.pages import comparison_text as words
from posse.lab.results import Result

if TYPE_CHECKING:
    import pandas as pd

PAGE = "index.html"
FILES = "files"


def write_report(
    value: Result | Comparison, folder: Path, title: str | None = None, saved: Path | None = None
) -> Path:
    """Write the page and its files into a folder, and return the path of the page.

    saved: the file of the results, if they are saved already, so that they are not saved twice
    """
    # Computing may take long, so the folder and the title are checked first.
    check_folder(folder)
    if not isinstance(title, str | None):
        raise ValueError(f"title must be text, got {validation.format_value(title)}")
    if value.measure != "regret":
        raise ValueError(
            "a report is about regret, and the environment has no means: use table() and plot()"
        )
    single = isinstance(value, Result)
    comparison = Comparison({words.name_of(value): value}) if isinstance(value, Result) else value
    report = build_report(comparison, title, single)
    (folder / FILES).mkdir(parents=True, exist_ok=True)
    # The page is written last: it lists the files, so none of its links is dead, and an interrupted
    # run leaves no page that looks complete.
    report = replace(report, files=_write_files(value, report, folder / FILES, saved))
    with atomic_write(folder / PAGE) as temporary:
        temporary.write_text(page.render(report), encoding="utf-8")
    return folder / PAGE


def check_folder(folder: Path) -> None:
    """Refuse a path that is a file, before anything is computed for it."""
    for path in (folder, folder / FILES):
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file, and a report is a folder: name another")


def _write_files(
    value: Result | Comparison, report: ComparisonReport, folder: Path, saved: Path | None
) -> list[ReportFile]:
    """Write all files; one that cannot be written is listed with the reason."""
    files = [_write_results(value, folder / "results.nc", saved)]
    if report.rerun.toml is not None:
        with atomic_write(folder / "experiment.toml") as temporary:
            temporary.write_text(report.rerun.toml, encoding="utf-8")
        meaning = "gives the same numbers again: posse run experiment.toml"
        files.append(ReportFile(f"{FILES}/experiment.toml", meaning))
    meaning = "final regrets and tails, a row for each algorithm"
    tables = {"table.csv": (_tabulate_algorithms(report), meaning)}
    if report.scoreboard.pairs:
        meaning = "paired differences, a row for each pair"
        tables["pairs.csv"] = _tabulate_pairs(report), meaning
    for name, (table, meaning) in tables.items():
        with atomic_write(folder / name) as temporary:
            table.to_csv(temporary, index=False)
        files.append(ReportFile(f"{FILES}/{name}", meaning))
    if report.regret_chart is not None:
        write_csv(report.regret_chart.curves, folder / "curves.csv")
        meaning = "the curves as they are drawn, with their bands"
        files.append(ReportFile(f"{FILES}/curves.csv", meaning))
    figures = [folder / f"regret.{suffix}" for suffix in ("png", "pdf")]
    plots.write_comparison(report.comparison, report.title, figures)
    meanings = ("the figure for slides", "the figure for print")
    for path, meaning in zip(figures, meanings, strict=True):
        files.append(ReportFile(f"{FILES}/{path.name}", meaning))
    return files


def _write_results(value: Result | Comparison, path: Path, saved: Path | None) -> ReportFile:
    link = f"{FILES}/{path.name}"
    # Results may be gigabytes: a copy that exists already is linked, not written again.
    if saved is not None:
        link = Path(os.path.relpath(saved, path.parents[1])).as_posix()
    meaning = f'every array of every run: posse.load("{Path(link).name}")'
    try:
        if saved is None:
            value.save(path)
    except ValueError as error:  # such as more than the format holds
        return ReportFile(link, meaning, str(error))
    return ReportFile(link, meaning)


def _tabulate_algorithms(report: ComparisonReport) -> pd.DataFrame:
    """Extend `comparison.table()` by tails, agents and messages, as far as they are known."""
    rows = report.scoreboard.rows
    columns: dict[str, list[Any]] = {
        "lowest_run": [row.tail.lowest_run for row in rows],
        "median_run": [row.tail.median_run for row in rows],
        "percentile_95_run": [row.tail.percentile_95 for row in rows],
        "percentile_99_run": [row.tail.percentile_99 for row in rows],
        "worst_run": [row.tail.worst_run for row in rows],
        "number_of_worst_run": [row.tail.worst_run_number for row in rows],
        "wrong_leader": [row.tail.wrong_leader for row in rows],
    }
    for key in ("best", "median", "worst"):
        columns[f"{key}_agent"] = [getattr(agents, key).mean for agents in report.agents]
    columns["spread_of_agents"] = [agents.spread.mean for agents in report.agents]
    columns["numbers_sent"] = [row.numbers_sent and row.numbers_sent.mean for row in rows]
    table = report.comparison.table()
    for key, values in columns.items():
        # A column that is unknown for all algorithms would only be noise.
        if any(value is not None for value in values):
            table[key] = values
    return table.reset_index()


def _tabulate_pairs(report: ComparisonReport) -> pd.DataFrame:
    """List every pair of algorithms: the difference of their final regrets, and its p-values."""
    import pandas as pd

    rows = [
        (pair.first, pair.second, *pair.difference, pair.p, pair.adjusted_p)
        for pair in report.scoreboard.pairs
    ]
    columns = ["first", "second", "difference", "standard_error", "low", "high", "p", "adjusted_p"]
    return pd.DataFrame(rows, columns=columns)
