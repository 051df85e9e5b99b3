"""ComEx: agents send an observation to their neighbours only if it was exploration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import IDLE, Problem
from posse.algorithms.rivals.message_passing import (
    ForcedReceivedIndex,
    ReceivedState,
    build_relay,
    count_numbers_passed,
    init_received,
)
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class ComExState(ReceivedState):
    """The observations received, and how many crossed a link in the last round."""

    n_crossed: FloatArray  # (R,)


@dataclass(frozen=True)
class ComEx(ForcedReceivedIndex):
    """UCB-Network with one hop whose agents stay silent when they play their best arm.

    Source: Madhushani and Leonard 2021, "When to call your neighbor? Strategic communication in
    cooperative stochastic bandits". Abstract read, algorithm from memory; the constants of the
    index Q = x + sigma sqrt(2 (xi + 1) ln t / m), xi = `exploration`, from memory.

    An agent sends the arm it played and the reward to its neighbours if another arm has a larger
    mean, of all the agent had received before the round, or if the arm was new to it. In the first
    K rounds every agent plays every arm once. An agent uses each observation it receives once, and
    always its own. Any network will do; an observation that a failed link would have carried is
    lost.

    The agents must know sigma, or with index "kl" the family of the rewards. They send 2 numbers
    over each link in those rounds only, O(ln T) in all. The paper proves regret of the order of
    UCB-Network's, which sends everything.

    exploration: xi, above 1; a larger value explores longer. No effect with index "kl".
    index: "published", or "kl" for the largest q with m kl(x, q) <= ln t of the bandit's family.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    level: factor of ln t in the index, above 0; 1 as published, a smaller value explores less.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "comex"
    source: ClassVar[str] = "abstract"

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=1)

    @property
    def bonus_constant(self) -> float:
        """2 (xi + 1)."""
        return 2.0 * (self.exploration + 1.0)

    def init(self, problem: Problem) -> ComExState:
        """Start without observations."""
        self.check_problem(problem)
        # an observation that is not sent travels as arm K, a column that is dropped on arrival
        relay = build_relay(replace(problem, n_arms=problem.n_arms + 1), hops=1)
        start = vars(init_received(problem, 1)) | {"relay": relay}
        return ComExState(**start, n_crossed=np.zeros(problem.n_runs))

    def learn(
        self, state: ComExState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> ComExState:
        """Add the own observation, and those that the neighbours send."""
        n_arms = state.problem.n_arms
        is_sent = is_exploration(state, arms) & (arms != IDLE)
        relay, sums = state.relay.deliver_round(np.where(is_sent, arms, n_arms), rewards, weights)
        # the column of observations that were not sent is dropped
        counts, totals = (array[..., :n_arms] for array in sums)
        # every agent receives its own observation too, which crosses no link
        n_crossed = counts.sum(axis=(1, 2)) - is_sent.sum(axis=1)
        is_unsent = (np.arange(n_arms) == arms[..., None]) & ~is_sent[..., None]
        received = (counts + is_unsent, totals + is_unsent * rewards[..., None])
        return replace(state.add_received(relay, received), n_crossed=n_crossed)

    def numbers_sent(self, state: ComExState, t: int, links: IntArray) -> FloatArray:
        """Count the arm and the reward of each observation sent in the last round: (R,)."""
        return count_numbers_passed(state.n_crossed)


def is_exploration(state: ReceivedState, arms: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the arm played is new to the agent, or another arm has a larger mean: (R, N)."""
    # an arm without observations has no mean: playing it is exploration
    means = np.where(state.counts > 0, state.means, -np.inf)
    arm_means = np.take_along_axis(means, arms[..., None], axis=-1)[..., 0]
    return np.asarray((arm_means < means.max(axis=-1)) | np.isneginf(arm_means))
