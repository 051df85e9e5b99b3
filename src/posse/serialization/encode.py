"""Encode parts of the library as plain data, for experiment files and the settings of results.

`posse.serialization.decode` is the inverse. Settings are data that rebuild the same part, or a
marked repr: a file promises the same numbers again, so `encode_bandit`, `encode_network` and
`encode_algorithm` rebuild each part and compare it with the original. A part that would come back
different (a field called "name", an array that becomes a list, a None that a default replaces) is
only shown by its repr.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import posse
from posse import algorithms
from posse.activity import ACTIVITIES, Activity
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
    Dataset,
    Environment,
    SiteMeans,
)
from posse.contexts import Contexts
from posse.families import (
    CONTEXTUAL,
    FAMILIES,
    VARIATIONAL,
    ContextualFamily,
    Family,
    is_contextual,
)
from posse.import_strings import (
    REPR_ONLY,
    encode_fields,
    encode_plain,
    get_import_string,
    import_object,
    mark_repr_only,
)
from posse.networks import Network, is_user_defined
from posse.policies import POLICIES
from posse.serialization.decode import from_data
from posse.validation import FrozenArray

# All registries whose entries files name by a word; other classes are import strings.
REGISTRIES: tuple[dict[str, Any], ...] = (
    *(FAMILIES, VARIATIONAL, CONTEXTUAL, POLICIES, ALGORITHMS, algorithms.CONTEXTUAL),
    *(MEANS, DRIFTS, DELAYS, WEIGHTS, CONTEXTS, ACTIVITIES),
)


def to_data(value: Any) -> Any:
    """Encode a value as JSON-able data: {"name": ..., field: ...} for frozen dataclasses.

    Functions become 'module:function', and so do classes that no registry lists. A value that no
    file can rebuild becomes {REPR_ONLY: its repr}. Fields that are None are left out.
    """
    if isinstance(value, Network | Contexts):
        return value.to_data()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass(value)
    return encode_plain(value, to_data)


def _encode_dataclass(value: Any) -> Any:
    fields = encode_fields(value, to_data)
    if isinstance(value, Bandit):
        if isinstance(value.means, SiteMeans):  # as the constructors take it
            sites = fields.pop("means")
            fields |= {"means": sites["means"], "site_sd": sites["sd"]}
        return fields
    if isinstance(value, ContextualBandit):  # the bandit itself sets the number of features
        return fields | {"family": {k: v for k, v in fields["family"].items() if k != "features"}}
    if isinstance(value, Dataset):
        return _encode_dataset(value, fields["family"])
    if isinstance(value, Environment):
        return fields
    name = _find_name(type(value))
    return mark_repr_only(value) if name is None else {"name": name, **fields}


def _encode_dataset(value: Dataset, family: Any) -> dict[str, Any]:
    """Encode a data set by name and digest: the function of that name gives the table again."""
    try:
        import_object(value.name)
        dataset: Any = value.name
    except ValueError:  # a plain name, or none
        dataset = mark_repr_only(value)
    if isinstance(family, Mapping):  # the data set itself sets the number of features
        family = {key: item for key, item in family.items() if key != "features"}
    return {"dataset": dataset, "digest": value.digest, "family": family}


def _find_name(cls: type) -> str | None:
    """Return the name of a class in its registry, else its import string, else None."""
    names = (name for registry in REGISTRIES for name, kind in registry.items() if kind is cls)
    return next(names, None) or get_import_string(cls)


def find_repr_only(data: Any, path: str = "") -> dict[str, str]:
    """Return the parts of plain data that cannot be rebuilt: repr by dotted path."""
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
    """Collect the versions on which numbers may depend."""
    return {
        "posse": posse.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def encode_algorithm(value: Any) -> Any:
    """Encode an algorithm as plain data."""
    return _encode_checked(Algorithm, value)


def encode_activity(value: Activity) -> Any:
    """Encode an activity as plain data."""
    return _encode_checked(Activity | None, value)


def encode_bandit(value: AnyBandit) -> dict[str, Any]:
    """Encode a bandit as plain data, part by part."""
    if isinstance(value, ContextualBandit):
        return _encode_contextual_bandit(value)
    if isinstance(value, Dataset):
        of_table: dict[str, Any] = to_data(value)
        return of_table | {"family": _encode_family(value.family)}
    if isinstance(value, Environment):
        of_functions: dict[str, Any] = to_data(value)
        parts = {"draw": value.draw, "means": value.means}
        return (
            of_functions
            | {"family": _encode_family(value.family)}
            | _mark_changed_parts(Environment, of_functions, parts)
        )
    data: dict[str, Any] = to_data(value) | {"family": _encode_checked(Family, value.family)}
    parts = {"means": value.means_of_arms, "drift": value.drift, "delay": value.delay}
    return data | _mark_changed_parts(Bandit, data, parts)


def _encode_contextual_bandit(value: ContextualBandit) -> dict[str, Any]:
    data: dict[str, Any] = to_data(value) | {"family": _encode_family(value.family)}
    parts = {name: getattr(value, name) for name in ("contexts", "theta", "delay")}
    return data | _mark_changed_parts(ContextualBandit, data, parts)


def _encode_family(value: Any) -> Any:
    """Encode the family of a bandit; without its number of features, which the bandit sets."""
    if not is_contextual(value):
        return _encode_checked(Family, value)
    data = {key: item for key, item in to_data(value).items() if key != "features"}
    if find_repr_only(data):
        return data
    family = _try_rebuild(ContextualFamily, data)
    same = family is not None and _are_equivalent(family.with_features(value.features), value)
    return data if same else mark_repr_only(value)


def _mark_changed_parts(
    kind: type, data: Mapping[str, Any], parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return marked reprs of the parts of a bandit that their data would not rebuild."""
    marked = {}
    for name, part in parts.items():
        # Numbers always come back as they are; a part without data needs no check.
        if part is None or isinstance(part, tuple | FrozenArray) or find_repr_only(data[name]):
            continue
        if not _are_equivalent(_try_rebuild((kind, name), data[name]), part):
            marked[name] = mark_repr_only(part)
    return marked


def encode_network(value: Network) -> dict[str, Any]:
    """Encode a network as plain data."""
    data = value.to_data()
    # Only user-defined dynamics can come back different: all other fields are plain data.
    if is_user_defined(value.dynamics) and not find_repr_only(data):
        rebuilt = _try_rebuild(Network, data)
        if rebuilt is None or not _are_equivalent(rebuilt.dynamics, value.dynamics):
            data["dynamics"] = mark_repr_only(value.dynamics)
    return data


def _encode_checked(kind: Any, value: Any) -> Any:
    """Encode a part and rebuild it; return a marked repr if the result differs."""
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
    except Exception:  # the constructor of a user-defined class may raise anything
        return None


def _are_equivalent(left: Any, right: Any) -> bool:
    """Return whether two values behave alike; a list equals a tuple of the same items."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return type(left) is type(right) and np.array_equal(left, right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_are_equivalent, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _are_equivalent(left[key], right[key]) for key in left
        )
    # Field by field, since fields may hold lists or arrays, for which == of dataclasses fails.
    if dataclasses.is_dataclass(left):
        names = [field.name for field in dataclasses.fields(left) if field.compare]
        return type(left) is type(right) and all(
            _are_equivalent(getattr(left, name), getattr(right, name)) for name in names
        )
    try:
        # nan equals nan here: both parts behave alike
        return bool(left == right) or bool(left != left and right != right)
    except Exception:  # a user-defined == may raise anything
        return False
