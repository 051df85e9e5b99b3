"""Isolated agents: each learns from its own rewards only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.algorithm import ArrivedRewards
from posse.algorithms.bayesian import BayesianState, TimedAlgorithm
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Isolated(TimedAlgorithm):
    """N independent Bayesian bandits at learning rate 1; the network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.
    """

    name: ClassVar[str] = "isolated"
    accepts_directed: ClassVar[bool] = True

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> BayesianState:
        """Apply Bayes' rule, without a merge."""
        return state.with_belief(
            beliefs.observe(
                self._discount_belief(state), arms, rewards, state.family, 1.0, contexts
            )
        )

    def learn_delayed(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> BayesianState:
        """Apply Bayes' rule with the rewards that arrive in the round."""
        return state.with_belief(self._observe_delayed(state, arms, arrivals, 1.0))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Return zeros, since nothing is sent: (R,)."""
        return np.zeros(len(links))
