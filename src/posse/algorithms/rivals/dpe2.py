"""DPE2: one leader learns, everybody else plays what it says is best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.algorithms.rivals.message_passing import check_fixed_links, hops
from posse.divergences import get_divergence
from posse.networks.network import Network
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class LeaderState:
    """What the leader of each run knows, and which arms it lately called the best."""

    counts: FloatArray  # (R, K)
    totals: FloatArray  # (R, K)
    candidates: NDArray[np.bool_]  # (R, K) arms still to be explored, B
    index: FloatArray  # (R, K) of when B was drawn up
    renewed: NDArray[np.bool_]  # (R,) whether that was in the last round, s
    best: NDArray[np.intp]  # (R, D) of the last round, the one before, ...
    rounds: int  # played so far
    problem: Problem

    @property
    def exploring(self) -> NDArray[np.bool_]:
        """Whether the next play is for an arm of B: (R,)."""
        return np.asarray(self.candidates.any(axis=-1) & ~self.renewed)

    @property
    def means(self) -> FloatArray:
        """What the leader has seen of each arm; before anything is, the first is taken for best."""
        unseen = np.where(self.counts.any(axis=-1, keepdims=True), -np.inf, 0.0)
        unseen = np.where(np.arange(self.counts.shape[-1]) == 0, unseen, -np.inf)
        seen = self.counts > 0
        return np.where(seen, self.totals / np.where(seen, self.counts, 1.0), unseen)


@dataclass(frozen=True)
class DPE2:
    """The leader plays its best arm M, then the arms of B by falling index, and draws up both anew.

    Wang, Proutiere, Ariu, Jedra, Russo, "Optimal algorithms for multiplayer multi-armed bandits",
    AISTATS 2020; rules and constants read in the authors' code. At first M is the first arm, and B
    holds the others with an infinite index. A play of M (one, or all while B is empty) is followed
    by one of each arm of B, largest index first. After a round t that leaves B empty, B = {k: b_k >
    mean of M}, b_k = sup{q: n_k kl(mean_k, q) <= ln t + 4 ln ln t} (a level of 0 for t <= 2), and
    only then M <- the arm with the best mean, ties at random. One uniform a round decides ties.

    Assumes a network that does not change and a leader: the agent with the fewest hops to the
    furthest other, of those the first. It alone learns, from its own rewards. The others ignore
    theirs and play the newest M they have heard of: agent i in round t that which the leader has in
    round t - max(0, hops - 1), the first arm before.

    Sends two numbers, a time stamp and M, when M changes; everybody passes them on once, over all
    its links. Proves a regret of the whole network of sum_k gap_k / kl(mean_k, best) ln T to
    leading order, as if one agent played (Lai and Robbins), and finitely many messages in
    expectation.
    """

    name: ClassVar[str] = "dpe2"
    source: ClassVar[str] = "code"

    def check(self, problem: Problem) -> None:
        """A connected network that does not change, and a divergence."""
        get_divergence(problem.family)
        check_fixed_links(problem, "DPE2", "the leader's word is passed on once and must arrive")

    def leader(self, network: Network) -> int:
        """The agent that learns: the centre of the network."""
        return int(hops(network).max(axis=1).argmin())

    def init(self, problem: Problem) -> LeaderState:
        """Nothing played yet."""
        self.check(problem)
        reach = int(hops(problem.network)[self.leader(problem.network)].max())
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
        """The leader's play, and of the others the newest best arm they have heard of: (R, N)."""
        network = state.problem.network
        leader = self.leader(network)
        exploring = state.exploring
        index = np.where(state.candidates, state.index, -np.inf)
        played = argmax(np.where(exploring[:, None], index, state.means), generator)
        told = self._told(state, exploring, played)
        arms = told[:, np.maximum(hops(network)[leader] - 1, 0)]
        arms[:, leader] = played
        return arms

    def learn(
        self, state: LeaderState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> LeaderState:
        """The leader's reward; B and the index are drawn up anew where nothing of B is left."""
        leader = self.leader(state.problem.network)
        t = state.rounds + 1
        exploring = state.exploring
        arm = arms[:, leader]
        played = np.arange(state.problem.n_arms) == arm[:, None]
        best = self._told(state, exploring, arm)
        # an arm that is played as the best stays in B, unless it is new, as the first one is
        off = played & (exploring[:, None] | (state.counts == 0))
        state = replace(
            state,
            counts=state.counts + played,
            totals=state.totals + played * rewards[:, leader, None],
            candidates=state.candidates & ~off,
            best=best[:, :-1],
            rounds=t,
        )
        renewed = np.asarray(~state.candidates.any(axis=-1))
        if not renewed.any():
            return replace(state, renewed=renewed)
        level = math.log(t) + 4 * math.log(math.log(t)) if t > 2 else 0.0
        means = state.means
        known = np.where(np.isfinite(means), means, 0.0)
        index = kl_ucb(state.problem.family, known, state.counts, level)
        anew = index > np.take_along_axis(means, best[:, :1], axis=1)
        return replace(
            state,
            index=np.where(renewed[:, None], index, state.index),
            candidates=np.where(renewed[:, None], anew, state.candidates),
            renewed=renewed,
        )

    def numbers_sent(self, state: LeaderState, t: int, links: IntArray) -> FloatArray:
        """Two over every link of those whom a change reaches in this round: (R,)."""
        network = state.problem.network
        changed = state.best[:, :-1] != state.best[:, 1:]  # so many rounds ago
        telling = changed[:, hops(network)[self.leader(network)]]  # (R, N)
        return np.asarray(telling @ (2.0 * network.degrees))

    def _told(
        self, state: LeaderState, exploring: NDArray[np.bool_], played: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """The best arm of this round, which is played unless one explores, and of those before."""
        now = np.where(exploring, state.best[:, 0], played)
        return np.concatenate([now[:, None], state.best], axis=1)
