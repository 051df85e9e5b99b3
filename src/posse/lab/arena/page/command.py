"""The command that plays the same arena again."""

from __future__ import annotations

import shlex

from posse.lab.arena.data import YOURS, ArenaReport
from posse.lab.arena.line_up import line_up
from posse.lab.arena.running import form
from posse.lab.arena.suite import PLAIN, suite


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
