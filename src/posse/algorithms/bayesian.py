"""What the Bayesian algorithms share: a belief per agent, and a policy that chooses from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, checks, policies
from posse.algorithms.algorithm import Problem
from posse.families.family import Model, is_contextual
from posse.policies.policy import Policy
from posse.policies.thompson import ThompsonSampling
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class BayesianState:
    """The beliefs of all agents in all runs, and the model they are read with."""

    belief: FloatArray  # (D, R, N, K); of one theta for all arms (D, R, N, 1)
    family: Model
    horizon: int
    learning_rate: float
    lowest: float = field(default=-math.inf, kw_only=True)  # the least that an arm can pay
    # of Algorithm 1 with late rewards, what `belief` is read from: see `timed.attainable`
    exact: FloatArray | None = field(default=None, kw_only=True)

    @property
    def numbers_observed(self) -> float:
        """How many numbers an observation is: arm, reward, and with contexts the arm's features.

        Where rewards are linearised, around what as well, so that all make the same of it.
        """
        if not is_contextual(self.family):
            return 2.0
        return 2.0 + self.family.features + self.family.anchored

    def with_belief(self, belief: FloatArray) -> BayesianState:
        """The same model with another belief."""
        return replace(self, belief=belief)


@dataclass(frozen=True)
class BayesianAlgorithm:
    """Choose by a policy from one's own belief (Bayes_MAB of Alg. 1); how to learn is open."""

    policy: Policy
    family: Model | None = None

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
        family, n_beliefs = self.family or problem.family, problem.n_arms
        if is_contextual(family):
            if not is_contextual(problem.family):
                raise ValueError(
                    f"family {family.name!r} needs contexts: give a posse.ContextualBandit"
                )
            family = family.with_features(problem.family.features)
            n_beliefs = 1 if family.shared else n_beliefs
        belief = beliefs.prior(family, (problem.n_runs, problem.n_agents), n_beliefs)
        low = problem.family.rewards.low
        return BayesianState(belief, family, problem.horizon, self.rate(problem), lowest=low)

    def choose(
        self,
        state: BayesianState,
        t: int,
        generator: Randomness,
        contexts: FloatArray | None = None,
    ) -> NDArray[np.intp]:
        """Each agent from its own belief, at the context it sees: (R, N)."""
        return policies.choose(
            self.policy, state.belief, state.family, t, state.horizon, generator, contexts
        )
