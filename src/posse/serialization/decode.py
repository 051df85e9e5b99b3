"""From plain data (TOML, JSON) to experiments and panels, with errors that name the key.

`decoder` reads the types; this module reads the parts. `encode` is the inverse.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

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
from posse.families.family import Model
from posse.networks import GRAPHS, Network
from posse.policies import POLICIES, Policy
from posse.serialization.decoder import Decoder, naming, table
from posse.serialization.import_strings import find

T = TypeVar("T")


def from_data(kind: type[T], data: Any) -> T:
    """Build a dataclass and all it holds, or say in one sentence which key is wrong, and why."""
    return typing.cast(T, _DECODER.value(kind, data))


def _entry(registry: Mapping[str, Any], data: Any) -> Any:
    return _DECODER.entry(registry, data)


def _means(data: Any) -> Any:
    """Means as numbers, as a function that draws them, or as an entry of MEANS."""
    if isinstance(data, str) and ":" in data:
        return find(data)
    return _entry(MEANS, data) if isinstance(data, str | Mapping) else data


def _delay(data: Any) -> Any:
    """When rewards arrive: an entry of DELAYS, or a function that draws it."""
    return find(data) if isinstance(data, str) and ":" in data else _entry(DELAYS, data)


def _contexts(data: Any) -> Any:
    """Contexts as a schema, as a function that draws them, or as an entry of CONTEXTS."""
    if isinstance(data, str) and ":" in data:
        return find(data)
    name = data if isinstance(data, str) else table(data).get("name")
    named = isinstance(name, str) and (name in CONTEXTS or ":" in name)
    return _entry(CONTEXTS, data) if named or isinstance(data, str) else Contexts(data)


def _theta(data: Any) -> Any:
    """True weights as numbers, or as an entry of WEIGHTS."""
    return _entry(WEIGHTS, data) if isinstance(data, str | Mapping) else data


def _bandit(data: Any) -> AnyBandit:
    """A bandit; `site_sd` beside its means makes them SiteMeans, `contexts` a contextual one."""
    given = dict(table(data))
    if "contexts" in given or "theta" in given:
        contextual: ContextualBandit = _DECODER.fields(ContextualBandit, given)
        return contextual
    if "site_sd" in given and "means" in given:
        with naming(("site_sd",)):
            given["means"] = SiteMeans(_means(given["means"]), given.pop("site_sd"))
    bandit: Bandit = _DECODER.fields(Bandit, given, also=("site_sd",))
    return bandit


def _network(data: Any) -> Network:
    given = table(data)
    with naming(("graph", *given)):
        if "graph" not in given:
            raise ValueError(f"graph is missing: allowed are {', '.join(GRAPHS)}")
        return Network.from_data(given)


_DECODER = Decoder(
    {
        Family: partial(_entry, FAMILIES),
        ContextualFamily: partial(_entry, CONTEXTUAL),
        Model | None: partial(_entry, FAMILIES | CONTEXTUAL),
        Policy: partial(_entry, POLICIES),
        Algorithm: partial(_entry, ALGORITHMS | algorithms.CONTEXTUAL),
        Network: _network,
        Bandit: _bandit,
        AnyBandit: _bandit,
        # wider than annotations can say
        (Bandit, "means"): _means,
        (SiteMeans, "means"): _means,
        (Bandit, "drift"): partial(_entry, DRIFTS),
        (Bandit, "delay"): _delay,
        (ContextualBandit, "contexts"): _contexts,
        (ContextualBandit, "theta"): _theta,
        (ContextualBandit, "delay"): _delay,
    }
)
