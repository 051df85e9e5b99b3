"""Coop-SE: agents pool what they see and give up an arm once it is surely not the best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.algorithms.rivals.message_passing import HeardState, nothing_heard, pairs_over
from posse.networks.operators import as_matrix
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class EliminationState(HeardState):
    """What was heard, and which arms each agent has given up."""

    dropped: NDArray[np.bool_]  # (R, N, K)
    told: FloatArray  # (R,) arms given up that crossed a link in the last round


@dataclass(frozen=True)
class CoopSE:
    """Play the arm heard of least among those not given up; all observations are passed on.

    Source: Barnea, Lancewicki, Mansour 2025, "Individual regret in cooperative stochastic
    multi-armed bandits". Abstract read, algorithm from memory; constants from memory.

    An agent gives up arm a when x_a + w_a < x_b - w_b for some arm b that it has not given up, x
    the mean of n rewards heard and w = 2 sigma sqrt(2 ln(3 N T K) / n), or with index "gaussian"
    w = 2 sigma sqrt(c ln T / n), c = `exploration`. Observations travel one hop a round to all
    agents, each used once, as in `Flooding`. So do arms given up: what an agent has given up before
    a round its neighbours give up in it, unless they would have no arm left. Where links fail both
    wait for them.

    It assumes that agents know N, the horizon T and sigma. It sends 2 numbers an observation and
    one for each arm given up, over each link to an agent that lacks it. It proves that each agent's
    regret is that of one agent alone divided by N plus terms in K and ln T, whatever the diameter.

    index: "published", or "gaussian" for the narrower w.
    exploration: c, above 0; more gives up later. Of no effect with index "published".
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    """

    name: ClassVar[str] = "coop-se"
    source: ClassVar[str] = "abstract"

    index: Literal["published", "gaussian"] = "published"
    exploration: float = 0.5
    sigma: float | None = None

    def __post_init__(self) -> None:
        validation.validate_choice("index", self.index, ("published", "gaussian"))
        validation.validate_number("exploration", self.exploration, above=0)
        if self.sigma is not None:
            validation.validate_number("sigma", self.sigma, above=0)

    @classmethod
    def example(cls) -> Self:
        """The narrower width, for the few rounds of the law tests."""
        return cls(index="gaussian")

    def check(self, problem: Problem) -> None:
        """Refuse rewards whose scale is not known."""
        noise_scale(problem.family, self.sigma)

    def width(self, problem: Problem) -> float:
        """w sqrt(n): the width of one observation."""
        horizon = problem.horizon
        if self.index == "published":
            level = 2 * math.log(3 * problem.n_agents * horizon * problem.n_arms)
        else:
            level = self.exploration * math.log(horizon)
        return 2 * noise_scale(problem.family, self.sigma) * math.sqrt(level)

    def init(self, problem: Problem) -> EliminationState:
        """Nothing heard, nothing given up."""
        self.check(problem)
        start = nothing_heard(problem, None)
        dropped = np.zeros(start.counts.shape, dtype=bool)
        return EliminationState(**vars(start), dropped=dropped, told=np.zeros(problem.n_runs))

    def choose(self, state: EliminationState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """The arm heard of least, ties broken at random: (R, N)."""
        return argmax(np.where(state.dropped, -np.inf, -state.counts), generator)

    def learn(
        self, state: EliminationState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> EliminationState:
        """Hear of observations and of arms given up, and give up what has become hopeless."""
        after = state.heard(*state.roads.travel(arms, rewards, weights))
        heard, told = self._spread(state, weights)
        heard = np.where(heard.all(axis=-1, keepdims=True), state.dropped, heard)
        known = np.maximum(after.counts, 1.0)
        width = np.where(after.counts > 0, self.width(state.problem) / np.sqrt(known), np.inf)
        low = np.where(heard, -np.inf, after.means - width).max(axis=-1, keepdims=True)
        return replace(after, dropped=heard | (after.means + width < low), told=told)

    def numbers_sent(self, state: EliminationState, t: int, links: IntArray) -> FloatArray:
        """Arm and reward of each observation, and each arm given up, to who lacks it: (R,)."""
        return pairs_over(state.roads.observations_sent(t, links)) + state.told

    def _spread(
        self, state: EliminationState, weights: Any
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """What agents and those they hear have given up (R, N, K), and how many were told (R,)."""
        n_runs, n_agents, _ = state.dropped.shape
        if not state.dropped.any():
            return state.dropped, np.zeros(n_runs)
        matrix = as_matrix(weights, n_agents, n_runs)
        hears = (matrix > 0).astype(np.float64)
        dropped = state.dropped.astype(np.float64)
        tellers = hears @ dropped  # how many of those an agent hears have given an arm up
        told = np.where(state.dropped, 0.0, tellers).sum(axis=(1, 2))
        return state.dropped | (tellers > 0), told
