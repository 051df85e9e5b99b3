"""Values of the library as plain data: what experiment files hold and every result remembers.

`posse.lab.decode` is the way back.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import posse
from posse import algorithms
from posse.algorithms import ALGORITHMS
from posse.bandits import (
    CONTEXTS,
    DELAYS,
    DRIFTS,
    MEANS,
    WEIGHTS,
    Bandit,
    ContextualBandit,
    SiteMeans,
)
from posse.checks import FrozenArray
from posse.contexts import Contexts
from posse.families import CONTEXTUAL, FAMILIES
from posse.named import REPR_ONLY, name_of, repr_only
from posse.networks import Network
from posse.policies import POLICIES

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
        return _dataclass(value)
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
    return name_of(value) or repr_only(value)


def _dataclass(value: Any) -> Any:
    given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    fields = {key: to_data(item) for key, item in given.items() if item is not None}
    if isinstance(value, Bandit):
        if isinstance(value.means, SiteMeans):  # as the constructors have it
            sites = fields.pop("means")
            fields |= {"means": sites["means"], "site_sd": sites["sd"]}
        return fields
    if isinstance(value, ContextualBandit):  # which tells the family how many features there are
        return fields | {"family": {k: v for k, v in fields["family"].items() if k != "features"}}
    name = _kind(type(value))
    return repr_only(value) if name is None else {"name": name, **fields}


def _kind(cls: type) -> str | None:
    """The name of a class in its registry, else 'module:class'."""
    names = (name for registry in REGISTRIES for name, kind in registry.items() if kind is cls)
    return next(names, None) or name_of(cls)


def not_rerunnable(data: Any, path: str = "") -> dict[str, str]:
    """The parts of plain data that cannot be built again: repr by path."""
    if isinstance(data, Mapping):
        if REPR_ONLY in data:
            return {path: str(data[REPR_ONLY])}
        items: Any = data.items()
    elif isinstance(data, list | tuple):
        items = enumerate(data)
    else:
        return {}
    found: dict[str, str] = {}
    for key, item in items:
        found |= not_rerunnable(item, f"{path}.{key}" if path else str(key))
    return found


def versions() -> dict[str, str]:
    """The versions a number may depend on."""
    return {
        "posse": posse.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
