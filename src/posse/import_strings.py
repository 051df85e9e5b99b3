"""Anybody's parts by name: 'module:Class' for what can be imported, a marked repr for the rest.

So a network, and whatever else holds a part of one's own, becomes plain data and comes back.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posse.validation import FrozenArray, format_value

# Marks a part that a file can show but not build again: a lambda, an object of a plain class, or
# what is defined in a function, a notebook or the main script.
REPR_ONLY = "cannot be rerun"


def import_object(name: str) -> Any:
    """Import the function or class called 'module:name'."""
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *path.split(".")]):
        raise ValueError(f"a function is named 'module:function', got {format_value(name)}")
    try:
        imported = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except ImportError as error:
        raise ValueError(f"{format_value(name)} cannot be imported: {error}") from None
    except AttributeError:
        raise ValueError(
            f"{format_value(name)} is unknown: module {module!r} has no {path!r}"
        ) from None
    if not callable(imported):
        raise ValueError(f"{format_value(name)} must be a function, got {format_value(imported)}")
    return imported


def get_import_string(value: Any) -> str | None:
    """The 'module:name' under which any program finds a function or class, if there is one."""
    module = getattr(value, "__module__", None)
    path = getattr(value, "__qualname__", "<unnamed>")
    if module == "__main__":  # another program's is another
        return None
    try:
        return f"{module}:{path}" if import_object(f"{module}:{path}") is value else None
    except ValueError:
        return None


def mark_repr_only(value: Any) -> dict[str, str]:
    """What a file shows of a part that it cannot build again; alike in every process."""
    return {REPR_ONLY: re.sub(r" at 0x[0-9a-fA-F]+", "", format_value(value))}


def encode_value(value: Any) -> Any:
    """A value as plain data: {"name": "module:Class", field: ...} for dataclasses.

    What has no name becomes {REPR_ONLY: its repr}, which can be stored, but not read back. Fields
    that are None are left out, since TOML has no word for it.
    """
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): encode_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_value(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return get_import_string(value) or mark_repr_only(value)
    if (name := get_import_string(type(value))) is None:
        return mark_repr_only(value)
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    return {"name": name} | {
        key: encode_value(item) for key, item in fields.items() if item is not None
    }


def decode_value(data: Any) -> Any:
    """The value that `write` made plain; lists come back as tuples, which compare and hash."""
    if isinstance(data, list | tuple):
        return tuple(decode_value(item) for item in data)
    if not isinstance(data, Mapping):
        return data
    if REPR_ONLY in data:
        raise ValueError(
            f"{data[REPR_ONLY]} was saved by its repr alone and cannot be built again: make it a "
            "frozen dataclass of a module, which is saved as 'module:Class'"
        )
    if ":" not in str(data.get("name")):
        return {key: decode_value(item) for key, item in data.items()}
    kind = import_object(str(data["name"]))
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"name must be that of a frozen dataclass, got {data['name']!r}")
    functions = _find_function_fields(kind)
    fields = {key: value for key, value in data.items() if key != "name"}
    try:
        return kind(
            **{
                k: import_object(v) if k in functions else decode_value(v)
                for k, v in fields.items()
            }
        )
    except TypeError as error:
        raise ValueError(
            f"{data['name']} cannot be built of {', '.join(fields)}: {error}"
        ) from None


def _find_function_fields(kind: type) -> set[str]:
    """The fields that hold functions, which plain data has the names of."""
    try:
        hints = typing.get_type_hints(kind)
    except NameError:  # types that only a type checker imports
        return set()
    get_origin: Any = typing.get_origin
    alternatives = {name: (hint, *typing.get_args(hint)) for name, hint in hints.items()}  # or None
    return {
        name
        for name, hints_of_field in alternatives.items()
        if any(get_origin(k) is Callable for k in hints_of_field)
    }
