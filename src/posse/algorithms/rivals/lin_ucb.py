"""LinUCB: linear confidence bounds for contextual bandits, from own data or from all data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, validation
from posse.algorithms.algorithm import IDLE, Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.families import Linear, is_contextual
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class RidgeRegression:
    """The normal equations of ridge regression, for every agent (or one for all) and arm."""

    equations: FloatArray  # (D, R, N or 1, K or 1): sums of x y, then of x x' and the ridge
    model: Linear  # of the coordinates, with unit noise and prior
    width: float  # the factor of the standard error in the index
    n_agents: int

    @classmethod
    def without_data(
        cls, problem: Problem, regularization: float, width: float, rows: int
    ) -> RidgeRegression:
        """Return a regression of the bandit's shape without data; refuse one without contexts."""
        family = problem.family
        if not is_contextual(family):
            raise ValueError("LinUCB needs contexts: give a posse.ContextualBandit")
        # unit noise and a prior of variance 1/regularization give A = ridge I + sum x x'
        model = Linear(
            prior_sd=1 / math.sqrt(regularization), features=family.features, shared=family.shared
        )
        n_beliefs = 1 if family.shared else problem.n_arms
        start = beliefs.prior(model, (problem.n_runs, rows), n_beliefs)
        return cls(start, model, width, problem.n_agents)

    def compute_index(self, contexts: FloatArray) -> FloatArray:
        """Compute x'theta + width sqrt(x' A^-1 x) of each arm: (R, N, K)."""
        shift, precision = self.model.at_context(self.equations, contexts)
        return np.asarray(shift / precision + self.width / np.sqrt(precision))

    def prediction_variance(self, arms: NDArray[np.intp], contexts: FloatArray) -> FloatArray:
        """Compute x' A^-1 x of the arms played, 0 of an agent that does not play: (R, N)."""
        x = contexts
        plays = arms != IDLE
        arms = np.where(plays, arms, 0)
        places = beliefs.get_belief_index(self.equations, arms)
        # one row of features per arm: take that of the arm played
        if x.ndim == 4:
            x = np.take_along_axis(x, arms[..., None, None], axis=2)[:, :, 0]
        arm_equations = np.take_along_axis(self.equations, places[None, ..., None], axis=-1)
        return np.where(plays, 1.0 / self.model.at_context(arm_equations, x)[1, ..., 0], 0.0)

    def round_evidence(
        self, arms: NDArray[np.intp], rewards: FloatArray, contexts: FloatArray
    ) -> FloatArray:
        """Return what a round adds to each agent's equations: (D, R, N, K or 1)."""
        n_coordinates, n_runs, _, n_beliefs = self.equations.shape
        nothing = np.zeros((n_coordinates, n_runs, self.n_agents, n_beliefs))
        plays = arms != IDLE
        added = beliefs.observe(
            nothing, np.where(plays, arms, 0), rewards, self.model, 1.0, contexts
        )
        return np.where(plays[..., None], added, 0.0)


@dataclass(frozen=True)
class LinUCB:
    """Ridge regression for each arm, and the arm of the highest x'theta + a sigma sqrt(x' A^-1 x).

    Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article
    recommendation", WWW 2010 (the disjoint model; one theta where the bandit's arms share it). They
    prove a bound for a = 1 + sqrt(ln(2/delta)/2), 2.4 at delta = 0.05, and tune it in experiments;
    their rewards lie in [0, 1], here sigma gives the scale.

    data: "own" for a regression of each agent, "all" for one regression with all rewards, whatever
        the network.
    exploration: a, at least 0.
    regularization: the ridge, above 0: the prior weight 0 counts as so many visits of feature 1.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.

    >>> posse.LinUCB(data="all")
    LinUCB(data='all', exploration=1.0, regularization=1.0, sigma=None)
    """

    name: ClassVar[str] = "lin-ucb"
    accepts_idle: ClassVar[bool] = True

    data: Literal["own", "all"] = "own"
    exploration: float = 1.0
    regularization: float = 1.0
    sigma: float | None = None

    def __post_init__(self) -> None:
        validation.validate_choice("data", self.data, ("own", "all"))
        check_regression(self.exploration, self.regularization, self.sigma)

    def init(self, problem: Problem) -> RidgeRegression:
        """Start without observations."""
        width = self.exploration * noise_scale(problem.family, self.sigma)
        rows = problem.n_agents if self.data == "own" else 1
        return RidgeRegression.without_data(problem, self.regularization, width, rows)

    def choose(
        self, state: RidgeRegression, t: int, generator: Randomness, contexts: FloatArray
    ) -> NDArray[np.intp]:
        """Choose the arm with the largest index, ties at random: (R, N)."""
        return argmax(state.compute_index(contexts), generator)

    def learn(
        self,
        state: RidgeRegression,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray,
    ) -> RidgeRegression:
        """Add the own visit, or the visits of all agents."""
        evidence = state.round_evidence(arms, rewards, contexts)
        if self.data == "all":
            evidence = evidence.sum(axis=2, keepdims=True)
        return replace(state, equations=state.equations + evidence)

    def numbers_sent(self, state: RidgeRegression, t: int, links: IntArray) -> FloatArray:
        """Count nothing, or arm, reward and features to all other agents: (R,)."""
        per_message = 0 if self.data == "own" else 2 + state.model.features
        return np.full(len(links), float(per_message * state.n_agents * (state.n_agents - 1)))


def check_regression(exploration: Any, regularization: Any, sigma: Any) -> None:
    """Refuse invalid settings of a confidence bound by ridge regression."""
    validation.validate_number("exploration", exploration, at_least=0)
    validation.validate_number("regularization", regularization, above=0)
    if sigma is not None:
        validation.validate_number("sigma", sigma, above=0)
