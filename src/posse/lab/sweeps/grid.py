"""Keys of an experiment as data: dotted paths such as 'network.agents', read and put in place."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import validation
from posse.bandits import SiteMeans
from posse.import_strings import REPR_ONLY
from posse.lab import run_ranges as ranges
from posse.lab.experiments import Experiment
from posse.networks import Network
from posse.serialization import encode
from posse.serialization.encode import find_repr_only, to_data

EVERY = "*"
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^."']+?))\s*(\.|$)""")
# A title changes nothing, and a sweep of single results compares all the same.
_TOP = [f.name for f in dataclasses.fields(Experiment) if f.name not in ("title", "single")]


def data_of(experiment: Experiment) -> dict[str, Any]:
    """An experiment as data that build it again; refused where some part has no name in a file."""
    e = experiment
    data: dict[str, Any] = {
        "bandit": encode.encode_bandit(e.bandit),
        "network": encode.encode_network(e.network),
        "algorithms": {name: encode.encode_algorithm(each) for name, each in e.algorithms.items()},
        "horizon": e.horizon,
        "runs": ranges.to_setting(ranges.runs_of(e.runs)),
        "seed": e.seed,
        "engine": to_data(e.engine),
        "keep": list(e.keep),
    }
    if e.record is not None:
        data["record"] = to_data(e.record)
    for path, part in find_repr_only(data).items():
        raise ValueError(
            f"{path}: {part} has no name by which a file could tell it from others: define it in "
            "a module, as a function or a frozen dataclass of plain fields"
        )
    return data


def path_of(key: Any) -> tuple[str, ...]:
    """The parts of a dotted key; those with dots in them are quoted."""
    parts = []
    place = 0
    if isinstance(key, str):
        while found := _PART.match(key, place):
            parts.append(next(part for part in found.groups()[:3] if part is not None))
            place = found.end()
            if not found[4]:
                return tuple(parts)
    raise ValueError(
        f"keys of a sweep are such as 'network.agents' (a name with a dot in quotes, as in "
        f"'algorithms.\"TS 0.5\".policy'), got {validation.format_value(key)}"
    )


def overlap(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether one path leads to a part of the other, or to the same; a star is any algorithm."""
    algorithms = first[0] == second[0] == "algorithms"
    return all(
        a == b or (algorithms and place == 1 and EVERY in (a, b))
        for place, (a, b) in enumerate(zip(first, second, strict=False))
    )


def put(data: dict[str, Any], key: str, value: Any) -> None:
    """Set what a key stands for, in place; None leaves it to its default."""
    path = path_of(key)
    validation.validate_choice("key", path[0], _TOP)
    for each in _spelled_out(data, key, path):
        _put(data, key, each, value)


def _spelled_out(data: Mapping[str, Any], key: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths meant: one, or with a star those of all algorithms that have such a field."""
    if path[0] != "algorithms" or len(path) == 1:
        return [path]
    names = list(data["algorithms"])
    if path[1] != EVERY:
        if len(path) > 2:  # a whole algorithm may be a new one
            validation.validate_choice(f"{key}: algorithm", path[1], names)
        return [path]
    if len(path) == 2:
        return [("algorithms", name) for name in names]
    from posse.algorithms import ALGORITHMS, CONTEXTUAL
    from posse.import_strings import import_object

    kinds = {}
    for name in names:
        entry = data["algorithms"][name]
        kind = entry if isinstance(entry, str) else entry["name"]
        kinds[name] = import_object(kind) if ":" in kind else (ALGORITHMS | CONTEXTUAL)[kind]
    fields = {name: [f.name for f in dataclasses.fields(kind)] for name, kind in kinds.items()}
    validation.validate_choice(
        f"{key}: field", path[2], sorted({each for own in fields.values() for each in own})
    )
    return [("algorithms", name, *path[2:]) for name in names if path[2] in fields[name]]


def _put(data: dict[str, Any], key: str, path: tuple[str, ...], value: Any) -> None:
    place: Any = data
    for depth, part in enumerate(path[:-1], start=1):
        inner = place[_index(key, place, part)] if isinstance(place, list) else place.get(part)
        if isinstance(inner, str):  # a value without fields is its name alone
            inner = {"name": inner}
        if not isinstance(inner, dict | list):
            where = ".".join(path[:depth])
            raise ValueError(f"{key}: the experiment has no table {where} to set this in")
        if isinstance(place, list):
            place[_index(key, place, part)] = inner
        else:
            place[part] = inner
        place = inner
    if isinstance(place, list):
        place[_index(key, place, path[-1])] = value
    elif value is None:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value


def _index(key: str, items: list[Any], part: str) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise ValueError(f"{key}: {part} must be a place in a list, from 0 to {len(items) - 1}")
    return int(part)


# Grids: the values that some keys of an experiment take, as a product of axes.
#
# An axis is one key and its list of values, or several keys whose lists run in step (a paired
# list).

Label = str | int | float | bool


@dataclass(frozen=True)
class Axis:
    """Some keys that change together, and what they are at each point.

    values: at each point a value for every key, as plain data.
    labels: the same as tables and figures show them: numbers and text, no two points alike.
    """

    keys: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    labels: tuple[tuple[Label, ...], ...]

    @property
    def name(self) -> str:
        """Its key, or all keys of a paired list."""
        return " & ".join(self.keys)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Grid:
    """A product of axes, paired lists last; cells are in the order of nested loops."""

    axes: tuple[Axis, ...]

    @classmethod
    def checked(cls, given: Any) -> Grid:
        """The grid of a dict of key to values, or of a tuple of keys to tuples of values."""
        if not isinstance(given, Mapping) or not given:
            raise ValueError(
                'grid must be a dict such as {"network.agents": [10, 30]}, '
                f"got {validation.format_value(given)}"
            )
        # paired lists last, as a file has them
        axes = tuple(
            sorted(
                (_axis(keys, values) for keys, values in given.items()),
                key=lambda axis: len(axis.keys) > 1,
            )
        )
        keys = [key for axis in axes for key in axis.keys]
        for first, second in itertools.combinations(keys, 2):
            _refuse_overlap(first, second)
        return cls(axes)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, axis by axis."""
        return tuple(key for axis in self.axes for key in axis.keys)

    def short_names(self) -> dict[str, str]:
        """Each key by as few of its last parts as tell it from the others, for tables."""
        paths = {key: path_of(key) for key in self.keys}
        for depth in itertools.count(1):
            names = {}
            for key, path in paths.items():
                place = path[-1].isdecimal()  # in a list, which it says nothing without
                names[key] = ".".join(path[-depth - place :])
            if len(set(names.values())) == len(names):
                break
        return names

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points of each axis."""
        return tuple(map(len, self.axes))

    def __len__(self) -> int:
        return math.prod(self.shape)

    def points(self) -> Iterator[tuple[int, ...]]:
        """Where each cell is on every axis."""
        return itertools.product(*map(range, self.shape))

    def settings(self, point: tuple[int, ...]) -> dict[str, Any]:
        """The value of every key in a cell, as plain data."""
        pairs = zip(self.axes, point, strict=True)
        return {k: v for axis, i in pairs for k, v in zip(axis.keys, axis.values[i], strict=True)}

    def labels(self, point: tuple[int, ...]) -> dict[str, Label]:
        """The value of every key in a cell, as tables show it."""
        pairs = zip(self.axes, point, strict=True)
        return {k: v for axis, i in pairs for k, v in zip(axis.keys, axis.labels[i], strict=True)}

    def to_data(self) -> dict[str, Any]:
        """The grid as plain data: lists by key, paired lists as tables under 'paired'."""
        data: dict[str, Any] = {}
        for axis in self.axes:
            columns = dict(zip(axis.keys, map(list, zip(*axis.values, strict=True)), strict=True))
            if len(columns) == 1:
                data |= columns
            else:
                data.setdefault("paired", []).append(columns)
        return data


def words(cell: Mapping[str, Label]) -> str:
    """A cell as sentences name it."""
    return ", ".join(f"{key} = {label}" for key, label in cell.items())


def _refuse_overlap(first: str, second: str) -> None:
    """Refuse two keys that set the same thing: the label of one would not be what is played."""
    if path_of(first) == path_of(second):
        raise ValueError(f"grid: {second} is there twice")
    if not overlap(path_of(first), path_of(second)):
        return
    outer, inner = sorted((first, second), key=lambda key: (len(path_of(key)), EVERY in key))
    if EVERY in path_of(first) + path_of(second):
        advice = "name the algorithms one by one instead of *, each key once"
    else:
        advice = f"keep {inner} alone, or write its values into those of {outer}"
    raise ValueError(f"grid: {outer} and {inner} set the same thing: {advice}")


def _axis(keys: Any, values: Any) -> Axis:
    """An axis; a point that is there twice counts once."""
    paired = isinstance(keys, tuple)
    names = keys if paired else (keys,)
    for name in names:
        path_of(name)
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"grid: a paired list needs keys, each once, got {validation.format_value(keys)}"
        )
    shown = " & ".join(names)
    if isinstance(values, np.ndarray | range):
        values = list(values)
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(
            f"grid: {shown} needs a list of values, got {validation.format_value(values)}"
        )
    rows: dict[str, tuple[Any, ...]] = {}
    texts: dict[str, list[Label]] = {}
    for given in values:
        row = given if paired else (given,)
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise ValueError(
                f"grid: each value of ({shown}) must be a tuple of {len(names)}, "
                f"got {validation.format_value(given)}"
            )
        plain = tuple(_plain(name, value) for name, value in zip(names, row, strict=True))
        mark = json.dumps([_alike(each) for each in plain])
        if mark not in rows:
            rows[mark] = plain
            texts[mark] = list(map(_label, plain))
    return Axis(tuple(names), tuple(rows.values()), _told_apart(list(texts.values())))


def _alike(value: Any) -> Any:
    """Plain data in which 1 and 1.0 are one number, but no truth value."""
    if isinstance(value, Mapping):
        return {key: _alike(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_alike(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(key: str, value: Any) -> Any:
    """A value as plain data, as short as somebody would write it in a file."""
    data = short(value)
    for part in find_repr_only(data).values():
        raise ValueError(
            f"grid: {key}: {part} has no name by which a file could tell it from others: define "
            "it in a module, as a function or a frozen dataclass of plain fields"
        )
    return data


def short(value: Any) -> Any:
    """A value as data without what is left at its default; a name without fields is text."""
    data = to_data(value)
    has_fields = dataclasses.is_dataclass(value) and not isinstance(value, type | Network)
    if not has_fields or REPR_ONLY in data:
        return data
    for part in dataclasses.fields(value):
        own = getattr(value, part.name)
        if part.name not in data or isinstance(own, SiteMeans):
            continue
        if type(own) is type(part.default) and own == part.default:
            del data[part.name]
        elif dataclasses.is_dataclass(own):
            data[part.name] = short(own)
    return data["name"] if list(data) == ["name"] else data


def label_of(value: Any) -> Label:
    """A value as tables and figures show it."""
    return _label(short(value))


def _label(value: Any) -> Label:
    """Plain data in a short text, unless it is one or a number."""
    if isinstance(value, bool | int | float | str):
        return value
    if value is None:
        return "default"
    if isinstance(value, Mapping):
        rest = ", ".join(f"{k}={_label(v)}" for k, v in value.items() if k not in ("name", "graph"))
        name = value.get("name", value.get("graph", ""))
        return f"{name}({rest})" if rest else str(name)
    return validation.format_value([_label(each) for each in value])


def _told_apart(rows: list[list[Label]]) -> tuple[tuple[Label, ...], ...]:
    """Labels that no two points share: cut short they may be alike."""
    counts: dict[str, int] = {}
    found = []
    for row in rows:
        times = counts[repr(row)] = counts.get(repr(row), 0) + 1
        found.append(tuple([*row[:-1], f"{row[-1]} ({times})"] if times > 1 else row))
    return tuple(found)
