"""Follow Your Leader: a dominating set of leaders learns, and their neighbours imitate them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import IDLE, Problem
from posse.algorithms.rivals.message_passing import (
    ReceivedIndex,
    ReceivedState,
    count_numbers_passed,
    init_received,
)
from posse.networks import AwakeLinks, LinkFailure, Network, Static, as_matrix, is_symmetric
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class FollowingState(ReceivedState):
    """The observations received, the leader of each agent, and the leader's last known arm."""

    leaders: IntArray  # (N,) leaders follow themselves
    followed: NDArray[np.intp]  # (R, N) arms, -1 before the first message


@dataclass(frozen=True)
class FollowYourLeader(ReceivedIndex):
    """Leaders play UCB-Network with one hop; followers play their leader's arm of the last round.

    Source: Kolla, Jagannathan, Gopalan, "Collaborative learning of stochastic bandits over a social
    network", ToN 2018. Abstract read, algorithm from memory; index as in `UCBNetwork`.

    Leaders are a greedy dominating set: the next leader is the agent whose closed neighbourhood has
    the most agents without a leader; ties go to the agent with the most neighbours, then to the one
    whose neighbours have the most, then to the first. Those agents become its followers. A leader
    plays arms without observations first, at random. A follower does so too until it has received
    its leader's arm, that is in round 1; its rewards are sent like all others. What a failed link
    would have carried is lost, and the follower repeats the last arm received.

    Leaders must know sigma, or with index "kl" the family of the rewards, and the dominating set
    must be known. Agents send 2 numbers over every link in every round, an arm and a reward. The
    paper proves that the regret of the group is that of a single agent times the number of leaders,
    which is optimal on a star.

    index: "published", or "kl" for the largest q with m kl(x, q) <= ln t of the bandit's family.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    level: factor of ln t in the index, above 0; 1 as published, a smaller value explores less.
    """

    name: ClassVar[str] = "follow-your-leader"
    source: ClassVar[str] = "abstract"

    def check_problem(self, problem: Problem) -> None:
        """Refuse a network whose neighbours do not exchange messages regularly."""
        super().check_problem(problem)
        network = problem.network
        dynamics: Any = network.dynamics
        if isinstance(dynamics, AwakeLinks):
            dynamics = dynamics.dynamics
        lasting = isinstance(dynamics, Static | LinkFailure)
        if not lasting or not is_symmetric(network.weights):
            raise ValueError(
                "FollowYourLeader needs a static network, or one whose links fail, with symmetric "
                "weights, since leaders and followers must receive from each other, "
                f"got {network}: use UCBNetwork, which works on any network"
            )

    def init(self, problem: Problem) -> FollowingState:
        """Start without observations, and give every agent a leader."""
        self.check_problem(problem)
        start = init_received(problem, 1)
        leaders = choose_leaders(problem.network)
        return FollowingState(
            **vars(start), leaders=leaders, followed=np.full(start.counts.shape[:2], -1)
        )

    def choose(self, state: ReceivedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose by the index for leaders, and the leader's last arm for followers: (R, N)."""
        assert isinstance(state, FollowingState)  # made by init
        by_index = super().choose(state, t, generator)
        leads = state.leaders == np.arange(len(state.leaders))
        return np.where(leads | (state.followed < 0), by_index, state.followed)

    def learn(
        self, state: FollowingState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> FollowingState:
        """Receive the arms and rewards of the neighbours, and the arm of the leader."""
        followed = arms[:, state.leaders]
        # of a leader that sleeps it repeats the last arm too
        followed = np.where(followed == IDLE, state.followed, followed)
        # a follower whose link to the leader is down repeats the last arm it received
        if not isinstance(state.problem.network.dynamics, Static):
            n_runs, n_agents = arms.shape
            matrix = as_matrix(weights, n_agents, n_runs)
            is_received = matrix[..., np.arange(n_agents), state.leaders] > 0
            followed = np.where(is_received, followed, state.followed)
        relay, sums = state.relay.deliver_round(arms, rewards, weights)
        return replace(state.add_received(relay, sums), followed=followed)

    def numbers_sent(self, state: FollowingState, t: int, links: IntArray) -> FloatArray:
        """Count an arm and a reward over every link in use: (R,)."""
        return count_numbers_passed(links)


@functools.lru_cache(maxsize=32)
def choose_leaders(network: Network) -> IntArray:
    """Return the leader of each agent by a greedy dominating set: (N,)."""
    n_agents = network.n_agents
    degrees = network.degrees
    neighbourhoods = [np.append(network.neighbours(agent), agent) for agent in range(n_agents)]
    second = np.array([degrees[neighbourhood].sum() for neighbourhood in neighbourhoods])
    leaders = np.full(n_agents, -1)
    uncovered = degrees + 1
    # greedy: the agent that covers the most uncovered agents, ties by degree, second-order degree
    # and then by the smallest number
    while (leaders < 0).any():
        ranked = np.lexsort((-np.arange(n_agents), second, degrees, uncovered))
        leader = int(ranked[-1])
        new_followers = neighbourhoods[leader][leaders[neighbourhoods[leader]] < 0]
        leaders[new_followers] = leader
        for agent in new_followers:
            uncovered[neighbourhoods[agent]] -= 1
    # a leader may have become the follower of another leader first: it follows itself instead
    leads = np.unique(leaders)
    leaders[leads] = leads
    return leaders
