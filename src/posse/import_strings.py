"""Import strings: user-defined parts as 'module:Class', and a marked repr for all others.

Networks and experiments use them to write user-defined parts (plugins) as plain data and to read
them again. `posse.serialization` builds on this module and adds the registries of the library.
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

# Key of a part that a file can show but cannot rebuild: a lambda, an object of a plain class, or
# anything that is defined in a function, a notebook or the main script.
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
    """Return the 'module:name' by which any program can import a function or class, or None."""
    module = getattr(value, "__module__", None)
    path = getattr(value, "__qualname__", "<unnamed>")
    if module == "__main__":  # it names another module in another program
        return None
    # A name counts only if it leads back to the same object, which local functions do not.
    try:
        return f"{module}:{path}" if import_object(f"{module}:{path}") is value else None
    except ValueError:
        return None


def mark_repr_only(value: Any) -> dict[str, str]:
    """Mark a part that no file can rebuild: {REPR_ONLY: its repr}."""
    # addresses differ from process to process, and digests of settings must not
    return {REPR_ONLY: re.sub(r" at 0x[0-9a-fA-F]+", "", format_value(value))}


def encode_value(value: Any) -> Any:
    """Encode a value as plain data: {"name": "module:Class", field: ...} for dataclasses.

    A value without an import string becomes {REPR_ONLY: its repr}, which can be stored but not
    read back.
    """
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return encode_plain(value, encode_value)
    if (name := get_import_string(type(value))) is None:
        return mark_repr_only(value)
    return {"name": name, **encode_fields(value, encode_value)}


def encode_plain(value: Any, encode_item: Callable[[Any], Any]) -> Any:
    """Encode numbers, text, arrays and containers; `encode_item` encodes what containers hold.

    A function or class becomes its import string, anything else {REPR_ONLY: its repr}.
    """
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return encode_item(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): encode_item(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_item(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return get_import_string(value) or mark_repr_only(value)


def encode_fields(value: Any, encode_item: Callable[[Any], Any]) -> dict[str, Any]:
    """Encode the fields of a dataclass by name, without those that are None.

    TOML has no null, so the default of the constructor must restore a None.
    """
    names = [field.name for field in dataclasses.fields(value) if field.init]
    values = {name: getattr(value, name) for name in names}
    return {name: encode_item(item) for name, item in values.items() if item is not None}


def decode_value(data: Any) -> Any:
    """Decode what `encode_value` wrote; lists come back as tuples, which compare and hash."""
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
    # Only annotations tell the import string of a function from other text.
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
    """Return the names of the fields that hold functions: their data are import strings."""
    try:
        hints = typing.get_type_hints(kind)
    except NameError:  # an annotation that only a type checker can resolve
        return set()
    get_origin: Any = typing.get_origin
    alternatives = {name: (hint, *typing.get_args(hint)) for name, hint in hints.items()}  # or None
    return {
        name
        for name, hints_of_field in alternatives.items()
        if any(get_origin(k) is Callable for k in hints_of_field)
    }
