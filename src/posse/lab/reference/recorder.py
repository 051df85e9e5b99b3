"""Recorder: regret, pulls and `keep=` arrays of a block of runs, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse import effective_samples as calibration
from posse.activity import BoolArray
from posse.algorithms import Problem, subtract_forced_pulls
from posse.lab.reference.true_means import AnyWorld
from posse.lab.simulation import Block, Simulation, in_callers_order
from posse.networks import count_links_in_use
from posse.randomness import FloatArray, Streams


class Sketches:
    """Sketches of the weights of the pulls in every belief (`keep="signs"`): (1 + SIGNS, R, N, K).

    `posse.calibrate` estimates the effective sample size of a belief from them. They follow the
    two equations of Algorithm 1, applied to random signs with a stream of their own, so that
    keeping them changes no regret.
    """

    def __init__(self, simulation: Simulation, problem: Problem, runs: Sequence[int]) -> None:
        algorithm: Any = simulation.algorithm  # validated: Decentralized
        self._rate = algorithm.resolve_learning_rate(problem)
        self._fading = algorithm.discount_factor
        self._signs = Streams.for_runs(simulation.seed, runs, "signs")
        between = (problem.n_runs, problem.n_agents)
        self.values: FloatArray = calibration.create_sketch(between, problem.n_arms)

    def learn(self, arms: NDArray[np.intp], weights: Any) -> None:
        """Fade as the beliefs do, observe the pulls (R, N) of a round, then merge by W(t)."""
        faded = self.values if self._fading == 1.0 else self._fading * self.values
        updated = calibration.update_sketch(faded, arms, self._rate, self._signs)
        self.values = beliefs.merge(updated, weights)


class Recorder:
    """Records cumulative pseudo-regret at the recorded rounds, pulls, and `keep=` arrays."""

    def __init__(
        self,
        simulation: Simulation,
        problem: Problem,
        runs: Sequence[int],
        world: AnyWorld,
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
        # Uncharged rounds are subtracted at the end, by their gaps. Where gaps drift, as those of
        # non-stationary bandits, that is impossible, and these rounds are never added.
        self._free_rounds = simulation.uncharged_rounds if world.changes else 0
        self._pulls = np.zeros((n_runs, n_agents, n_arms), dtype=np.int32)
        self._regret = np.zeros((n_runs, len(times)))
        self._total_regret = np.zeros(n_runs)
        self._column = {int(t): column for column, t in enumerate(times)}
        self._first_cell = first_cells(world.means)
        of_agents = np.arange(0, self._pulls.size, n_arms).reshape(n_runs, n_agents)
        # Means have M = 1 or N rows of arms, pulls always N: this is the offset from a cell in the
        # means to the count of that agent in pulls.
        self._to_pulls = of_agents - self._first_cell
        self._arrays: dict[str, FloatArray] = {}
        if simulation.activity is not None:
            self._arrays["plays"] = np.zeros((n_runs, len(times)))
            self._total_plays = np.zeros(n_runs, dtype=np.int64)
        if "agents" in simulation.keep:
            self._arrays["agents"] = np.zeros((n_runs, n_agents, len(times)))
            self._agent_totals = np.zeros((n_runs, n_agents))
        if "means" in simulation.keep:
            self._arrays["means"] = self._current_means()
            if world.changes:
                between = self._arrays["means"].shape[1:]
                self._arrays["means"] = np.zeros((n_runs, len(times), *between))
        if "messages" in simulation.keep:
            self._arrays["messages"] = np.zeros((n_runs, len(times)))
            self._total_sent = np.zeros(n_runs)
        if "beliefs" in simulation.keep:
            shape = extract_belief(state, simulation.algorithm, problem).shape
            self._arrays["beliefs"] = np.zeros((n_runs, len(times), shape[0], n_agents, n_arms))
        if "signs" in simulation.keep:
            self._sketches = Sketches(simulation, problem, runs)
            shape = (n_runs, len(times), len(self._sketches.values), n_agents, n_arms)
            self._arrays["signs"] = np.zeros(shape)

    def record_round(
        self,
        t: int,
        cells: NDArray[np.intp],  # (R, N) flat indices of the arms played in the means (R, M, K)
        state: Any,
        weights: Any,
        plays: BoolArray | None = None,  # (R, N); None: all agents play
    ) -> None:
        """Charge round t: the gaps of the arms played, averaged over all agents."""
        gaps = self._world.gaps.take(cells)  # (R, N)
        if t <= self._free_rounds:
            gaps = np.zeros_like(gaps)
        if plays is not None:
            gaps = np.where(plays, gaps, 0.0)
            self._total_plays += plays.sum(axis=1)
        # the operations of mean(axis=1), which takes twice as long for so few numbers
        self._total_regret += np.add.reduce(gaps, axis=1) / gaps.shape[1]
        # Cells are distinct within a round (one arm an agent), so that plain indexing counts right.
        self._pulls.reshape(-1)[self._to_pulls + cells] += 1 if plays is None else plays
        if "agents" in self._arrays:
            self._agent_totals += gaps
        if "messages" in self._arrays:
            self._total_sent += self._count_numbers_sent(t, state, weights)
        if "signs" in self._arrays:
            self._sketches.learn(cells - self._first_cell, weights)
        if t in self._column:
            self._record_column(self._column[t], state)

    def _record_column(self, column: int, state: Any) -> None:
        self._regret[:, column] = self._total_regret
        if "plays" in self._arrays:
            self._arrays["plays"][:, column] = self._total_plays / self._problem.n_agents
        if "agents" in self._arrays:
            self._arrays["agents"][:, :, column] = self._agent_totals
        if "means" in self._arrays and self._world.changes:
            self._arrays["means"][:, column] = self._current_means()
        if "messages" in self._arrays:
            self._arrays["messages"][:, column] = self._total_sent
        if "beliefs" in self._arrays:
            belief = np.swapaxes(
                extract_belief(state, self._simulation.algorithm, self._problem), 0, 1
            )
            self._arrays["beliefs"][:, column] = in_callers_order(belief, self._order)
        if "signs" in self._arrays:
            sketches = np.swapaxes(self._sketches.values, 0, 1)
            self._arrays["signs"][:, column] = in_callers_order(sketches, self._order)

    def _current_means(self) -> FloatArray:
        """Give the true means of the round in the caller's order: (R, K), or (R, N, K)."""
        means = in_callers_order(self._world.means, self._order)
        return means if self._per_agent else means[:, 0]

    def _count_numbers_sent(self, t: int, state: Any, weights: Any) -> FloatArray:
        """Count the numbers that an agent sends in round t, on average: (R,)."""
        p = self._problem
        algorithm: Any = self._simulation.algorithm  # validated: it has numbers_sent
        links = count_links_in_use(weights, p.n_runs, p.n_agents)
        sent: FloatArray = np.asarray(algorithm.numbers_sent(state, t, links), dtype=np.float64)
        by_link = sent.ndim == 2 and sent.shape == (p.n_runs, len(p.senders_receivers[0]))
        if not (by_link or sent.shape == (p.n_runs,)) or not (sent >= 0).all():
            raise ValueError(
                f"{type(algorithm).__name__}.numbers_sent must give {p.n_runs} numbers (runs,), or "
                f"(runs, links) by link, at least 0, got shape {sent.shape}"
            )
        sent = sent.sum(axis=1) if by_link else sent
        return np.asarray(sent / p.n_agents)

    def to_block(self) -> Block:
        """Return the results as a Block, in the caller's order of arms.

        The regret is without the forced pulls that are not charged.
        """
        s = self._simulation
        times = self._simulation.times
        free = 0 if self._world.changes else s.uncharged_rounds  # else never added, see __init__
        # (R, M, K)
        gaps = self._world.gaps
        arrays = dict(self._arrays)
        regret = subtract_forced_pulls(self._regret, times, gaps.mean(axis=1), free)
        if "agents" in arrays:
            of_agents = np.broadcast_to(gaps, self._pulls.shape).reshape(-1, gaps.shape[-1])
            rows = arrays["agents"].reshape(-1, len(times))
            charged = subtract_forced_pulls(rows, times, of_agents, free)
            arrays["agents"] = charged.reshape(arrays["agents"].shape)
        return Block(regret, in_callers_order(self._pulls, self._order), arrays)


def first_cells(means: FloatArray) -> NDArray[np.intp]:
    """Give the flat index of arm 0 of every run and agent in the means (R, M, K): (R, M)."""
    n_runs, n_rows, n_arms = means.shape
    return np.arange(0, means.size, n_arms).reshape(n_runs, n_rows)


def extract_belief(state: Any, algorithm: Any, problem: Problem) -> FloatArray:
    """Extract the beliefs (D, R, N, K) of a state, or refuse a state without beliefs."""
    belief: Any = getattr(state, "belief", None)
    if np.ndim(belief) == 4 and belief.shape[-1] == 1:  # one theta is shared by all arms
        belief = np.broadcast_to(belief, (*belief.shape[:-1], problem.n_arms))
    shape = (problem.n_runs, problem.n_agents, problem.n_arms)
    if np.ndim(belief) != 4 or np.shape(belief)[1:] != shape:
        raise ValueError(
            f"keep: beliefs need a state with .belief of shape (D, {', '.join(map(str, shape))}), "
            f"coordinates first, and that of {type(algorithm).__name__} has "
            + ("none" if belief is None else f"{np.shape(belief)}")
        )
    return np.asarray(belief)
