"""Discounted UCB: confidence bounds that forget, for means that drift."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class DiscountedState:
    """What each agent remembers of its own pulls, the older the less."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    problem: Problem


@dataclass(frozen=True)
class DiscountedUCB(ForcedStart):
    """Q = s/n + 2 B sqrt(xi ln(sum of n) / n), where n and s shrink by `discount` every round.

    Garivier and Moulines, "On upper-confidence bound policies for switching bandit problems", ALT
    2011: rewards in [0, B] and xi = 1/2 in their simulations, above 1/2 in their theorem. Here B is
    2 sigma, as rewards in [0, B] have a sub-Gaussian constant of B/2. Every agent is alone: nothing
    is sent.

    discount: what a pull is worth one round later, above 0 and below 1; or give half_life.
    half_life: after how many rounds a pull is worth half: discount = 2^(-1/half_life).
    exploration: xi, above 0; more explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "discounted-ucb"

    discount: float | None = None
    half_life: float | None = None
    exploration: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.discount is None) == (self.half_life is None):
            raise ValueError(
                "discount must be given, or half_life in its place: "
                f"got {self.discount!r} and {self.half_life!r}"
            )
        if self.discount is not None:
            validation.validate_number("discount", self.discount, above=0, below=1)
        else:
            validation.validate_number("half_life", self.half_life, above=0)
        validation.validate_number("exploration", self.exploration, above=0)

    @classmethod
    def example(cls) -> Self:
        """Bold enough for the few rounds of the law tests."""
        return cls(half_life=100.0, exploration=0.05)

    @property
    def factor(self) -> float:
        """What a pull is worth one round later."""
        if self.discount is not None:
            return self.discount
        assert self.half_life is not None  # one of the two is given
        return float(2 ** (-1 / self.half_life))

    def init(self, problem: Problem) -> DiscountedState:
        """Nothing played yet."""
        self.check(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return DiscountedState(empty, empty, problem)

    def choose(self, state: DiscountedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then the largest index, ties broken at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        counts = np.maximum(state.counts, np.finfo(float).tiny)  # an arm forgotten altogether
        mean = state.totals / counts
        width = 4 * noise_scale(state.problem.family, self.sigma)  # 2 B
        known = np.maximum(state.counts.sum(axis=-1, keepdims=True), 1.0)
        bonus = width * np.sqrt(self.exploration * np.log(known) / counts)
        return argmax(mean + bonus, generator)

    def learn(
        self, state: DiscountedState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> DiscountedState:
        """Everything fades, then one's own pull is added."""
        played = np.arange(state.problem.n_arms) == arms[..., None]
        return replace(
            state,
            counts=self.factor * state.counts + played,
            totals=self.factor * state.totals + played * rewards[..., None],
        )

    def numbers_sent(self, state: DiscountedState, t: int, links: IntArray) -> FloatArray:
        """Nothing: (R,)."""
        return np.zeros(len(links))
