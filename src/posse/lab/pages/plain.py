"""A report of dataclasses as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posse.lab.files import atomic_write


def to_json(report: Any) -> str:
    """A dataclass in JSON, each field under its own name; what is not finite is null."""
    return json.dumps(_plain(report), allow_nan=False)


def write_json(report: Any, path: Path) -> None:
    """Write a dataclass as a JSON file, wholly or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(to_json(report) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """The same in JSON's terms, to seven digits: the screen shows fewer, the file halves."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {each.name: _plain(getattr(value, each.name)) for each in fields}
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
