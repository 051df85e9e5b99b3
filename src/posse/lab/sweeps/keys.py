"""Keys of an experiment as data: dotted paths such as 'network.agents', read and put in place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from posse import checks
from posse.lab import described, ranges
from posse.lab.experiments import Experiment
from posse.lab.settings import not_rerunnable, to_data

EVERY = "*"
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^."']+?))\s*(\.|$)""")
# A title changes nothing, and a sweep of single results compares all the same.
_TOP = [f.name for f in dataclasses.fields(Experiment) if f.name not in ("title", "single")]


def data_of(experiment: Experiment) -> dict[str, Any]:
    """An experiment as data that build it again; refused where some part has no name in a file."""
    e = experiment
    data: dict[str, Any] = {
        "bandit": described.bandit(e.bandit),
        "network": described.network(e.network),
        "algorithms": {name: described.algorithm(each) for name, each in e.algorithms.items()},
        "horizon": e.horizon,
        "runs": ranges.to_setting(ranges.runs_of(e.runs)),
        "seed": e.seed,
        "engine": to_data(e.engine),
        "keep": list(e.keep),
    }
    if e.record is not None:
        data["record"] = to_data(e.record)
    for path, part in not_rerunnable(data).items():
        raise ValueError(
            f"{path}: {part} has no name by which a file could tell it from others: define it in "
            "a module, as a function or a frozen dataclass of plain fields"
        )
    return data


def path_of(key: Any) -> tuple[str, ...]:
    """The parts of a dotted key; those with dots in them are quoted."""
    parts, place = [], 0
    if isinstance(key, str):
        while found := _PART.match(key, place):
            parts.append(next(part for part in found.groups()[:3] if part is not None))
            place = found.end()
            if not found[4]:
                return tuple(parts)
    raise ValueError(
        f"keys of a sweep are such as 'network.agents' (a name with a dot in quotes, as in "
        f"'algorithms.\"TS 0.5\".policy'), got {checks.shown(key)}"
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
    checks.choice("key", path[0], _TOP)
    for each in _spelled_out(data, key, path):
        _put(data, key, each, value)


def _spelled_out(data: Mapping[str, Any], key: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths meant: one, or with a star those of all algorithms that have such a field."""
    if path[0] != "algorithms" or len(path) == 1:
        return [path]
    names = list(data["algorithms"])
    if path[1] != EVERY:
        if len(path) > 2:  # a whole algorithm may be a new one
            checks.choice(f"{key}: algorithm", path[1], names)
        return [path]
    if len(path) == 2:
        return [("algorithms", name) for name in names]
    from posse.algorithms import ALGORITHMS, CONTEXTUAL
    from posse.named import find

    kinds = {}
    for name in names:
        entry = data["algorithms"][name]
        kind = entry if isinstance(entry, str) else entry["name"]
        kinds[name] = find(kind) if ":" in kind else (ALGORITHMS | CONTEXTUAL)[kind]
    fields = {name: [f.name for f in dataclasses.fields(kind)] for name, kind in kinds.items()}
    checks.choice(
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
