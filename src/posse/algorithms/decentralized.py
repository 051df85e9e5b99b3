"""Algorithm 1: play, update the tempered posterior, merge with the neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, validation
from posse.algorithms.algorithm import Heard, Problem
from posse.algorithms.bayesian import BayesianState, Timed, attainable
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Decentralized(Timed):
    """Decentralized Bayesian bandit (Alg. 1), with any policy, any family and any network.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    learning_rate: how much one reward counts for; None is N (Theorem 1), so that
    beliefs that have mixed count every reward once.
    half_life: the rounds after which evidence weighs half, where means drift; None: never forget.
    open: what a pull is until its reward comes, in delayed bandits: "wait" (None too) is nothing
    yet; "count" is the lowest reward, corrected later, for who hears of successes only.

    >>> posse.Decentralized(posse.BayesUCB(), learning_rate=1.0)
    Decentralized(policy=BayesUCB(log_power=0.0), family=None, half_life=None, open=None, \
learning_rate=1.0)
    """

    name: ClassVar[str] = "decentralized"

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate is not None:
            validation.validate_number("learning_rate", self.learning_rate, above=0)

    def rate(self, problem: Problem) -> float:
        """The learning rate given, else N."""
        return problem.n_agents if self.learning_rate is None else self.learning_rate

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> BayesianState:
        """Update (eq. `posterior_update`), then merge (eq. `merge_posteriors`)."""
        faded = self._faded(state)
        updated = beliefs.observe(faded, arms, rewards, state.family, state.learning_rate, contexts)
        return state.with_belief(beliefs.merge(updated, weights))

    def hear(
        self, state: BayesianState, arms: NDArray[np.intp], heard: Heard, weights: Any
    ) -> BayesianState:
        """The same of late rewards; what corrects a pull is tempered as the pull was."""
        updated = self._told(state, arms, heard, state.learning_rate)
        merged = beliefs.merge(updated, weights)
        if self.open != "count":
            return state.with_belief(merged)
        return replace(state, belief=attainable(merged, state.family), exact=merged)

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Each agent tells its D K natural parameters over every link in use: (R,)."""
        n_coordinates, *_, n_arms = state.belief.shape
        return np.asarray(links * n_coordinates * n_arms, dtype=np.float64)
