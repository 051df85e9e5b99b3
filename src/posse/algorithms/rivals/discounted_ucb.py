"""Discounted UCB: confidence bounds from discounted counts, for non-stationary means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class DiscountedState:
    """Discounted counts and sums of each agent's own pulls."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    problem: Problem


@dataclass(frozen=True)
class DiscountedUCB(ForcedStart):
    """Q = s/n + 2 B sqrt(xi ln(sum of n) / n), where n and s shrink by `discount` every round.

    Garivier and Moulines, "On upper-confidence bound policies for switching bandit problems", ALT
    2011: rewards in [0, B] and xi = 1/2 in their simulations, above 1/2 in their theorem. Here B is
    2 sigma, as rewards in [0, B] have a sub-Gaussian constant of B/2. Agents are isolated and send
    nothing.

    discount: the weight of a pull one round later, between 0 and 1; or give half_life.
    half_life: rounds after which a pull counts half: discount = 2^(-1/half_life).
    exploration: xi, above 0; a larger value explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "discounted-ucb"
    accepts_idle: ClassVar[bool] = True

    discount: float | None = None
    half_life: float | None = None
    exploration: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        # exactly one of the two
        if (self.discount is None) == (self.half_life is None):
            raise ValueError(
                f"give either discount or half_life: got {self.discount!r} and {self.half_life!r}"
            )
        if self.discount is not None:
            validation.validate_number("discount", self.discount, above=0, below=1)
        else:
            validation.validate_number("half_life", self.half_life, above=0)
        validation.validate_number("exploration", self.exploration, above=0)

    @classmethod
    def example(cls) -> Self:
        """Return settings that explore little, for the few rounds of the law tests."""
        return cls(half_life=100.0, exploration=0.05)

    @property
    def discount_factor(self) -> float:
        """The weight of a pull one round later."""
        if self.discount is not None:
            return self.discount
        assert self.half_life is not None  # one of the two is given
        return float(2 ** (-1 / self.half_life))

    def init(self, problem: Problem) -> DiscountedState:
        """Start without observations."""
        self.check_problem(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return DiscountedState(empty, empty, problem)

    def choose(self, state: DiscountedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose arm t in round t <= K, then the largest index, ties at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        counts = np.maximum(
            state.counts, np.finfo(float).tiny
        )  # a discounted count may underflow to 0
        mean = state.totals / counts
        # 2 B, with B the range of bounded rewards of this sub-Gaussian constant
        width = 4 * noise_scale(state.problem.family, self.sigma)
        total_count = np.maximum(state.counts.sum(axis=-1, keepdims=True), 1.0)
        bonus = width * np.sqrt(self.exploration * np.log(total_count) / counts)
        # with a total count of 1 the bonus is 0, also of arms it never played because it slept
        is_new = (state.counts == 0) & (total_count <= 1)
        return argmax(np.where(is_new, np.inf, mean + bonus), generator)

    def learn(
        self, state: DiscountedState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> DiscountedState:
        """Discount everything by one round, then add the own pull."""
        is_played = np.arange(state.problem.n_arms) == arms[..., None]
        return replace(
            state,
            counts=self.discount_factor * state.counts + is_played,
            totals=self.discount_factor * state.totals + is_played * rewards[..., None],
        )

    def numbers_sent(self, state: DiscountedState, t: int, links: IntArray) -> FloatArray:
        """Return zeros, since nothing is sent: (R,)."""
        return np.zeros(len(links))
