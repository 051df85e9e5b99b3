"""Write a report: the page, and beside it the results, the experiment, tables and figures."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse import validation
from posse.lab import plots
from posse.lab.atomic_files import atomic_write
from posse.lab.comparisons import Comparison
from posse.lab.report.comparison_report import File, Report, report_of
from posse.lab.report.curves import write_csv
from posse.lab.report.pages import comparison as page
from posse.lab.report.pages import comparison_text as words
from posse.lab.results import Result

if TYPE_CHECKING:
    import pandas as pd


PAGE = "index.html"
FILES = "files"


def write(
    value: Result | Comparison, folder: Path, title: str | None = None, saved: Path | None = None
) -> Path:
    """Write the page and its files; the path of the page.

    saved: where the results are, if they are saved already, so that they need not be twice
    """
    check(folder)
    if not isinstance(title, str | None):
        raise ValueError(f"title must be text, got {validation.format_value(title)}")
    single = isinstance(value, Result)
    comparison = Comparison({words.name_of(value): value}) if isinstance(value, Result) else value
    report = report_of(comparison, title, single)
    (folder / FILES).mkdir(parents=True, exist_ok=True)
    report = replace(report, files=_files(value, report, folder / FILES, saved))
    with atomic_write(folder / PAGE) as temporary:
        temporary.write_text(page.render(report), encoding="utf-8")
    return folder / PAGE


def check(folder: Path) -> None:
    """Refuse what is no folder, before anything is computed for it."""
    for path in (folder, folder / FILES):
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file, and a report is a folder: name another")


def _files(
    value: Result | Comparison, report: Report, folder: Path, saved: Path | None
) -> list[File]:
    """Write all files; what cannot be written is told with its reason."""
    made = [_results(value, folder / "results.nc", saved)]
    if report.rerun.toml is not None:
        with atomic_write(folder / "experiment.toml") as temporary:
            temporary.write_text(report.rerun.toml, encoding="utf-8")
        again = "gives the same numbers again: posse run experiment.toml"
        made.append(File(f"{FILES}/experiment.toml", again))
    tables = {"table.csv": (_table(report), "final regrets and tails, a row for each algorithm")}
    if report.pairs:
        tables["pairs.csv"] = _pairs(report), "paired differences, a row for each pair"
    for name, (frame, meaning) in tables.items():
        with atomic_write(folder / name) as temporary:
            frame.to_csv(temporary, index=False)
        made.append(File(f"{FILES}/{name}", meaning))
    if report.regret is not None:
        write_csv(report.regret.curves, folder / "curves.csv")
        made.append(File(f"{FILES}/curves.csv", "the curves as they are drawn, with their bands"))
    drawn = [folder / f"regret.{suffix}" for suffix in ("png", "pdf")]
    plots.write_comparison(report.comparison, report.title, drawn)
    for path, meaning in zip(drawn, ("the figure for slides", "the figure for print"), strict=True):
        made.append(File(f"{FILES}/{path.name}", meaning))
    return made


def _results(value: Result | Comparison, path: Path, saved: Path | None) -> File:
    link = f"{FILES}/{path.name}"
    if saved is not None:
        link = Path(os.path.relpath(saved, path.parents[1])).as_posix()
    meaning = f'every array of every run: posse.load("{Path(link).name}")'
    try:
        if saved is None:
            value.save(path)
    except ValueError as error:  # such as more than the format holds
        return File(link, meaning, str(error))
    return File(link, meaning)


def _table(report: Report) -> pd.DataFrame:
    """`comparison.table()` with tails, agents and messages as far as they are known."""
    columns: dict[str, list[Any]] = {
        f"{key}_run": [getattr(row, key) for row in report.tails]
        for key in ("lowest", "median", "percentile_95", "percentile_99", "worst")
    }
    columns["number_of_worst_run"] = [row.worst_run for row in report.tails]
    columns["wrong_leader"] = [row.wrong_leader for row in report.tails]
    for key in ("best", "median", "worst"):
        columns[f"{key}_agent"] = [getattr(row, key).mean for row in report.agents]
    columns["spread_of_agents"] = [row.spread.mean for row in report.agents]
    columns["numbers_sent"] = [row.sent.mean for row in report.messages]
    made = report.comparison.table()
    for key, values in columns.items():
        if any(value is not None for value in values):
            made[key] = values
    return made.reset_index()


def _pairs(report: Report) -> pd.DataFrame:
    """Every pair of algorithms: the difference of their final regrets, and how sure it is."""
    import pandas as pd

    rows = [
        (pair.first, pair.second, *pair.difference, pair.p, pair.adjusted_p)
        for pair in report.pairs
    ]
    columns = ["first", "second", "difference", "standard_error", "low", "high", "p", "adjusted_p"]
    return pd.DataFrame(rows, columns=columns)
