"""Full cooperation: N agents choose independently from one belief that sees every reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.algorithm import Heard
from posse.algorithms.bayesian import BayesianState, Timed
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Centralized(Timed):
    """The optimal centralized agent the paper compares with; the network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    half_life: the rounds after which evidence weighs half, where means drift; None: never forget.
    open: what a pull is until its reward comes, in delayed bandits: "wait" (None too) is nothing
    yet; "count" is the lowest reward, corrected later, for who hears of successes only.
    """

    name: ClassVar[str] = "centralized"

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> BayesianState:
        """Bayes' rule with all N rewards: averaging beliefs updated at rate N adds them up."""
        n_agents = arms.shape[-1]
        return _shared(
            state,
            beliefs.observe(self._faded(state), arms, rewards, state.family, n_agents, contexts),
        )

    def hear(
        self, state: BayesianState, arms: NDArray[np.intp], heard: Heard, weights: Any
    ) -> BayesianState:
        """The same of late rewards."""
        return _shared(state, self._told(state, arms, heard, arms.shape[-1]))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Each agent tells all others what it observed, whatever the network: (R,)."""
        n_agents = state.belief.shape[-2]
        return np.full(len(links), state.numbers_observed * n_agents * (n_agents - 1))


def _shared(state: BayesianState, updated: FloatArray) -> BayesianState:
    """One belief for all agents of a run: the average of theirs."""
    average = updated.mean(axis=-2, keepdims=True)
    return state.with_belief(np.broadcast_to(average, updated.shape))
