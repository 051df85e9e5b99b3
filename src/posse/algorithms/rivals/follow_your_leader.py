"""Follow Your Leader: a few agents learn from their neighbours, who imitate them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.message_passing import (
    HeardIndex,
    HeardState,
    nothing_heard,
    pairs_over,
)
from posse.networks.link_failure import LinkFailure
from posse.networks.network import Network
from posse.networks.operators import as_matrix
from posse.networks.static import Static
from posse.networks.weights import is_symmetric
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class FollowingState(HeardState):
    """What was heard, whom each agent follows, and what that one was last heard to play."""

    leaders: IntArray  # (N,) leaders follow themselves
    followed: NDArray[np.intp]  # (R, N) arms, -1 before anything was heard


@dataclass(frozen=True)
class FollowYourLeader(HeardIndex):
    """Leaders play UCB-Network of one hop; everybody else what its leader played the round before.

    Source: Kolla, Jagannathan, Gopalan, "Collaborative learning of stochastic bandits over a social
    network", ToN 2018. Abstract read, algorithm from memory; index as in `UCBNetwork`.

    Leaders are a dominating set: one after the other the agent with most agents around it that
    have no leader yet, itself included; of several the one with most neighbours, then whose
    neighbours have most, then the first. Whoever it finds without a leader follows it. A leader
    plays first, at random, what it has not heard of. Until it has heard its leader, a follower does
    so too, round 1 that is; its rewards are heard like everybody's. Where links fail, what a
    link that is down would have carried is lost, and a follower goes on with what it heard last.

    It assumes that leaders know sigma, or with index "kl" the family of the rewards, and that
    somebody found the dominating set. It sends 2 numbers over every link and round, an arm and a
    reward. It proves that the regret of the group is that of one agent alone times the number of
    leaders, which is optimal on a star.

    index: "published", or "kl" for the largest q with m kl(x, q) <= ln t of the bandit's family.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    """

    name: ClassVar[str] = "follow-your-leader"
    source: ClassVar[str] = "abstract"

    def check(self, problem: Problem) -> None:
        """A network where neighbours hear each other again and again."""
        super().check(problem)
        network = problem.network
        lasting = isinstance(network.dynamics, Static | LinkFailure)
        if not lasting or not is_symmetric(network.weights):
            raise ValueError(
                "FollowYourLeader needs a static network, or one whose links fail, with symmetric "
                "weights, since followers must hear their leaders and these their followers, "
                f"got {network}: UCBNetwork works on any"
            )

    def init(self, problem: Problem) -> FollowingState:
        """Nothing heard, and everybody has a leader."""
        self.check(problem)
        start = nothing_heard(problem, 1)
        leaders = leaders_of(problem.network)
        return FollowingState(
            **vars(start), leaders=leaders, followed=np.full(start.counts.shape[:2], -1)
        )

    def choose(self, state: HeardState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Leaders by their index, followers after them: (R, N)."""
        assert isinstance(state, FollowingState)  # made by init
        chosen = super().choose(state, t, generator)
        leads = state.leaders == np.arange(len(state.leaders))
        return np.where(leads | (state.followed < 0), chosen, state.followed)

    def learn(
        self, state: FollowingState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> FollowingState:
        """Hear what the neighbours played, one's leader above all, and what they got."""
        followed = arms[:, state.leaders]
        if not isinstance(state.problem.network.dynamics, Static):
            n_runs, n_agents = arms.shape
            matrix = as_matrix(weights, n_agents, n_runs)
            hears = matrix[..., np.arange(n_agents), state.leaders] > 0
            followed = np.where(hears, followed, state.followed)
        roads, sums = state.roads.travel(arms, rewards, weights)
        return replace(state.heard(roads, sums), followed=followed)

    def numbers_sent(self, state: FollowingState, t: int, links: IntArray) -> FloatArray:
        """An arm and a reward over every link in use: (R,)."""
        return pairs_over(links)


@functools.lru_cache(maxsize=32)
def leaders_of(network: Network) -> IntArray:
    """Whom each agent follows, leaders themselves: (N,), by a greedy dominating set."""
    n_agents = network.n_agents
    degrees = network.degrees
    around = [np.append(network.neighbours(agent), agent) for agent in range(n_agents)]
    second = np.array([degrees[others].sum() for others in around])
    leaders = np.full(n_agents, -1)
    uncovered = degrees + 1
    while (leaders < 0).any():
        ranked = np.lexsort((-np.arange(n_agents), second, degrees, uncovered))
        leader = int(ranked[-1])
        found = around[leader][leaders[around[leader]] < 0]
        leaders[found] = leader
        for agent in found:
            uncovered[around[agent]] -= 1
    # who found nobody but others' followers is no leader; one found by another may lead as well
    leads = np.unique(leaders)
    leaders[leads] = leads
    return leaders
