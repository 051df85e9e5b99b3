"""Liars: some agents send false beliefs, to measure what that costs the honest agents.

A lie here is a false order of the arms: a liar tells what it knows of one arm as if it knew it of
another arm. So a false belief is as certain as the true one, and proper in every family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Algorithm, Problem
from posse.algorithms.bayesian import BayesianState
from posse.algorithms.decentralized import Decentralized
from posse.algorithms.flooding import Flooding
from posse.algorithms.tree import Tree, TreeState
from posse.families import Model, require_plain_family
from posse.import_strings import import_object
from posse.networks import Static, as_operator
from posse.randomness import FloatArray, IntArray, Randomness

# From the posterior means of the liars (R, L, K) to the arm whose belief is told as that of arm
# 0, 1, ...: (R, L, K), a permutation of the arms in the last axis.
Lie = Callable[[FloatArray], IntArray]


def reverse_order(means: FloatArray) -> IntArray:
    """Tell the belief about the best arm as that about the worst one, and so on."""
    ranking = np.argsort(means, axis=-1)  # ascending
    order = np.empty_like(ranking)
    np.put_along_axis(order, ranking, ranking[..., ::-1], axis=-1)
    return order


def praise_one_arm(means: FloatArray) -> IntArray:
    """Swap the belief about the best arm and that about arm 0, a random arm of the run."""
    order = np.broadcast_to(np.arange(means.shape[-1]), means.shape).copy()
    best = means.argmax(axis=-1)[..., None]
    np.put_along_axis(order, best, 0, axis=-1)
    order[..., :1] = best
    return order


LIES: dict[str, Lie] = {"opposite": reverse_order, "fixed": praise_one_arm}


@dataclass(frozen=True)
class LyingWeights:
    """W(t) in which some agents send beliefs with a false order of arms."""

    weights: Any
    agents: NDArray[np.intp]  # (L,) the liars
    order: IntArray  # (R, L, K)

    def __matmul__(self, belief: FloatArray) -> FloatArray:
        operator = as_operator(self.weights)
        told = belief.copy()
        told[:, :, self.agents] = relabel_arms(belief[:, :, self.agents], self.order)
        merged = np.array(operator @ told)
        # a liar knows the truth about itself
        merged[:, :, self.agents] = (operator @ belief)[:, :, self.agents]
        return merged


def relabel_arms(values: FloatArray, order: IntArray) -> FloatArray:
    """Give arm k the values of arm order[k]: (D, R, L, K), (R, L, K) -> (D, R, L, K)."""
    return np.take_along_axis(values, np.broadcast_to(order, values.shape), axis=-1)


@dataclass(frozen=True)
class Liars:
    """An algorithm in which some agents send false beliefs; the others are honest.

    Under `Decentralized` and `Tree` a liar falsifies every message that it sends, with the evidence
    of others in it. Under `Flooding` it falsifies its own observations, because those of others
    carry their origin. `result.of_agents(liars.honest_agents(n_agents))` is the result of the
    honest agents.

    algorithm: `Decentralized`, `Tree` or `Flooding`.
    agents: the numbers of the liars.
    lies: "opposite" tells the best arm as the worst, the second best as the second worst, and so
    on; "fixed" tells the best arm as arm 0, a random arm of each run that is the same for all
    liars; or a function from the posterior means of the liars (R, L, K) to the arm whose belief is
    told as that of arm 0, 1, ... (R, L, K).

    >>> liars = posse.Liars(posse.Decentralized(posse.ThompsonSampling()), agents=[3])
    >>> liars.honest_agents(5)
    [0, 1, 2, 4]
    """

    name: ClassVar[str] = "liars"

    algorithm: Algorithm
    agents: tuple[int, ...] = field(default=())
    lies: str | Lie = "opposite"

    def __post_init__(self) -> None:
        if type(self.algorithm) not in (Decentralized, Tree, Flooding):
            raise ValueError(
                "algorithm must be Decentralized, Tree or Flooding, "
                f"got {validation.format_value(self.algorithm)}"
            )
        numbers = [
            validation.validate_integer("agents", agent, at_least=0) for agent in self.agents
        ]
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"agents must be different numbers, got {numbers}")
        object.__setattr__(self, "agents", tuple(numbers))
        if isinstance(self.lies, str):
            if ":" in self.lies:
                object.__setattr__(self, "lies", import_object(self.lies))
            else:
                validation.validate_choice("lies", self.lies, LIES)
        elif not callable(self.lies):
            raise ValueError(
                f"lies must be a name or a function, got {validation.format_value(self.lies)}"
            )

    @property
    def family(self) -> Model | None:
        """The reward model of the algorithm."""
        family: Model | None = self._honest.family
        return family

    @property
    def _honest(self) -> Any:
        """The algorithm, one of the three that are accepted."""
        return self.algorithm

    def honest_agents(self, n_agents: int) -> list[int]:
        """Return the numbers of the other agents."""
        return [agent for agent in range(n_agents) if agent not in self.agents]

    def init(self, problem: Problem) -> BayesianState:
        """Start as the algorithm does."""
        if self.agents and max(self.agents) >= problem.n_agents:
            raise ValueError(
                f"agents must be numbers from 0 to {problem.n_agents - 1}, got {max(self.agents)}"
            )
        if isinstance(self.algorithm, Tree) and not isinstance(problem.network.dynamics, Static):
            # a message over a failed link is the last one again, which is false already
            raise ValueError(f"Liars under Tree need a static network, got {problem.network}")
        if hasattr(self.algorithm, "check_problem"):
            self._honest.check_problem(problem)
        state: BayesianState = self.algorithm.init(problem)
        return state

    def choose(self, state: BayesianState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose as the algorithm does; liars choose by what they believe themselves."""
        return self.algorithm.choose(state, t, generator)

    def learn(
        self, state: BayesianState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> BayesianState:
        """Learn from the own rewards and from the messages, those of liars being false."""
        if not self.agents:
            return self._learn(state, arms, rewards, weights)
        liars = np.array(self.agents)
        family = require_plain_family(state.family)
        means = family.posterior_mean(state.belief[:, :, liars])  # (R, L, K)
        order = np.asarray((LIES[self.lies] if isinstance(self.lies, str) else self.lies)(means))
        if order.shape != means.shape or not (np.sort(order) == np.arange(means.shape[-1])).all():
            raise ValueError(f"lies must return an order of the arms in shape {means.shape}")
        if isinstance(self.algorithm, Flooding):
            # an observation of arm order[k] is told as one of arm k
            told_as = np.take_along_axis(np.argsort(order), arms[:, liars, None], axis=-1)[..., 0]
            arms = arms.copy()
            arms[:, liars] = told_as
            return self._learn(state, arms, rewards, weights)
        if isinstance(self.algorithm, Tree):
            after = self.algorithm.learn(state, arms, rewards, weights)
            assert isinstance(after, TreeState)
            return self._falsify_messages(after, liars, order)
        return self._learn(state, arms, rewards, LyingWeights(weights, liars, order))

    def _learn(
        self, state: BayesianState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> BayesianState:
        after: BayesianState = self.algorithm.learn(state, arms, rewards, weights)
        return after

    def _falsify_messages(
        self, state: TreeState, liars: NDArray[np.intp], order: IntArray
    ) -> TreeState:
        """Relabel the arms in the messages over the channels of liars, and add them up again."""
        channels = state.channels
        if channels is None:
            return state
        (lying,) = np.nonzero(np.isin(channels.sender, liars))
        liar = np.searchsorted(np.sort(liars), channels.sender[lying])
        messages = state.messages.copy()
        order = order[:, np.argsort(liars)[liar]]
        messages[:, :, lying] = relabel_arms(messages[:, :, lying], order)
        belief = state.own_belief + channels.sum_incoming(messages)
        # liars go by what they believe, and messages to them are as they were sent
        return replace(state, belief=belief, messages=messages)

    def numbers_sent(self, state: Any, t: int, links: IntArray) -> FloatArray:
        """Count the numbers of the algorithm: a false belief is as long as a true one."""
        return np.asarray(self._honest.numbers_sent(state, t, links))
