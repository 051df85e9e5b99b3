"""Bayesian algorithms: one belief per agent, and a policy that chooses arms from it.

`BayesianAlgorithm` fixes how agents choose and leaves open how they learn. `TimedAlgorithm` adds
what time does to evidence: it is discounted in non-stationary bandits (`half_life`), and it arrives
late in bandits with delayed rewards (`open`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, policies, validation
from posse.algorithms.algorithm import IDLE, ArrivedRewards, Problem
from posse.families import Model, get_optional, is_contextual, require_plain_family
from posse.policies import Policy, ThompsonSampling
from posse.randomness import FloatArray, Randomness


@dataclass(frozen=True)
class BayesianState:
    """The beliefs of all agents in all runs, and the model that interprets them."""

    belief: FloatArray  # (D, R, N, K), or (D, R, N, 1) if all arms share one theta
    family: Model
    horizon: int
    learning_rate: float | FloatArray  # one for all agents, or (N,)
    lowest_reward: float = field(default=-math.inf, kw_only=True)  # of the bandit
    # Algorithm 1 with open="count": the belief before `clip_to_attainable`, which is what agents
    # exchange. Clipping it in place would count corrections twice once they have mixed.
    unclipped: FloatArray | None = field(default=None, kw_only=True)

    @property
    def numbers_observed(self) -> float:
        """The size of an observation: arm, reward, and with contexts the features of the arm.

        A linearised family sends the anchor too, so that all receivers compute the same statistic.
        A variational family sends the statistic itself in place of the reward.
        """
        if not is_contextual(self.family):
            anchored = get_optional(require_plain_family(self.family), "anchored")
            return 1.0 + len(self.belief) if anchored else 2.0
        return 2.0 + self.family.features + self.family.anchored

    def with_belief(self, belief: FloatArray) -> BayesianState:
        """Return the same model with another belief."""
        return replace(self, belief=belief)


@dataclass(frozen=True)
class BayesianAlgorithm:
    """Each agent chooses by a policy from its own belief (Bayes_MAB of Alg. 1)."""

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
        """Return the version with Thompson Sampling, for the law tests."""
        return cls(ThompsonSampling())

    def resolve_learning_rate(self, problem: Problem) -> float | FloatArray:
        """Return the learning rate of the tempered update, or (N,) rates; 1 is Bayes' rule."""
        return 1.0

    def init(self, problem: Problem) -> BayesianState:
        """Start every agent at the prior of the algorithm's family, or of the bandit's family."""
        family = self.family or problem.family
        n_beliefs = problem.n_arms
        if is_contextual(family):
            if not is_contextual(problem.family):
                raise ValueError(
                    f"family {family.name!r} needs contexts: give a posse.ContextualBandit"
                )
            family = family.with_features(problem.family.features)
            # arms that share one theta have one belief
            n_beliefs = 1 if family.shared else n_beliefs
        belief = beliefs.prior(family, (problem.n_runs, problem.n_agents), n_beliefs)
        low = problem.family.rewards.low
        return BayesianState(
            belief, family, problem.horizon, self.resolve_learning_rate(problem), lowest_reward=low
        )

    def choose(
        self,
        state: BayesianState,
        t: int,
        generator: Randomness,
        contexts: FloatArray | None = None,
    ) -> NDArray[np.intp]:
        """Choose an arm for each agent from its own belief, at its context: (R, N)."""
        return policies.choose(
            self.policy, state.belief, state.family, t, state.horizon, generator, contexts
        )


# Non-stationary bandits and delayed rewards


@dataclass(frozen=True)
class TimedAlgorithm(BayesianAlgorithm):
    """A Bayesian algorithm that may discount old evidence and that handles delayed rewards.

    It is separate from `BayesianAlgorithm` so that subclasses of that have no setting without
    effect.
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
    def discount_factor(self) -> float:
        """The weight of a piece of evidence one round later: 2^(-1/half_life), or 1."""
        return 1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life)

    def _discount_belief(self, state: BayesianState) -> FloatArray:
        """Discount the beliefs of the last round by one round of age: (D, R, N, K)."""
        belief = state.belief if state.unclipped is None else state.unclipped
        return beliefs.fade(belief, state.family, self.discount_factor)

    def open_pull_statistic(self, lowest: float, family: Model) -> FloatArray | None:
        """Return the statistic (D,) that an open pull counts as; None if it counts as nothing."""
        if self.open != "count" or not np.isfinite(lowest) or is_contextual(family):
            return None
        plain = require_plain_family(family)
        # what an open pull added could not be taken back: the belief has changed since
        if get_optional(plain, "anchored"):
            return None
        with np.errstate(all="ignore"):  # the likelihood may be 0 there
            statistic = plain.statistic(np.asarray(lowest, dtype=float))
        return statistic if np.isfinite(statistic).all() else None

    def _compute_delayed_evidence(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the evidence of a round at learning rate 1: cells (m,) of (R, N, K), and (D, m).

        A reward that arrives in the round of its pull is ordinary evidence. For a delayed reward
        there are two rules. With open="count" the pull adds the statistic of the lowest reward at
        once, and the arrival adds the difference. Otherwise the pull adds nothing and the arrival
        adds everything. A late addition has the discounted weight that its pull has by now.
        """
        n_agents, n_arms = state.belief.shape[-2:]
        of_agents = arrivals.run * n_agents + arrivals.agent
        cells = (of_agents * n_arms + beliefs.get_belief_index(state.belief, arrivals.arm)).astype(
            np.intp
        )
        statistics = np.array(self._delayed_statistics(state, arrivals))  # (D, n)
        late = arrivals.age > 0
        assumed_statistic = self.open_pull_statistic(state.lowest_reward, state.family)
        # an open pull was counted as the lowest reward already: its arrival adds the difference
        if assumed_statistic is not None:
            statistics[:, late] -= assumed_statistic[:, None]
        if self.half_life is not None:
            statistics = statistics * self.discount_factor**arrivals.age
        if assumed_statistic is not None:
            # pulls of this round without a reward are open: they count as the lowest reward now
            still_open = np.ravel(arms) != IDLE
            still_open[of_agents[~late]] = False
            opened = (np.arange(arms.size) * n_arms + np.ravel(arms))[still_open]
            at_start = np.broadcast_to(
                assumed_statistic[:, None], (len(assumed_statistic), len(opened))
            )
            cells = np.concatenate([opened, cells])
            statistics = np.concatenate([at_start, statistics], axis=1)
        return cells, statistics

    def _delayed_statistics(self, state: BayesianState, arrivals: ArrivedRewards) -> FloatArray:
        """Return the statistics of the rewards that arrived, linearised at the belief: (D, n)."""
        columns = beliefs.get_belief_index(state.belief, arrivals.arm)
        arm_beliefs = state.belief[:, arrivals.run, arrivals.agent, columns, None]  # (D, n, 1)
        zeros = np.zeros_like(columns)
        return beliefs.statistic(
            arm_beliefs, zeros, arrivals.reward, state.family, arrivals.contexts
        )

    def _observe_delayed(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        arrivals: ArrivedRewards,
        learning_rate: float | FloatArray,
        base: FloatArray | None = None,
    ) -> FloatArray:
        """Return new beliefs (D, R, N, K) after a round of delayed rewards, before any message.

        They are the discounted beliefs plus the rewards that arrived and, with open="count", this
        round's open pulls as the lowest reward. No state changes.

        base: the discounted belief to update, if it is not the one that agents act on.
        """
        cells, statistics = self._compute_delayed_evidence(state, arms, arrivals)
        discounted = self._discount_belief(state) if base is None else base
        # a copy, since the shared belief of `Centralized` is a read-only view
        updated = discounted.copy()
        rows = updated.reshape(len(updated), -1)
        n_agents, n_arms = updated.shape[-2:]
        rates = np.broadcast_to(learning_rate, n_agents)[cells // n_arms % n_agents]  # (m,)
        for row, added in zip(rows, rates * statistics, strict=True):
            np.add.at(row, cells, added)  # several rewards of one arm may arrive in one round
        return updated


def clip_to_attainable(belief: FloatArray, family: Model) -> FloatArray:
    """Clip a belief to coordinates that rewards can produce: no sum falls below the prior.

    A correction enters at the agent that pulled, when the pull itself has spread over the network.
    So an agent of Algorithm 1 may have more corrections than pulls for a while (a Beta with
    negative parameters), until the corrections have mixed as well.
    """
    rewards = family.rewards
    if is_contextual(family) or not (np.isfinite(rewards.low) and np.isfinite(rewards.high)):
        return belief
    # only coordinates to which every reward adds a number >= 0 have a floor
    ends = require_plain_family(family).statistic(np.array([rewards.low, rewards.high]))  # (D, 2)
    floor = np.where(ends.min(axis=1) >= 0, family.prior(), -np.inf)
    return np.maximum(belief, floor.reshape(-1, *[1] * (belief.ndim - 1)))
