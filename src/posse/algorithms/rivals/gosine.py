"""GosInE: every agent keeps a few arms, and drops one for what a neighbour recommends."""

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
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class GossipState:
    """What each agent has seen, and the arms it keeps."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    earlier: FloatArray  # (R, N, K) counts when the phase began
    sticky: NDArray[np.bool_]  # (N, K) arms that an agent never drops
    upper: NDArray[np.intp]  # (R, N) the better of the two that come and go
    lower: NDArray[np.intp]  # (R, N) the other, which the next recommendation replaces
    ended: bool  # whether the last round ended a phase
    rounds: int  # played so far
    problem: Problem

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The arms that an agent plays: (R, N, K)."""
        arms = np.arange(self.problem.n_arms)
        return np.asarray(
            self.sticky | (self.upper[..., None] == arms) | (self.lower[..., None] == arms)
        )


@dataclass(frozen=True)
class GosInE:
    """Plays argmax mean + 2 sigma sqrt(4 ln t / n) over L + 2 arms, L = ceil(K/N), by own samples.

    Chawla, Sankararaman, Ganesh, Shakkottai, "The gossiping insert-eliminate algorithm for
    multi-agent bandits", AISTATS 2020, the synchronous form; rules and constants read in the
    authors' code, which is for rewards in [0, 1], of sigma 1/2. Agent p = 0, 1, ... always keeps
    the arms pL, ..., pL + L - 1 and at first the next two, U = pL + L and V = pL + L + 1, all
    modulo K. Phases end after the rounds 1, 8, 27, ..., j^3: U <- the one of U and V that was
    played more often in this phase (U if as often), V <- the other; a neighbour drawn uniformly
    names the arm that it played most in this phase, ties at random, and if that is not kept
    already it takes the place of V. Randomness: `prepare` draws a uniform u for each agent, whose
    neighbour number floor(u degree) is asked, then one for each agent's ties; `choose` one for each
    agent's ties.

    index="kl" plays sup{q: n kl(mean, q) <= ln t} of the family instead, as Newton, Ganesh and
    Reeve (2021) improve it.

    Assumes a network that does not change. Sends one number, an arm, to each agent at the end of a
    phase. Proves a regret of an agent of O((K/N + 2) ln T / gap), and a second term by the time in
    which a rumour spreads.

    index: "published", or "kl" for the family's own.
    sigma: the sub-Gaussian constant of rewards in the published index; None takes the bandit's.
    """

    name: ClassVar[str] = "gosine"
    source: ClassVar[str] = "code"

    index: Literal["published", "kl"] = "published"
    sigma: float | None = None

    def __post_init__(self) -> None:
        validation.validate_choice("index", self.index, INDICES)
        if self.sigma is not None:
            validation.validate_number("sigma", self.sigma, above=0)

    @classmethod
    def example(cls) -> Self:
        """Bold enough for the few rounds of the law tests."""
        return cls(index="kl")

    def check(self, problem: Problem) -> None:
        """A connected network that does not change, and what the index needs of the family."""
        if self.index == "kl":
            get_divergence(problem.family)
        else:
            noise_scale(problem.family, self.sigma)
        check_fixed_links(problem, "GosInE", "a neighbour is asked when a phase ends")

    def scale(self, problem: Problem, t: int) -> float:
        """What is divided by n: the square of the published bonus, or the level of kl."""
        if self.index == "kl":
            return math.log(t)
        return (2 * noise_scale(problem.family, self.sigma)) ** 2 * 4 * math.log(t)

    def init(self, problem: Problem) -> GossipState:
        """Nothing played yet."""
        self.check(problem)
        n_agents = problem.n_agents
        n_arms = problem.n_arms
        empty = np.zeros((problem.n_runs, n_agents, n_arms))
        size = -(-n_arms // n_agents)
        first = np.arange(n_agents) * size
        since = (np.arange(n_arms) - first[:, None]) % n_arms  # (N, K) how far from the first
        kept = np.broadcast_to((first + size) % n_arms, (problem.n_runs, n_agents))
        return GossipState(
            empty, empty, empty, since < size, kept, (kept + 1) % n_arms, False, 0, problem
        )

    def prepare(self, state: GossipState, t: int, generator: Randomness) -> GossipState:
        """If a phase has just ended, every agent asks a neighbour and may change an arm."""
        if not state.ended:
            return state
        network = state.problem.network
        played = state.counts - state.earlier
        runs, agents = np.ogrid[: state.problem.n_runs, : state.problem.n_agents]
        starts, others = _neighbours(network.edges, state.problem.n_agents)
        uniform = generator.random(state.upper.shape)
        asked = others[starts[:-1] + np.floor(uniform * np.diff(starts)).astype(np.intp)]
        heard = argmax(played, generator)[runs, asked]
        swap = played[runs, agents, state.lower] > played[runs, agents, state.upper]
        upper = np.where(swap, state.lower, state.upper)
        lower = np.where(swap, state.upper, state.lower)
        new = ~state.kept[runs, agents, heard] & (np.diff(starts) > 0)
        return replace(
            state,
            upper=upper,
            lower=np.where(new, heard, lower),
            earlier=state.counts,
            ended=False,
        )

    def choose(self, state: GossipState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """The largest index of the arms kept, ties broken at random: (R, N)."""
        seen = state.counts > 0
        counts = np.where(seen, state.counts, 1.0)
        means = state.totals / counts
        scale = self.scale(state.problem, t)
        if self.index == "kl":
            index = kl_ucb(state.problem.family, means, counts, scale)
        else:
            index = means + np.sqrt(scale / counts)
        index = np.where(seen, index, np.inf)
        return argmax(np.where(state.kept, index, -np.inf), generator)

    def learn(
        self, state: GossipState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> GossipState:
        """One's own reward; after j^3 rounds the phase is over."""
        played = np.arange(state.problem.n_arms) == arms[..., None]
        rounds = state.rounds + 1
        return replace(
            state,
            counts=state.counts + played,
            totals=state.totals + played * rewards[..., None],
            ended=ends_phase(rounds),
            rounds=rounds,
        )

    def numbers_sent(self, state: GossipState, t: int, links: IntArray) -> FloatArray:
        """One arm to every agent with a neighbour when a phase ends: (R,)."""
        sent = np.count_nonzero(state.problem.network.degrees) if ends_phase(t) else 0
        return np.full(len(links), float(sent))


def ends_phase(t: int) -> bool:
    """Whether t is a cube."""
    root: int = round(t ** (1 / 3))
    return root**3 == t


def _neighbours(edges: IntArray, n_agents: int) -> tuple[IntArray, IntArray]:
    """Where each agent's neighbours begin (N + 1,), and all of them in order; one who has none."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    starts = np.searchsorted(ends[:, 0], np.arange(n_agents + 1))
    return starts, np.append(ends[:, 1], 0)
