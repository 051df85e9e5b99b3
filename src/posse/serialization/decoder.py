"""Decoder of plain data (TOML, JSON) by type annotations, with errors that name the key.

It reads the types from the dataclasses themselves, so a new family, policy or algorithm needs a
line in its registry and nothing here. Experiment files and agent.toml share it.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from posse import rules, validation
from posse.import_strings import import_object
from posse.serialization import toml


class DecodingError(ValueError):
    """An error in plain data, with the path of the wrong key."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        self.reason = " ".join(reason.split())
        self.path = path
        super().__init__(self.format_message(": "))

    def format_message(self, separator: str) -> str:
        """Return 'path.of.the.key', the separator and the reason ('must be ...')."""
        path = ".".join(map(toml.format_key, self.path))
        return f"{path}{separator}{self.reason}" if path else self.reason

    def with_parent_key(self, key: str) -> DecodingError:
        """Return the same error under the key of the enclosing table."""
        return DecodingError(self.reason, (key, *self.path))


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Builds the value of a type annotation from plain data, or raises a DecodingError.

    builders: functions from plain data to a value, for annotations that do not determine how to
    build one (a Protocol, for example), and for single fields, keyed by (class, field).
    accepts_rules: whether a rule such as "sqrt(N)" may stand for a number
    """

    builders: Mapping[Any, Callable[[Any], Any]] = dataclasses.field(default_factory=dict)
    accepts_rules: bool = False

    def decode_value(self, hint: Any, data: Any) -> Any:
        """Decode the value of a field that is annotated with `hint`."""
        if hint in self.builders:
            with locate_errors(()):
                return self.builders[hint](data)
        if hint in _SCALARS:
            if self.accepts_rules and hint in (int, float) and isinstance(data, str):
                with locate_errors(("value",), inside=False):
                    rules.parse_rule("value", data)
                return data
            return _validate_scalar(hint, data)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.decode_dataclass(hint, data)
        origin = typing.get_origin(hint)
        arguments = typing.get_args(hint)
        # A callable is an import string, or a table of the fields of an object with __call__.
        if origin is Callable:
            return (
                self.decode_entry({}, data) if isinstance(data, Mapping) else _import_function(data)
            )
        if origin is Mapping:
            return {
                name: self.decode_item(name, arguments[1], item)
                for name, item in validate_table(data).items()
            }
        if origin is tuple:
            return self._decode_tuple(arguments, data)
        if origin in (typing.Union, types.UnionType):
            members = [argument for argument in arguments if argument is not types.NoneType]
            # The constructor decides which member of a wider union the data are.
            return data if len(members) > 1 or data is None else self.decode_value(members[0], data)
        if origin is Literal and data not in arguments:
            *most, last = map(repr, arguments)
            raise DecodingError(
                f"must be {', '.join(most)} or {last}, got {validation.format_value(data)}"
            )
        return data

    def decode_item(self, key: str, hint: Any, data: Any) -> Any:
        """Decode the value under a key of a table."""
        with _prefix_errors(key):
            return self.decode_value(hint, data)

    def decode_dataclass(self, kind: type, data: Any, extra_keys: Collection[str] = ()) -> Any:
        """Build a dataclass from a table of its fields; absent fields get their defaults."""
        settings = validate_table(data)
        hints = _get_field_types(kind)
        with locate_errors(()):
            for key in settings:
                validation.validate_choice("key", key, [*extra_keys, *hints])
        # A builder for (class, field) takes precedence over the annotation of the field.
        values = {}
        for name, hint in hints.items():
            if name in settings:
                builder_key = (kind, name)
                values[name] = self.decode_item(
                    name, builder_key if builder_key in self.builders else hint, settings[name]
                )
            elif name in _get_required_fields(kind):
                raise DecodingError("is missing", (name,))
        # The constructor validates values; its message begins with the field at fault.
        with locate_errors([*extra_keys, *hints]):
            return kind(**values)

    def decode_entry(self, registry: Mapping[str, Any], data: Any) -> Any:
        """Build an entry of a registry, or a 'module:class', from a name or a table with a name."""
        if not isinstance(data, str | Mapping):
            raise DecodingError(
                f"must be a name or a table with a name, got {validation.format_value(data)}"
            )
        settings = {"name": data} if isinstance(data, str) else dict(data)
        # A plain name stands for the whole entry, so errors have no further key.
        with locate_errors(("name",), inside=not isinstance(data, str)):
            if "name" not in settings:
                raise ValueError(f"name is missing: allowed are {', '.join(registry)}")
            name = settings.pop("name")
            if not isinstance(name, str) or ":" not in name:
                kind = registry[validation.validate_choice("name", name, registry)]
            elif not dataclasses.is_dataclass(kind := import_object(name)):
                raise ValueError(
                    f"name must be that of a frozen dataclass, got {validation.format_value(name)}"
                )
        return self.decode_dataclass(kind, settings, extra_keys=("name",))

    def _decode_tuple(self, arguments: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise DecodingError(f"must be a list, got {validation.format_value(data)}")
        hints = [arguments[0]] * len(data) if arguments[-1] is ... else list(arguments)
        if len(hints) != len(data):
            raise DecodingError(
                f"must be a list of {len(hints)}, got {validation.format_value(data)}"
            )
        return tuple(
            self.decode_item(str(i), *hint_and_item)
            for i, hint_and_item in enumerate(zip(hints, data, strict=True))
        )


def validate_table(data: Any) -> Mapping[str, Any]:
    """Return the data if they are a table, or raise a DecodingError."""
    if not isinstance(data, Mapping):
        raise DecodingError(
            f"must be a table of names and values, got {validation.format_value(data)}"
        )
    return data


@contextmanager
def locate_errors(keys: Collection[str], inside: bool = True) -> Iterator[None]:
    """Turn a ValueError into a DecodingError under the key with which its message begins.

    Messages of `posse.validation` begin with the field ("sigma must be ..."), so a constructor
    need not know under which path of a file its arguments were.

    inside: False if the value stands for the key itself, so that the path is complete.
    """
    try:
        yield
    except DecodingError:
        raise
    except ValueError as error:
        word, _, reason = str(error).partition(" ")
        key = word.rstrip(":")
        if key not in keys:
            raise DecodingError(str(error)) from None
        raise DecodingError(reason, (key,) if inside else ()) from None


@contextmanager
def _prefix_errors(key: str) -> Iterator[None]:
    try:
        yield
    except DecodingError as error:
        raise error.with_parent_key(key) from None


_SCALARS: dict[Any, str] = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    str: "text",
}


def _validate_scalar(hint: Any, data: Any) -> Any:
    """Return a scalar of exactly this type: "10" is not 10, nor is true; but 1 is 1.0."""
    # `type() is`, not isinstance: a bool is an int in Python, but true is not a number in a file.
    if hint is float and type(data) is int and validation.is_finite(data):
        return float(data)
    if type(data) is not hint:
        raise DecodingError(f"must be {_SCALARS[hint]}, got {validation.format_value(data)}")
    return data


def _import_function(data: Any) -> Any:
    with locate_errors(()):
        if not isinstance(data, str):
            raise ValueError(
                f"a function is named 'module:function', got {validation.format_value(data)}"
            )
        return import_object(data)


@functools.cache
def _get_field_types(kind: type) -> dict[str, Any]:
    """Return the annotations of the fields of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in _get_fields(kind) if field.init}


@functools.cache
def _get_required_fields(kind: type) -> frozenset[str]:
    missing = dataclasses.MISSING
    fields = _get_fields(kind)
    return frozenset(f.name for f in fields if f.default is missing is f.default_factory)


def _get_fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)
