"""Flooding: every observation travels one hop a round, and nobody hears the same one twice."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs
from posse.algorithms.algorithm import Heard, Problem
from posse.algorithms.bayesian import BayesianState, Timed
from posse.networks.network import Network
from posse.networks.operators import as_operator
from posse.networks.static import Static
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class Listeners:
    """Whom each agent of each run hears, itself among them, as rows of one list."""

    sources: IntArray  # (links,) rows run * N + agent
    starts: IntArray  # (R N,) where the sources of each row begin

    @property
    def counts(self) -> IntArray:
        """How many sources each row has, (R N,)."""
        return np.diff(self.starts, append=len(self.sources))


@dataclass(frozen=True)
class Observations:
    """What all agents of all runs observe in one round, sorted by the row run * N + agent."""

    starts: IntArray  # (R N + 1,) where the observations of each row begin and end
    arms: IntArray  # (n,)
    statistics: FloatArray  # (D, n)


@dataclass(frozen=True)
class FloodingState(BayesianState):
    """Beliefs, and who knows which rounds of whom."""

    known: IntArray  # (R, N, N): of agent i, the last round of agent j that has reached it
    log: list[Observations]  # of rounds
    first: int  # the round at which the log begins; what came before is known to all
    listeners: Listeners | None  # None where the network changes
    network: Network
    # of a network that changes, what agents knew before they talked, and whom they heard
    talk: tuple[IntArray, Listeners] | None = None


@dataclass(frozen=True)
class Flooding(Timed):
    """Each agent's belief is exact, at learning rate 1, for all that has reached it.

    What agent j sees in round t is known to agent i from round t + max(1, d(i, j)) on. An upper
    bound for cooperation over a network, at the price of messages that grow with N; on a complete
    graph it is `Centralized`.

    Over a link travel the observations that its one end knows and its other end does not, each as
    an arm and a reward; how neighbours find out what the other lacks is not counted.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    half_life: the rounds after which evidence weighs half, where means drift; None: never forget.
    What reaches an agent late has faded on its way: its age counts, not how long it is known.
    open: what a pull is until its reward comes, in delayed bandits: "wait" (None too) is nothing
    yet; "count" is the lowest reward, corrected later, for who hears of successes only.
    """

    name: ClassVar[str] = "flooding"

    def init(self, problem: Problem) -> FloodingState:
        """Nothing known."""
        start = super().init(problem)
        n_runs = problem.n_runs
        n_agents = problem.n_agents
        static = isinstance(problem.network.dynamics, Static)
        return FloodingState(
            **vars(start),
            known=np.zeros((n_runs, n_agents, n_agents), dtype=np.int64),
            log=[],
            first=1,
            listeners=listeners_of(problem.network.weights, n_runs, n_agents) if static else None,
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
        """Hear all that the neighbours know, this round's rewards included."""
        n_rows = arms.size
        statistics = beliefs.statistic(state.belief, arms, rewards, state.family, contexts)
        its_arms = np.ravel(beliefs.get_belief_index(state.belief, arms))
        return self._spread(
            state,
            Observations(np.arange(n_rows + 1), its_arms, statistics.reshape(-1, n_rows)),
            weights,
        )

    def hear(
        self, state: BayesianState, arms: NDArray[np.intp], heard: Heard, weights: Any
    ) -> FloodingState:
        """The same of late rewards: what agents have in this round sets out in it."""
        cells, statistics = self._evidence(state, arms, heard)
        rows, its_arms = np.divmod(cells, state.belief.shape[-1])
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(arms.size + 1))
        return self._spread(
            state, Observations(starts, its_arms[order], statistics[:, order]), weights
        )

    def _spread(self, state: BayesianState, now: Observations, weights: Any) -> FloodingState:
        """The state after the observations of a round have gone one hop, and all older ones."""
        assert isinstance(state, FloodingState)  # made by init
        n_runs, n_agents = state.known.shape[:2]
        log = [*state.log, now]
        known = state.known.copy()
        agents = np.arange(n_agents)
        known[:, agents, agents] = state.first + len(log) - 1
        listeners = state.listeners or listeners_of(weights, n_runs, n_agents)
        rows = known.reshape(-1, n_agents)[listeners.sources]
        heard = np.maximum.reduceat(rows, listeners.starts, axis=0).reshape(known.shape)
        belief = self._faded(state) + _evidence(state, log, state.known, heard, self.fading)
        forgotten = max(0, int(heard.min()) + 1 - state.first)
        return replace(
            state,
            belief=belief,
            known=heard,
            log=log[forgotten:],
            first=state.first + forgotten,
            talk=None if state.listeners else (known, listeners),
        )

    def numbers_sent(self, state: FloodingState, t: int, links: IntArray) -> FloatArray:
        """The numbers of each observation, once over each link to an agent that lacks it: (R,).

        Where the network changes these are counted as they happen, else known beforehand.
        """
        if state.listeners is None:
            assert state.talk is not None  # made by learn
            known, listeners = state.talk
            rows = known.reshape(-1, known.shape[-1])
            lacks = np.repeat(rows, listeners.counts, axis=0)
            told = np.maximum(rows[listeners.sources] - lacks, 0).sum(axis=1)
            heard = np.add.reduceat(told, listeners.starts)
            return np.asarray(state.numbers_observed * heard.reshape(len(links), -1).sum(axis=1))
        by_round = observations_sent(state.network)
        return np.full(len(links), state.numbers_observed * by_round[min(t, len(by_round)) - 1])


@functools.lru_cache(maxsize=32)
def observations_sent(network: Network) -> IntArray:
    """How many observations cross the links of a static network in rounds 1, 2, ..., all together.

    An observation crosses from j to i, who hears j, when j is d hops from its source and i is
    d + 1: in the d-th round after it was made. So round t sees all those with d < t.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    listeners = listeners_of(network.weights, 1, network.n_agents)
    hears = np.repeat(np.arange(network.n_agents), listeners.counts)
    other = hears != listeners.sources
    hearer = hears[other]
    speaker = listeners.sources[other]
    shape = (network.n_agents, network.n_agents)
    steps = coo_array((np.ones(len(speaker)), (speaker, hearer)), shape=shape).tocsr()
    by_distance = np.zeros(network.n_agents, dtype=np.int64)
    for source in range(network.n_agents):  # one at a time: memory for all would grow as N E
        hops = shortest_path(steps, method="D", unweighted=True, indices=source)
        onwards = hops[speaker][hops[hearer] == hops[speaker] + 1].astype(np.int64)
        by_distance += np.bincount(onwards, minlength=network.n_agents)
    return np.cumsum(by_distance)


def listeners_of(weights: Any, n_runs: int, n_agents: int) -> Listeners:
    """Who hears whom by the positive entries of W(t)."""
    everyone = np.broadcast_to(np.eye(n_agents), (n_runs, n_agents, n_agents))
    hears = as_operator(weights) @ everyone > 0
    hears = hears | (everyone > 0)  # oneself, whatever W says
    run, agent, source = np.nonzero(hears)
    starts = np.searchsorted(run * n_agents + agent, np.arange(n_runs * n_agents))
    return Listeners(run * n_agents + source, starts)


def _evidence(
    state: FloodingState,
    log: list[Observations],
    known: IntArray,  # (R, N, N)
    heard: IntArray,  # (R, N, N)
    fading: float,
) -> FloatArray:
    """The sum of the statistics of all that agents hear for the first time: (D, R, N, K)."""
    run, agent, source = np.nonzero(heard > known)
    fresh = (heard - known)[run, agent, source]  # how many rounds of the source
    nth, run, agent, source, since = _repeated(fresh, run, agent, source, known[run, agent, source])
    place = since + 1 + nth - state.first  # in the log
    shape = state.belief.shape
    listener = run * shape[2] + agent  # row of the agent that hears
    told = run * shape[2] + source
    # where the observations of each round begin when all rounds of the log are joined
    offsets = np.cumsum([0, *(len(each.arms) for each in log)])
    starts = np.stack([each.starts for each in log]) + offsets[:-1, None]  # (rounds, R N + 1)
    first = starts[place, told]
    nth, listener, place, first = _repeated(starts[place, told + 1] - first, listener, place, first)
    arms = np.concatenate([each.arms for each in log])[first + nth]
    statistics = np.concatenate([each.statistics for each in log], axis=1)[:, first + nth]
    if fading != 1.0:
        statistics = statistics * fading ** (len(log) - 1 - place)  # by their age
    cells = listener * shape[3] + arms
    size = int(np.prod(shape[1:]))
    sums = [np.bincount(cells, row, minlength=size) for row in statistics]
    return np.stack(sums).astype(float).reshape(shape)


def _repeated(counts: IntArray, *arrays: IntArray) -> tuple[IntArray, ...]:
    """Entry i of every array counts[i] times, and before them which of its times it is."""
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return nth, *(np.repeat(array, counts) for array in arrays)
