"""Encode the recipe of a network as plain data, for TOML and JSON files, and decode it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from posse import import_strings, rules, validation
from posse.networks.dynamics import DYNAMICS, Dynamics
from posse.networks.graphs import GRAPHS
from posse.networks.static import STATIC
from posse.networks.weights import DEFAULT_RULE, Matrix

if TYPE_CHECKING:
    from posse.networks.network import Network

Arguments = tuple[tuple[str, Any], ...]


def encode_network(network: Network) -> dict[str, Any]:
    """Encode the recipe of a network as plain data, without fields at their defaults."""
    data: dict[str, Any] = {"graph": network.graph}
    for name, value in network.arguments:
        data[name] = value.values.tolist() if isinstance(value, validation.FrozenArray) else value
    if isinstance(network.rule, Matrix):
        matrix_data = network.rule.to_data()
        is_own_graph = network.arguments == get_matrix_arguments(network.rule)
        data = (
            {"graph": "from_matrix", **matrix_data}
            if is_own_graph
            else data | {"weights": matrix_data}
        )
    elif network.rule != DEFAULT_RULE:
        data["weights"] = network.rule
    if network.dynamics != STATIC:
        data["dynamics"] = _encode_dynamics(network.dynamics)
    return data


def decode_network(data: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the fields of a Network from plain data, as from `encode_network` or by hand."""
    settings = dict(_validate_table("network", data))
    name = settings.pop("graph", None)
    # Files may write "regular-ring" for the builder `regular_ring`.
    name = name.replace("-", "_") if isinstance(name, str) else name
    name = validation.validate_choice("graph", name, [*GRAPHS, "from_matrix"])
    fields = {"dynamics": _decode_dynamics(settings.pop("dynamics", "static"))}
    if name == "from_matrix":
        rule = _decode_matrix(settings)
        return fields | {
            "graph": "from_edges",
            "arguments": get_matrix_arguments(rule),
            "rule": rule,
        }
    rule = settings.pop("weights", DEFAULT_RULE)
    if not isinstance(rule, str):
        rule = _decode_matrix(rule if isinstance(rule, Mapping) else {"matrix": rule})
    extra = ("graph", "weights", "dynamics")
    arguments = bind_arguments(GRAPHS[name], settings, name, extra)
    return fields | {"graph": name, "arguments": tuple(arguments.items()), "rule": rule}


def get_matrix_arguments(rule: Matrix) -> Arguments:
    """Return the arguments of `from_edges` for the links of a matrix."""
    graph = rule.to_graph()
    return (("edges", validation.FrozenArray(graph.edges)), ("agents", graph.n_agents))


def bind_arguments(
    call: Callable[..., Any], settings: Mapping[str, Any], name: str, extra: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return all arguments of a call with defaults; refuse unknown or missing ones by name."""
    parameters = inspect.signature(call).parameters
    for key in settings:
        validation.validate_choice(f"{name} argument", key, [*parameters, *extra])
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in settings]
    if missing:
        raise ValueError(
            f"{name} needs {' and '.join(missing)}, got {', '.join(settings) or 'none'}"
        )
    return {key: settings.get(key, p.default) for key, p in parameters.items()}


def resolve_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace rules among the arguments of a graph by their values; they depend on N alone."""
    texts = {name: value for name, value in arguments.items() if rules.is_rule(value)}
    if not texts:
        return dict(arguments)
    if not isinstance(arguments.get("agents"), int | np.integer):
        raise ValueError(f"{next(iter(texts))} may be a rule only where agents is a whole number")
    sizes = {"N": int(arguments["agents"])}
    values = {name: rules.evaluate_rule(name, text, sizes) for name, text in texts.items()}
    return {**arguments, **values}


def _encode_dynamics(dynamics: Dynamics) -> Any:
    """Encode dynamics by their name in DYNAMICS, or as 'module:Class', or as a marked repr."""
    registered = (key for key, kind in DYNAMICS.items() if type(dynamics) is kind)
    if (name := next(registered, None)) is None:
        return import_strings.encode_value(dynamics)
    fields = {key: import_strings.encode_value(value) for key, value in vars(dynamics).items()}
    return {"name": name, **fields} if fields else name


def _decode_dynamics(value: Any) -> Dynamics:
    settings = (
        {"name": value} if isinstance(value, str) else dict(_validate_table("dynamics", value))
    )
    if import_strings.REPR_ONLY in settings or ":" in str(settings.get("name")):
        user_defined: Dynamics = import_strings.decode_value(settings)
        return user_defined
    name = validation.validate_choice("dynamics", settings.pop("name", None), DYNAMICS)
    return DYNAMICS[name](**bind_arguments(DYNAMICS[name], settings, f"dynamics {name!r}"))


def _decode_matrix(settings: Mapping[str, Any]) -> Matrix:
    make = Matrix.from_entries if "entries" in settings else Matrix.from_matrix
    key = "entries" if "entries" in settings else "matrix"
    for name in settings:
        validation.validate_choice("matrix argument", name, (key, "check"))
    if key not in settings:
        raise ValueError("from_matrix needs matrix (rows of numbers) or entries")
    return make(settings[key], settings.get("check", True))


def _validate_table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a table of names and values, got {value!r}")
    return value
