"""Panels of the paper's figures, one TOML file each, as stated and as published, and their runs."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posse import networks, theory, validation
from posse.algorithms import Algorithm, Isolated
from posse.bandits import Bandit
from posse.lab.compiled import registry as plan
from posse.lab.jobs import PartStore, complete_jobs
from posse.lab.results import Result
from posse.lab.simulation import Job, Simulation
from posse.networks import Network
from posse.randomness import FloatArray, create_generator
from posse.serialization.decode import from_data

# In the order of the paper; the last is no figure, but curves of which published values exist.
IDS = ("fig1a", "fig1b", "fig2a", "fig2b", "fig3", "fig4a", "fig4b", "fig5a", "fig5b", "published")


@dataclass(frozen=True)
class PanelCurve:
    """One algorithm on one network; `matrix` names weights other than the network's own."""

    network: Network
    algorithm: Algorithm
    matrix: Literal["", "published-grid"] = ""

    def weighted_network(self) -> Network:
        """Give the network with the weights that `matrix` names."""
        return published_grid(self.network) if self.matrix else self.network


@dataclass(frozen=True)
class Variant:
    """The setting of the authors' notebooks, where it differs from the text."""

    note: str
    curves: Mapping[str, PanelCurve] = field(hash=False)
    bandit: Bandit | None = None


@dataclass(frozen=True)
class Panel:
    """One panel: curves by name on one bandit; `pairs` says which of them are compared."""

    figure: str
    title: str
    caption: str
    horizon: int
    bandit: Bandit
    curves: Mapping[str, PanelCurve] = field(hash=False)
    pairs: Literal["first", "neighbours", "gossip"] = "first"
    note: str = ""
    as_published: Variant | None = None

    def as_published_panel(self) -> Panel:
        """Give the panel as published, which may be the same."""
        variant = self.as_published
        if variant is None:
            return self
        return replace(
            self,
            curves=variant.curves,
            bandit=variant.bandit or self.bandit,
            note=variant.note,
        )

    def pairs_to_compare(self) -> list[tuple[str, str]]:
        """Give the pairs of curves to compare."""
        names = list(self.curves)
        if self.pairs == "neighbours":
            return list(pairwise(names))
        if self.pairs == "gossip":
            return [("gossip", name) for name in names if name != "gossip"]
        return [(names[0], name) for name in names[1:]]


def read_panel_toml(id_: str) -> str:
    """Read the text of a panel's file."""
    return (resources.files("posse.lab.paper") / "panels" / f"{id_}.toml").read_text("utf-8")


@cache
def load_panel(id_: str) -> Panel:
    """Load a panel by its id, such as 'fig1a'."""
    validation.validate_choice("figure", id_, IDS)
    return from_data(Panel, tomllib.loads(read_panel_toml(id_)))


def choose_panels(names: list[str]) -> list[str]:
    """Choose panels by 'fig1a' or '1a', or by 'fig1' or '1' for all panels of a figure."""
    chosen_ids = []
    for name in names:
        key = name.lower().removeprefix("figure").removeprefix("fig").strip()
        # An exact name first; a number alone stands for all panels of its figure.
        matching = [i for i in IDS if i.removeprefix("fig") == key]
        matching = matching or [i for i in IDS if i.removeprefix("fig").rstrip("ab") == key]
        chosen_ids += matching or [validation.validate_choice("figure", name, IDS)]
    return [i for i in IDS if i in chosen_ids or not names]


@cache
def published_grid(network: Network) -> Network:
    """Build I - D^-1 (D - A) D^-1 / (d_max + 1), the authors' matrix for the grid.

    Its rows do not sum to 1, which is why it needs `check=False`.
    """
    # As in the authors' notebooks, not as in the text: the published curves come from it.
    degrees = network.degrees.astype(float)
    laplacian = np.diag(degrees)
    i, j = network.edges.T
    laplacian[i, j] = laplacian[j, i] = -1
    scaled = laplacian / np.outer(degrees, degrees) / (degrees.max() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that do not sum to 1 are the point of this matrix
        return networks.from_matrix(np.eye(len(degrees)) - scaled, check=False)


# Running panels: from a panel to the results of its curves.

SEED = 2026
QUICK_RUNS = 100
FULL_RUNS = 1000
# The rounds at which published values are known.
PUBLISHED_ROUNDS = (25, 50, 100, 200, 400, 800)


@dataclass(frozen=True)
class PanelOutcome:
    """A panel and the results of its curves."""

    panel: Panel
    results: Mapping[str, Result] = field(hash=False)
    seed: int

    @property
    def runs(self) -> int:
        """The number of runs of each curve."""
        return next(iter(self.results.values())).runs

    def means_of(self, name: str) -> FloatArray:
        """Give the true means of each run: (runs, K)."""
        bandit = self.panel.bandit
        runs = range(self.results[name].runs)
        return np.stack(
            [bandit.means_of_run(run, create_generator(self.seed, run, "means")) for run in runs]
        )

    def gaps_of(self, name: str) -> FloatArray:
        """Give how much worse each arm is than the best, run by run: (runs, K)."""
        means = self.means_of(name)
        return np.asarray(means.max(axis=1, keepdims=True) - means)

    def least_slope(self, name: str) -> float:
        """Give Lai and Robbins's least slope of regret against ln t, averaged over runs."""
        # Isolated agents share nothing: each needs the regret of a single agent.
        alone = isinstance(self.panel.curves[name].algorithm, Isolated)
        n_agents = 1 if alone else self.results[name].n_agents
        divergence = theory.get_divergence(self.panel.bandit.family)
        distinct = np.unique(self.means_of(name), axis=0, return_counts=True)
        slopes = [theory.lai_robbins_constant(means, n_agents, divergence) for means in distinct[0]]
        return float(np.average(slopes, weights=distinct[1]))


def recorded_rounds(horizon: int) -> NDArray[np.int64]:
    """Choose the rounds to record: dense early, even later, and those of published values."""
    # Curves are drawn on linear and logarithmic axes, so rounds are dense for both.
    even = np.linspace(1, horizon, 201)
    early = np.geomspace(1, horizon, 161)
    rounds = np.rint(np.concatenate([even, early, PUBLISHED_ROUNDS])).astype(np.int64)
    return np.unique(rounds[rounds <= horizon])


def build_simulation(panel: Panel, curve: PanelCurve, seed: int, horizon: int) -> Simulation:
    """Build the simulation of one curve."""
    return Simulation(
        panel.bandit,
        curve.weighted_network(),
        curve.algorithm,
        horizon,
        seed,
        recorded_rounds(horizon),
    )


def run_panel(
    panel: Panel,
    store: PartStore,
    *,
    runs: int,
    seed: int = SEED,
    executor: Executor | None = None,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda runs: None,
) -> PanelOutcome:
    """Run all curves of a panel under one seed: the same problems and rewards for each.

    Stored results are not computed again. advance: called with the number of runs done.
    """
    simulations = {
        name: build_simulation(panel, curve, seed, panel.horizon)
        for name, curve in panel.curves.items()
    }
    # The compiled engine where there is a kernel; engines agree in law, not in bits.
    jobs = {
        name: Job(
            simulation, range(runs), "reference" if plan.missing_kernel(simulation) else "compiled"
        )
        for name, simulation in simulations.items()
    }
    complete_jobs(
        list(jobs.values()),
        store,
        executor=executor,
        threads=threads,
        advance=lambda job, done: advance(done),
    )
    return PanelOutcome(panel, {name: store.load_result(job) for name, job in jobs.items()}, seed)
