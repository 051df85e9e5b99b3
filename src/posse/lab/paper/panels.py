"""The panels of the paper's figures, one TOML file each, as stated and as published."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Literal

import numpy as np

from posse import checks, networks
from posse.algorithms import Algorithm
from posse.bandits import Bandit
from posse.lab.decode import from_data
from posse.networks import Network

# In the order of the paper; the last is no figure but what can be compared with published values.
IDS = ("fig1a", "fig1b", "fig2a", "fig2b", "fig3", "fig4a", "fig4b", "fig5a", "fig5b", "published")


@dataclass(frozen=True)
class Curve:
    """One algorithm on one network; `matrix` names weights other than the network's own."""

    network: Network
    algorithm: Algorithm
    matrix: Literal["", "published-grid"] = ""

    def weighted_network(self) -> Network:
        """The network with the weights that are meant."""
        return published_grid(self.network) if self.matrix else self.network


@dataclass(frozen=True)
class Variant:
    """What the authors' notebooks did where that differs from the text."""

    note: str
    curves: Mapping[str, Curve] = field(hash=False)
    bandit: Bandit | None = None


@dataclass(frozen=True)
class Panel:
    """One panel: curves by name on one bandit; `pairs` says which of them are compared."""

    figure: str
    title: str
    caption: str
    horizon: int
    bandit: Bandit
    curves: Mapping[str, Curve] = field(hash=False)
    pairs: Literal["first", "neighbours", "gossip"] = "first"
    note: str = ""
    as_published: Variant | None = None

    def published(self) -> Panel:
        """The panel as published, which may be the same."""
        variant = self.as_published
        if variant is None:
            return self
        return replace(
            self,
            curves=variant.curves,
            bandit=variant.bandit or self.bandit,
            note=variant.note,
        )

    def compared(self) -> list[tuple[str, str]]:
        """The pairs of curves to compare."""
        names = list(self.curves)
        if self.pairs == "neighbours":
            return list(pairwise(names))
        if self.pairs == "gossip":
            return [("gossip", name) for name in names if name != "gossip"]
        return [(names[0], name) for name in names[1:]]


def toml_of(id_: str) -> str:
    """The text of a panel's file."""
    return (resources.files("posse.lab.paper") / "panels" / f"{id_}.toml").read_text("utf-8")


@cache
def panel(id_: str) -> Panel:
    """A panel by its id, such as 'fig1a'."""
    checks.choice("figure", id_, IDS)
    return from_data(Panel, tomllib.loads(toml_of(id_)))


def chosen(names: list[str]) -> list[str]:
    """The ids that names stand for: 'fig1a', '1a', or 'fig1' and '1' for both its panels."""
    found = []
    for name in names:
        key = name.lower().removeprefix("figure").removeprefix("fig").strip()
        matching = [i for i in IDS if i.removeprefix("fig") == key]
        matching = matching or [i for i in IDS if i.removeprefix("fig").rstrip("ab") == key]
        found += matching or [checks.choice("figure", name, IDS)]
    return [i for i in IDS if i in found or not names]


@cache
def published_grid(network: Network) -> Network:
    """I - D^-1 (D - A) D^-1 / (d_max + 1), the matrix of the authors' notebooks for the grid.

    Its rows do not sum to 1, which is why it needs `check=False`.
    """
    degrees = network.degrees.astype(float)
    laplacian = np.diag(degrees)
    i, j = network.edges.T
    laplacian[i, j] = laplacian[j, i] = -1
    scaled = laplacian / np.outer(degrees, degrees) / (degrees.max() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # known, and what this function is about
        return networks.from_matrix(np.eye(len(degrees)) - scaled, check=False)
