"""From plain data (TOML, JSON) to experiments and panels, with errors that name the key.

`posse.decoding` reads the types; here is what it cannot read. `posse.lab.settings` is the way
there.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from posse.algorithms import ALGORITHMS, Algorithm
from posse.bandits import DELAYS, DRIFTS, MEANS, Bandit, SiteMeans
from posse.decoding import Decoder, naming, table
from posse.families import FAMILIES, Family
from posse.named import find
from posse.networks import GRAPHS, Network
from posse.policies import POLICIES, Policy

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


def _bandit(data: Any) -> Bandit:
    """A bandit; `site_sd` beside its means makes them SiteMeans."""
    given = dict(table(data))
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
        Policy: partial(_entry, POLICIES),
        Algorithm: partial(_entry, ALGORITHMS),
        Network: _network,
        Bandit: _bandit,
        # wider than annotations can say
        (Bandit, "means"): _means,
        (SiteMeans, "means"): _means,
        (Bandit, "drift"): partial(_entry, DRIFTS),
        (Bandit, "delay"): _delay,
    }
)
