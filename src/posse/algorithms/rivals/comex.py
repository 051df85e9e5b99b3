"""ComEx: tell the neighbours of an observation only if it was exploration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.message_passing import (
    ForcedIndex,
    HeardState,
    nothing_heard,
    pairs_over,
    roads_for,
)
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class ComExState(HeardState):
    """What was heard, and how many observations crossed a link in the last round."""

    sent: FloatArray  # (R,)


@dataclass(frozen=True)
class ComEx(ForcedIndex):
    """UCB-Network of one hop whose agents say nothing when they play what looks best to them.

    Source: Madhushani and Leonard 2021, "When to call your neighbor? Strategic communication in
    cooperative stochastic bandits". Abstract read, algorithm from memory; the constants of the
    index Q = x + sigma sqrt(2 (xi + 1) ln t / m), xi = `exploration`, from memory.

    An agent tells its neighbours the arm it played and the reward unless no arm has a larger mean,
    of all that it had heard before the round; an arm that it had not heard of is always told. In
    the first K rounds everybody plays every arm once. Everybody uses what it hears once, its own
    plays always. Any network will do: what a neighbour
    does not hear in its round, because the link failed, it never hears.

    It assumes that agents know sigma, or with index "kl" the family of the rewards. It sends 2
    numbers over each link in those rounds only, O(ln T) in all. It proves regret of the order of
    UCB-Network's, which tells everything.

    exploration: xi, above 1; more explores longer. Of no effect with index "kl".
    index: "published", or "kl" for the largest q with m kl(x, q) <= ln t of the bandit's family.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "comex"
    source: ClassVar[str] = "abstract"

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=1)

    @property
    def width(self) -> float:
        """2 (xi + 1)."""
        return 2.0 * (self.exploration + 1.0)

    def init(self, problem: Problem) -> ComExState:
        """Nothing heard."""
        self.check(problem)
        # what is not told travels as one more arm, which nobody looks at
        roads = roads_for(replace(problem, n_arms=problem.n_arms + 1), hops=1)
        start = vars(nothing_heard(problem, 1)) | {"roads": roads}
        return ComExState(**start, sent=np.zeros(problem.n_runs))

    def learn(
        self, state: ComExState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> ComExState:
        """Add one's own play, and what the neighbours tell of theirs."""
        n_arms = state.problem.n_arms
        tells = explores(state, arms)
        roads, sums = state.roads.travel(np.where(tells, arms, n_arms), rewards, weights)
        counts, totals = (each[..., :n_arms] for each in sums)
        crossed = counts.sum(axis=(1, 2)) - tells.sum(axis=1)
        untold = (np.arange(n_arms) == arms[..., None]) & ~tells[..., None]
        own = (counts + untold, totals + untold * rewards[..., None])
        return replace(state.heard(roads, own), sent=crossed)

    def numbers_sent(self, state: ComExState, t: int, links: IntArray) -> FloatArray:
        """Arm and reward of what was told in the round just played, over each link: (R,)."""
        return pairs_over(state.sent)


def explores(state: HeardState, arms: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the arm that an agent plays (R, N) is unheard of, or another's mean is larger."""
    means = np.where(state.counts > 0, state.means, -np.inf)
    played = np.take_along_axis(means, arms[..., None], axis=-1)[..., 0]
    return np.asarray((played < means.max(axis=-1)) | np.isneginf(played))
