"""Which runs: a number of them from run 0 on, or a range such as runs 100 to 199."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posse import validation

LARGEST = 2**31 - 1  # the largest number of a run that the file format holds


def runs_of(runs: Any) -> range:
    """The runs that a number of runs, a range or a table of start and stop stands for."""
    found = _runs_of(runs)
    if found.stop > LARGEST:
        raise ValueError(f"runs must end at {LARGEST} at most, got {runs!r}")
    return found


def _runs_of(runs: Any) -> range:
    if isinstance(runs, Mapping):
        if set(runs) != {"start", "stop"}:
            raise ValueError(f"runs must be a number or a table of start and stop, got {runs!r}")
        start = validation.validate_integer("runs.start", runs["start"], at_least=0)
        return range(
            start, validation.validate_integer("runs.stop", runs["stop"], at_least=start + 1)
        )
    if not isinstance(runs, range):
        return range(validation.validate_integer("runs", runs, at_least=1))
    if runs.start < 0 or runs.step != 1 or not runs:
        raise ValueError(
            f"runs must be a number or a range such as range(100, 200), of step 1, got {runs!r}"
        )
    return runs


def plain(runs: range) -> int | range:
    """Runs from 0 on as their number: the same runs have one spelling."""
    return len(runs) if runs.start == 0 else runs


def to_setting(runs: range) -> int | dict[str, int]:
    """The runs as plain data, which `runs_of` reads."""
    return len(runs) if runs.start == 0 else {"start": runs.start, "stop": runs.stop}


def from_setting(told: Any, count: int) -> range:
    """The runs that settings tell of, if they do; else that many from 0 on."""
    try:
        runs = runs_of(told)
    except ValueError:  # settings may hold anything
        return range(count)
    return runs if len(runs) == count else range(count)


def words(runs: range) -> str:
    """The runs as a sentence names them."""
    return f"run {runs.start}" if len(runs) == 1 else f"runs {runs.start} to {runs.stop - 1}"
