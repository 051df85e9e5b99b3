"""Recipes of networks as plain data, for TOML and JSON files, and back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from posse import validation as checks
from posse.networks.dynamics import DYNAMICS, Dynamics
from posse.networks.graphs import GRAPHS
from posse.networks.static import STATIC
from posse.networks.weights import DEFAULT_RULE, Matrix
from posse.serialization import import_strings as named

if TYPE_CHECKING:
    from posse.networks.network import Network

Arguments = tuple[tuple[str, Any], ...]


def write(network: Network) -> dict[str, Any]:
    """The recipe of a network as plain data, without what is left at its default."""
    data: dict[str, Any] = {"graph": network.graph}
    for name, value in network.arguments:
        data[name] = value.values.tolist() if isinstance(value, checks.FrozenArray) else value
    if isinstance(network.rule, Matrix):
        given = network.rule.to_data()
        own = network.arguments == support(network.rule)
        data = {"graph": "from_matrix", **given} if own else data | {"weights": given}
    elif network.rule != DEFAULT_RULE:
        data["weights"] = network.rule
    if network.dynamics != STATIC:
        data["dynamics"] = _dynamics_data(network.dynamics)
    return data


def read(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Network from plain data, as from `write` or by hand."""
    given = dict(_table("network", data))
    name = given.pop("graph", None)
    name = name.replace("-", "_") if isinstance(name, str) else name
    name = checks.choice("graph", name, [*GRAPHS, "from_matrix"])
    fields = {"dynamics": _dynamics(given.pop("dynamics", "static"))}
    if name == "from_matrix":
        rule = _matrix(given)
        return fields | {"graph": "from_edges", "arguments": support(rule), "rule": rule}
    rule = given.pop("weights", DEFAULT_RULE)
    if not isinstance(rule, str):
        rule = _matrix(rule if isinstance(rule, Mapping) else {"matrix": rule})
    extra = ("graph", "weights", "dynamics")
    arguments = bind(GRAPHS[name], given, name, extra)
    return fields | {"graph": name, "arguments": tuple(arguments.items()), "rule": rule}


def support(rule: Matrix) -> Arguments:
    """The arguments of `from_edges` for the links of a matrix."""
    graph = rule.graph()
    return (("edges", checks.FrozenArray(graph.edges)), ("agents", graph.n_agents))


def bind(
    call: Callable[..., Any], given: Mapping[str, Any], name: str, extra: tuple[str, ...] = ()
) -> dict[str, Any]:
    """All arguments of a call, defaults included; unknown or missing ones are refused by name."""
    parameters = inspect.signature(call).parameters
    for key in given:
        checks.choice(f"{name} argument", key, [*parameters, *extra])
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in given]
    if missing:
        raise ValueError(f"{name} needs {' and '.join(missing)}, got {', '.join(given) or 'none'}")
    return {key: given.get(key, p.default) for key, p in parameters.items()}


def _dynamics_data(dynamics: Dynamics) -> Any:
    """A kind of DYNAMICS by its name there, one's own as 'module:Class' or a marked repr."""
    registered = (key for key, kind in DYNAMICS.items() if type(dynamics) is kind)
    if (name := next(registered, None)) is None:
        return named.write(dynamics)
    fields = {key: named.write(value) for key, value in vars(dynamics).items()}
    return {"name": name, **fields} if fields else name


def _dynamics(value: Any) -> Dynamics:
    given = {"name": value} if isinstance(value, str) else dict(_table("dynamics", value))
    if named.REPR_ONLY in given or ":" in str(given.get("name")):
        own: Dynamics = named.read(given)
        return own
    name = checks.choice("dynamics", given.pop("name", None), DYNAMICS)
    return DYNAMICS[name](**bind(DYNAMICS[name], given, f"dynamics {name!r}"))


def _matrix(given: Mapping[str, Any]) -> Matrix:
    make = Matrix.from_entries if "entries" in given else Matrix.of
    key = "entries" if "entries" in given else "matrix"
    for name in given:
        checks.choice("matrix argument", name, (key, "check"))
    if key not in given:
        raise ValueError("from_matrix needs matrix (rows of numbers) or entries")
    return make(given[key], given.get("check", True))


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a table of names and values, got {value!r}")
    return value
