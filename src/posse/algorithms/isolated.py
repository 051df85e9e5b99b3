"""No cooperation: each agent learns from its own rewards alone."""

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
class Isolated(Timed):
    """Single-agent Bayesian bandits side by side, learning rate 1; the network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    half_life: the rounds after which evidence weighs half, where means drift; None: never forget.
    open: what a pull is until its reward comes, in delayed bandits: "wait" (None too) is nothing
    yet; "count" is the lowest reward, corrected later, for who hears of successes only.
    """

    name: ClassVar[str] = "isolated"

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> BayesianState:
        """Bayes' rule, no merge."""
        return state.with_belief(
            beliefs.observe(self._faded(state), arms, rewards, state.family, 1.0, contexts)
        )

    def hear(
        self, state: BayesianState, arms: NDArray[np.intp], heard: Heard, weights: Any
    ) -> BayesianState:
        """The same of late rewards."""
        return state.with_belief(self._told(state, arms, heard, 1.0))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Nothing: (R,)."""
        return np.zeros(len(links))
