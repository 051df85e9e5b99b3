"""The parts of a simulation as settings: data that build the same part again, or a marked repr.

Files are promised to give the same numbers again, so whatever comes back as another part (a field
called "name", an array that becomes a list, a None that a default replaces) is only shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from posse.algorithms import Algorithm
from posse.bandits import AnyBandit, Bandit, ContextualBandit
from posse.checks import FrozenArray
from posse.families import ContextualFamily, Family
from posse.lab.decode import from_data
from posse.lab.settings import not_rerunnable, to_data
from posse.named import repr_only
from posse.networks import Network
from posse.networks.dynamics import is_own


def algorithm(value: Any) -> Any:
    """An algorithm as plain data."""
    return _faithful(Algorithm, value)


def bandit(value: AnyBandit) -> dict[str, Any]:
    """A bandit as plain data, part by part."""
    if isinstance(value, ContextualBandit):
        return _contextual(value)
    data: dict[str, Any] = to_data(value) | {"family": _faithful(Family, value.family)}
    for name, part in {
        "means": value.means_of_arms,
        "drift": value.drift,
        "delay": value.delay,
    }.items():
        if part is None or isinstance(part, tuple | FrozenArray) or not_rerunnable(data[name]):
            continue
        if not _same(_rebuilt((Bandit, name), data[name]), part):
            data[name] = repr_only(part)
    return data


def _contextual(value: ContextualBandit) -> dict[str, Any]:
    data: dict[str, Any] = to_data(value)
    family = None if not_rerunnable(data["family"]) else _rebuilt(ContextualFamily, data["family"])
    if family is None or not _same(family.with_features(value.family.features), value.family):
        data["family"] = repr_only(value.family)
    for name in ("contexts", "theta", "delay"):
        part = getattr(value, name)
        if part is None or isinstance(part, FrozenArray) or not_rerunnable(data[name]):
            continue
        if not _same(_rebuilt((ContextualBandit, name), data[name]), part):
            data[name] = repr_only(part)
    return data


def network(value: Network) -> dict[str, Any]:
    """A network as plain data."""
    data = value.to_data()
    if is_own(value.dynamics) and not not_rerunnable(data):
        rebuilt = _rebuilt(Network, data)
        if rebuilt is None or not _same(rebuilt.dynamics, value.dynamics):
            data["dynamics"] = repr_only(value.dynamics)
    return data


def _faithful(kind: Any, value: Any) -> Any:
    data = to_data(value)
    if not_rerunnable(data):
        return data
    rebuilt = _rebuilt(kind, data)
    return data if rebuilt is not None and _same(rebuilt, value) else repr_only(value)


def _rebuilt(kind: Any, data: Any) -> Any:
    try:
        return from_data(kind, data)
    except Exception:  # whatever the constructor of a user's class may raise
        return None


def _same(one: Any, other: Any) -> bool:
    """Whether two values will do the same; lists and tuples of the same are the same."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one) if field.compare]
        return type(one) is type(other) and all(
            _same(getattr(one, name), getattr(other, name)) for name in names
        )
    try:
        return bool(one == other) or bool(one != one and other != other)  # nan is nan
    except Exception:  # whatever a user's == may raise
        return False
