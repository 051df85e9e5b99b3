"""Partial pooling: sites that may differ believe each other as far as they have found alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, sites, validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.bayesian import BayesianAlgorithm, BayesianState
from posse.families.family import Family, require_plain_family
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class PartialPoolingState(BayesianState):
    """Beliefs, what each site saw itself, and when the others' evidence is read again."""

    evidence: FloatArray  # (D, R, N, K): sums of statistics, of each site alone
    others: FloatArray  # (D, R, N, K): the belief but for the own evidence, as last read
    t: int  # rounds so far
    due: int  # the round after which all is read again


@dataclass(frozen=True)
class PartialPooling(BayesianAlgorithm):
    """Agents that know all rewards of all, as `Centralized`, at sites whose means may differ.

    Each reads the others' evidence discounted by how far sites differ (`posse.sites`): if they are
    alike it is `Centralized`, if they are far apart `Isolated`. The network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the rewards that agents believe in, with their prior; None takes the bandit's own.
    site_sd: the standard deviation of an arm's mean between sites, as in `posse.Bandit`; None if
        it is to be learnt from the rewards.
    refresh: evidence of others is read again once the rounds have grown by this share (own rewards
        count at once); 0 is every round.
    """

    name: ClassVar[str] = "partial-pooling"

    site_sd: float | None = None
    refresh: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        sites.check_site_sd("site_sd", self.site_sd)
        validation.validate_number("refresh", self.refresh, at_least=0, at_most=1)

    def init(self, problem: Problem) -> PartialPoolingState:
        """Nothing seen."""
        start = super().init(problem)
        sites.check_reward_variance(require_plain_family(start.family))
        nothing = np.zeros_like(start.belief)
        return PartialPoolingState(**vars(start), evidence=nothing, others=start.belief, t=0, due=1)

    def read(self, family: Family, evidence: FloatArray) -> FloatArray:
        """The beliefs of all sites from the evidence of each: (D, R, N, K) -> (D, R, N, K)."""
        return sites.Sites(family, evidence, self.site_sd).site_beliefs()

    def learn(
        self, state: BayesianState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> PartialPoolingState:
        """One's own rewards by Bayes' rule; now and then the discount of the others' too."""
        assert isinstance(state, PartialPoolingState)  # made by init
        evidence = beliefs.observe(state.evidence, arms, rewards, state.family, 1.0)
        t = state.t + 1
        others = state.others
        due = state.due
        if t >= due:
            others = self.read(require_plain_family(state.family), evidence) - evidence
            due = max(t + 1, int(t * (1 + self.refresh)))
        return replace(
            state, belief=others + evidence, evidence=evidence, others=others, t=t, due=due
        )

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Each agent tells all others its arm and its reward, whatever the network: (R,)."""
        n_agents = state.belief.shape[-2]
        return np.full(len(links), 2.0 * n_agents * (n_agents - 1))
