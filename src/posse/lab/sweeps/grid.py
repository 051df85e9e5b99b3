"""Grids: the values that some keys of an experiment take, as a product of axes.

An axis is one key and its list of values, or several keys whose lists run in step (a paired list).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import checks
from posse.bandits import SiteMeans
from posse.lab.settings import not_rerunnable, to_data
from posse.lab.sweeps.keys import EVERY, overlap, path_of
from posse.named import REPR_ONLY
from posse.networks import Network

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
                f"got {checks.shown(given)}"
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
        raise ValueError(f"grid: a paired list needs keys, each once, got {checks.shown(keys)}")
    shown = " & ".join(names)
    if isinstance(values, np.ndarray | range):
        values = list(values)
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(f"grid: {shown} needs a list of values, got {checks.shown(values)}")
    rows: dict[str, tuple[Any, ...]] = {}
    texts: dict[str, list[Label]] = {}
    for given in values:
        row = given if paired else (given,)
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise ValueError(
                f"grid: each value of ({shown}) must be a tuple of {len(names)}, "
                f"got {checks.shown(given)}"
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
    for part in not_rerunnable(data).values():
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
    return checks.shown([_label(each) for each in value])


def _told_apart(rows: list[list[Label]]) -> tuple[tuple[Label, ...], ...]:
    """Labels that no two points share: cut short they may be alike."""
    counts: dict[str, int] = {}
    found = []
    for row in rows:
        times = counts[repr(row)] = counts.get(repr(row), 0) + 1
        found.append(tuple([*row[:-1], f"{row[-1]} ({times})"] if times > 1 else row))
    return tuple(found)
