"""Running panels: from a panel to the results of its curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posse import theory
from posse.algorithms import Isolated
from posse.lab.blocks import Simulation
from posse.lab.compiled import plan
from posse.lab.paper.panels import Curve, Panel
from posse.lab.results import Result
from posse.lab.work.completing import complete
from posse.lab.work.jobs import Job
from posse.lab.work.part_store import PartStore
from posse.randomness import FloatArray, generator

SEED = 2026
QUICK, FULL = 100, 1000
# The rounds at which published values are known.
PUBLISHED_ROUNDS = (25, 50, 100, 200, 400, 800)


@dataclass(frozen=True)
class Outcome:
    """A panel and the results of its curves."""

    panel: Panel
    results: Mapping[str, Result] = field(hash=False)
    seed: int

    @property
    def runs(self) -> int:
        """The number of runs of each curve."""
        return next(iter(self.results.values())).runs

    def means(self, name: str) -> FloatArray:
        """The true means of each run: (runs, K)."""
        bandit, runs = self.panel.bandit, range(self.results[name].runs)
        return np.stack(
            [bandit.means_of_run(run, generator(self.seed, run, "means")) for run in runs]
        )

    def gaps(self, name: str) -> FloatArray:
        """How much worse each arm is than the best, run by run: (runs, K)."""
        means = self.means(name)
        return np.asarray(means.max(axis=1, keepdims=True) - means)

    def least_slope(self, name: str) -> float:
        """Lai and Robbins's least slope of regret against ln t, averaged over runs."""
        alone = isinstance(self.panel.curves[name].algorithm, Isolated)
        n_agents = 1 if alone else self.results[name].n_agents
        divergence = theory.divergence(self.panel.bandit.family)
        distinct = np.unique(self.means(name), axis=0, return_counts=True)
        slopes = [theory.lai_robbins_constant(means, n_agents, divergence) for means in distinct[0]]
        return float(np.average(slopes, weights=distinct[1]))


def times(horizon: int) -> NDArray[np.int64]:
    """The rounds to record: dense early, even later, and those of published values."""
    even = np.linspace(1, horizon, 201)
    early = np.geomspace(1, horizon, 161)
    rounds = np.rint(np.concatenate([even, early, PUBLISHED_ROUNDS])).astype(np.int64)
    return np.unique(rounds[rounds <= horizon])


def simulation_of(panel: Panel, curve: Curve, seed: int, horizon: int) -> Simulation:
    """What one curve stands for."""
    return Simulation(
        panel.bandit, curve.weighted_network(), curve.algorithm, horizon, seed, times(horizon)
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
) -> Outcome:
    """All curves of a panel under one seed: the same problems and rewards for each.

    What the store holds is not computed again. advance: told the number of runs at a time.
    """
    simulations = {
        name: simulation_of(panel, curve, seed, panel.horizon)
        for name, curve in panel.curves.items()
    }
    jobs = {
        name: Job(each, range(runs), "reference" if plan.missing(each) else "compiled")
        for name, each in simulations.items()
    }
    complete(
        list(jobs.values()),
        store,
        executor=executor,
        threads=threads,
        advance=lambda job, done: advance(done),
    )
    return Outcome(panel, {name: store.result(job) for name, job in jobs.items()}, seed)
