"""Plain data as TOML text, the half that `tomllib` leaves out, and back."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any


def read(text: str) -> dict[str, Any]:
    """The data in TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is not TOML: {error}") from None


def section(path: tuple[str, ...], table: Mapping[str, Any], one_of_many: bool = False) -> str:
    """One line per value under the header [path], or [[path]]; no header for the empty path."""
    name = f"[{'.'.join(map(key, path))}]"
    header = [f"[{name}]" if one_of_many else name] if path else []
    return "\n".join([*header, *(f"{key(name)} = {value(item)}" for name, item in table.items())])


def key(name: str) -> str:
    """A name as a key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def value(item: Any) -> str:
    """A value on one line; tables are written inline."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(value, item))}]"
    if isinstance(item, Mapping):
        return f"{{{', '.join(f'{key(name)} = {value(inner)}' for name, inner in item.items())}}}"
    raise ValueError(f"TOML holds text, numbers, lists and tables, got {item!r}")


def _text(text: str) -> str:
    # JSON escapes all that TOML asks for, but for the delete character
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
