"""What the Bayesian algorithms share: a belief per agent, and a policy that chooses from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, checks, policies
from posse.algorithms.algorithm import Problem
from posse.families.family import Family
from posse.policies.policy import Policy
from posse.policies.thompson import ThompsonSampling
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class BayesianState:
    """The beliefs of all agents in all runs, and the model they are read with."""

    belief: FloatArray  # (D, R, N, K)
    family: Family
    horizon: int
    learning_rate: float
    lowest: float = field(default=-math.inf, kw_only=True)  # the least that an arm can pay
    # of Algorithm 1 with late rewards, what `belief` is read from: see `timed.attainable`
    exact: FloatArray | None = field(default=None, kw_only=True)

    def with_belief(self, belief: FloatArray) -> BayesianState:
        """The same model with another belief."""
        return replace(self, belief=belief)


@dataclass(frozen=True)
class BayesianAlgorithm:
    """Choose by a policy from one's own belief (Bayes_MAB of Alg. 1); how to learn is open."""

    policy: Policy
    family: Family | None = None

    def __post_init__(self) -> None:
        checks.capable("policy", self.policy, ["scores"], "posse.ThompsonSampling()")
        if self.family is not None:
            checks.capable("family", self.family, ["statistic"], "posse.families.Gaussian()")

    @classmethod
    def example(cls) -> Self:
        """The Thompson Sampling version, for the law tests."""
        return cls(ThompsonSampling())

    def rate(self, problem: Problem) -> float:
        """The learning rate of the tempered update; 1 is Bayes' rule."""
        return 1.0

    def init(self, problem: Problem) -> BayesianState:
        """Every agent at the prior of the algorithm's own family, else of the bandit's."""
        family = self.family or problem.family
        belief = beliefs.prior(family, (problem.n_runs, problem.n_agents), problem.n_arms)
        low = problem.family.rewards.low
        return BayesianState(belief, family, problem.horizon, self.rate(problem), lowest=low)

    def choose(self, state: BayesianState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Each agent from its own belief: (R, N)."""
        return policies.choose(self.policy, state.belief, state.family, t, state.horizon, generator)
