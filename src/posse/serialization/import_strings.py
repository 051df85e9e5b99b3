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

from posse.validation import FrozenArray, shown

# Marks a part that a file can show but not build again: a lambda, an object of a plain class, or
# what is defined in a function, a notebook or the main script.
REPR_ONLY = "cannot be rerun"


def find(name: str) -> Any:
    """Import the function or class called 'module:name'."""
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *path.split(".")]):
        raise ValueError(f"a function is named 'module:function', got {shown(name)}")
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except ImportError as error:
        raise ValueError(f"{shown(name)} cannot be imported: {error}") from None
    except AttributeError:
        raise ValueError(f"{shown(name)} is unknown: module {module!r} has no {path!r}") from None
    if not callable(found):
        raise ValueError(f"{shown(name)} must be a function, got {shown(found)}")
    return found


def name_of(thing: Any) -> str | None:
    """The 'module:name' under which any program finds a function or class, if there is one."""
    module = getattr(thing, "__module__", None)
    path = getattr(thing, "__qualname__", "<unnamed>")
    if module == "__main__":  # another program's is another
        return None
    try:
        return f"{module}:{path}" if find(f"{module}:{path}") is thing else None
    except ValueError:
        return None


def repr_only(value: Any) -> dict[str, str]:
    """What a file shows of a part that it cannot build again; alike in every process."""
    return {REPR_ONLY: re.sub(r" at 0x[0-9a-fA-F]+", "", shown(value))}


def write(value: Any) -> Any:
    """A value as plain data: {"name": "module:Class", field: ...} for dataclasses.

    What has no name becomes {REPR_ONLY: its repr}, which can be stored, but not read back. Fields
    that are None are left out, since TOML has no word for it.
    """
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): write(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [write(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return name_of(value) or repr_only(value)
    if (name := name_of(type(value))) is None:
        return repr_only(value)
    given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    return {"name": name} | {key: write(item) for key, item in given.items() if item is not None}


def read(data: Any) -> Any:
    """The value that `write` made plain; lists come back as tuples, which compare and hash."""
    if isinstance(data, list | tuple):
        return tuple(read(item) for item in data)
    if not isinstance(data, Mapping):
        return data
    if REPR_ONLY in data:
        raise ValueError(
            f"{data[REPR_ONLY]} was saved by its repr alone and cannot be built again: make it a "
            "frozen dataclass of a module, which is saved as 'module:Class'"
        )
    if ":" not in str(data.get("name")):
        return {key: read(item) for key, item in data.items()}
    kind = find(str(data["name"]))
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"name must be that of a frozen dataclass, got {data['name']!r}")
    functions = _function_fields(kind)
    given = {key: value for key, value in data.items() if key != "name"}
    try:
        return kind(**{k: find(v) if k in functions else read(v) for k, v in given.items()})
    except TypeError as error:
        raise ValueError(f"{data['name']} cannot be built of {', '.join(given)}: {error}") from None


def _function_fields(kind: type) -> set[str]:
    """The fields that hold functions, which plain data has the names of."""
    try:
        hints = typing.get_type_hints(kind)
    except NameError:  # types that only a type checker imports
        return set()
    get_origin: Any = typing.get_origin
    kinds = {name: (hint, *typing.get_args(hint)) for name, hint in hints.items()}  # or None
    return {name for name, some in kinds.items() if any(get_origin(k) is Callable for k in some)}
