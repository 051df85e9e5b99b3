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
from posse.algorithms import ALGORITHMS
from posse.bandits import Bandit, UniformMeans
from posse.checks import FrozenArray
from posse.families import FAMILIES
from posse.networks import Network
from posse.policies import POLICIES

# Marks a function that no file can name (a lambda, a function inside a function).
UNNAMED = "unnamed function"

# Ways to draw the means of arms; any other is named 'module:function'.
MEANS: dict[str, Any] = {"uniform": UniformMeans}

REGISTRIES: tuple[dict[str, Any], ...] = (FAMILIES, POLICIES, ALGORITHMS, MEANS)


def to_data(value: Any) -> Any:
    """A value of the library as JSON-able data: {"name": ..., field: ...} for frozen dataclasses.

    Functions become 'module:function', and so do classes that no registry lists; one without a
    name becomes {UNNAMED: its repr}, which runs but cannot be stored. Fields that are None are
    left out, since TOML has no word for it.
    """
    if isinstance(value, Network):
        return value.to_data()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        fields = {key: to_data(item) for key, item in given.items() if item is not None}
        return fields if isinstance(value, Bandit) else {"name": _kind(type(value)), **fields}
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): to_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(item) for item in value]
    if callable(value):
        return _function_name(value)
    return value


def _kind(cls: type) -> Any:
    """The name of a class in its registry, else 'module:class'."""
    names = (name for registry in REGISTRIES for name, kind in registry.items() if kind is cls)
    return next(names, None) or _function_name(cls)


def _function_name(function: Any) -> Any:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "<unnamed>")
    if module is None or "<" in name:
        return {UNNAMED: repr(function)}
    return f"{module}:{name}"


def has_unnamed(data: Any) -> bool:
    """Whether data hold a function that no file can name."""
    if isinstance(data, Mapping):
        return UNNAMED in data or any(has_unnamed(item) for item in data.values())
    return isinstance(data, list) and any(has_unnamed(item) for item in data)


def versions() -> dict[str, str]:
    """The versions a number may depend on."""
    return {
        "posse": posse.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
