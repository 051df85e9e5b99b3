"""What the rivals that count on a fixed graph share: its check, and who is how far from whom."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.flooding import Flooding, FloodingState, listeners_of, observations_sent
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.divergences import get_divergence
from posse.networks.graphs import count_components
from posse.networks.network import Network
from posse.networks.static import Static
from posse.networks.weights import is_symmetric
from posse.policies.greedy import Greedy
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness

INDICES = ("published", "kl")


def check_fixed_links(problem: Problem, who: str, why: str) -> None:
    """Refuse links that come and go, that lead one way only, or that do not reach everybody."""
    network = problem.network
    if not isinstance(network.dynamics, Static):
        raise ValueError(f"{who} needs a network that does not change, since {why}, got {network}")
    if not is_symmetric(network.weights):
        raise ValueError(f"{who} needs links that lead both ways, since {why}, got {network}")
    parts = count_components(network.topology)
    if parts > 1:
        raise ValueError(
            f"{who} needs a connected network, since {why}, got {network} of {parts} parts"
        )


@functools.lru_cache(maxsize=32)
def hops(network: Network) -> IntArray:
    """How many links lie between any two agents, (N, N), read-only."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    n_agents = network.n_agents
    i, j = network.edges.T
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n_agents, n_agents)).tocsr()
    distances: IntArray = shortest_path(graph, directed=False, unweighted=True).astype(np.int64)
    distances.setflags(write=False)
    return distances


# Observations that travel hop by hop and are used once: what UCB-Network and its kin hear.

# Counts and sums of rewards, each (R, N, K).
Sums = tuple[FloatArray, FloatArray]


class Roads(Protocol):
    """Where the observations of the last rounds are on their way.

    What agent j sees in round t counts for itself at once, and for an agent d hops away from
    round t + d on, d no more than `hops`.
    """

    def travel(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[Roads, Sums]:
        """The roads after a round, and the sums of what each agent hears for the first time."""

    def observations_sent(self, t: int, links: IntArray) -> FloatArray:
        """How many observations cross links in round t to an agent that lacks them: (R,)."""


def roads_for(problem: Problem, hops: int | None) -> Roads:
    """The roads before round 1, for observations that travel so many hops; None: all there are.

    Where the network changes an observation is passed on while it is less than `hops` rounds old,
    so that the link it needs may come back in time; without a limit it waits as long as it takes.
    """
    if isinstance(problem.network.dynamics, Static):
        nothing = np.zeros((0, problem.n_runs, problem.n_agents))
        return FixedRoads(nothing.astype(np.intp), nothing, problem.n_arms, problem.network, hops)
    if hops is None:
        inner = Flooding(Greedy(), family=_CountAndSum())  # type: ignore[arg-type]
        return EndlessRoads(inner, inner.init(problem))
    return ChangingRoads((), (), (), problem.n_arms, hops, np.zeros(problem.n_runs))


@dataclass(frozen=True)
class FixedRoads:
    """On a static network all is known beforehand: what comes from whom, and how late."""

    arms: NDArray[np.intp]  # (rounds, R, N) of the last rounds, the newest first
    rewards: FloatArray
    n_arms: int
    network: Network
    hops: int | None

    def travel(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[FixedRoads, Sums]:
        """Everybody's observations of as many rounds ago as they are hops away."""
        hearer, speaker, delay = distances(self.network, self.hops)
        kept = int(delay[-1]) - 1  # delays are sorted
        log_arms = np.concatenate([arms[None], self.arms])
        log_rewards = np.concatenate([rewards[None], self.rewards])
        here = slice(0, int(np.searchsorted(delay, len(log_arms), side="right")))
        heard_arms = log_arms[delay[here] - 1, :, speaker[here]]  # (pairs, R)
        heard_rewards = log_rewards[delay[here] - 1, :, speaker[here]]
        rows = hearer[here, None] + np.arange(arms.shape[0]) * arms.shape[1]
        sums = _summed(rows, heard_arms, heard_rewards, arms.shape, self.n_arms)
        after = replace(self, arms=log_arms[:kept], rewards=log_rewards[:kept])
        return after, sums

    def observations_sent(self, t: int, links: IntArray) -> FloatArray:
        """The same in every run: known beforehand."""
        if self.hops == 1:
            return links.astype(np.float64)
        by_round = observations_sent(self.network)
        last = min(t, len(by_round), self.hops or t)
        return np.full(len(links), float(by_round[last - 1]))


@dataclass(frozen=True)
class ChangingRoads:
    """On a network that changes, who knows what of the last `hops` rounds, the newest first."""

    arms: tuple[NDArray[np.intp], ...]  # of (R, N)
    rewards: tuple[FloatArray, ...]
    known: tuple[NDArray[np.bool_], ...]  # of (R, N, N): whether i knows what j saw
    n_arms: int
    hops: int
    sent: FloatArray  # (R,) observations that crossed a link in the last round

    def travel(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[ChangingRoads, Sums]:
        """Everybody passes on what is young enough to everybody who hears it in this round."""
        n_runs, n_agents = arms.shape
        listeners = listeners_of(weights, n_runs, n_agents)
        hearers = np.repeat(np.arange(n_runs * n_agents), listeners.counts)
        own = np.broadcast_to(np.eye(n_agents, dtype=bool), (n_runs, n_agents, n_agents))
        counts, totals = _summed(
            np.arange(arms.size).reshape(arms.shape), arms, rewards, arms.shape, self.n_arms
        )
        log_arms = (arms, *self.arms)
        log_rewards = (rewards, *self.rewards)
        passed = []
        sent = np.zeros(n_runs)
        for before, its_arms, its_rewards in zip(
            (own, *self.known), log_arms, log_rewards, strict=True
        ):
            rows = before.reshape(-1, n_agents)
            told = rows[listeners.sources]
            crossing = (told & ~rows[hearers]).sum(axis=1)
            sent += np.bincount(hearers // n_agents, crossing, minlength=n_runs)
            after = np.logical_or.reduceat(told, listeners.starts, axis=0)
            row, source = np.nonzero(after & ~rows)
            run = row // n_agents
            more = _summed(
                row, its_arms[run, source], its_rewards[run, source], arms.shape, self.n_arms
            )
            counts = counts + more[0]
            totals = totals + more[1]
            passed.append(after.reshape(before.shape))
        kept = self.hops - 1
        roads = replace(
            self,
            arms=log_arms[:kept],
            rewards=log_rewards[:kept],
            known=tuple(passed[:kept]),
            sent=sent,
        )
        return roads, (counts, totals)

    def observations_sent(self, t: int, links: IntArray) -> FloatArray:
        """As they happened in the round just played; a single hop is every link's one."""
        return links.astype(np.float64) if self.hops == 1 else self.sent


@dataclass(frozen=True)
class EndlessRoads:
    """On a network that changes, without a limit: `Flooding`, of counts and sums."""

    inner: Flooding
    state: FloodingState

    def travel(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[EndlessRoads, Sums]:
        """What flooding adds to its belief, whose coordinates are count and sum."""
        after = self.inner.learn(self.state, arms, rewards, weights)
        counts, totals = after.belief - self.state.belief
        return replace(self, state=after), (counts, totals)

    def observations_sent(self, t: int, links: IntArray) -> FloatArray:
        """As they happened in the round just played."""
        return self.inner.numbers_sent(self.state, t, links) / 2


class _CountAndSum:
    """A model without a prior that keeps how many rewards there were, and their sum."""

    def prior(self) -> FloatArray:
        """Nothing: (2,)."""
        return np.zeros(2)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(1, y): (...) -> (2, ...)."""
        return np.stack([np.ones_like(rewards), rewards])


@functools.lru_cache(maxsize=32)
def distances(network: Network, hops: int | None) -> tuple[IntArray, IntArray, IntArray]:
    """Who hears whom after how many rounds, max(1, hops), the soonest first: (pairs,) each."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.csgraph import shortest_path

    n_agents = network.n_agents
    steps = csr_array(csr_array(network.weights).T > 0, dtype=float)  # from speaker to hearer
    if hops == 1:  # no paths to find, so networks may be large
        near = (steps + eye_array(n_agents)).tocoo()
        found = [np.stack([near.col, near.row, np.ones(near.nnz)])]
    else:
        found = []
        for source in range(n_agents):  # one at a time: memory for all would grow as N^2
            away = shortest_path(steps, method="D", unweighted=True, indices=source)
            (near,) = np.nonzero(away <= (hops or n_agents))
            found.append(np.stack([near, np.full(len(near), source), np.maximum(away[near], 1)]))
    hearer, speaker, delay = np.concatenate(found, axis=1).astype(np.int64)
    order = np.lexsort((speaker, hearer, delay))
    return hearer[order], speaker[order], delay[order]


def _summed(
    rows: IntArray,  # run * N + agent of who hears
    arms: NDArray[np.intp],
    rewards: FloatArray,
    shape: tuple[int, ...],  # (R, N)
    n_arms: int,
) -> Sums:
    """Counts and sums of rewards by hearer and arm: (R, N, K) each."""
    cells = np.ravel(rows * n_arms + arms)
    size = shape[0] * shape[1] * n_arms
    counts = np.bincount(cells, minlength=size).astype(np.float64)
    totals = np.bincount(cells, np.ravel(rewards), minlength=size).astype(np.float64)
    return counts.reshape(*shape, n_arms), totals.reshape(*shape, n_arms)


# An index of all that an agent has heard: what UCB-Network and its kin choose by.


@dataclass(frozen=True)
class HeardState:
    """How often each agent has heard of each arm, the sum of those rewards, and what is under way.

    An agent's own plays count as heard.
    """

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    roads: Roads
    problem: Problem

    @property
    def means(self) -> FloatArray:
        """What each agent has heard of each arm on average, 0 of an unheard one: (R, N, K)."""
        return np.asarray(self.totals / np.maximum(self.counts, 1.0))

    def heard(self, roads: Roads, sums: Sums) -> Self:
        """The state after some more was heard."""
        counts = self.counts + sums[0]
        totals = self.totals + sums[1]
        return replace(self, counts=counts, totals=totals, roads=roads)


def nothing_heard(problem: Problem, hops: int | None) -> HeardState:
    """The state before round 1."""
    empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
    return HeardState(empty, empty, roads_for(problem, hops), problem)


@dataclass(frozen=True, kw_only=True)
class HeardIndex:
    """Play the largest index of m observations heard, their mean x; an unheard arm comes first.

    "published": x + sqrt(c sigma^2 ln t / m) with the source's own c (`width`); "kl": the largest
    q with m kl(x, q) <= ln t of the bandit's family, which needs no c.
    """

    index: Literal["published", "kl"] = "published"
    sigma: float | None = None

    def __post_init__(self) -> None:
        validation.validate_choice("index", self.index, ("published", "kl"))
        if self.sigma is not None:
            validation.validate_number("sigma", self.sigma, above=0)
            if self.index == "kl":
                raise ValueError(
                    f"sigma has no effect with index 'kl', which asks the family: got {self.sigma}"
                )

    @classmethod
    def example(cls) -> Self:
        """The sharper index, for the few rounds of the law tests."""
        return cls(index="kl")

    @property
    def width(self) -> float:
        """c of the published index; 8 is 2 sigma sqrt(2 ln t / m), UCB1 for rewards in [0, 1]."""
        return 8.0

    def check(self, problem: Problem) -> None:
        """Refuse a family whose index is not known."""
        if self.index == "kl":
            get_divergence(problem.family)
        else:
            noise_scale(problem.family, self.sigma)

    def indices(self, state: HeardState, t: int) -> FloatArray:
        """The index of every arm in round t, infinite of an unheard one: (R, N, K)."""
        level = math.log(t)
        heard = state.counts > 0
        if self.index == "kl":
            return kl_ucb(state.problem.family, state.means, state.counts, level)
        scale = self.width * noise_scale(state.problem.family, self.sigma) ** 2 * level
        known = np.where(heard, state.counts, 1.0)
        return np.where(heard, state.totals / known + np.sqrt(scale / known), np.inf)

    def choose(self, state: HeardState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """The largest index, ties broken at random: (R, N)."""
        return argmax(self.indices(state, t), generator)


@dataclass(frozen=True, kw_only=True)
class ForcedIndex(HeardIndex, ForcedStart):
    """The same after K rounds in which every agent plays every arm once; it hears from the first.

    `charge_initial=False` leaves the regret of these K rounds out.
    """

    def __post_init__(self) -> None:
        HeardIndex.__post_init__(self)
        ForcedStart.__post_init__(self)

    def choose(self, state: HeardState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then the largest index, ties broken at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        return super().choose(state, t, generator)


def pairs_over(links: IntArray | FloatArray) -> FloatArray:
    """The numbers of so many observations that cross a link, an arm and a reward each: (R,)."""
    return np.asarray(2.0 * links)
