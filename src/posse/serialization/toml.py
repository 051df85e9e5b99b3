"""Read TOML text, and write plain data as TOML, which `tomllib` cannot."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"invalid TOML: {error}") from None


def format_section(path: tuple[str, ...], table: Mapping[str, Any], in_array: bool = False) -> str:
    """Format a table, one line per value, under the header [path], or [[path]] in an array.

    The empty path has no header.
    """
    name = f"[{'.'.join(map(format_key, path))}]"
    header = [f"[{name}]" if in_array else name] if path else []
    return "\n".join(
        [*header, *(f"{format_key(name)} = {format_value(item)}" for name, item in table.items())]
    )


def format_key(name: str) -> str:
    """Format a key, in quotes where TOML requires them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _format_text(name)


def format_value(item: Any) -> str:
    """Format a value on one line; tables are written inline."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, str):
        return _format_text(item)
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(format_value, item))}]"
    if isinstance(item, Mapping):
        pairs = (f"{format_key(name)} = {format_value(inner)}" for name, inner in item.items())
        return f"{{{', '.join(pairs)}}}"
    raise ValueError(f"TOML holds text, numbers, lists and tables, got {item!r}")


def _format_text(text: str) -> str:
    # JSON escapes everything that TOML requires except the delete character
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
