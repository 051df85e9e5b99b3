"""Decode plain data (TOML, JSON) to the parts of an experiment, with errors that name the key.

`decoder` handles type annotations; this module handles families, policies, algorithms, networks
and bandits. `encode` is the inverse.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

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
from posse.families import CONTEXTUAL, FAMILIES, VARIATIONAL, ContextualFamily, Family, Model
from posse.import_strings import import_object
from posse.networks import GRAPHS, Network
from posse.policies import POLICIES, Policy
from posse.serialization.decoder import Decoder, locate_errors, validate_table
from posse.validation import format_value, validate_choice

T = TypeVar("T")


def from_data(kind: type[T], data: Any) -> T:
    """Build a dataclass with all its parts; the error of a wrong value names its key."""
    return typing.cast(T, _DECODER.decode_value(kind, data))


def _decode_entry(registry: Mapping[str, Any], data: Any) -> Any:
    return _DECODER.decode_entry(registry, data)


def _decode_means(data: Any) -> Any:
    """Decode means: numbers, the import string of a function, or an entry of MEANS."""
    if isinstance(data, str) and ":" in data:
        return import_object(data)
    return _decode_entry(MEANS, data) if isinstance(data, str | Mapping) else data


def _decode_delay(data: Any) -> Any:
    """Decode the delay of rewards: an entry of DELAYS, or the import string of a function."""
    return (
        import_object(data)
        if isinstance(data, str) and ":" in data
        else _decode_entry(DELAYS, data)
    )


def _decode_function(data: Any) -> Any:
    """Decode a function: its import string, or a table of the fields of an object with a call."""
    return _DECODER.decode_value(Callable[..., Any], data)


def _decode_contexts(data: Any) -> Any:
    """Decode contexts: a schema, the import string of a function, or an entry of CONTEXTS."""
    if isinstance(data, str) and ":" in data:
        return import_object(data)
    name = data if isinstance(data, str) else validate_table(data).get("name")
    is_entry = isinstance(name, str) and (name in CONTEXTS or ":" in name)
    return _decode_entry(CONTEXTS, data) if is_entry or isinstance(data, str) else Contexts(data)


def _decode_theta(data: Any) -> Any:
    """Decode true weights: numbers, or an entry of WEIGHTS."""
    return _decode_entry(WEIGHTS, data) if isinstance(data, str | Mapping) else data


def _decode_learning_rate(data: Any) -> Any:
    """Decode a learning rate: one number, or a list with one for each agent."""
    return data if isinstance(data, list | tuple) else _DECODER.decode_value(float | None, data)


def _decode_bandit(data: Any) -> AnyBandit:
    """Decode a bandit; its keys tell its kind: `dataset`, `draw`, `contexts`, else `means`.

    `site_sd` makes its means SiteMeans.
    """
    settings = dict(validate_table(data))
    if "dataset" in settings:
        with locate_errors(("dataset", "digest", "family")):
            return _decode_dataset(settings)
    if "draw" in settings:
        environment: Environment = _DECODER.decode_dataclass(Environment, settings)
        return environment
    if "contexts" in settings or "theta" in settings:
        contextual: ContextualBandit = _DECODER.decode_dataclass(ContextualBandit, settings)
        return contextual
    if "site_sd" in settings and "means" in settings:
        sd = settings.pop("site_sd")
        if isinstance(sd, str):
            _DECODER.decode_item("site_sd", float, sd)
        with locate_errors(("site_sd",)):
            settings["means"] = SiteMeans(_decode_means(settings["means"]), sd)
    bandit: Bandit = _DECODER.decode_dataclass(Bandit, settings, extra_keys=("site_sd",))
    return bandit


def _decode_dataset(settings: Mapping[str, Any]) -> Dataset:
    """Build a data set by the function that its import string names; the digest must be right."""
    for key in settings:
        validate_choice("key", key, ("dataset", "digest", "family"))
    name = settings["dataset"]
    if not isinstance(name, str) or ":" not in name:
        raise ValueError(
            "dataset must be the 'module:function' that returns the data set, got "
            f"{format_value(name)}"
        )
    dataset = import_object(name)()
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset {name!r} must return a posse.bandits.Dataset, got {format_value(dataset)}"
        )
    if settings.get("digest", dataset.digest) != dataset.digest:
        raise ValueError(
            f"digest is {format_value(settings['digest'])}, but {name!r} returns data with digest "
            f"{dataset.digest!r}: the data have changed"
        )
    family = dataset.family
    if "family" in settings:
        kind = ContextualFamily if dataset.contexts is not None else Family
        family = _DECODER.decode_item("family", kind, settings["family"])
    return dataclasses.replace(dataset, family=family, name=name)


def _decode_network(data: Any) -> Network:
    settings = validate_table(data)
    with locate_errors(("graph", *settings)):
        if "graph" not in settings:
            raise ValueError(f"graph is missing: allowed are {', '.join(GRAPHS)}")
        return Network.from_data(settings)


_DECODER = Decoder(
    {
        Family: partial(_decode_entry, FAMILIES | VARIATIONAL),
        ContextualFamily: partial(_decode_entry, CONTEXTUAL),
        Model | None: partial(_decode_entry, FAMILIES | VARIATIONAL | CONTEXTUAL),
        Policy: partial(_decode_entry, POLICIES),
        Algorithm: partial(_decode_entry, ALGORITHMS | algorithms.CONTEXTUAL),
        Activity | None: partial(_decode_entry, ACTIVITIES),
        Network: _decode_network,
        Bandit: _decode_bandit,
        AnyBandit: _decode_bandit,
        # These fields accept more than their annotations can express.
        (Bandit, "means"): _decode_means,
        (SiteMeans, "means"): _decode_means,
        (Bandit, "drift"): partial(_decode_entry, DRIFTS),
        (Bandit, "delay"): _decode_delay,
        (ContextualBandit, "contexts"): _decode_contexts,
        (ContextualBandit, "theta"): _decode_theta,
        (ContextualBandit, "delay"): _decode_delay,
        (Environment, "draw"): _decode_function,
        (Environment, "means"): _decode_function,
        (algorithms.Decentralized, "learning_rate"): _decode_learning_rate,
    },
    accepts_rules=True,
)
