"""Message passing: observations that travel hop by hop, and indices of those received.

A `Relay` delivers observations (arm, reward) to agents within some hops; every agent uses each of
them once (deduplication). UCB-Network, ComEx, Follow Your Leader and Coop-SE share it. What agent j
observes in round t counts for j at once, and for an agent d hops away from round t + d on.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import IDLE, ArrivedRewards, Problem
from posse.algorithms.flooding import (
    Flooding,
    FloodingState,
    count_observations_sent,
    find_listeners,
)
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.divergences import get_divergence
from posse.networks import Network, Static, count_components, is_symmetric
from posse.policies import Greedy, argmax
from posse.randomness import FloatArray, IntArray, Randomness

INDICES = ("published", "kl")


def check_fixed_links(problem: Problem, algorithm: str, reason: str) -> None:
    """Refuse a network that changes, has one-way links or is disconnected."""
    network = problem.network
    if not isinstance(network.dynamics, Static):
        raise ValueError(
            f"{algorithm} needs a network that does not change, since {reason}, got {network}"
        )
    if not is_symmetric(network.weights):
        raise ValueError(f"{algorithm} needs symmetric weights, since {reason}, got {network}")
    n_parts = count_components(network.topology)
    if n_parts > 1:
        raise ValueError(
            f"{algorithm} needs a connected network, since {reason}, "
            f"got {network} of {n_parts} parts"
        )


@functools.lru_cache(maxsize=32)
def hop_distances(network: Network) -> IntArray:
    """Return the number of links between any two agents: (N, N), read-only."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    n_agents = network.n_agents
    i, j = network.edges.T
    # one entry per link is enough, since the search is undirected
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n_agents, n_agents)).tocsr()
    distances: IntArray = shortest_path(graph, directed=False, unweighted=True).astype(np.int64)
    distances.setflags(write=False)
    return distances


# Relays

# Counts and sums of rewards, each (R, N, K).
Sums = tuple[FloatArray, FloatArray]


class Relay(Protocol):
    """The observations of the last rounds that are still in transit.

    An observation of agent j in round t counts for j at once, and for an agent d hops away from
    round t + d on, for d up to `hops`.
    """

    def deliver_round(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[Relay, Sums]:
        """Return the relay after a round, and the sums of the observations new to each agent."""

    def count_sent(self, t: int, links: IntArray) -> FloatArray:
        """Count the observations that cross a link in round t to an agent that lacks them: (R,)."""


def build_relay(problem: Problem, hops: int | None) -> Relay:
    """Build the relay before round 1, for observations that travel up to `hops`; None: any.

    On a network that changes, an observation is passed on while it is less than `hops` rounds old,
    so that a failed link may come back in time; without a limit it waits for the link.
    """
    if isinstance(problem.network.dynamics, Static):
        nothing = np.zeros((0, problem.n_runs, problem.n_agents))
        return StaticRelay(nothing.astype(np.intp), nothing, problem.n_arms, problem.network, hops)
    if hops is None:
        flooding = Flooding(Greedy(), family=_CountAndSum())  # type: ignore[arg-type]
        return UnlimitedRelay(flooding, flooding.init(problem))
    return ChangingRelay((), (), (), problem.n_arms, hops, np.zeros(problem.n_runs))


@dataclass(frozen=True)
class StaticRelay:
    """The relay of a static network, where all delivery delays are known."""

    arms: NDArray[np.intp]  # (rounds, R, N) of the last rounds, newest first
    rewards: FloatArray
    n_arms: int
    network: Network
    hops: int | None

    def deliver_round(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[StaticRelay, Sums]:
        """Deliver the observations of agents d hops away from d rounds ago."""
        receiver, sender, delay = delivery_delays(self.network, self.hops)
        # delays are sorted, so the last is the longest: older rounds have been delivered
        n_logged = int(delay[-1]) - 1
        log_arms = np.concatenate([arms[None], self.arms])
        log_rewards = np.concatenate([rewards[None], self.rewards])
        # delays are sorted: the first pairs are those whose delay the log already covers
        arriving = slice(0, int(np.searchsorted(delay, len(log_arms), side="right")))
        arrived_arms = log_arms[delay[arriving] - 1, :, sender[arriving]]  # (pairs, R)
        arrived_rewards = log_rewards[delay[arriving] - 1, :, sender[arriving]]
        rows = receiver[arriving, None] + np.arange(arms.shape[0]) * arms.shape[1]
        sums = _sum_by_arm(rows, arrived_arms, arrived_rewards, arms.shape, self.n_arms)
        after = replace(self, arms=log_arms[:n_logged], rewards=log_rewards[:n_logged])
        return after, sums

    def count_sent(self, t: int, links: IntArray) -> FloatArray:
        """Return the known number, the same in every run."""
        if self.hops == 1:
            return links.astype(np.float64)
        by_round = count_observations_sent(self.network)
        last = min(t, len(by_round), self.hops or t)
        return np.full(len(links), float(by_round[last - 1]))


@dataclass(frozen=True)
class ChangingRelay:
    """The relay of a network that changes: who knows which of the last `hops` rounds."""

    arms: tuple[NDArray[np.intp], ...]  # of (R, N), newest first
    rewards: tuple[FloatArray, ...]
    reached: tuple[NDArray[np.bool_], ...]  # of (R, N, N): whether i knows the observation of j
    n_arms: int
    hops: int
    sent: FloatArray  # (R,) observations that crossed a link in the last round

    def deliver_round(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[ChangingRelay, Sums]:
        """Pass all observations that are young enough over the links of this round."""
        n_runs, n_agents = arms.shape
        listeners = find_listeners(weights, n_runs, n_agents)
        receivers = np.repeat(np.arange(n_runs * n_agents), listeners.counts)
        only_self = np.broadcast_to(np.eye(n_agents, dtype=bool), (n_runs, n_agents, n_agents))
        counts, totals = _sum_by_arm(
            np.arange(arms.size).reshape(arms.shape), arms, rewards, arms.shape, self.n_arms
        )
        log_arms = (arms, *self.arms)
        log_rewards = (rewards, *self.rewards)
        reached = []
        sent = np.zeros(n_runs)
        for before, round_arms, round_rewards in zip(
            (only_self, *self.reached), log_arms, log_rewards, strict=True
        ):
            rows = before.reshape(-1, n_agents)
            offered = rows[listeners.sources]
            # an observation crosses a link only to a receiver that lacks it
            crossing = (offered & ~rows[receivers]).sum(axis=1)
            sent += np.bincount(receivers // n_agents, crossing, minlength=n_runs)
            after = np.logical_or.reduceat(offered, listeners.starts, axis=0)
            row, source = np.nonzero(after & ~rows)
            run = row // n_agents
            arrived = _sum_by_arm(
                row, round_arms[run, source], round_rewards[run, source], arms.shape, self.n_arms
            )
            counts = counts + arrived[0]
            totals = totals + arrived[1]
            reached.append(after.reshape(before.shape))
        n_logged = self.hops - 1
        relay = replace(
            self,
            arms=log_arms[:n_logged],
            rewards=log_rewards[:n_logged],
            reached=tuple(reached[:n_logged]),
            sent=sent,
        )
        return relay, (counts, totals)

    def count_sent(self, t: int, links: IntArray) -> FloatArray:
        """Return the number counted in the last round; with one hop it is one per link."""
        return links.astype(np.float64) if self.hops == 1 else self.sent


@dataclass(frozen=True)
class UnlimitedRelay:
    """The relay of a network that changes, without a limit of hops: `Flooding` of sums."""

    flooding: Flooding
    state: FloodingState

    def deliver_round(
        self, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> tuple[UnlimitedRelay, Sums]:
        """Return what flooding adds to its belief, whose coordinates are count and sum."""
        t = self.state.first_round + len(self.state.log)
        run, agent = np.nonzero(arms != IDLE)
        made = arms[run, agent], rewards[run, agent], np.full(len(run), t)
        arrivals = ArrivedRewards(t, run, agent, *made)
        after = self.flooding.learn_delayed(self.state, arms, arrivals, weights)
        # the prior of `_CountAndSum` is zero, so the difference is what is new in this round
        counts, totals = after.belief - self.state.belief
        return replace(self, state=after), (counts, totals)

    def count_sent(self, t: int, links: IntArray) -> FloatArray:
        """Return the number counted in the last round."""
        return self.flooding.numbers_sent(self.state, t, links) / 2


class _CountAndSum:
    """A model without a prior whose coordinates are the number and the sum of rewards."""

    def prior(self) -> FloatArray:
        """Return zeros: (2,)."""
        return np.zeros(2)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """Return (1, y): (...) -> (2, ...)."""
        return np.stack([np.ones_like(rewards), rewards])


@functools.lru_cache(maxsize=32)
def delivery_delays(network: Network, hops: int | None) -> tuple[IntArray, IntArray, IntArray]:
    """Return receiver, sender and delay max(1, hops), the shortest delay first: (pairs,) each."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.csgraph import shortest_path

    n_agents = network.n_agents
    steps = csr_array(csr_array(network.weights).T > 0, dtype=float)  # from sender to receiver
    # one hop needs no shortest paths, so networks may be large
    if hops == 1:
        near = (steps + eye_array(n_agents)).tocoo()
        blocks = [np.stack([near.col, near.row, np.ones(near.nnz)])]
    else:
        blocks = []
        # one source at a time: the distances of all sources would take N^2 numbers
        for source in range(n_agents):
            n_hops = shortest_path(steps, method="D", unweighted=True, indices=source)
            (near,) = np.nonzero(n_hops <= (hops or n_agents))
            blocks.append(np.stack([near, np.full(len(near), source), np.maximum(n_hops[near], 1)]))
    receiver, sender, delay = np.concatenate(blocks, axis=1).astype(np.int64)
    order = np.lexsort((sender, receiver, delay))
    return receiver[order], sender[order], delay[order]


def _sum_by_arm(
    rows: IntArray,  # run * N + agent of the receiver
    arms: NDArray[np.intp],
    rewards: FloatArray,
    shape: tuple[int, ...],  # (R, N)
    n_arms: int,
) -> Sums:
    """Sum observations by receiver and arm, into counts and totals: (R, N, K) each.

    An agent that did not play, with the arm IDLE, made no observation.
    """
    made = np.ravel(arms) != IDLE
    cells = np.ravel(rows * n_arms + arms)[made]
    size = shape[0] * shape[1] * n_arms
    counts = np.bincount(cells, minlength=size).astype(np.float64)
    totals = np.bincount(cells, np.ravel(rewards)[made], minlength=size).astype(np.float64)
    return counts.reshape(*shape, n_arms), totals.reshape(*shape, n_arms)


# Indices of the observations received


@dataclass(frozen=True)
class ReceivedState:
    """Counts and sums of the observations that each agent has received, its own included."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    relay: Relay
    problem: Problem

    @property
    def means(self) -> FloatArray:
        """The mean of the rewards received, 0 without any: (R, N, K)."""
        return np.asarray(self.totals / np.maximum(self.counts, 1.0))

    def add_received(self, relay: Relay, sums: Sums) -> Self:
        """Return the state after further observations."""
        counts = self.counts + sums[0]
        totals = self.totals + sums[1]
        return replace(self, counts=counts, totals=totals, relay=relay)


def init_received(problem: Problem, hops: int | None) -> ReceivedState:
    """The state before round 1."""
    empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
    return ReceivedState(empty, empty, build_relay(problem, hops), problem)


@dataclass(frozen=True, kw_only=True)
class ReceivedIndex:
    """Play the largest index of the m observations received, with mean x; new arms come first.

    "published": x + sqrt(c sigma^2 ln t / m) with the source's c (`bonus_constant`); "kl": the
    largest q with m kl(x, q) <= ln t of the bandit's family, which needs no c. `level` is a factor
    of ln t in both.
    """

    accepts_idle: ClassVar[bool] = True

    index: Literal["published", "kl"] = "published"
    sigma: float | None = None
    level: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_choice("index", self.index, ("published", "kl"))
        validation.validate_number("level", self.level, above=0)
        if self.sigma is not None:
            validation.validate_number("sigma", self.sigma, above=0)
            if self.index == "kl":
                raise ValueError(
                    f"sigma has no effect with index 'kl', leave it out: got {self.sigma}"
                )

    @classmethod
    def example(cls) -> Self:
        """Return the sharper index, for the few rounds of the law tests."""
        return cls(index="kl")

    @property
    def bonus_constant(self) -> float:
        """The published c; 8 gives 2 sigma sqrt(2 ln t / m), UCB1 for rewards in [0, 1]."""
        return 8.0

    def check_problem(self, problem: Problem) -> None:
        """Refuse a family without the index."""
        if self.index == "kl":
            get_divergence(problem.family)
        else:
            noise_scale(problem.family, self.sigma)

    def index_level(self, t: int) -> float:
        """Return the level of the index in round t, ln t as published."""
        return self.level * math.log(t)

    def compute_indices(self, state: ReceivedState, t: int) -> FloatArray:
        """Compute the index of every arm in round t, infinite for a new arm: (R, N, K)."""
        level = self.index_level(t)
        is_received = state.counts > 0
        if self.index == "kl":
            return kl_ucb(state.problem.family, state.means, state.counts, level)
        scale = self.bonus_constant * noise_scale(state.problem.family, self.sigma) ** 2 * level
        counts = np.where(is_received, state.counts, 1.0)
        return np.where(is_received, state.totals / counts + np.sqrt(scale / counts), np.inf)

    def choose(self, state: ReceivedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose the arm with the largest index, ties at random: (R, N)."""
        return argmax(self.compute_indices(state, t), generator)


@dataclass(frozen=True, kw_only=True)
class ForcedReceivedIndex(ReceivedIndex, ForcedStart):
    """A `ReceivedIndex` after K forced rounds, in which every agent plays every arm once.

    Agents receive from the first round on. `charge_initial=False` leaves out the regret of the
    forced rounds.
    """

    def __post_init__(self) -> None:
        ReceivedIndex.__post_init__(self)
        ForcedStart.__post_init__(self)

    def choose(self, state: ReceivedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose arm t in round t <= K, then the largest index, ties at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        return super().choose(state, t, generator)


def count_numbers_passed(links: IntArray | FloatArray) -> FloatArray:
    """Count the numbers of observations that cross a link, an arm and a reward each: (R,)."""
    return np.asarray(2.0 * links)
