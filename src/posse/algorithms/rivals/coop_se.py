"""Coop-SE: successive elimination with observations and eliminations flooded to all agents."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.algorithms.rivals.message_passing import (
    ReceivedState,
    count_numbers_passed,
    init_received,
)
from posse.networks import as_matrix
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class EliminationState(ReceivedState):
    """The observations received, and the arms each agent has eliminated."""

    eliminated: NDArray[np.bool_]  # (R, N, K)
    eliminations_sent: FloatArray  # (R,) over all links in the last round


@dataclass(frozen=True)
class CoopSE:
    """Play the arm with the fewest observations among those not eliminated.

    Source: Barnea, Lancewicki, Mansour 2025, "Individual regret in cooperative stochastic
    multi-armed bandits". Abstract read, algorithm from memory; constants from memory.

    An agent eliminates arm a when x_a + w_a < x_b - w_b for some arm b that it has not eliminated,
    where x is the mean of the n rewards received and w = 2 sigma sqrt(2 ln(3 N T K) / n), or with
    index "gaussian" w = 2 sigma sqrt(c ln T / n), c = `exploration`. Observations travel one hop
    per round to all agents and are used once, as in `Flooding`. Eliminations travel too: an agent
    eliminates in a round what its neighbours had eliminated before it, unless it would have no arm
    left. Both wait for links that have failed.

    The agents must know N, the horizon T and sigma. They send 2 numbers per observation and one per
    elimination, over each link to an agent that lacks it. The paper proves that the regret of an
    agent is that of a single agent divided by N plus terms in K and ln T, whatever the diameter.

    index: "published", or "gaussian" for the narrower w.
    exploration: c, above 0; a larger value eliminates later. No effect with index "published".
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    """

    name: ClassVar[str] = "coop-se"
    accepts_idle: ClassVar[bool] = True
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
        """Return the narrower width, for the few rounds of the law tests."""
        return cls(index="gaussian")

    def check_problem(self, problem: Problem) -> None:
        """Refuse rewards with an unknown sub-Gaussian constant."""
        noise_scale(problem.family, self.sigma)

    def observation_width(self, problem: Problem) -> float:
        """Return w sqrt(n), the width for one observation."""
        horizon = problem.horizon
        if self.index == "published":
            level = 2 * math.log(3 * problem.n_agents * horizon * problem.n_arms)
        else:
            level = self.exploration * math.log(horizon)
        return 2 * noise_scale(problem.family, self.sigma) * math.sqrt(level)

    def init(self, problem: Problem) -> EliminationState:
        """Start without observations and eliminations."""
        self.check_problem(problem)
        start = init_received(problem, None)
        eliminated = np.zeros(start.counts.shape, dtype=bool)
        return EliminationState(
            **vars(start), eliminated=eliminated, eliminations_sent=np.zeros(problem.n_runs)
        )

    def choose(self, state: EliminationState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose the arm with the fewest observations, ties at random: (R, N)."""
        return argmax(np.where(state.eliminated, -np.inf, -state.counts), generator)

    def learn(
        self, state: EliminationState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> EliminationState:
        """Receive observations and eliminations, then eliminate the arms that are dominated."""
        after = state.add_received(*state.relay.deliver_round(arms, rewards, weights))
        eliminated, eliminations_sent = self._spread_eliminations(state, weights)
        # eliminations that leave no arm contradict each other: the agent keeps to its own
        eliminated = np.where(eliminated.all(axis=-1, keepdims=True), state.eliminated, eliminated)
        counts = np.maximum(after.counts, 1.0)
        width = np.where(
            after.counts > 0, self.observation_width(state.problem) / np.sqrt(counts), np.inf
        )
        low = np.where(eliminated, -np.inf, after.means - width).max(axis=-1, keepdims=True)
        return replace(
            after,
            eliminated=eliminated | (after.means + width < low),
            eliminations_sent=eliminations_sent,
        )

    def numbers_sent(self, state: EliminationState, t: int, links: IntArray) -> FloatArray:
        """Count the observations and eliminations sent to agents that lack them: (R,)."""
        return count_numbers_passed(state.relay.count_sent(t, links)) + state.eliminations_sent

    def _spread_eliminations(
        self, state: EliminationState, weights: Any
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """Return eliminations of agents and their sources (R, N, K), and the number sent (R,)."""
        n_runs, n_agents, _ = state.eliminated.shape
        if not state.eliminated.any():
            return state.eliminated, np.zeros(n_runs)
        # receivers already aware of an elimination need no message
        matrix = as_matrix(weights, n_agents, n_runs)
        receives = (matrix > 0).astype(np.float64)
        eliminated = state.eliminated.astype(np.float64)
        n_senders = receives @ eliminated  # (R, N, K) sources that eliminated an arm
        eliminations_sent = np.where(state.eliminated, 0.0, n_senders).sum(axis=(1, 2))
        return state.eliminated | (n_senders > 0), eliminations_sent
