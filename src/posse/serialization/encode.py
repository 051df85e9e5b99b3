"""Values of the library as plain data: what experiment files hold and every result remembers.

`posse.serialization.decode` is the way back.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import posse
from posse import algorithms
from posse.algorithms import ALGORITHMS, Algorithm
from posse.bandits import (
    CONTEXTS,
    DELAYS,
    DRIFTS,
    MEANS,
    WEIGHTS,
    AnyBandit,
    Bandit,
    ContextualBandit,
    SiteMeans,
)
from posse.contexts import Contexts
from posse.families import CONTEXTUAL, FAMILIES, ContextualFamily, Family
from posse.import_strings import REPR_ONLY, get_import_string, mark_repr_only
from posse.networks import Network
from posse.networks.dynamics import is_user_defined
from posse.policies import POLICIES
from posse.serialization.decode import from_data
from posse.validation import FrozenArray

REGISTRIES: tuple[dict[str, Any], ...] = (
    *(FAMILIES, CONTEXTUAL, POLICIES, ALGORITHMS, algorithms.CONTEXTUAL),
    *(MEANS, DRIFTS, DELAYS, WEIGHTS, CONTEXTS),
)


def to_data(value: Any) -> Any:
    """A value of the library as JSON-able data: {"name": ..., field: ...} for frozen dataclasses.

    Functions become 'module:function', and so do classes that no registry lists; what no file can
    build again becomes {REPR_ONLY: its repr}. Fields that are None are left out, since TOML has no
    word for it.
    """
    if isinstance(value, Network | Contexts):
        return value.to_data()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass(value)
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return to_data(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): to_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return get_import_string(value) or mark_repr_only(value)


def _encode_dataclass(value: Any) -> Any:
    values = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    fields = {key: to_data(item) for key, item in values.items() if item is not None}
    if isinstance(value, Bandit):
        if isinstance(value.means, SiteMeans):  # as the constructors have it
            sites = fields.pop("means")
            fields |= {"means": sites["means"], "site_sd": sites["sd"]}
        return fields
    if isinstance(value, ContextualBandit):  # which tells the family how many features there are
        return fields | {"family": {k: v for k, v in fields["family"].items() if k != "features"}}
    name = _find_name(type(value))
    return mark_repr_only(value) if name is None else {"name": name, **fields}


def _find_name(cls: type) -> str | None:
    """The name of a class in its registry, else 'module:class'."""
    names = (name for registry in REGISTRIES for name, kind in registry.items() if kind is cls)
    return next(names, None) or get_import_string(cls)


def find_repr_only(data: Any, path: str = "") -> dict[str, str]:
    """The parts of plain data that cannot be built again: repr by path."""
    if isinstance(data, Mapping):
        if REPR_ONLY in data:
            return {path: str(data[REPR_ONLY])}
        items: Any = data.items()
    elif isinstance(data, list | tuple):
        items = enumerate(data)
    else:
        return {}
    reprs: dict[str, str] = {}
    for key, item in items:
        reprs |= find_repr_only(item, f"{path}.{key}" if path else str(key))
    return reprs


def collect_versions() -> dict[str, str]:
    """The versions a number may depend on."""
    return {
        "posse": posse.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


# The parts of a simulation as settings: data that build the same part again, or a marked repr.
#
# Files are promised to give the same numbers again, so whatever comes back as another part (a
# field called "name", an array that becomes a list, a None that a default replaces) is only
# shown.


def encode_algorithm(value: Any) -> Any:
    """An algorithm as plain data."""
    return _encode_checked(Algorithm, value)


def encode_bandit(value: AnyBandit) -> dict[str, Any]:
    """A bandit as plain data, part by part."""
    if isinstance(value, ContextualBandit):
        return _encode_contextual_bandit(value)
    data: dict[str, Any] = to_data(value) | {"family": _encode_checked(Family, value.family)}
    for name, part in {
        "means": value.means_of_arms,
        "drift": value.drift,
        "delay": value.delay,
    }.items():
        if part is None or isinstance(part, tuple | FrozenArray) or find_repr_only(data[name]):
            continue
        if not _are_equivalent(_try_rebuild((Bandit, name), data[name]), part):
            data[name] = mark_repr_only(part)
    return data


def _encode_contextual_bandit(value: ContextualBandit) -> dict[str, Any]:
    data: dict[str, Any] = to_data(value)
    family = (
        None if find_repr_only(data["family"]) else _try_rebuild(ContextualFamily, data["family"])
    )
    if family is None or not _are_equivalent(
        family.with_features(value.family.features), value.family
    ):
        data["family"] = mark_repr_only(value.family)
    for name in ("contexts", "theta", "delay"):
        part = getattr(value, name)
        if part is None or isinstance(part, FrozenArray) or find_repr_only(data[name]):
            continue
        if not _are_equivalent(_try_rebuild((ContextualBandit, name), data[name]), part):
            data[name] = mark_repr_only(part)
    return data


def encode_network(value: Network) -> dict[str, Any]:
    """A network as plain data."""
    data = value.to_data()
    if is_user_defined(value.dynamics) and not find_repr_only(data):
        rebuilt = _try_rebuild(Network, data)
        if rebuilt is None or not _are_equivalent(rebuilt.dynamics, value.dynamics):
            data["dynamics"] = mark_repr_only(value.dynamics)
    return data


def _encode_checked(kind: Any, value: Any) -> Any:
    data = to_data(value)
    if find_repr_only(data):
        return data
    rebuilt = _try_rebuild(kind, data)
    return (
        data if rebuilt is not None and _are_equivalent(rebuilt, value) else mark_repr_only(value)
    )


def _try_rebuild(kind: Any, data: Any) -> Any:
    try:
        return from_data(kind, data)
    except Exception:  # whatever the constructor of a user's class may raise
        return None


def _are_equivalent(left: Any, right: Any) -> bool:
    """Whether two values will do the same; lists and tuples of the same are the same."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return type(left) is type(right) and np.array_equal(left, right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_are_equivalent, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _are_equivalent(left[key], right[key]) for key in left
        )
    if dataclasses.is_dataclass(left):
        names = [field.name for field in dataclasses.fields(left) if field.compare]
        return type(left) is type(right) and all(
            _are_equivalent(getattr(left, name), getattr(right, name)) for name in names
        )
    try:
        return bool(left == right) or bool(left != left and right != right)  # nan is nan
    except Exception:  # whatever a user's == may raise
        return False
