"""Algorithm 1: play, update the tempered posterior, merge with the neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, validation
from posse.algorithms.algorithm import ArrivedRewards, Problem
from posse.algorithms.bayesian import BayesianState, TimedAlgorithm, clip_to_attainable
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Decentralized(TimedAlgorithm):
    """Decentralized Bayesian bandit (Alg. 1), with any policy, any family and any network.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    learning_rate: the weight of one reward in the update: a number, a rule such as "sqrt(N)", or
    one number for each agent; None is
    N (Theorem 1), with which beliefs that have mixed count every reward once. With a number for
    each agent, a reward of agent i counts learning_rate[i] / N times.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.

    >>> posse.Decentralized(posse.BayesUCB(), learning_rate=1.0)
    Decentralized(policy=BayesUCB(log_power=0.0), family=None, half_life=None, open=None, \
learning_rate=1.0)
    """

    name: ClassVar[str] = "decentralized"

    learning_rate: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rate: Any = self.learning_rate
        if isinstance(rate, list | tuple | np.ndarray) and len(rate):
            rates = [validation.validate_number("learning_rate", item, above=0) for item in rate]
            object.__setattr__(self, "learning_rate", tuple(rates))
        elif rate is not None:
            validation.validate_number("learning_rate", rate, above=0)

    def resolve_learning_rate(self, problem: Problem) -> float | FloatArray:
        """Return the learning rate given, as an array (N,) if agents differ, or N."""
        if isinstance(self.learning_rate, tuple):
            return np.array(self.learning_rate)
        return problem.n_agents if self.learning_rate is None else self.learning_rate

    def check_problem(self, problem: Problem) -> None:
        """Refuse learning rates of another number of agents."""
        if isinstance(self.learning_rate, tuple) and len(self.learning_rate) != problem.n_agents:
            raise ValueError(
                f"learning_rate must be one number, or one for each of the {problem.n_agents} "
                f"agents, got {len(self.learning_rate)} numbers"
            )

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> BayesianState:
        """Update (eq. `posterior_update`), then merge (eq. `merge_posteriors`)."""
        return self._observe_and_merge(state, arms, rewards, weights, contexts)

    def learn_delayed(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> BayesianState:
        """Update with delayed rewards, then merge; a correction is tempered like its pull."""
        updated = self._observe_delayed(state, arms, arrivals, state.learning_rate)
        after = self._merge_beliefs(state, updated, weights)
        # without counted pulls there are no corrections, so the belief needs no clipping
        if self.open != "count":
            return after
        clipped = clip_to_attainable(after.belief, state.family)
        return replace(after, belief=clipped, unclipped=after.belief)

    def _observe_and_merge(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None,
    ) -> BayesianState:
        """Return the state after the rewards of a round and its messages, both in one pass.

        Apart from `learn`, because an algorithm that overrides `learn` has to override
        `learn_delayed` too: `EventTriggered` replaces this and `_merge_beliefs`, and inherits both.
        """
        faded = self._discount_belief(state)
        rate = state.learning_rate
        return state.with_belief(
            beliefs.observe_and_merge(faded, arms, rewards, state.family, rate, weights, contexts)
        )

    def _merge_beliefs(
        self, state: BayesianState, updated: FloatArray, weights: Any
    ) -> BayesianState:
        """Return the state whose belief is the updated one, (D, R, N, K), after the messages."""
        return state.with_belief(beliefs.merge(updated, weights))

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Count the D K natural parameters of an agent over every link in use: (R,)."""
        n_coordinates, *_, n_arms = state.belief.shape
        return np.asarray(links * n_coordinates * n_arms, dtype=np.float64)
