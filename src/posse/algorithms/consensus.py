"""Running consensus: agents average their counts and sums of rewards, and play an index of both."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posse.algorithms.algorithm import Problem
from posse.algorithms.forced import ForcedStart, noise_scale, pairs_sent
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class Index:
    """Q = (shift + s)/(weight + n) + sqrt(scale(t) (n + slack) / (n (weight + n))).

    One form for the three coop algorithms; slack is that of each agent plus `growing` sqrt(ln t).
    """

    shift: float
    weight: float
    growing: float
    slack: FloatArray  # (N,)

    def of(self, counts: FloatArray, totals: FloatArray, t: int, scale: float) -> FloatArray:
        """The index of every arm: (..., N, K)."""
        slack = self.slack[:, None] + self.growing * math.sqrt(math.log(t))
        known = self.weight + counts
        width = np.sqrt(scale * (counts + slack) / (counts * known))
        return np.asarray((self.shift + totals) / known + width)


def ucb_scale(problem: Problem, exploration: float, sigma: float | None, t: int) -> float:
    """What coop-UCB and coop-UCB2 multiply the square of the width by: 2 gamma sigma^2 ln t / N."""
    scale = noise_scale(problem.family, sigma)
    return 2 * exploration * scale**2 * math.log(t) / problem.n_agents


@dataclass(frozen=True)
class ConsensusState:
    """Estimates of how often each arm was played per agent, and of its sum of rewards."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    rounds: int  # played so far
    index: Index
    problem: Problem


@dataclass(frozen=True, kw_only=True)
class RunningConsensus(ForcedStart, ABC):
    """n <- W (n + 1{played}), s <- W (s + reward) after every round beyond the forced ones.

    Landgren, Srivastava, Leonard, "Distributed cooperative decision-making in multiarmed
    bandits", ECC and CDC 2016, Automatica 2021.
    """

    @abstractmethod
    def index(self, problem: Problem) -> Index:
        """The constants of the index."""

    @abstractmethod
    def scale(self, problem: Problem, t: int) -> float:
        """What multiplies the square of the width at round t."""

    def init(self, problem: Problem) -> ConsensusState:
        """Nothing played yet."""
        self.check(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return ConsensusState(empty, empty, 0, self.index(problem), problem)

    def choose(self, state: ConsensusState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then the largest index, ties broken at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        scale = self.scale(state.problem, t)
        return argmax(state.index.of(state.counts, state.totals, t, scale), generator)

    def learn(
        self, state: ConsensusState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> ConsensusState:
        """Add one's own play, then average with the neighbours."""
        played = np.arange(state.problem.n_arms) == arms[..., None]
        counts, totals = state.counts + played, state.totals + played * rewards[..., None]
        if state.rounds >= state.problem.n_arms:
            counts, totals = weights @ counts, weights @ totals
        return replace(state, counts=counts, totals=totals, rounds=state.rounds + 1)

    def numbers_sent(self, state: ConsensusState, t: int, links: IntArray) -> FloatArray:
        """Counts and sums of all K arms over every link in use, after the forced rounds: (R,)."""
        return pairs_sent(state.problem, t, links)
