"""Sentences that the pages share: lists of names, and what few runs cannot show."""

from __future__ import annotations

from collections.abc import Sequence

from posse.lab.pages.formats import counted
from posse.lab.statistics import FEWEST_RUNS, RUNS_BEYOND

_MANY = 4  # names that a sentence holds


def listed(names: Sequence[str]) -> str:
    """Names as a sentence holds them: "a, b and c", or the first ones and how many more."""
    if len(names) > _MANY:
        return f"{', '.join(names[: _MANY - 1])} and {len(names) - _MANY + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def undecided(runs: int) -> str:
    """That so few runs allow no verdict, where that is so."""
    few = "One run decides" if runs == 1 else f"{runs} runs decide"
    return f"{few} nothing: verdicts need {FEWEST_RUNS}." if runs < FEWEST_RUNS else ""


def unseen_tails(runs: int) -> str:
    """Which percentiles so many runs do not show."""
    lacking = {percent: least for percent, least in RUNS_BEYOND.items() if runs < least}
    said = [
        f"the {percent}th percentile of runs needs {least}" for percent, least in lacking.items()
    ]
    return f"{counted(runs, 'run')} cannot show all tails: {' and '.join(said)}." if said else ""
