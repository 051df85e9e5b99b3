"""DDUCB: stages of delayed, Chebyshev-accelerated averaging, with one arm for a whole stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import IDLE, Problem
from posse.algorithms.rivals.initial_pulls import (
    ForcedStart,
    check_static,
    count_numbers_averaged,
    noise_scale,
)
from posse.networks import Network
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness

VARIANTS = ("accelerated", "unaccelerated", "practical")
# With a second eigenvalue below this, one plain step averages completely.
MIXES_AT_ONCE = 1e-9


@dataclass(frozen=True)
class StagedState:
    """Pairs (counts, sums of rewards) of every agent, (2, R, N, K) each."""

    fresh: FloatArray  # (c, gamma): the own observations of this stage
    mixing: FloatArray  # (b, beta): the pairs being averaged
    previous: FloatArray  # the pairs being averaged, one step earlier
    averaged: FloatArray  # (a, alpha): the averages that choices use
    arms: NDArray[np.intp]  # (R, N) of the stage; IDLE: the agent has not played in it yet
    rounds: int  # played so far
    problem: Problem


@dataclass(frozen=True)
class DDUCB(ForcedStart):
    """Plays argmax alpha/a + sqrt(2 eta sigma^2 ln s / (N a)), eta = `exploration`, for C rounds.

    Meanwhile the observations of the previous stage are averaged by C steps of Chebyshev
    acceleration, C = ceil(ln(2N/epsilon)/sqrt(2 ln(1/lambda_2))); "unaccelerated": C =
    ceil(ln(N/epsilon)/ln(1/lambda_2)) plain steps; "practical": chooses in every round, and counts
    the own fresh observations as one of N. Martinez-Rubio, Kanade, Rebeschini, NeurIPS 2019; the
    recursion checked against public code, the structure from memory. The agent must know N, sigma
    and lambda_2, so W must be static and symmetric.

    exploration: eta, above 0; a larger value explores longer.
    variant: "accelerated", "unaccelerated" or "practical", as above.
    epsilon: the largest distance from the average at the end of a stage, between 0 and 1.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "dducb"
    accepts_idle: ClassVar[bool] = True
    needs_fixed_links: ClassVar[bool] = True

    exploration: float = 2.0
    variant: Literal["accelerated", "unaccelerated", "practical"] = "accelerated"
    epsilon: float = 1 / 22

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=0)
        validation.validate_number("epsilon", self.epsilon, above=0, below=1)
        validation.validate_choice("variant", self.variant, VARIANTS)

    def check_problem(self, problem: Problem) -> None:
        """Refuse a W that changes, is not symmetric or does not mix."""
        super().check_problem(problem)
        check_static(problem, "DDUCB")
        if problem.network.second_eigenvalue > 1 - 1e-12:
            raise ValueError(
                f"DDUCB needs weights with a second eigenvalue below 1, got {problem.network}"
            )

    def stage_length(self, network: Network) -> int:
        """Return C, the number of rounds of a stage."""
        lambda_2 = network.second_eigenvalue
        n_agents = network.n_agents
        if lambda_2 < MIXES_AT_ONCE:
            return 1
        if self.variant == "unaccelerated":
            steps = math.log(n_agents / self.epsilon) / -math.log(lambda_2)
        else:
            steps = math.log(2 * n_agents / self.epsilon) / math.sqrt(-2 * math.log(lambda_2))
        return max(1, math.ceil(steps))

    def uses_chebyshev(self, network: Network) -> bool:
        """Whether averaging is accelerated by Chebyshev polynomials."""
        return self.variant != "unaccelerated" and network.second_eigenvalue >= MIXES_AT_ONCE

    def index_scale(self, problem: Problem, t: int) -> float:
        """Return 2 eta sigma^2 ln s / N, with s the observations that choices of round t use."""
        past = t - 1 - problem.n_arms  # rounds after the forced ones
        length = self.stage_length(problem.network)
        stage = past // length
        n_rounds_known = problem.n_arms + (stage - 1) * length
        s = n_rounds_known * problem.n_agents if stage > 0 else problem.n_arms
        sigma = noise_scale(problem.family, self.sigma)
        return 2 * self.exploration * sigma**2 * math.log(s) / problem.n_agents

    def init(self, problem: Problem) -> StagedState:
        """Start without observations."""
        self.check_problem(problem)
        empty = np.zeros((2, problem.n_runs, problem.n_agents, problem.n_arms))
        # the arms of the running stage; the first stage starts after the forced rounds
        arms = np.zeros((problem.n_runs, problem.n_agents), dtype=np.intp)
        return StagedState(empty, empty, empty, empty, arms, 0, problem)

    def choose(self, state: StagedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose arm t in round t <= K, then the arm of the stage: (R, N)."""
        problem = state.problem
        past = t - 1 - problem.n_arms
        if past < 0:
            return np.full(state.arms.shape, t - 1)
        goes_on = past % self.stage_length(problem.network) > 0 and self.variant != "practical"
        if goes_on and (state.arms != IDLE).all():
            return state.arms
        share = state.fresh / problem.n_agents if self.variant == "practical" else 0.0
        a, alpha = state.averaged + share
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = alpha / a + np.sqrt(self.index_scale(problem, t) / a)
        bound = np.where(a > 0, bound, np.inf)  # accelerated counts can be negative
        if goes_on:  # who slept until now; no random number, so that runs do not affect each other
            return np.where(state.arms == IDLE, bound.argmax(axis=-1), state.arms)
        return argmax(bound, generator)

    def learn(
        self, state: StagedState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> StagedState:
        """Store the own observation for the next stage, average once, and end a full stage."""
        is_played = np.arange(state.problem.n_arms) == arms[..., None]
        fresh = state.fresh + np.stack([is_played, is_played * rewards[..., None]])
        length = self.stage_length(state.problem.network)
        if (state.rounds - state.problem.n_arms) % length > 0:  # within a stage
            arms = np.where(arms == IDLE, state.arms, arms)
        state = replace(state, fresh=fresh, arms=arms, rounds=state.rounds + 1)
        past = state.rounds - state.problem.n_arms
        if past < 0:
            return state
        if past == 0:  # only the own forced pulls are known: the share of one of N agents
            return self._start_stage(state, fresh / state.problem.n_agents)
        state = self.mix_once(state, (past - 1) % length, weights)
        if past % length > 0:
            return state
        # accelerated stages average only their own observations, so results add up over stages;
        # plain averaging carries the older ones along
        adds_up = past > length and self.variant != "unaccelerated"
        return self._start_stage(state, state.mixing + (state.averaged if adds_up else 0.0))

    def numbers_sent(self, state: StagedState, t: int, links: IntArray) -> FloatArray:
        """Count counts and sums of K arms over every link, in every round of averaging: (R,)."""
        return count_numbers_averaged(state.problem, t, links)

    def _start_stage(self, state: StagedState, averaged: FloatArray) -> StagedState:
        """Use the averages for choices, and start to average the fresh observations."""
        mixing = state.fresh + (state.mixing if self.variant == "unaccelerated" else 0.0)
        return replace(state, averaged=averaged, mixing=mixing, fresh=np.zeros_like(mixing))

    def mix_once(self, state: StagedState, step: int, weights: Any) -> StagedState:
        """Average once with the neighbours: step 0 to C - 1 of a stage."""
        mixed = weights @ state.mixing
        if self.uses_chebyshev(state.problem.network):
            # T_{n+1}(x) = 2 x T_n(x) - T_{n-1}(x), normalised by its value at 1/lambda_2
            past, present, following = chebyshev_values(
                state.problem.network.second_eigenvalue, step
            )
            factor = 2 * present / following / state.problem.network.second_eigenvalue
            mixed = factor * mixed - past / following * state.previous if step > 0 else mixed
        return replace(state, mixing=mixed, previous=state.mixing)


def chebyshev_values(lambda_2: float, step: int) -> tuple[float, float, float]:
    """Return Chebyshev's T_n(1/lambda_2) for n = step - 1, step and step + 1."""
    angle = math.acosh(1 / lambda_2)
    return (
        math.cosh((step - 1) * angle),
        math.cosh(step * angle),
        math.cosh((step + 1) * angle),
    )
