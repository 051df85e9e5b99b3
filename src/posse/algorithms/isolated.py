"""No cooperation: each agent learns from its own rewards alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.bayesian import BayesianAlgorithm, BayesianState
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Isolated(BayesianAlgorithm):
    """Single-agent Bayesian bandits side by side, learning rate 1; the network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    """

    name: ClassVar[str] = "isolated"

    def learn(
        self, state: BayesianState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> BayesianState:
        """Bayes' rule, no merge."""
        return state.with_belief(beliefs.observe(state.belief, arms, rewards, state.family, 1.0))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Nothing: (R,)."""
        return np.zeros(len(links))
