"""GosInE: every agent plays a few active arms and swaps one for a neighbour's recommendation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.algorithms.rivals.kl_index import kl_ucb
from posse.algorithms.rivals.message_passing import INDICES, check_fixed_links
from posse.divergences import get_divergence
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class GossipState:
    """The observations of each agent, and its active arms."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    earlier: FloatArray  # (R, N, K) counts at the start of the phase
    sticky: NDArray[np.bool_]  # (N, K) arms that stay active
    upper: NDArray[np.intp]  # (R, N) U, the better of the two other active arms
    lower: NDArray[np.intp]  # (R, N) V, which the next recommendation replaces
    ended: bool  # whether the last round ended a phase
    rounds: int  # played so far
    problem: Problem

    @property
    def active_arms(self) -> NDArray[np.bool_]:
        """Whether an agent may play an arm: (R, N, K)."""
        arms = np.arange(self.problem.n_arms)
        return np.asarray(
            self.sticky | (self.upper[..., None] == arms) | (self.lower[..., None] == arms)
        )


@dataclass(frozen=True)
class GosInE:
    """Plays argmax mean + 2 sigma sqrt(4 ln t / n) over L + 2 arms, L = ceil(K/N), by own samples.

    Chawla, Sankararaman, Ganesh, Shakkottai, "The gossiping insert-eliminate algorithm for
    multi-agent bandits", AISTATS 2020, the synchronous form; rules and constants read in the
    authors' code, which is for rewards in [0, 1], of sigma 1/2. Agent p = 0, 1, ... always plays
    among the arms pL, ..., pL + L - 1 and at first the next two, U = pL + L and V = pL + L + 1, all
    modulo K. Phases end after the rounds 1, 8, 27, ..., j^3: U <- the one of U and V that was
    played more often in this phase (U if as often), V <- the other; a neighbour drawn uniformly
    recommends the arm that it played most in this phase, ties at random; if this arm is not
    active it replaces V. Randomness: `prepare` draws a uniform u for each agent, whose
    neighbour number floor(u degree) is asked, then one for each agent's ties; `choose` one for each
    agent's ties.

    index="kl" plays sup{q: n kl(mean, q) <= ln t} of the family instead, as Newton, Ganesh and
    Reeve (2021) improve it.

    The network must not change. Each agent receives one number, an arm, at the end of a phase. The
    paper proves a regret of an agent of O((K/N + 2) ln T / gap), plus a term for the time in which
    a rumour spreads.

    index: "published", or "kl" for the family's own.
    sigma: the sub-Gaussian constant of rewards in the published index; None takes the bandit's.
    level: factor of ln t in the index, above 0; 1 as published, a smaller value explores less.
    """

    name: ClassVar[str] = "gosine"
    accepts_idle: ClassVar[bool] = True
    needs_fixed_links: ClassVar[bool] = True
    source: ClassVar[str] = "code"

    index: Literal["published", "kl"] = "published"
    sigma: float | None = None
    level: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_choice("index", self.index, INDICES)
        validation.validate_number("level", self.level, above=0)
        if self.sigma is not None:
            validation.validate_number("sigma", self.sigma, above=0)

    @classmethod
    def example(cls) -> Self:
        """Return the KL index, for the few rounds of the law tests."""
        return cls(index="kl")

    def check_problem(self, problem: Problem) -> None:
        """Refuse a network that changes or is disconnected, and a family without the index."""
        if self.index == "kl":
            get_divergence(problem.family)
        else:
            noise_scale(problem.family, self.sigma)
        check_fixed_links(problem, "GosInE", "a neighbour is asked when a phase ends")

    def index_scale(self, problem: Problem, t: int) -> float:
        """Return the squared published bonus, or the level of kl, times n."""
        level = self.level * math.log(t)
        if self.index == "kl":
            return level
        return (2 * noise_scale(problem.family, self.sigma)) ** 2 * 4 * level

    def init(self, problem: Problem) -> GossipState:
        """Start without observations."""
        self.check_problem(problem)
        n_agents = problem.n_agents
        n_arms = problem.n_arms
        empty = np.zeros((problem.n_runs, n_agents, n_arms))
        # L = ceil(K/N) sticky arms for each agent: together the agents cover all arms
        size = -(-n_arms // n_agents)
        first = np.arange(n_agents) * size
        since = (
            np.arange(n_arms) - first[:, None]
        ) % n_arms  # (N, K) distance from the agent's first arm
        next_arms = np.broadcast_to((first + size) % n_arms, (problem.n_runs, n_agents))
        return GossipState(
            empty,
            empty,
            empty,
            since < size,
            next_arms,
            (next_arms + 1) % n_arms,
            False,
            0,
            problem,
        )

    def prepare(self, state: GossipState, t: int, generator: Randomness) -> GossipState:
        """At the end of a phase, swap an active arm for the recommendation of a neighbour."""
        if not state.ended:
            return state
        network = state.problem.network
        phase_counts = state.counts - state.earlier
        runs, agents = np.ogrid[: state.problem.n_runs, : state.problem.n_agents]
        starts, neighbours = _list_neighbours(network.edges, state.problem.n_agents)
        # floor(u degree) is the position of the neighbour asked; agents without one are masked
        uniform = generator.random(state.upper.shape)
        adviser = neighbours[starts[:-1] + np.floor(uniform * np.diff(starts)).astype(np.intp)]
        recommended = argmax(phase_counts, generator)[runs, adviser]
        # U is the arm of the pair that was played more in the phase; V gives way
        swap = phase_counts[runs, agents, state.lower] > phase_counts[runs, agents, state.upper]
        upper = np.where(swap, state.lower, state.upper)
        lower = np.where(swap, state.upper, state.lower)
        new = ~state.active_arms[runs, agents, recommended] & (np.diff(starts) > 0)
        # a neighbour that slept through the phase recommends nothing
        has_played = np.asarray(phase_counts.any(axis=-1))
        new = new & has_played[runs, adviser]
        return replace(
            state,
            upper=upper,
            lower=np.where(new, recommended, lower),
            earlier=state.counts,
            ended=False,
        )

    def choose(self, state: GossipState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose the active arm with the largest index, ties at random: (R, N)."""
        is_played = state.counts > 0
        counts = np.where(is_played, state.counts, 1.0)
        means = state.totals / counts
        scale = self.index_scale(state.problem, t)
        if self.index == "kl":
            index = kl_ucb(state.problem.family, means, counts, scale)
        else:
            index = means + np.sqrt(scale / counts)
        # an active arm without a sample is played first
        index = np.where(is_played, index, np.inf)
        return argmax(np.where(state.active_arms, index, -np.inf), generator)

    def learn(
        self, state: GossipState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> GossipState:
        """Add the own reward; a phase ends after j^3 rounds."""
        is_played = np.arange(state.problem.n_arms) == arms[..., None]
        rounds = state.rounds + 1
        return replace(
            state,
            counts=state.counts + is_played,
            totals=state.totals + is_played * rewards[..., None],
            ended=ends_phase(rounds),
            rounds=rounds,
        )

    def numbers_sent(self, state: GossipState, t: int, links: IntArray) -> FloatArray:
        """Count one arm for every agent with a neighbour at the end of a phase: (R,)."""
        sent = np.count_nonzero(state.problem.network.degrees) if ends_phase(t) else 0
        return np.full(len(links), float(sent))


def ends_phase(t: int) -> bool:
    """Whether a phase ends after round t, that is whether t is a cube."""
    root: int = round(t ** (1 / 3))
    return root**3 == t


def _list_neighbours(edges: IntArray, n_agents: int) -> tuple[IntArray, IntArray]:
    """Return where each agent's neighbours start (N + 1,), and the flat list of neighbours.

    The list has an extra entry, so that an agent without neighbours can be indexed as well.
    """
    ends = np.concatenate([edges, edges[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    starts = np.searchsorted(ends[:, 0], np.arange(n_agents + 1))
    return starts, np.append(ends[:, 1], 0)
