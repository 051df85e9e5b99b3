"""What the Bayesian algorithms share: a belief per agent, and a policy that chooses from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, policies, validation
from posse.algorithms.algorithm import Heard, Problem
from posse.families.family import Model, is_contextual, require_plain_family
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
        validation.validate_methods("policy", self.policy, ["scores"], "posse.ThompsonSampling()")
        if self.family is not None:
            validation.validate_methods(
                "family", self.family, ["statistic"], "posse.families.Gaussian()"
            )

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
        n_beliefs = problem.n_arms
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


# What time does to evidence: it fades where means drift, and waits where rewards come late.


@dataclass(frozen=True)
class Timed(BayesianAlgorithm):
    """A Bayesian algorithm that may forget, and that knows what to make of an open pull.

    A class of its own, so that who builds on `BayesianAlgorithm` has no setting without effect.
    """

    half_life: float | None = field(default=None, kw_only=True)
    open: Literal["count", "wait"] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.half_life is not None:
            validation.validate_number("half_life", self.half_life, above=0)
        if self.open is not None:
            validation.validate_choice("open", self.open, ("count", "wait"))

    @property
    def fading(self) -> float:
        """What is left of a piece of evidence one round later: 2^(-1/half_life), else 1."""
        return 1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life)

    def _faded(self, state: BayesianState) -> FloatArray:
        """The beliefs as a round finds them, one round older than the last one left them."""
        held = state.belief if state.exact is None else state.exact
        return beliefs.fade(held, state.family, self.fading)

    def assumed(self, lowest: float, family: Model) -> FloatArray | None:
        """The statistic (D,) that an open pull counts as, in this model; None: as nothing."""
        if self.open != "count" or not np.isfinite(lowest) or is_contextual(family):
            return None
        with np.errstate(all="ignore"):  # a likelihood may be 0 there
            statistic = require_plain_family(family).statistic(np.asarray(lowest, dtype=float))
        return statistic if np.isfinite(statistic).all() else None

    def _evidence(
        self, state: BayesianState, arms: NDArray[np.intp], heard: Heard
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """What a round of late rewards adds at learning rate 1: cells (m,) of (R, N, K), (D, m).

        A reward heard in the round of its pull is evidence like any. Of the others, a pull that
        counts from the start adds the lowest reward at once and, when its reward comes, what that
        differs by; else it adds nothing at first and all later. Whatever is added later has the
        weight that is left of its pull's.
        """
        n_agents, n_arms = state.belief.shape[-2:]
        of_agents = heard.run * n_agents + heard.agent
        cells = (of_agents * n_arms + beliefs.get_belief_index(state.belief, heard.arm)).astype(
            np.intp
        )
        statistics = np.array(self._statistics(state, heard))  # (D, n)
        late = heard.age > 0
        assumed = self.assumed(state.lowest, state.family)
        if assumed is not None:
            statistics[:, late] -= assumed[:, None]
        if self.half_life is not None:
            statistics = statistics * self.fading**heard.age
        if assumed is not None:
            still_open = np.ones(arms.size, dtype=bool)
            still_open[of_agents[~late]] = False
            opened = (np.arange(arms.size) * n_arms + np.ravel(arms))[still_open]
            at_start = np.broadcast_to(assumed[:, None], (len(assumed), len(opened)))
            cells = np.concatenate([opened, cells])
            statistics = np.concatenate([at_start, statistics], axis=1)
        return cells, statistics

    def _statistics(self, state: BayesianState, heard: Heard) -> FloatArray:
        """What the rewards heard add at learning rate 1, linearised where they are met: (D, n)."""
        its = beliefs.get_belief_index(state.belief, heard.arm)
        played = state.belief[:, heard.run, heard.agent, its, None]  # (D, n, 1)
        zeros = np.zeros_like(its)
        return beliefs.statistic(played, zeros, heard.reward, state.family, heard.contexts)

    def _told(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        heard: Heard,
        learning_rate: float,
        own: FloatArray | None = None,
    ) -> FloatArray:
        """The beliefs after a round of late rewards, before anybody talks: (D, R, N, K).

        own: what is updated, if not the belief that agents act on.
        """
        cells, statistics = self._evidence(state, arms, heard)
        held = self._faded(state) if own is None else beliefs.fade(own, state.family, self.fading)
        updated = held.copy()  # a shared belief is a read-only view
        rows = updated.reshape(len(updated), -1)
        for row, added in zip(rows, learning_rate * statistics, strict=True):
            np.add.at(row, cells, added)  # an agent may hear of one arm several times
        return updated


def attainable(belief: FloatArray, family: Model) -> FloatArray:
    """The nearest belief that rewards can lead to: nothing that they only add to is negative.

    When a correction is made where its pull was, the pull has long spread over the network. So an
    agent of Algorithm 1 may hold more corrections than pulls for a while, a Beta of negative
    parameters, until they have mixed as well.
    """
    rewards = family.rewards
    if is_contextual(family) or not (np.isfinite(rewards.low) and np.isfinite(rewards.high)):
        return belief
    ends = require_plain_family(family).statistic(np.array([rewards.low, rewards.high]))  # (D, 2)
    floor = np.where(ends.min(axis=1) >= 0, family.prior(), -np.inf)
    return np.maximum(belief, floor.reshape(-1, *[1] * (belief.ndim - 1)))
