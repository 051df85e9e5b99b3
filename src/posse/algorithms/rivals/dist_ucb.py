"""Dist-UCB: agents track the average sample mean; the bonus shrinks with the neighbourhood."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, count_numbers_averaged, noise_scale
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.algorithms.rivals.message_passing import INDICES, check_fixed_links
from posse.divergences import get_divergence
from posse.networks import Network
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class TrackingState:
    """Own counts and sums, and estimates of the network's means and largest counts."""

    counts: FloatArray  # (R, N, K) n, the agent's own
    totals: FloatArray  # (R, N, K) the agent's own
    estimates: FloatArray  # (R, N, K) z, the averages that track all agents' sample means
    largest: FloatArray  # (R, N, K) m, the largest count of any agent, as far as known
    rounds: int  # so far
    problem: Problem

    @property
    def sample_means(self) -> FloatArray:
        """The agent's own sample means x, 0 before the first sample: (R, N, K)."""
        return np.asarray(self.totals / np.maximum(self.counts, 1.0))


@dataclass(frozen=True)
class DistUCB(ForcedStart):
    """Plays argmax z + 2 sigma 1.01 sqrt(3 ln t / (|A_i| n)), A_i being agent i and its neighbours.

    Zhu, Mulle, Smith, Liu, "Decentralized multi-armed bandit can outperform classic upper
    confidence bound", 2021: Dist-UCB1, and with index="kl" Dist-KL-UCB, sup{q: n kl(z, q) <=
    3.03 (ln t + 3 ln ln t) / (2 |A_i|)}; rules and constants read in the authors' code, which is
    for rewards in [0, 1], of sigma 1/2. Rounds 1 to K are forced, arm t in round t, and leave z = x
    and m = n = 1; t counts them too. Then an agent plays, of its arms with n <= m - K (those that
    lag), one at random; if there is none, the largest index. After each round z_i <- sum_j W_ij z_j
    + x_i(t) - x_i(t - 1), where x is the sample mean of the agent's own n plays and W_ij = 1 /
    max(|A_i|, |A_j|) for neighbours, with the remainder for the agent itself, whatever the weights
    of the network are; m_i <- max(n_i(t), the m_j(t - 1) of A_i).
    One uniform per agent and round after the forced ones draws arms that lag and breaks ties.

    The network must not change; the agent knows K and |A_i| only. It sends z and m, 2K numbers over
    every link in every round after the forced ones. The paper proves a regret of O(ln T) below that
    of UCB1 alone for every agent with neighbours. The bonus shrinks with |A_i| and not with N, so
    the gain is small on sparse networks.

    index: "published", or "kl" for the family's own.
    sigma: the sub-Gaussian constant of rewards in the published index; None takes the bandit's.
    level: factor of both logarithms in the index, above 0; 1 as published, a smaller value explores
        less.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "dist-ucb"
    accepts_idle: ClassVar[bool] = True
    needs_fixed_links: ClassVar[bool] = True
    source: ClassVar[str] = "code"

    index: Literal["published", "kl"] = "published"
    level: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_choice("index", self.index, INDICES)
        validation.validate_number("level", self.level, above=0)

    @classmethod
    def example(cls) -> Self:
        """Return the KL index, for the few rounds of the law tests."""
        return cls(index="kl")

    def check_problem(self, problem: Problem) -> None:
        """Refuse a network that changes or is disconnected, and a family without the index."""
        if self.index == "kl":
            get_divergence(problem.family)
        else:
            super().check_problem(problem)
        check_fixed_links(problem, "DistUCB", "estimates track those of the same neighbours")

    def index_scale(self, problem: Problem, t: int) -> float:
        """Return the squared published bonus, or the level of kl, times |A_i| n."""
        log = math.log(t)
        if self.index == "kl":
            return self.level * 3.03 * (log + 3 * math.log(log)) / 2
        return self.level * (2 * noise_scale(problem.family, self.sigma) * 1.01) ** 2 * 3 * log

    def init(self, problem: Problem) -> TrackingState:
        """Start without observations."""
        self.check_problem(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return TrackingState(empty, empty, empty, empty, 0, problem)

    def choose(self, state: TrackingState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose arm t in round t <= K, then an arm that lags, or the largest index: (R, N)."""
        problem = state.problem
        if t <= problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        counts = np.maximum(state.counts, 1.0)
        scale = self.index_scale(problem, t) / (problem.network.degrees + 1)[:, None]
        if self.index == "kl":
            index = kl_ucb(problem.family, state.estimates, counts, scale)
        else:
            index = state.estimates + np.sqrt(scale / counts)
        # an arm that it never played, as after a forced round asleep, comes first
        index = np.where(state.counts > 0, index, np.inf)
        # an arm lags if another agent is known to have played it at least K times more often
        lags = state.counts <= state.largest - problem.n_arms
        return argmax(np.where(lags.any(axis=-1, keepdims=True), 1.0 * lags, index), generator)

    def learn(
        self, state: TrackingState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> TrackingState:
        """Add the own reward, then the neighbours' estimates from before the round."""
        is_played = np.arange(state.problem.n_arms) == arms[..., None]
        before = state
        rounds = state.rounds + 1
        state = replace(
            state,
            counts=state.counts + is_played,
            totals=state.totals + is_played * rewards[..., None],
            rounds=rounds,
        )
        if rounds <= state.problem.n_arms:
            return replace(state, estimates=state.sample_means, largest=state.counts)
        # consensus on a moving target: mix the estimates, then add the change of the own mean
        change = state.sample_means - before.sample_means
        links = _closed_neighbourhoods(state.problem.network)
        neighbours_largest = np.maximum.reduceat(
            before.largest[:, links.agents], links.starts, axis=1
        )
        return replace(
            state,
            estimates=links.mix @ before.estimates + change,
            largest=np.maximum(state.counts, neighbours_largest),
        )

    def numbers_sent(self, state: TrackingState, t: int, links: IntArray) -> FloatArray:
        """Count estimates and largest counts of K arms over every link, once t > K: (R,)."""
        return count_numbers_averaged(state.problem, t, links)


@dataclass(frozen=True)
class _Neighbourhoods:
    """The closed neighbourhoods A_i as one flat list, and the weights W."""

    agents: IntArray
    starts: IntArray  # (N,)
    mix: Any


@functools.lru_cache(maxsize=32)
def _closed_neighbourhoods(network: Network) -> _Neighbourhoods:
    """List the neighbours of each agent, itself included, with Metropolis weights."""
    i, j = network.edges.T
    agents = np.arange(network.n_agents)
    receivers = np.concatenate([agents, i, j])
    senders = np.concatenate([agents, j, i])
    order = np.argsort(receivers, kind="stable")
    starts = np.searchsorted(receivers[order], agents)
    metropolis = network.weighted("metropolis")
    return _Neighbourhoods(senders[order], starts, metropolis.sampler(1)(np.random.default_rng(0)))
