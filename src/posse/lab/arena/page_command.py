"""The command that plays the same arena again."""

from __future__ import annotations

import shlex

from posse.lab.arena.data import YOURS, ArenaReport
from posse.lab.arena.line_up import line_up
from posse.lab.arena.suite import suite


def command(report: ArenaReport) -> str:
    """What to type; of one's own algorithms only the name is known, not the file."""
    own = [each.name for each in report.entrants if each.source == YOURS]
    others = [each.name for each in report.entrants if each.source != YOURS]
    numbers = [each.number for each in report.instances]
    words = ["posse", "arena", *(f"MINE.py:{name.removesuffix(' (yours)')}" for name in own)]
    words += _form(report)
    if numbers != [each.number for each in suite().instances]:
        words += ["--instances", ",".join(map(str, numbers))]
    if others != list(line_up()):
        words += ["--algorithms", ",".join(others)]
    return shlex.join(words)


def _form(report: ArenaReport) -> list[str]:
    """The options of the form; a custom one says all of itself."""
    made = report.made
    if made.mode != "custom":
        return ["--full"] if made.mode == "full" else []
    cut = [each.horizon for each in report.instances if each.horizon < each.full_horizon]
    rounds = ["--horizon", str(max(cut))] if cut else ["--full"]
    return [*rounds, "--runs", str(made.runs), "--seed", str(made.seed)]
