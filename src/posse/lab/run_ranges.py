"""Ranges of runs: parsed from a number, a range or a table, and written back as settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posse import validation

LARGEST = 2**31 - 1  # the result file stores run numbers in 32 bits


def parse_runs(runs: Any) -> range:
    """Parse a number of runs (from run 0 on), a range, or a table of start and stop."""
    parsed = _read_runs(runs)
    if parsed.stop > LARGEST:
        raise ValueError(f"runs must end at {LARGEST} at most, got {runs!r}")
    return parsed


def _read_runs(runs: Any) -> range:
    if isinstance(runs, Mapping):
        if set(runs) != {"start", "stop"}:
            raise ValueError(f"runs must be a number or a table of start and stop, got {runs!r}")
        start = validation.validate_integer("runs.start", runs["start"], at_least=0)
        return range(
            start, validation.validate_integer("runs.stop", runs["stop"], at_least=start + 1)
        )
    # A bool or a float is refused here too.
    if not isinstance(runs, range):
        return range(validation.validate_integer("runs", runs, at_least=1))
    if runs.start < 0 or runs.step != 1 or not runs:
        raise ValueError(
            f"runs must be a number or a range such as range(100, 200), of step 1, got {runs!r}"
        )
    return runs


def simplify_runs(runs: range) -> int | range:
    """Write runs that start at 0 as their number, so that equal runs compare as equal."""
    return len(runs) if runs.start == 0 else runs


def encode_runs(runs: range) -> int | dict[str, int]:
    """Encode runs as plain data, which `parse_runs` reads."""
    return len(runs) if runs.start == 0 else {"start": runs.start, "stop": runs.stop}


def decode_runs(setting: Any, count: int) -> range:
    """Decode the runs in a result's settings; where they are no runs, `count` runs from 0 on."""
    try:
        runs = parse_runs(setting)
    except ValueError:  # a user may build a Result with any settings
        return range(count)
    return runs if len(runs) == count else range(count)


def describe_runs(runs: range) -> str:
    """Describe runs, for messages."""
    return f"run {runs.start}" if len(runs) == 1 else f"runs {runs.start} to {runs.stop - 1}"
