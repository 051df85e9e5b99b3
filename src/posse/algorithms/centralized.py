"""Full cooperation: N agents choose independently from one belief that sees every reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.bayesian import BayesianAlgorithm, BayesianState
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Centralized(BayesianAlgorithm):
    """The optimal centralized agent the paper compares with; the network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    """

    name: ClassVar[str] = "centralized"

    def learn(
        self, state: BayesianState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> BayesianState:
        """Bayes' rule with all N rewards: averaging beliefs updated at rate N adds them up."""
        n_agents = arms.shape[-1]
        updated = beliefs.observe(state.belief, arms, rewards, state.family, n_agents)
        shared = updated.mean(axis=-2, keepdims=True)
        return state.with_belief(np.broadcast_to(shared, updated.shape))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Each agent tells all others its arm and its reward, whatever the network: (R,)."""
        n_agents = state.belief.shape[-2]
        return np.full(len(links), 2.0 * n_agents * (n_agents - 1))
