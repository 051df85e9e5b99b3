"""An index of all that an agent has heard: what UCB-Network and its kin choose by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import checks
from posse.algorithms.algorithm import Problem
from posse.algorithms.forced import ForcedStart, noise_scale
from posse.algorithms.hops import Roads, Sums, roads_for
from posse.algorithms.kl_index import kl_ucb
from posse.divergences import divergence
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


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
        counts, totals = self.counts + sums[0], self.totals + sums[1]
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
        checks.choice("index", self.index, ("published", "kl"))
        if self.sigma is not None:
            checks.number("sigma", self.sigma, above=0)
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
            divergence(problem.family)
        else:
            noise_scale(problem.family, self.sigma)

    def indices(self, state: HeardState, t: int) -> FloatArray:
        """The index of every arm in round t, infinite of an unheard one: (R, N, K)."""
        level, heard = math.log(t), state.counts > 0
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
