"""Sliding-window UCB: confidence bounds of the last rounds alone, for means that drift."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness

Pulls = tuple[NDArray[np.intp], FloatArray]  # the arms and rewards of a round, (R, N) each


@dataclass(frozen=True)
class WindowState:
    """Counts and sums of each agent's own pulls in the window, and the pulls themselves."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    recent: tuple[Pulls, ...]  # oldest first
    problem: Problem


@dataclass(frozen=True)
class SlidingWindowUCB(ForcedStart):
    """Q = s/n + B sqrt(xi ln(min(t, window)) / n), where n and s are of the last `window` rounds.

    An arm that was not played in them is played. Garivier and Moulines, "On upper-confidence bound
    policies for switching bandit problems", ALT 2011: rewards in [0, B] and xi = 1/2 in their
    simulations, above 1/2 in their theorem. Here B is 2 sigma, as rewards in [0, B] have a
    sub-Gaussian constant of B/2. Every agent is alone: nothing is sent.

    window: rounds that are remembered, at least 1.
    exploration: xi, above 0; more explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "sliding-window-ucb"

    window: int
    exploration: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "window", validation.validate_integer("window", self.window, at_least=1)
        )
        validation.validate_number("exploration", self.exploration, above=0)

    @classmethod
    def example(cls) -> Self:
        """As published, with a window for the law tests."""
        return cls(window=200)

    def init(self, problem: Problem) -> WindowState:
        """Nothing played yet."""
        self.check(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return WindowState(empty, empty, (), problem)

    def choose(self, state: WindowState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then the largest index, ties broken at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        played = state.counts > 0
        counts = np.where(played, state.counts, 1.0)
        mean = state.totals / counts
        width = 2 * noise_scale(state.problem.family, self.sigma)  # B
        bonus = width * np.sqrt(self.exploration * math.log(min(t, self.window)) / counts)
        return argmax(np.where(played, mean + bonus, np.inf), generator)

    def learn(
        self, state: WindowState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> WindowState:
        """One's own pull comes in, that of `window` rounds ago goes out."""
        arm = np.arange(state.problem.n_arms)
        counts = state.counts
        totals = state.totals
        recent = state.recent
        if len(recent) == self.window:
            (old, old_rewards), *rest = recent
            left = arm == old[..., None]
            counts = counts - left
            totals = totals - left * old_rewards[..., None]
            recent = tuple(rest)
        came = arm == arms[..., None]
        return replace(
            state,
            counts=counts + came,
            totals=totals + came * rewards[..., None],
            recent=(*recent, (arms, rewards)),
        )

    def numbers_sent(self, state: WindowState, t: int, links: IntArray) -> FloatArray:
        """Nothing: (R,)."""
        return np.zeros(len(links))
