"""Full cooperation: N agents choose independently from one belief that sees every reward."""

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
class Centralized(TimedAlgorithm):
    """The centralized agent of the paper, an upper bound; the network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.
    """

    name: ClassVar[str] = "centralized"
    accepts_directed: ClassVar[bool] = True

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> BayesianState:
        """Apply Bayes' rule with all N rewards."""
        n_agents = arms.shape[-1]
        # the average of N beliefs, each updated at rate N, is the sum of all N updates
        return _share_belief(
            state,
            beliefs.observe(
                self._discount_belief(state), arms, rewards, state.family, n_agents, contexts
            ),
        )

    def learn_delayed(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> BayesianState:
        """Apply Bayes' rule with all rewards that arrive in the round."""
        return _share_belief(state, self._observe_delayed(state, arms, arrivals, arms.shape[-1]))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Count an observation from each agent to every other agent: (R,)."""
        n_agents = state.belief.shape[-2]
        return np.full(len(links), state.numbers_observed * n_agents * (n_agents - 1))


def _share_belief(state: BayesianState, updated: FloatArray) -> BayesianState:
    """Give all agents of a run one belief, the average of theirs."""
    average = updated.mean(axis=-2, keepdims=True)
    return state.with_belief(np.broadcast_to(average, updated.shape))
