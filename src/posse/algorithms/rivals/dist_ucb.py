"""Dist-UCB: agents average their sample means, and trust them as their neighbourhood is large."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale, pairs_sent
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.algorithms.rivals.message_passing import INDICES, check_fixed_links
from posse.divergences import get_divergence
from posse.networks.network import Network
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class TrackingState:
    """What each agent has seen, and what it knows of the others'."""

    counts: FloatArray  # (R, N, K) n, one's own
    totals: FloatArray  # (R, N, K) one's own
    estimates: FloatArray  # (R, N, K) z, the averages that track all agents' sample means
    largest: FloatArray  # (R, N, K) m, the most often that anybody is known to have played
    rounds: int  # so far
    problem: Problem

    @property
    def sample_means(self) -> FloatArray:
        """x, one's own, 0 before the first sample."""
        return np.asarray(self.totals / np.maximum(self.counts, 1.0))


@dataclass(frozen=True)
class DistUCB(ForcedStart):
    """Plays argmax z + 2 sigma 1.01 sqrt(3 ln t / (|A_i| n)), A_i being agent i and its neighbours.

    Zhu, Mulle, Smith, Liu, "Decentralized multi-armed bandit can outperform classic upper
    confidence bound", 2021: Dist-UCB1, and with index="kl" Dist-KL-UCB, sup{q: n kl(z, q) <=
    3.03 (ln t + 3 ln ln t) / (2 |A_i|)}; rules and constants read in the authors' code, which is
    for rewards in [0, 1], of sigma 1/2. Rounds 1 to K are forced, arm t in round t, and leave z = x
    and m = n = 1; t counts them too. Then an agent with arms of n <= m - K plays one of those at
    random, else the largest index. After each round z_i <- sum_j W_ij z_j + x_i(t) - x_i(t - 1), x
    the sample mean of one's own n plays, W_ij = 1 / max(|A_i|, |A_j|) for neighbours and the rest
    for oneself, whatever the weights of the network are; m_i <- max(n_i(t), the m_j(t - 1) of A_i).
    One uniform for each agent and round after the forced ones draws arms that lag and breaks ties.

    Assumes a network that does not change, and knows K and |A_i| only. Sends z and m, 2K numbers
    over every link in every round after the forced ones. Proves a regret of O(ln T) that is below
    that of UCB1 alone for every agent with neighbours. The bonus gains by |A_i| and not by N, which
    is little on sparse networks.

    index: "published", or "kl" for the family's own.
    sigma: the sub-Gaussian constant of rewards in the published index; None takes the bandit's.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "dist-ucb"
    source: ClassVar[str] = "code"

    index: Literal["published", "kl"] = "published"

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_choice("index", self.index, INDICES)

    @classmethod
    def example(cls) -> Self:
        """Bold enough for the few rounds of the law tests."""
        return cls(index="kl")

    def check(self, problem: Problem) -> None:
        """A connected network that does not change, and what the index needs of the family."""
        if self.index == "kl":
            get_divergence(problem.family)
        else:
            super().check(problem)
        check_fixed_links(problem, "DistUCB", "estimates track those of the same neighbours")

    def scale(self, problem: Problem, t: int) -> float:
        """What is divided by |A_i| n: the square of the published bonus, or the level of kl."""
        log = math.log(t)
        if self.index == "kl":
            return 3.03 * (log + 3 * math.log(log)) / 2
        return (2 * noise_scale(problem.family, self.sigma) * 1.01) ** 2 * 3 * log

    def init(self, problem: Problem) -> TrackingState:
        """Nothing played yet."""
        self.check(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return TrackingState(empty, empty, empty, empty, 0, problem)

    def choose(self, state: TrackingState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then one that lags, else the largest index: (R, N)."""
        problem = state.problem
        if t <= problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        counts = np.maximum(state.counts, 1.0)
        scale = self.scale(problem, t) / (problem.network.degrees + 1)[:, None]
        if self.index == "kl":
            index = kl_ucb(problem.family, state.estimates, counts, scale)
        else:
            index = state.estimates + np.sqrt(scale / counts)
        lags = state.counts <= state.largest - problem.n_arms
        return argmax(np.where(lags.any(axis=-1, keepdims=True), 1.0 * lags, index), generator)

    def learn(
        self, state: TrackingState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> TrackingState:
        """One's own reward, then what the neighbours knew before the round."""
        played = np.arange(state.problem.n_arms) == arms[..., None]
        before = state
        rounds = state.rounds + 1
        state = replace(
            state,
            counts=state.counts + played,
            totals=state.totals + played * rewards[..., None],
            rounds=rounds,
        )
        if rounds <= state.problem.n_arms:
            return replace(state, estimates=state.sample_means, largest=state.counts)
        change = state.sample_means - before.sample_means
        links = _closed(state.problem.network)
        heard = np.maximum.reduceat(before.largest[:, links.agents], links.starts, axis=1)
        return replace(
            state,
            estimates=links.mix @ before.estimates + change,
            largest=np.maximum(state.counts, heard),
        )

    def numbers_sent(self, state: TrackingState, t: int, links: IntArray) -> FloatArray:
        """Estimates and largest counts of all K arms over every link, once t > K: (R,)."""
        return pairs_sent(state.problem, t, links)


@dataclass(frozen=True)
class _Closed:
    """The closed neighbourhoods A_i, one after the other, and W."""

    agents: IntArray
    starts: IntArray  # (N,)
    mix: Any


@functools.lru_cache(maxsize=32)
def _closed(network: Network) -> _Closed:
    i, j = network.edges.T
    own = np.arange(network.n_agents)
    to = np.concatenate([own, i, j])
    of = np.concatenate([own, j, i])
    order = np.argsort(to, kind="stable")
    starts = np.searchsorted(to[order], own)
    metropolis = network.weighted("metropolis")
    return _Closed(of[order], starts, metropolis.sampler(1)(np.random.default_rng(0)))
