"""LinUCB: linear confidence bounds on what an arm pays at a context, from one's own data or all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import noise_scale
from posse.families.family import is_contextual
from posse.families.linear import Linear
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class Ridge:
    """The normal equations of ridge regression, for every agent (or one for all) and arm."""

    equations: FloatArray  # (D, R, N or 1, K or 1): sums of x y, then of x x' and the ridge
    model: Linear  # whose coordinates these are, with noise and prior of unit size
    width: float  # what a standard error counts in the index
    n_agents: int

    @classmethod
    def empty(cls, problem: Problem, regularization: float, width: float, rows: int) -> Ridge:
        """No data; the model is the shape of the bandit's, refused where that has no contexts."""
        family = problem.family
        if not is_contextual(family):
            raise ValueError("LinUCB needs contexts: give a posse.ContextualBandit")
        model = Linear(
            prior_sd=1 / math.sqrt(regularization), features=family.features, shared=family.shared
        )
        n_beliefs = 1 if family.shared else problem.n_arms
        start = beliefs.prior(model, (problem.n_runs, rows), n_beliefs)
        return cls(start, model, width, problem.n_agents)

    def index(self, contexts: FloatArray) -> FloatArray:
        """x'theta + width sqrt(x' A^-1 x) of each arm: (R, N, K)."""
        shift, precision = self.model.at_context(self.equations, contexts)
        return np.asarray(shift / precision + self.width / np.sqrt(precision))

    def variance(self, arms: NDArray[np.intp], contexts: FloatArray) -> FloatArray:
        """x' A^-1 x of the arms played: (R, N)."""
        x = contexts
        places = beliefs.get_belief_index(self.equations, arms)
        if x.ndim == 4:
            x = np.take_along_axis(x, arms[..., None, None], axis=2)[:, :, 0]
        played = np.take_along_axis(self.equations, places[None, ..., None], axis=-1)
        return np.asarray(1.0 / self.model.at_context(played, x)[1, ..., 0])

    def evidence(
        self, arms: NDArray[np.intp], rewards: FloatArray, contexts: FloatArray
    ) -> FloatArray:
        """What a round adds to each agent's equations: (D, R, N, K or 1)."""
        n_coordinates, n_runs, _, n_beliefs = self.equations.shape
        nothing = np.zeros((n_coordinates, n_runs, self.n_agents, n_beliefs))
        return beliefs.observe(nothing, arms, rewards, self.model, 1.0, contexts)


@dataclass(frozen=True)
class LinUCB:
    """Ridge regression for each arm, and the arm of the highest x'theta + a sigma sqrt(x' A^-1 x).

    Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article
    recommendation", WWW 2010 (the disjoint model; one theta where the bandit's arms share it). They
    prove a bound for a = 1 + sqrt(ln(2/delta)/2), 2.4 at delta = 0.05, and tune it in experiments;
    their rewards lie in [0, 1], here sigma gives the scale.

    data: "own", every agent alone; or "all", one regression that sees every reward, whatever the
        network.
    exploration: a, at least 0.
    regularization: the ridge, above 0: how many visits of feature 1 the prior weight 0 is worth.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.

    >>> posse.LinUCB(data="all")
    LinUCB(data='all', exploration=1.0, regularization=1.0, sigma=None)
    """

    name: ClassVar[str] = "lin-ucb"

    data: Literal["own", "all"] = "own"
    exploration: float = 1.0
    regularization: float = 1.0
    sigma: float | None = None

    def __post_init__(self) -> None:
        validation.validate_choice("data", self.data, ("own", "all"))
        check_regression(self.exploration, self.regularization, self.sigma)

    def init(self, problem: Problem) -> Ridge:
        """No data."""
        width = self.exploration * noise_scale(problem.family, self.sigma)
        rows = problem.n_agents if self.data == "own" else 1
        return Ridge.empty(problem, self.regularization, width, rows)

    def choose(
        self, state: Ridge, t: int, generator: Randomness, contexts: FloatArray
    ) -> NDArray[np.intp]:
        """The largest index, ties broken at random: (R, N)."""
        return argmax(state.index(contexts), generator)

    def learn(
        self,
        state: Ridge,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray,
    ) -> Ridge:
        """One's own visit is added, or those of all."""
        evidence = state.evidence(arms, rewards, contexts)
        if self.data == "all":
            evidence = evidence.sum(axis=2, keepdims=True)
        return replace(state, equations=state.equations + evidence)

    def numbers_sent(self, state: Ridge, t: int, links: IntArray) -> FloatArray:
        """Nothing; or arm, reward and features to all others, whatever the network: (R,)."""
        told = 0 if self.data == "own" else 2 + state.model.features
        return np.full(len(links), float(told * state.n_agents * (state.n_agents - 1)))


def check_regression(exploration: Any, regularization: Any, sigma: Any) -> None:
    """Refuse what cannot be the settings of a confidence bound by ridge regression."""
    validation.validate_number("exploration", exploration, at_least=0)
    validation.validate_number("regularization", regularization, above=0)
    if sigma is not None:
        validation.validate_number("sigma", sigma, above=0)
