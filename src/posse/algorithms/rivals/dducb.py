"""DDUCB: stages of delayed, Chebyshev-accelerated mixing, and one arm for a whole stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import ForcedStart, check_static, noise_scale, pairs_sent
from posse.networks.network import Network
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness

VARIANTS = ("accelerated", "unaccelerated", "practical")
# Below this second eigenvalue one plain step mixes all there is to mix.
MIXES_AT_ONCE = 1e-9


@dataclass(frozen=True)
class StagedState:
    """Pairs (counts, sums of rewards) of every agent, each (2, R, N, K)."""

    fresh: FloatArray  # (c, gamma): one's own plays of this stage
    mixing: FloatArray  # (b, beta): what is being averaged
    before: FloatArray  # one step earlier
    settled: FloatArray  # (a, alpha): averages to decide by
    arms: NDArray[np.intp]  # (R, N)
    rounds: int  # played so far
    problem: Problem


@dataclass(frozen=True)
class DDUCB(ForcedStart):
    """Plays argmax alpha/a + sqrt(2 eta sigma^2 ln s / (N a)), eta = `exploration`, for C rounds.

    Meanwhile what the stage before observed is averaged by C steps of Chebyshev acceleration,
    C = ceil(ln(2N/epsilon)/sqrt(2 ln(1/lambda_2))); "unaccelerated": C = ceil(ln(N/epsilon)/
    ln(1/lambda_2)) plain steps; "practical": chooses anew in every round, with one's own fresh
    observations counted as one of N. Martinez-Rubio, Kanade, Rebeschini, NeurIPS 2019; the
    recursion checked against public code, the structure recalled. The agent must know N, sigma and
    lambda_2, so W must be static and symmetric.

    exploration: eta, above 0; more explores longer.
    variant: "accelerated", "unaccelerated" or "practical", as above.
    epsilon: how far from the average a stage may leave an agent, between 0 and 1.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "dducb"

    exploration: float = 2.0
    variant: Literal["accelerated", "unaccelerated", "practical"] = "accelerated"
    epsilon: float = 1 / 22

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=0)
        validation.validate_number("epsilon", self.epsilon, above=0, below=1)
        validation.validate_choice("variant", self.variant, VARIANTS)

    def check(self, problem: Problem) -> None:
        """A static, symmetric W that mixes."""
        super().check(problem)
        check_static(problem, "DDUCB")
        if problem.network.second_eigenvalue > 1 - 1e-12:
            raise ValueError(f"DDUCB needs weights that mix, got {problem.network}")

    def stage_length(self, network: Network) -> int:
        """C: the rounds of a stage."""
        lambda_2 = network.second_eigenvalue
        n_agents = network.n_agents
        if lambda_2 < MIXES_AT_ONCE:
            return 1
        if self.variant == "unaccelerated":
            steps = math.log(n_agents / self.epsilon) / -math.log(lambda_2)
        else:
            steps = math.log(2 * n_agents / self.epsilon) / math.sqrt(-2 * math.log(lambda_2))
        return max(1, math.ceil(steps))

    def accelerates(self, network: Network) -> bool:
        """Whether mixing is Chebyshev's, not plain."""
        return self.variant != "unaccelerated" and network.second_eigenvalue >= MIXES_AT_ONCE

    def scale(self, problem: Problem, t: int) -> float:
        """2 eta sigma^2 ln s / N, s the observations in the network that round t can know of."""
        past = t - 1 - problem.n_arms  # rounds after the forced ones
        length = self.stage_length(problem.network)
        stage = past // length
        known = problem.n_arms + (stage - 1) * length
        s = known * problem.n_agents if stage > 0 else problem.n_arms
        sigma = noise_scale(problem.family, self.sigma)
        return 2 * self.exploration * sigma**2 * math.log(s) / problem.n_agents

    def init(self, problem: Problem) -> StagedState:
        """Nothing played yet."""
        self.check(problem)
        empty = np.zeros((2, problem.n_runs, problem.n_agents, problem.n_arms))
        nobody = np.zeros((problem.n_runs, problem.n_agents), dtype=np.intp)
        return StagedState(empty, empty, empty, empty, nobody, 0, problem)

    def choose(self, state: StagedState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then the arm of the stage: (R, N)."""
        problem = state.problem
        past = t - 1 - problem.n_arms
        if past < 0:
            return np.full(state.arms.shape, t - 1)
        if past % self.stage_length(problem.network) > 0 and self.variant != "practical":
            return state.arms
        share = state.fresh / problem.n_agents if self.variant == "practical" else 0.0
        a, alpha = state.settled + share
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = alpha / a + np.sqrt(self.scale(problem, t) / a)
        return argmax(np.where(a > 0, bound, np.inf), generator)  # Chebyshev's can be negative

    def learn(
        self, state: StagedState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> StagedState:
        """Keep one's own play for the next stage, take one step of mixing, end the stage."""
        played = np.arange(state.problem.n_arms) == arms[..., None]
        fresh = state.fresh + np.stack([played, played * rewards[..., None]])
        state = replace(state, fresh=fresh, arms=arms, rounds=state.rounds + 1)
        past = state.rounds - state.problem.n_arms
        if past < 0:
            return state
        if past == 0:  # of the forced pulls one's own are all there is, for one of N agents
            return self._next_stage(state, fresh / state.problem.n_agents)
        length = self.stage_length(state.problem.network)
        state = self._mix(state, (past - 1) % length, weights)
        if past % length > 0:
            return state
        adds_up = past > length and self.variant != "unaccelerated"
        return self._next_stage(state, state.mixing + (state.settled if adds_up else 0.0))

    def numbers_sent(self, state: StagedState, t: int, links: IntArray) -> FloatArray:
        """Counts and sums of all K arms over every link, in every round of mixing: (R,)."""
        return pairs_sent(state.problem, t, links)

    def _next_stage(self, state: StagedState, settled: FloatArray) -> StagedState:
        """Decide by what is settled, mix what is fresh."""
        mixing = state.fresh + (state.mixing if self.variant == "unaccelerated" else 0.0)
        return replace(state, settled=settled, mixing=mixing, fresh=np.zeros_like(mixing))

    def _mix(self, state: StagedState, step: int, weights: Any) -> StagedState:
        """One exchange with the neighbours: step 0 to C - 1 of a stage."""
        mixed = weights @ state.mixing
        if self.accelerates(state.problem.network):
            past, present, following = chebyshev(state.problem.network.second_eigenvalue, step)
            factor = 2 * present / following / state.problem.network.second_eigenvalue
            mixed = factor * mixed - past / following * state.before if step > 0 else mixed
        return replace(state, mixing=mixed, before=state.mixing)


def chebyshev(lambda_2: float, step: int) -> tuple[float, float, float]:
    """Chebyshev's T_n(1/lambda_2) for n = step - 1, step and step + 1."""
    angle = math.acosh(1 / lambda_2)
    return (
        math.cosh((step - 1) * angle),
        math.cosh(step * angle),
        math.cosh((step + 1) * angle),
    )
