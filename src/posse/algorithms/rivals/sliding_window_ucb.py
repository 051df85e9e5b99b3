"""Sliding-window UCB: confidence bounds from the last rounds, for non-stationary means."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, noise_scale
from posse.policies import argmax
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

    An arm without a pull in the window is played first. Garivier and Moulines, "On upper-confidence
    bound policies for switching bandit problems", ALT 2011: rewards in [0, B] and xi = 1/2 in their
    simulations, above 1/2 in their theorem. Here B is 2 sigma, as rewards in [0, B] have a
    sub-Gaussian constant of B/2. Agents are isolated and send nothing.

    window: the number of rounds in the window, at least 1.
    exploration: xi, above 0; a larger value explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "sliding-window-ucb"
    accepts_idle: ClassVar[bool] = True

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
        """Return the published settings with a window for the law tests."""
        return cls(window=200)

    def init(self, problem: Problem) -> WindowState:
        """Start without observations."""
        self.check_problem(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return WindowState(empty, empty, (), problem)

    def choose(self, state: WindowState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose arm t in round t <= K, then the largest index, ties at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        is_played = state.counts > 0
        counts = np.where(is_played, state.counts, 1.0)
        mean = state.totals / counts
        # B, the range of bounded rewards with this sub-Gaussian constant
        width = 2 * noise_scale(state.problem.family, self.sigma)
        bonus = width * np.sqrt(self.exploration * math.log(min(t, self.window)) / counts)
        return argmax(np.where(is_played, mean + bonus, np.inf), generator)

    def learn(
        self, state: WindowState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> WindowState:
        """Add the own pull and remove that of `window` rounds ago."""
        arm = np.arange(state.problem.n_arms)
        counts = state.counts
        totals = state.totals
        recent = state.recent
        # the window is full: the pull of `window` rounds ago leaves the counts
        if len(recent) == self.window:
            (old_arms, old_rewards), *remaining = recent
            leaving = arm == old_arms[..., None]
            counts = counts - leaving
            totals = totals - leaving * old_rewards[..., None]
            recent = tuple(remaining)
        arriving = arm == arms[..., None]
        return replace(
            state,
            counts=counts + arriving,
            totals=totals + arriving * rewards[..., None],
            recent=(*recent, (arms, rewards)),
        )

    def numbers_sent(self, state: WindowState, t: int, links: IntArray) -> FloatArray:
        """Return zeros, since nothing is sent: (R,)."""
        return np.zeros(len(links))
