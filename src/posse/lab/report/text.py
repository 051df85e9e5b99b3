"""Numbers and sentences of report pages: few digits, a true minus sign, a dash for unknown."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posse.lab.atomic_files import atomic_write
from posse.lab.report.html import DASH
from posse.lab.statistics import FEWEST_RUNS, RUNS_BEYOND


def format_number(value: float | None, digits: int = 4) -> str:
    """Write a number with so many digits; with an exponent where it is far from 1."""
    if value is None or not math.isfinite(value):
        return DASH
    # All digits before the point are shown: 12,346 is easier to compare than 1.235e4.
    size = abs(value)
    exponent = 0 < size < 1e-4 or size >= 1e9
    shape = f".{digits - 1}e" if exponent else f",.{_count_decimals(size, digits)}f"
    return format(value, shape).replace("-", "−")


def format_interval(
    value: float | None, low: float | None, high: float | None, digits: int = 4
) -> str:
    """Write a value and the ends of its interval, all to the same decimal place."""
    if value is None or low is None or high is None:
        return format_number(value, digits)
    sizes = [abs(value), abs(low), abs(high)]
    if not all(map(math.isfinite, sizes)):
        return format_number(value, digits)
    if 0 < max(sizes) < 1e-4 or max(sizes) >= 1e9:
        texts = [format_number(end, digits) for end in (value, low, high)]
        return f"{texts[0]} [{texts[1]}, {texts[2]}]"
    # The largest of the three sets the decimals: [9.87, 10.1] would look like unequal precision.
    places = _count_decimals(max(sizes), digits)
    middle, lower, upper = (f"{end:,.{places}f}".replace("-", "−") for end in (value, low, high))
    return f"{middle} [{lower}, {upper}]"


def format_with_error(value: float | None, error: float | None) -> str:
    """Write a value ± its standard error, where there is one."""
    return (
        format_number(value)
        if error is None
        else f"{format_number(value)} ± {format_number(error, 3)}"
    )


def format_share(value: float | None) -> str:
    """Write a share as a percentage."""
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.1f}%"


def format_p_value(value: float | None) -> str:
    """Write a p-value; very small ones as an upper bound."""
    return "< 0.0001" if value is not None and value < 1e-4 else format_number(value, 3)


def format_duration(seconds: float) -> str:
    """Write a time in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {remainder} s"


def count_things(count: int, noun: str) -> str:
    """Write a number of things: "1 run", "1,200 runs"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _count_decimals(size: float, digits: int) -> int:
    return min(6, max(0, digits - 1 - math.floor(math.log10(size)))) if size else 0


# Sentences that the pages share: lists of names, and warnings of few runs.

_MOST_NAMES = 4  # in a sentence


def list_names(names: Sequence[str]) -> str:
    """List names in a sentence: "a, b and c", or the first ones and how many more."""
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def warn_few_runs(runs: int) -> str:
    """Warn that the runs are too few for verdicts; empty if they are enough."""
    subject = "One run decides" if runs == 1 else f"{runs} runs decide"
    return f"{subject} nothing: verdicts need {FEWEST_RUNS}." if runs < FEWEST_RUNS else ""


def warn_unseen_tails(runs: int) -> str:
    """Warn of the percentiles that so many runs cannot show; empty if they show all."""
    lacking = {percent: least for percent, least in RUNS_BEYOND.items() if runs < least}
    reasons = [
        f"the {percent}th percentile of runs needs {least}" for percent, least in lacking.items()
    ]
    return (
        f"{count_things(runs, 'run')} cannot show all tails: {' and '.join(reasons)}."
        if reasons
        else ""
    )


# A report of dataclasses as JSON.


def to_json(report: Any) -> str:
    """Write a dataclass as JSON, each field under its own name; nan and infinity become null."""
    return json.dumps(_to_plain_data(report), allow_nan=False)


def write_json(report: Any, path: Path) -> None:
    """Write a dataclass as a JSON file, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(to_json(report) + "\n", encoding="utf-8")


def _to_plain_data(value: Any) -> Any:
    """Convert to JSON's types, to seven digits: pages show fewer, and the file is half as large."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: _to_plain_data(getattr(value, field.name)) for field in fields}
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _to_plain_data(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a NamedTuple such as Estimate
        return _to_plain_data(value._asdict())
    if isinstance(value, list | tuple):
        return [_to_plain_data(item) for item in value]
    return value
