"""From plain data (TOML, JSON) to values of the library, with errors that name the key.

The types are read from the dataclasses themselves, so a new family, policy or algorithm needs its
line in the registry and nothing here. `posse.lab.settings` is the way there.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import PlainValidator, Strict, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # pydantic refuses that of typing before 3.12

from posse import checks
from posse.algorithms import ALGORITHMS, Algorithm
from posse.bandits import Bandit
from posse.families import FAMILIES, Family
from posse.lab import toml
from posse.lab.settings import MEANS
from posse.networks import GRAPHS, Network
from posse.policies import POLICIES, Policy

T = TypeVar("T")


def from_data(kind: type[T], data: Any) -> T:
    """Build a dataclass and all it holds, or say in one sentence which key is wrong, and why."""
    try:
        return typing.cast(T, TypeAdapter(_checked(kind)).validate_python(data))
    except ValidationError as error:
        raise ValueError(_sentence(error)) from None


def find(name: str) -> Any:
    """Import the function or class called 'module:name'."""
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *path.split(".")]):
        raise ValueError(f"a function is named 'module:function', got {name!r}")
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except ImportError as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from None
    except AttributeError:
        raise ValueError(f"{name!r} is unknown: module {module!r} has no {path!r}") from None
    if not callable(found):
        raise ValueError(f"{name!r} must be a function, got {found!r}")
    return found


# From the type of a field to what pydantic checks -----------------------------------------------


def _checked(hint: Any) -> Any:
    """The type that pydantic checks and builds where a field is annotated with `hint`."""
    if hint in _BUILDERS:
        return Annotated[Any, PlainValidator(_BUILDERS[hint])]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Annotated[Any, PlainValidator(functools.partial(_fields, hint))]
    if hint in (bool, int, float, str):
        return Annotated[hint, Strict()]  # no guessing: "10" is not 10
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Callable:
        return Annotated[Any, PlainValidator(_function)]
    if origin is Mapping:
        return dict[str, _checked(arguments[1])]  # type: ignore[misc]
    if origin is tuple:
        return tuple[tuple(a if a is ... else _checked(a) for a in arguments)]  # type: ignore[misc]
    if origin in (typing.Union, types.UnionType):
        some = [argument for argument in arguments if argument is not types.NoneType]
        # which member of a wider union is meant, its constructor knows best
        return _checked(some[0]) | None if len(some) == 1 else Any
    return hint if origin is Literal else Any


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a dataclass's fields."""
    hints = typing.get_type_hints(kind)
    chosen = {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    return chosen | {"means": _Means} if kind is Bandit else chosen


@functools.cache
def _adapter(kind: type) -> TypeAdapter[dict[str, Any]]:
    """What checks the table of a dataclass's fields; defaults are left to the dataclass."""
    missing = dataclasses.MISSING
    required = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is missing and field.default_factory is missing
    }
    checked = {name: _checked(hint) for name, hint in _hints(kind).items()}
    table = {k: v if k in required else NotRequired[v] for k, v in checked.items()}
    make: Any = TypedDict  # a type of run time, which the type checker need not follow
    return TypeAdapter(make(kind.__name__, table))


# Builders: plain data in, a value out -----------------------------------------------------------


class _Means:
    """Stands for the type of a bandit's means, which is wider than annotations can say."""


def _fields(kind: type, data: Any, also: Collection[str] = ()) -> Any:
    """A dataclass from the table of its fields."""
    table = _table(data)
    for key in table:
        checks.choice("key", key, [*also, *_hints(kind)])
    values = _adapter(kind).validate_python(table)
    with _naming(_hints(kind)):
        return kind(**values)


def _entry(registry: Mapping[str, Any], data: Any) -> Any:
    """One of a registry: from its name, or from a table of its name and fields."""
    if not isinstance(data, str | Mapping):
        raise ValueError(f"must be a name or a table with a name, got {data!r}")
    table = {"name": data} if isinstance(data, str) else dict(data)
    with _naming(("name",), inside=not isinstance(data, str)):
        if "name" not in table:
            raise ValueError(f"name is missing: allowed are {', '.join(registry)}")
        name = table.pop("name")
        if not isinstance(name, str) or ":" not in name:
            kind = registry[checks.choice("name", name, registry)]
        elif not dataclasses.is_dataclass(kind := find(name)):
            raise ValueError(f"name must be that of a frozen dataclass, got {name!r}")
    return _fields(kind, table, also=("name",))


def _means(data: Any) -> Any:
    """Means as numbers, as a function that draws them, or as an entry of MEANS."""
    if isinstance(data, str) and ":" in data:
        return find(data)
    return _entry(MEANS, data) if isinstance(data, str | Mapping) else data


def _network(data: Any) -> Network:
    table = _table(data)
    with _naming(("graph", *table)):
        if "graph" not in table:
            raise ValueError(f"graph is missing: allowed are {', '.join(GRAPHS)}")
        return Network.from_data(table)


def _function(data: Any) -> Any:
    if not isinstance(data, str):
        raise ValueError(f"a function is named 'module:function', got {data!r}")
    return find(data)


def _table(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"must be a table of names and values, got {data!r}")
    return data


_BUILDERS: dict[Any, Callable[[Any], Any]] = {
    Family: functools.partial(_entry, FAMILIES),
    Policy: functools.partial(_entry, POLICIES),
    Algorithm: functools.partial(_entry, ALGORITHMS),
    Network: _network,
    _Means: _means,
}


# Errors -----------------------------------------------------------------------------------------


@contextmanager
def _naming(keys: Collection[str], inside: bool = True) -> Iterator[None]:
    """Move the key that a ValueError begins with ("sigma must be ...") into the error's path.

    inside: False where the value stands for the key itself, so that the path is complete.
    """
    try:
        yield
    except ValueError as error:
        word, _, rest = str(error).partition(" ")
        key = word.rstrip(":")
        if key not in keys:
            raise
        reason: Any = rest
        loc = (key,) if inside else ()
        details: Any = {"type": PydanticCustomError("said", reason), "loc": loc, "input": None}
        raise ValidationError.from_exception_data("", [details]) from None


_WANTED = {
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text",
    "dict_type": "a table of names and values",
    "tuple_type": "a list",
}


def _sentence(error: ValidationError) -> str:
    """The first thing wrong, as 'path.of.the.key: what is wrong'."""
    first: Any = error.errors(include_url=False)[0]
    kind, got = first["type"], first["input"]
    if kind == "value_error":
        reason = str(first["ctx"]["error"])
    elif kind == "said":
        reason = first["msg"]
    elif kind == "missing":
        reason = "is missing"
    elif kind in _WANTED:
        reason = f"must be {_WANTED[kind]}, got {got!r}"
    else:
        reason = first["msg"].replace("Input should", "must") + f", got {got!r}"
    path = ".".join(toml.key(str(part)) for part in first["loc"])
    return " ".join(f"{path}: {reason}".removeprefix(": ").split())
