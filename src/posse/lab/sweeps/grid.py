"""The grid of a sweep: dotted keys such as 'network.agents', and the values they take.

A grid is a product of axes. An axis is one key and its list of values, or several keys whose lists
run in step (a paired list).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import rules, validation
from posse.bandits import SiteMeans
from posse.import_strings import REPR_ONLY
from posse.lab import run_ranges as ranges
from posse.lab.experiments import Experiment
from posse.networks import Network
from posse.serialization import encode
from posse.serialization.encode import find_repr_only, to_data

EVERY = "*"
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^."']+?))\s*(\.|$)""")
# Not the title, which changes no number, nor `single`: a sweep compares one algorithm too.
_TOP_KEYS = [f.name for f in dataclasses.fields(Experiment) if f.name not in ("title", "single")]


def experiment_to_data(experiment: Experiment) -> dict[str, Any]:
    """Encode an experiment as data that rebuilds it; parts that cannot be imported are refused."""
    e = experiment
    data: dict[str, Any] = {
        "bandit": encode.encode_bandit(e.bandit),
        "network": encode.encode_network(e.network),
        "algorithms": {
            name: encode.encode_algorithm(algorithm) for name, algorithm in e.algorithms.items()
        },
        "horizon": e.horizon,
        "runs": ranges.encode_runs(ranges.parse_runs(e.runs)),
        "seed": e.seed,
        "engine": to_data(e.engine),
        "keep": list(e.keep),
    }
    if e.activity is not None:
        data["activity"] = encode.encode_activity(e.activity)
    if e.regret != "own":
        data["regret"] = e.regret
    if e.record is not None:
        data["record"] = to_data(e.record)
    for path, part in find_repr_only(data).items():
        raise ValueError(
            f"{path}: {part} cannot be imported by name: define it in a module, as a function or a "
            "frozen dataclass of plain fields"
        )
    return data


def parse_key(key: Any) -> tuple[str, ...]:
    """Split a dotted key into its parts; a part with a dot in it is quoted."""
    parts = []
    place = 0
    if isinstance(key, str):
        while match := _PART.match(key, place):
            parts.append(next(part for part in match.groups()[:3] if part is not None))
            place = match.end()
            if not match[4]:
                return tuple(parts)
    raise ValueError(
        f"keys of a sweep are such as 'network.agents' (a name with a dot in quotes, as in "
        f"'algorithms.\"TS 0.5\".policy'), got {validation.format_value(key)}"
    )


def paths_overlap(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether one path is a prefix of the other; a star matches any algorithm."""
    algorithms = first[0] == second[0] == "algorithms"
    return all(
        a == b or (algorithms and place == 1 and EVERY in (a, b))
        for place, (a, b) in enumerate(zip(first, second, strict=False))
    )


def set_key(data: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a key in the data of an experiment; None restores the default."""
    path = parse_key(key)
    validation.validate_choice("key", path[0], _TOP_KEYS)
    for target in _expand_star(data, key, path):
        _set_path(data, key, target, value)


def _expand_star(data: Mapping[str, Any], key: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Expand a star into the paths of all algorithms that have such a field."""
    if path[0] != "algorithms" or len(path) == 1:
        return [path]
    names = list(data["algorithms"])
    if path[1] != EVERY:
        if len(path) > 2:  # a key algorithms.NAME may add an algorithm
            validation.validate_choice(f"{key}: algorithm", path[1], names)
        return [path]
    if len(path) == 2:
        return [("algorithms", name) for name in names]
    from posse.algorithms import ALGORITHMS, CONTEXTUAL
    from posse.import_strings import import_object

    # A star means the algorithms that have the field: Isolated has no learning rate.
    kinds = {}
    for name in names:
        entry = data["algorithms"][name]
        kind = entry if isinstance(entry, str) else entry["name"]
        kinds[name] = import_object(kind) if ":" in kind else (ALGORITHMS | CONTEXTUAL)[kind]
    fields = {name: [f.name for f in dataclasses.fields(kind)] for name, kind in kinds.items()}
    validation.validate_choice(
        f"{key}: field",
        path[2],
        sorted({field_name for field_names in fields.values() for field_name in field_names}),
    )
    return [("algorithms", name, *path[2:]) for name in names if path[2] in fields[name]]


def _set_path(data: dict[str, Any], key: str, path: tuple[str, ...], value: Any) -> None:
    place: Any = data
    for depth, part in enumerate(path[:-1], start=1):
        inner = (
            place[_parse_index(key, place, part)] if isinstance(place, list) else place.get(part)
        )
        if isinstance(inner, str):  # a value without fields is written as its name
            inner = {"name": inner}
        if not isinstance(inner, dict | list):
            where = ".".join(path[:depth])
            raise ValueError(f"{key}: the experiment has no table {where} to set this in")
        if isinstance(place, list):
            place[_parse_index(key, place, part)] = inner
        else:
            place[part] = inner
        place = inner
    if isinstance(place, list):
        place[_parse_index(key, place, path[-1])] = value
    elif value is None:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value


def _parse_index(key: str, items: list[Any], part: str) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise ValueError(f"{key}: {part} must be a position in a list, from 0 to {len(items) - 1}")
    return int(part)


Label = str | int | float | bool


@dataclass(frozen=True)
class AxisTitle:
    """The name of a paired list, and a label of each of its points, or none."""

    name: str
    labels: tuple[Label, ...] = ()


class AxisKeys(tuple[str, ...]):
    """The keys of a named paired list, as a key of a grid."""

    title: AxisTitle

    @classmethod
    def with_title(cls, keys: Sequence[str], title: AxisTitle) -> AxisKeys:
        """Name some keys."""
        named = cls(keys)
        named.title = title
        return named


def axis(
    name: str, values: Mapping[str, Any], *, labels: Sequence[Label] | None = None
) -> dict[Any, Any]:
    """Name a paired list of a sweep: keys whose lists run in step, as one axis of the grid.

    values: a list for each key, all of one length, such as
            {"network.agents": [9, 25], "horizon": [500, 1000]}
    labels: of the points, in tables and figures; by default those of the first key that
            distinguishes all points

    The result is a part of a grid: `posse.axis("size", {...}) | {"seed": [1, 2]}`.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ValueError(f"name of an axis must be text, got {validation.format_value(name)}")
    if name == "algorithm" or "." in name:
        raise ValueError(f"name of an axis must be without a dot and not 'algorithm', got {name!r}")
    if not isinstance(values, Mapping) or not values:
        raise ValueError(
            f"axis {name!r} needs a dict from keys to lists of one length, "
            f"got {validation.format_value(values)}"
        )
    columns = {}
    for key, column in values.items():
        if not isinstance(column, list | tuple | range | np.ndarray) or not len(column):
            raise ValueError(
                f"axis {name!r}: {key} needs a list of values, "
                f"got {validation.format_value(column)}"
            )
        columns[key] = list(column)
    lengths = {key: len(column) for key, column in columns.items()}
    if labels is not None:
        lengths["labels"] = len(labels)
        if len(set(labels)) < len(labels):
            raise ValueError(f"axis {name!r}: labels must be distinct, got {list(labels)}")
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise ValueError(f"axis {name!r}: lists must be of one length: {counts}")
    title = AxisTitle(name, () if labels is None else tuple(labels))
    points = list(zip(*columns.values(), strict=True))
    return {AxisKeys.with_title(tuple(columns), title): points}


@dataclass(frozen=True)
class Axis:
    """Some keys that change together, and their values at every point.

    values: for every point a value of every key, as plain data
    labels: the same for tables and figures: numbers and text, distinct between points
    title:  the name of a paired list, and the labels that were given to its points, if any
    """

    keys: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    labels: tuple[tuple[Label, ...], ...]
    title: AxisTitle | None = None

    @property
    def name(self) -> str:
        """The key, or the name of a paired list: all its keys if it was given none."""
        return self.title.name if self.title else " & ".join(self.keys)

    @property
    def point_labels(self) -> tuple[Label, ...]:
        """One label for every point: the one given, or that of the first key that distinguishes."""
        if self.title and self.title.labels:
            return self.title.labels
        for column in zip(*self.labels, strict=True):
            if len(set(column)) == len(column):
                return column
        return tuple(" & ".join(map(str, labels)) for labels in self.labels)

    @property
    def first_distinct_key(self) -> str | None:
        """The first key whose labels distinguish all points, if there is one."""
        columns = zip(self.keys, zip(*self.labels, strict=True), strict=True)
        return next((key for key, column in columns if len(set(column)) == len(column)), None)

    @property
    def rule_keys(self) -> tuple[str, ...]:
        """The keys of which a value is a rule, such as "sqrt(N)"."""
        columns = zip(self.keys, zip(*self.values, strict=True), strict=True)
        return tuple(key for key, column in columns if any(map(rules.is_rule, column)))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class SweepGrid:
    """A product of axes, paired lists last; cells are in the order of nested loops."""

    axes: tuple[Axis, ...]

    @classmethod
    def from_mapping(cls, mapping: Any) -> SweepGrid:
        """Validate a dict of key to values, or of a tuple of keys to tuples of values."""
        if not isinstance(mapping, Mapping) or not mapping:
            raise ValueError(
                'grid must be a dict such as {"network.agents": [10, 30]}, '
                f"got {validation.format_value(mapping)}"
            )
        # Paired lists come last, as in a file.
        axes = tuple(
            sorted(
                (_build_axis(keys, values) for keys, values in mapping.items()),
                key=lambda axis: len(axis.keys) > 1 or axis.title is not None,
            )
        )
        titles = [axis.title.name for axis in axes if axis.title]
        for title in titles:
            if titles.count(title) > 1:
                raise ValueError(f"grid: two axes are named {title!r}")
        keys = [key for axis in axes for key in axis.keys]
        for first, second in itertools.combinations(keys, 2):
            _refuse_overlap(first, second)
        return cls(axes)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, axis by axis."""
        return tuple(key for axis in self.axes for key in axis.keys)

    def short_names(self) -> dict[str, str]:
        """Shorten every key to as few of its last parts as distinguish it from the others."""
        paths = {key: parse_key(key) for key in self.keys}
        # An index means nothing without the name of its list.
        depths = {key: 1 + path[-1].isdecimal() for key, path in paths.items()}
        taken = {axis.title.name for axis in self.axes if axis.title} | {"algorithm"}
        # One more part of the keys that clash, and of no other: full keys always differ.
        while True:
            names = {key: ".".join(path[-depths[key] :]) for key, path in paths.items()}
            counts = Counter(names.values())
            clashing = [
                key
                for key, name in names.items()
                if (counts[name] > 1 or name in taken) and depths[key] < len(paths[key])
            ]
            if not clashing:
                return names
            for key in clashing:
                depths[key] += 1

    @property
    def rule_keys(self) -> tuple[str, ...]:
        """The keys of which a value is a rule."""
        return tuple(key for axis in self.axes for key in axis.rule_keys)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points of each axis."""
        return tuple(map(len, self.axes))

    def __len__(self) -> int:
        return math.prod(self.shape)

    def points(self) -> Iterator[tuple[int, ...]]:
        """Iterate over the indices of all cells, on every axis."""
        return itertools.product(*map(range, self.shape))

    def settings(self, point: tuple[int, ...]) -> dict[str, Any]:
        """Give the value of every key in a cell, as plain data."""
        pairs = zip(self.axes, point, strict=True)
        return {k: v for axis, i in pairs for k, v in zip(axis.keys, axis.values[i], strict=True)}

    def labels(self, point: tuple[int, ...]) -> dict[str, Label]:
        """Give the label of every key in a cell."""
        pairs = zip(self.axes, point, strict=True)
        return {k: v for axis, i in pairs for k, v in zip(axis.keys, axis.labels[i], strict=True)}

    def to_data(self) -> dict[str, Any]:
        """Encode the grid as plain data: lists by key, paired lists as tables under 'paired'."""
        data: dict[str, Any] = {}
        for axis in self.axes:
            columns = dict(zip(axis.keys, map(list, zip(*axis.values, strict=True)), strict=True))
            if axis.title:
                named: dict[str, Any] = {"name": axis.title.name}
                if axis.title.labels:
                    named["labels"] = list(axis.title.labels)
                data.setdefault("paired", []).append(named | columns)
            elif len(columns) == 1:
                data |= columns
            else:
                data.setdefault("paired", []).append(columns)
        return data


def describe_cell(cell: Mapping[str, Label]) -> str:
    """Describe a cell, for messages."""
    return ", ".join(f"{key} = {label}" for key, label in cell.items())


def _refuse_overlap(first: str, second: str) -> None:
    """Refuse two keys that set the same field: the label of one would be wrong."""
    if parse_key(first) == parse_key(second):
        raise ValueError(f"grid: {second} is there twice")
    if not paths_overlap(parse_key(first), parse_key(second)):
        return
    # The shorter key contains the longer one.
    outer, inner = sorted((first, second), key=lambda key: (len(parse_key(key)), EVERY in key))
    if EVERY in parse_key(first) + parse_key(second):
        advice = "name the algorithms one by one instead of *, each key once"
    else:
        advice = f"keep {inner} alone, or write its values into those of {outer}"
    raise ValueError(f"grid: {outer} and {inner} set the same thing: {advice}")


def _build_axis(keys: Any, values: Any) -> Axis:
    """Build an axis; a repeated point counts once."""
    paired = isinstance(keys, tuple)
    names = keys if paired else (keys,)
    for name in names:
        parse_key(name)
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"grid: a paired list needs keys, each once, got {validation.format_value(keys)}"
        )
    axis_name = " & ".join(names)
    if isinstance(values, np.ndarray | range):
        values = list(values)
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(
            f"grid: {axis_name} needs a list of values, got {validation.format_value(values)}"
        )
    rows: dict[str, tuple[Any, ...]] = {}
    texts: dict[str, list[Label]] = {}
    for point in values:
        row = point if paired else (point,)
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise ValueError(
                f"grid: each value of ({axis_name}) must be a tuple of {len(names)}, "
                f"got {validation.format_value(point)}"
            )
        # Points are compared as JSON, since values may be lists and tables, which do not hash.
        plain = tuple(_encode_value(name, value) for name, value in zip(names, row, strict=True))
        mark = json.dumps([_unify_numbers(plain_value) for plain_value in plain])
        if mark not in rows:
            rows[mark] = plain
            texts[mark] = list(map(_format_data, plain))
    title = keys.title if isinstance(keys, AxisKeys) else None
    if title is not None and title.labels and len(rows) < len(values):
        raise ValueError(f"grid: axis {title.name!r} has a point twice, under two labels")
    return Axis(tuple(names), tuple(rows.values()), _make_distinct(list(texts.values())), title)


def _unify_numbers(value: Any) -> Any:
    """Unify 1 and 1.0 in plain data, so that they count as one point; True stays itself."""
    if isinstance(value, Mapping):
        return {key: _unify_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_unify_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _encode_value(key: str, value: Any) -> Any:
    """Encode a value as plain data, as short as in a hand-written file."""
    data = shorten(value)
    for part in find_repr_only(data).values():
        raise ValueError(
            f"grid: {key}: {part} cannot be imported by name: define it in a module, as a function "
            "or a frozen dataclass of plain fields"
        )
    return data


def shorten(value: Any) -> Any:
    """Encode a value without fields that have their default; a name without fields is text."""
    data = to_data(value)
    has_fields = dataclasses.is_dataclass(value) and not isinstance(value, type | Network)
    if not has_fields or REPR_ONLY in data:
        return data
    for part in dataclasses.fields(value):
        value_of_field = getattr(value, part.name)
        if part.name not in data or isinstance(value_of_field, SiteMeans):
            continue
        if type(value_of_field) is type(part.default) and value_of_field == part.default:
            del data[part.name]
        elif dataclasses.is_dataclass(value_of_field):
            data[part.name] = shorten(value_of_field)
    return data["name"] if list(data) == ["name"] else data


def format_label(value: Any) -> Label:
    """Format a value for tables and figures."""
    return _format_data(shorten(value))


def _format_data(value: Any) -> Label:
    """Format plain data as a short text; numbers and text stay themselves."""
    if isinstance(value, bool | int | float | str):
        return value
    if value is None:
        return "default"
    if isinstance(value, Mapping):
        arguments = ", ".join(
            f"{k}={_format_data(v)}" for k, v in value.items() if k not in ("name", "graph")
        )
        name = value.get("name", value.get("graph", ""))
        return f"{name}({arguments})" if arguments else str(name)
    return validation.format_value([_format_data(item) for item in value])


def _make_distinct(rows: list[list[Label]]) -> tuple[tuple[Label, ...], ...]:
    """Number labels that coincide, as shortened ones may."""
    counts: dict[str, int] = {}
    distinct = []
    for row in rows:
        times = counts[repr(row)] = counts.get(repr(row), 0) + 1
        distinct.append(tuple([*row[:-1], f"{row[-1]} ({times})"] if times > 1 else row))
    return tuple(distinct)
