"""DPE2: one leader learns, and all other agents play the arm that it reports as the best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import IDLE, Problem
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.algorithms.rivals.message_passing import check_fixed_links, hop_distances
from posse.divergences import get_divergence
from posse.networks import Network
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class LeaderState:
    """The leader's observations in each run, and its best arms of the last rounds."""

    counts: FloatArray  # (R, K)
    totals: FloatArray  # (R, K)
    candidates: NDArray[np.bool_]  # (R, K) B, the arms still to be explored
    index: FloatArray  # (R, K) computed when B was renewed
    renewed: NDArray[np.bool_]  # (R,) whether B was renewed in the last round, s
    best: NDArray[np.intp]  # (R, D) the best arm of the last round, the one before, ...
    rounds: int  # played so far
    problem: Problem

    @property
    def is_exploring(self) -> NDArray[np.bool_]:
        """Whether the leader plays an arm of B next: (R,)."""
        return np.asarray(self.candidates.any(axis=-1) & ~self.renewed)

    @property
    def means(self) -> FloatArray:
        """The leader's sample means; without samples the first arm counts as the best: (R, K)."""
        default = np.where(self.counts.any(axis=-1, keepdims=True), -np.inf, 0.0)
        default = np.where(np.arange(self.counts.shape[-1]) == 0, default, -np.inf)
        is_played = self.counts > 0
        return np.where(is_played, self.totals / np.where(is_played, self.counts, 1.0), default)


@dataclass(frozen=True)
class DPE2:
    """The leader plays its best arm M, then the arms of B by decreasing index, and renews both.

    Wang, Proutiere, Ariu, Jedra, Russo, "Optimal algorithms for multiplayer multi-armed bandits",
    AISTATS 2020; rules and constants read in the authors' code. At first M is the first arm, and B
    holds the others with an infinite index. A play of M (one, or all while B is empty) is followed
    by one of each arm of B, largest index first. After a round t that leaves B empty, B = {k: b_k >
    mean of M}, b_k = sup{q: n_k kl(mean_k, q) <= ln t + 4 ln ln t} (a level of 0 for t <= 2), and
    only then M <- the arm with the best mean, ties at random. One uniform a round decides ties.

    The network must not change. The leader is the agent with the fewest hops to the agent furthest
    from it, and of those the first. Only the leader learns, from its own rewards. The others ignore
    their rewards and play the newest M they have received: agent i plays in round t the leader's M
    of round t - max(0, hops - 1), and the first arm before that.

    The leader sends two numbers, a time stamp and M, when M changes; every agent passes them on
    once, over all its links. The paper proves a regret of the whole network of sum_k gap_k /
    kl(mean_k, best) ln T to leading order, that of a single agent (Lai and Robbins), and finitely
    many messages in expectation.

    level: factor of ln t + 4 ln ln t, above 0; 1 as published, a smaller value explores less.
    """

    name: ClassVar[str] = "dpe2"
    accepts_idle: ClassVar[bool] = True
    needs_fixed_links: ClassVar[bool] = True
    source: ClassVar[str] = "code"

    level: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("level", self.level, above=0)

    def check_problem(self, problem: Problem) -> None:
        """Refuse a network that changes or is disconnected, and a family without a divergence."""
        get_divergence(problem.family)
        check_fixed_links(problem, "DPE2", "the leader's message is passed on once and must arrive")

    def find_leader(self, network: Network) -> int:
        """Return the agent that learns, the centre of the network."""
        return int(hop_distances(network).max(axis=1).argmin())

    def init(self, problem: Problem) -> LeaderState:
        """Start without observations."""
        self.check_problem(problem)
        reach = int(hop_distances(problem.network)[self.find_leader(problem.network)].max())
        shape = (problem.n_runs, problem.n_arms)
        candidates = np.ones(shape, dtype=bool)
        candidates[:, 0] = False
        return LeaderState(
            counts=np.zeros(shape),
            totals=np.zeros(shape),
            candidates=candidates,
            index=np.full(shape, np.inf),
            renewed=np.ones(problem.n_runs, dtype=bool),
            best=np.zeros((problem.n_runs, reach + 2), dtype=np.intp),
            rounds=0,
            problem=problem,
        )

    def choose(self, state: LeaderState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose the leader's arm, and for the others the newest M they have received: (R, N)."""
        network = state.problem.network
        leader = self.find_leader(network)
        is_exploring = state.is_exploring
        index = np.where(state.candidates, state.index, -np.inf)
        # one argmax for both cases, so that a round takes one uniform for ties
        leader_arm = argmax(np.where(is_exploring[:, None], index, state.means), generator)
        best = self._best_history(state, is_exploring, leader_arm)
        arms = best[:, np.maximum(hop_distances(network)[leader] - 1, 0)]
        # the leader alone may explore; its neighbours follow the arm it reports
        arms[:, leader] = leader_arm
        return arms

    def learn(
        self, state: LeaderState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> LeaderState:
        """Add the leader's reward; renew B and the index in the runs where B is empty."""
        leader = self.find_leader(state.problem.network)
        t = state.rounds + 1
        is_exploring = state.is_exploring
        arm = arms[:, leader]
        is_asleep = arm == IDLE
        is_played = np.arange(state.problem.n_arms) == arm[:, None]
        best = self._best_history(state, is_exploring | is_asleep, arm)
        # an arm played as the best stays in B, unless it had no sample, as the first arm
        explored = is_played & (is_exploring[:, None] | (state.counts == 0))
        state = replace(
            state,
            counts=state.counts + is_played,
            totals=state.totals + is_played * rewards[:, leader, None],
            candidates=state.candidates & ~explored,
            best=best[:, :-1],
            rounds=t,
        )
        # where the leader sleeps, nothing changes
        renewing = np.asarray(~state.candidates.any(axis=-1)) & ~is_asleep
        renewed = np.where(is_asleep, state.renewed, renewing)
        if not renewing.any():
            return replace(state, renewed=renewed)
        # ln ln t is negative or undefined for t <= 2
        level = self.level * (math.log(t) + 4 * math.log(math.log(t))) if t > 2 else 0.0
        means = state.means
        finite_means = np.where(np.isfinite(means), means, 0.0)
        index = kl_ucb(state.problem.family, finite_means, state.counts, level)
        candidates = index > np.take_along_axis(means, best[:, :1], axis=1)
        return replace(
            state,
            index=np.where(renewing[:, None], index, state.index),
            candidates=np.where(renewing[:, None], candidates, state.candidates),
            renewed=renewed,
        )

    def numbers_sent(self, state: LeaderState, t: int, links: IntArray) -> FloatArray:
        """Count two numbers over every link of the agents that a change of M reaches: (R,)."""
        network = state.problem.network
        changed = state.best[:, :-1] != state.best[:, 1:]  # column d: d rounds ago
        telling = changed[:, hop_distances(network)[self.find_leader(network)]]  # (R, N)
        return np.asarray(telling @ (2.0 * network.degrees))

    def _best_history(
        self, state: LeaderState, is_exploring: NDArray[np.bool_], leader_arm: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return M of this round, which is played unless the leader explores, and those before."""
        current_best = np.where(is_exploring, state.best[:, 0], leader_arm)
        return np.concatenate([current_best[:, None], state.best], axis=1)
