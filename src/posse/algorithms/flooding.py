"""Flooding: every observation travels one hop per round and is counted once by each agent.

Deduplication is by round: agent i stores, for each agent j, the last round of j that has reached i
(a version vector). Since j's observations travel in order, the rounds up to it are all known to i.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.algorithm import ArrivedRewards, Problem
from posse.algorithms.bayesian import BayesianState, TimedAlgorithm
from posse.networks import Network, Static, as_operator
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Listeners:
    """The sources that each agent of each run receives from, itself included, as one flat list."""

    sources: IntArray  # (links,) rows run * N + agent
    starts: IntArray  # (R N,) where the sources of each row begin

    @property
    def counts(self) -> IntArray:
        """The number of sources of each row: (R N,)."""
        return np.diff(self.starts, append=len(self.sources))


@dataclass(frozen=True)
class Observations:
    """The observations of all agents and runs in one round, sorted by row run * N + agent."""

    starts: IntArray  # (R N + 1,) where the observations of each row begin and end
    arms: IntArray  # (n,)
    statistics: FloatArray  # (D, n)


@dataclass(frozen=True)
class FloodingState(BayesianState):
    """Beliefs, version vectors, and the observations that are still on their way."""

    latest: IntArray  # (R, N, N): the last round of agent j that has reached agent i
    log: list[Observations]  # one entry per round
    first_round: int  # of the log; all agents know the rounds before
    listeners: Listeners | None  # None if the network changes
    network: Network
    # if the network changes: the version vectors before the last exchange, and the links it used
    last_exchange: tuple[IntArray, Listeners] | None = None


@dataclass(frozen=True)
class Flooding(TimedAlgorithm):
    """Every agent has the exact posterior, at learning rate 1, of all that has reached it.

    An observation of agent j in round t is known to agent i from round t + max(1, d(i, j)) on. This
    is an upper bound for cooperation over a network, at the price of messages that grow with N. On
    a complete graph it equals `Centralized`.

    A link carries the observations that one end knows and the other does not, each as an arm and a
    reward. The cost of finding out what the other end lacks is not counted.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    Evidence is discounted by its age, not by the time since it reached the agent.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.
    """

    name: ClassVar[str] = "flooding"

    def init(self, problem: Problem) -> FloodingState:
        """Start at the prior, with empty version vectors and an empty log."""
        start = super().init(problem)
        n_runs = problem.n_runs
        n_agents = problem.n_agents
        static = isinstance(problem.network.dynamics, Static)
        return FloodingState(
            **vars(start),
            latest=np.zeros((n_runs, n_agents, n_agents), dtype=np.int64),
            log=[],
            first_round=1,
            listeners=find_listeners(problem.network.weights, n_runs, n_agents) if static else None,
            network=problem.network,
        )

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> FloodingState:
        """Receive all that the neighbours know, this round's rewards included."""
        n_rows = arms.size
        statistics = beliefs.statistic(state.belief, arms, rewards, state.family, contexts)
        columns = np.ravel(beliefs.get_belief_index(state.belief, arms))
        return self._spread_observations(
            state,
            Observations(np.arange(n_rows + 1), columns, statistics.reshape(-1, n_rows)),
            weights,
        )

    def learn_delayed(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> FloodingState:
        """Flood the delayed rewards from the round in which they arrive."""
        cells, statistics = self._compute_delayed_evidence(state, arms, arrivals)
        rows, columns = np.divmod(cells, state.belief.shape[-1])
        # stable, so that the rewards of one agent stay in the order of their pulls
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(arms.size + 1))
        return self._spread_observations(
            state, Observations(starts, columns[order], statistics[:, order]), weights
        )

    def _spread_observations(
        self, state: BayesianState, observations: Observations, weights: Any
    ) -> FloodingState:
        """Move the observations of a round, and all older ones in transit, by one hop."""
        assert isinstance(state, FloodingState)  # made by init
        n_runs, n_agents = state.latest.shape[:2]
        log = [*state.log, observations]
        before = state.latest.copy()
        agents = np.arange(n_agents)
        # every agent knows its own observations up to this round
        before[:, agents, agents] = state.first_round + len(log) - 1
        listeners = state.listeners or find_listeners(weights, n_runs, n_agents)
        # an agent's new version vector is the elementwise maximum over its sources
        rows = before.reshape(-1, n_agents)[listeners.sources]
        after = np.maximum.reduceat(rows, listeners.starts, axis=0).reshape(before.shape)
        belief = self._discount_belief(state) + _sum_new_evidence(
            state, log, state.latest, after, self.discount_factor
        )
        # rounds that every agent knows leave the log
        n_expired = max(0, int(after.min()) + 1 - state.first_round)
        return replace(
            state,
            belief=belief,
            latest=after,
            log=log[n_expired:],
            first_round=state.first_round + n_expired,
            last_exchange=None if state.listeners else (before, listeners),
        )

    def numbers_sent(self, state: FloodingState, t: int, links: IntArray) -> FloatArray:
        """Count the numbers of each observation over each link to an agent that lacks it: (R,).

        On a network that changes they are counted as they happen; otherwise they are known.
        """
        if state.listeners is None:
            assert state.last_exchange is not None  # made by learn
            latest, listeners = state.last_exchange
            rows = latest.reshape(-1, latest.shape[-1])
            receiver_rows = np.repeat(rows, listeners.counts, axis=0)
            n_new = np.maximum(rows[listeners.sources] - receiver_rows, 0).sum(axis=1)
            n_received = np.add.reduceat(n_new, listeners.starts)
            return np.asarray(
                state.numbers_observed * n_received.reshape(len(links), -1).sum(axis=1)
            )
        by_round = count_observations_sent(state.network)
        return np.full(len(links), state.numbers_observed * by_round[min(t, len(by_round)) - 1])


@functools.lru_cache(maxsize=32)
def count_observations_sent(network: Network) -> IntArray:
    """Count the observations that cross the links of a static network in rounds 1, 2, ...

    An observation crosses the link from j to i when j is d hops from its source and i is d + 1
    hops: in the d-th round after the observation. So all pairs with d < t count in round t.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    listeners = find_listeners(network.weights, 1, network.n_agents)
    receivers = np.repeat(np.arange(network.n_agents), listeners.counts)
    is_link = receivers != listeners.sources
    receiver = receivers[is_link]
    sender = listeners.sources[is_link]
    shape = (network.n_agents, network.n_agents)
    steps = coo_array((np.ones(len(sender)), (sender, receiver)), shape=shape).tocsr()
    by_distance = np.zeros(network.n_agents, dtype=np.int64)
    # one source at a time: memory for all of them would grow as N E
    for source in range(network.n_agents):
        hops = shortest_path(steps, method="D", unweighted=True, indices=source)
        onwards = hops[sender][hops[receiver] == hops[sender] + 1].astype(np.int64)
        by_distance += np.bincount(onwards, minlength=network.n_agents)
    return np.cumsum(by_distance)


def find_listeners(weights: Any, n_runs: int, n_agents: int) -> Listeners:
    """Find the sources of each agent: the positive entries of W(t), and the agent itself."""
    everyone = np.broadcast_to(np.eye(n_agents), (n_runs, n_agents, n_agents))
    receives = as_operator(weights) @ everyone > 0
    receives = receives | (everyone > 0)  # an agent knows itself, whatever W says
    run, agent, source = np.nonzero(receives)
    starts = np.searchsorted(run * n_agents + agent, np.arange(n_runs * n_agents))
    return Listeners(run * n_agents + source, starts)


def _sum_new_evidence(
    state: FloodingState,
    log: list[Observations],
    before: IntArray,  # (R, N, N)
    after: IntArray,  # (R, N, N)
    discount_factor: float,
) -> FloatArray:
    """Sum the statistics of the observations that are new to each agent: (D, R, N, K)."""
    run, agent, source = np.nonzero(after > before)
    n_new_rounds = (after - before)[run, agent, source]  # rounds of the source
    nth, run, agent, source, since = _repeat_entries(
        n_new_rounds, run, agent, source, before[run, agent, source]
    )
    place = since + 1 + nth - state.first_round  # position in the log
    shape = state.belief.shape
    receiver = run * shape[2] + agent  # row
    sender = run * shape[2] + source
    # where the observations of each round begin when all rounds of the log are joined
    offsets = np.cumsum([0, *(len(observations.arms) for observations in log)])
    starts = (
        np.stack([observations.starts for observations in log]) + offsets[:-1, None]
    )  # (rounds, R N + 1)
    first = starts[place, sender]
    nth, receiver, place, first = _repeat_entries(
        starts[place, sender + 1] - first, receiver, place, first
    )
    arms = np.concatenate([observations.arms for observations in log])[first + nth]
    statistics = np.concatenate([observations.statistics for observations in log], axis=1)[
        :, first + nth
    ]
    if discount_factor != 1.0:
        statistics = statistics * discount_factor ** (len(log) - 1 - place)  # discounted by age
    # sum by (run, agent, arm), one coordinate of the statistic at a time
    cells = receiver * shape[3] + arms
    size = int(np.prod(shape[1:]))
    sums = [np.bincount(cells, row, minlength=size) for row in statistics]
    return np.stack(sums).astype(float).reshape(shape)


def _repeat_entries(counts: IntArray, *arrays: IntArray) -> tuple[IntArray, ...]:
    """Repeat entry i of every array counts[i] times; first the number of each repetition."""
    # position in the repeated arrays minus the position where the entry starts
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return nth, *(np.repeat(array, counts) for array in arrays)
