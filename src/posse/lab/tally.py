"""What the reference engine writes down of a block of runs, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Problem
from posse.algorithms.forced import without_forced_pulls
from posse.lab.blocks import Block, Simulation, in_callers_order
from posse.lab.signs import Sketches
from posse.networks.operators import links_in_use
from posse.randomness import FloatArray


class Tally:
    """Cumulative pseudo-regret at the recorded rounds, pulls, and what else is to be kept."""

    def __init__(
        self,
        simulation: Simulation,
        problem: Problem,
        runs: Sequence[int],
        means: FloatArray,  # (R, K)
        order: NDArray[np.intp],  # (R, K) of the caller's arms
        state: Any,  # the algorithm's, before round 1
    ) -> None:
        n_runs, n_agents, n_arms = problem.n_runs, problem.n_agents, problem.n_arms
        times = simulation.times
        self._simulation, self._problem, self._order = simulation, problem, order
        self._gaps = means.max(axis=1, keepdims=True) - means  # (R, K)
        self._pulls = np.zeros((n_runs, n_agents, n_arms), dtype=np.int32)
        self._regret = np.zeros((n_runs, len(times)))
        self._so_far = np.zeros(n_runs)
        self._column = {int(t): column for column, t in enumerate(times)}
        self._first_cell = np.arange(0, means.size, n_arms)[:, None]  # (R, 1) of each run's arms
        of_agents = np.arange(0, self._pulls.size, n_arms).reshape(n_runs, n_agents)
        self._to_pulls = of_agents - self._first_cell  # from a cell to the agent's count of it
        self._kept: dict[str, FloatArray] = {}
        if "agents" in simulation.keep:
            self._kept["agents"] = np.zeros((n_runs, n_agents, len(times)))
            self._of_agents = np.zeros((n_runs, n_agents))
        if "means" in simulation.keep:
            self._kept["means"] = in_callers_order(means, order)
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
        cells: NDArray[np.intp],  # (R, N) where the arms played are among the arms of all runs
        state: Any,
        weights: Any,
    ) -> None:
        """Charge round t's arms: the gaps of the arms played, averaged over agents."""
        gaps = self._gaps.take(cells)  # (R, N)
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
        if "messages" in self._kept:
            self._kept["messages"][:, column] = self._sent
        if "beliefs" in self._kept:
            belief = np.swapaxes(belief_of(state, self._simulation.algorithm, self._problem), 0, 1)
            self._kept["beliefs"][:, column] = in_callers_order(belief, self._order)
        if "signs" in self._kept:
            sketches = np.swapaxes(self._sketches.values, 0, 1)
            self._kept["signs"][:, column] = in_callers_order(sketches, self._order)

    def _numbers_sent(self, t: int, state: Any, weights: Any) -> FloatArray:
        """How many numbers an agent sends in round t, on average: (R,)."""
        p = self._problem
        algorithm: Any = self._simulation.algorithm  # which has the method, or was refused
        links = links_in_use(weights, p.n_runs, p.n_agents)
        sent: FloatArray = np.asarray(algorithm.numbers_sent(state, t, links), dtype=np.float64)
        if sent.shape != (p.n_runs,) or not (sent >= 0).all():
            raise ValueError(
                f"{type(algorithm).__name__}.numbers_sent must give {p.n_runs} numbers (runs,) "
                f"at least 0, got shape {sent.shape}"
            )
        return np.asarray(sent / p.n_agents)

    def block(self) -> Block:
        """The outcome, in the caller's order of arms."""
        s, times = self._simulation, self._simulation.times
        regret = without_forced_pulls(self._regret, times, self._gaps, s.uncharged_rounds)
        kept = dict(self._kept)
        if "agents" in kept:
            gaps = np.repeat(self._gaps, self._problem.n_agents, axis=0)  # (R N, K)
            rows = kept["agents"].reshape(-1, len(times))
            charged = without_forced_pulls(rows, times, gaps, s.uncharged_rounds)
            kept["agents"] = charged.reshape(kept["agents"].shape)
        return Block(regret, in_callers_order(self._pulls, self._order), kept)


def belief_of(state: Any, algorithm: Any, problem: Problem) -> FloatArray:
    """The beliefs of a state, (D, R, N, K), refused where it has none."""
    belief: Any = getattr(state, "belief", None)
    shape = (problem.n_runs, problem.n_agents, problem.n_arms)
    if np.ndim(belief) != 4 or np.shape(belief)[1:] != shape:
        raise ValueError(
            f"keep: beliefs need a state with .belief of shape (D, {', '.join(map(str, shape))}), "
            f"coordinates first, and that of {type(algorithm).__name__} has "
            + ("none" if belief is None else f"{np.shape(belief)}")
        )
    return np.asarray(belief)
