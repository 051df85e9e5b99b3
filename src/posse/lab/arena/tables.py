"""The report's numbers as a table, a row for each instance and algorithm, and as JSON."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

from posse.lab.arena.data import ArenaReport, InstanceReport, Score
from posse.lab.files import atomic_write
from posse.lab.pages.plain import write_json

_OF_INSTANCE = ("number", "name", "n_agents", "n_arms", "horizon")
_OF_SCORE = tuple(each.name for each in dataclasses.fields(Score) if each.name != "curve")


def write(report: ArenaReport, folder: Path) -> None:
    """Write report.json and table.csv."""
    write_json(report, folder / "report.json")
    with (
        atomic_write(folder / "table.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        rows = csv.writer(file)
        rows.writerow(["instance", *_OF_INSTANCE[1:], *_OF_SCORE, "lower_bound"])
        for instance in report.instances:
            for score in instance.scores:
                rows.writerow(_row(instance, score))


def _row(instance: InstanceReport, score: Score) -> list[Any]:
    """None is an empty cell."""
    shown = [getattr(instance, name) for name in _OF_INSTANCE]
    return [*shown, *(getattr(score, name) for name in _OF_SCORE), instance.lower_bound]
