"""Sketches of the weights of pulls beside the beliefs of a block of runs (`keep=("signs",)`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse import effective_samples as calibration
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import without_forced_pulls
from posse.lab.reference.true_means import ContextualWorld, World
from posse.lab.simulation import Block, Simulation, in_callers_order
from posse.networks.operators import count_links_in_use
from posse.randomness import FloatArray, Streams


class Sketches:
    """What `posse.calibrate` asks of every belief: (1 + SIGNS, R, N, K).

    They learn by Algorithm 1's own two equations, from signs with a stream of their own, so that
    whoever keeps them sees the same regret as who does not.
    """

    def __init__(self, simulation: Simulation, problem: Problem, runs: Sequence[int]) -> None:
        algorithm: Any = simulation.algorithm  # decentralized, or it was refused
        self._rate = algorithm.rate(problem)
        self._fading = algorithm.fading
        self._signs = Streams.for_runs(simulation.seed, runs, "signs")
        between = (problem.n_runs, problem.n_agents)
        self.values: FloatArray = calibration.create_sketch(between, problem.n_arms)

    def learn(self, arms: NDArray[np.intp], weights: Any) -> None:
        """Fade as the beliefs do, add a round's pulls (R, N), then merge with the round's W(t)."""
        faded = self.values if self._fading == 1.0 else self._fading * self.values
        updated = calibration.update_sketch(faded, arms, self._rate, self._signs)
        self.values = beliefs.merge(updated, weights)


# What the reference engine writes down of a block of runs, round by round.


class Tally:
    """Cumulative pseudo-regret at the recorded rounds, pulls, and what else is to be kept."""

    def __init__(
        self,
        simulation: Simulation,
        problem: Problem,
        runs: Sequence[int],
        world: World | ContextualWorld,
        state: Any,  # the algorithm's, before round 1
    ) -> None:
        n_runs = problem.n_runs
        n_agents = problem.n_agents
        n_arms = problem.n_arms
        times = simulation.times
        self._simulation = simulation
        self._problem = problem
        self._world = world
        self._order = world.order
        self._per_agent = simulation.bandit.per_agent
        # where gaps drift, a round that costs nothing cannot be taken off at the end
        self._free_rounds = simulation.uncharged_rounds if world.changes else 0
        self._pulls = np.zeros((n_runs, n_agents, n_arms), dtype=np.int32)
        self._regret = np.zeros((n_runs, len(times)))
        self._so_far = np.zeros(n_runs)
        self._column = {int(t): column for column, t in enumerate(times)}
        self._first_cell = first_cells(world.means)
        of_agents = np.arange(0, self._pulls.size, n_arms).reshape(n_runs, n_agents)
        self._to_pulls = of_agents - self._first_cell  # from a cell to the agent's count of it
        self._kept: dict[str, FloatArray] = {}
        if "agents" in simulation.keep:
            self._kept["agents"] = np.zeros((n_runs, n_agents, len(times)))
            self._of_agents = np.zeros((n_runs, n_agents))
        if "means" in simulation.keep:
            self._kept["means"] = self._means_now()
            if world.changes:
                between = self._kept["means"].shape[1:]
                self._kept["means"] = np.zeros((n_runs, len(times), *between))
        if "messages" in simulation.keep:
            self._kept["messages"] = np.zeros((n_runs, len(times)))
            self._sent = np.zeros(n_runs)
        if "beliefs" in simulation.keep:
            shape = belief_of(state, simulation.algorithm, problem).shape
            self._kept["beliefs"] = np.zeros((n_runs, len(times), shape[0], n_agents, n_arms))
        if "signs" in simulation.keep:
            self._sketches = Sketches(simulation, problem, runs)
            shape = (n_runs, len(times), len(self._sketches.values), n_agents, n_arms)
            self._kept["signs"] = np.zeros(shape)

    def add(
        self,
        t: int,
        cells: NDArray[np.intp],  # (R, N) where the arms played are among all means (R, M, K)
        state: Any,
        weights: Any,
    ) -> None:
        """Charge round t's arms: the gaps of the arms played, averaged over agents."""
        gaps = self._world.gaps.take(cells)  # (R, N)
        if t <= self._free_rounds:
            gaps = np.zeros_like(gaps)
        self._so_far += gaps.mean(axis=1)
        self._pulls.reshape(-1)[self._to_pulls + cells] += 1
        if "agents" in self._kept:
            self._of_agents += gaps
        if "messages" in self._kept:
            self._sent += self._numbers_sent(t, state, weights)
        if "signs" in self._kept:
            self._sketches.learn(cells - self._first_cell, weights)
        if t in self._column:
            self._record(self._column[t], state)

    def _record(self, column: int, state: Any) -> None:
        self._regret[:, column] = self._so_far
        if "agents" in self._kept:
            self._kept["agents"][:, :, column] = self._of_agents
        if "means" in self._kept and self._world.changes:
            self._kept["means"][:, column] = self._means_now()
        if "messages" in self._kept:
            self._kept["messages"][:, column] = self._sent
        if "beliefs" in self._kept:
            belief = np.swapaxes(belief_of(state, self._simulation.algorithm, self._problem), 0, 1)
            self._kept["beliefs"][:, column] = in_callers_order(belief, self._order)
        if "signs" in self._kept:
            sketches = np.swapaxes(self._sketches.values, 0, 1)
            self._kept["signs"][:, column] = in_callers_order(sketches, self._order)

    def _means_now(self) -> FloatArray:
        """The true means of the round in the caller's order: (R, K), or (R, N, K)."""
        means = in_callers_order(self._world.means, self._order)
        return means if self._per_agent else means[:, 0]

    def _numbers_sent(self, t: int, state: Any, weights: Any) -> FloatArray:
        """How many numbers an agent sends in round t, on average: (R,)."""
        p = self._problem
        algorithm: Any = self._simulation.algorithm  # which has the method, or was refused
        links = count_links_in_use(weights, p.n_runs, p.n_agents)
        sent: FloatArray = np.asarray(algorithm.numbers_sent(state, t, links), dtype=np.float64)
        if sent.shape != (p.n_runs,) or not (sent >= 0).all():
            raise ValueError(
                f"{type(algorithm).__name__}.numbers_sent must give {p.n_runs} numbers (runs,) "
                f"at least 0, got shape {sent.shape}"
            )
        return np.asarray(sent / p.n_agents)

    def block(self) -> Block:
        """The outcome, in the caller's order of arms."""
        s = self._simulation
        times = self._simulation.times
        free = 0 if self._world.changes else s.uncharged_rounds  # or they were not charged at all
        # (R, M, K)
        gaps = self._world.gaps
        kept = dict(self._kept)
        regret = without_forced_pulls(self._regret, times, gaps.mean(axis=1), free)
        if "agents" in kept:
            of_agents = np.broadcast_to(gaps, self._pulls.shape).reshape(-1, gaps.shape[-1])
            rows = kept["agents"].reshape(-1, len(times))
            charged = without_forced_pulls(rows, times, of_agents, free)
            kept["agents"] = charged.reshape(kept["agents"].shape)
        return Block(regret, in_callers_order(self._pulls, self._order), kept)


def first_cells(means: FloatArray) -> NDArray[np.intp]:
    """Where the arms of each run and agent begin among all means (R, M, K): (R, M)."""
    n_runs, n_rows, n_arms = means.shape
    return np.arange(0, means.size, n_arms).reshape(n_runs, n_rows)


def belief_of(state: Any, algorithm: Any, problem: Problem) -> FloatArray:
    """The beliefs of a state, (D, R, N, K), refused where it has none."""
    belief: Any = getattr(state, "belief", None)
    if np.ndim(belief) == 4 and belief.shape[-1] == 1:  # one theta for all arms
        belief = np.broadcast_to(belief, (*belief.shape[:-1], problem.n_arms))
    shape = (problem.n_runs, problem.n_agents, problem.n_arms)
    if np.ndim(belief) != 4 or np.shape(belief)[1:] != shape:
        raise ValueError(
            f"keep: beliefs need a state with .belief of shape (D, {', '.join(map(str, shape))}), "
            f"coordinates first, and that of {type(algorithm).__name__} has "
            + ("none" if belief is None else f"{np.shape(belief)}")
        )
    return np.asarray(belief)
