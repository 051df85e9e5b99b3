"""Partial pooling: evidence of other sites is discounted by the heterogeneity between sites.

The standard deviation between sites is given, or estimated from the data (empirical Bayes, see
`posse.sites`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, sites, validation
from posse.algorithms.algorithm import IDLE, ArrivedRewards, Problem
from posse.algorithms.bayesian import BayesianAlgorithm, BayesianState
from posse.families import Family, require_plain_family
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class PartialPoolingState(BayesianState):
    """Beliefs, the evidence of each site, and the round of the next pooling."""

    evidence: FloatArray  # (D, R, N, K): sums of statistics of each site
    others_belief: FloatArray  # (D, R, N, K): belief minus own evidence, when last pooled
    t: int  # rounds so far
    next_refresh: int  # the round after which evidence is pooled again


@dataclass(frozen=True)
class PartialPooling(BayesianAlgorithm):
    """Agents that know all rewards, as in `Centralized`, at sites whose means may differ.

    Every agent discounts the evidence of other sites by the heterogeneity between sites
    (`posse.sites`): sites that are alike give `Centralized`, sites far apart `Isolated`. The
    network is ignored.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    site_sd: the standard deviation of an arm's mean between sites, as in `posse.Bandit`; None
        estimates it from the rewards (empirical Bayes).
    refresh: evidence of others is pooled again when the number of rounds has grown by this share;
        0 pools in every round. Own rewards count at once.
    """

    name: ClassVar[str] = "partial-pooling"
    accepts_directed: ClassVar[bool] = True
    accepts_idle: ClassVar[bool] = True

    site_sd: float | None = None
    refresh: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        sites.check_site_sd("site_sd", self.site_sd)
        validation.validate_number("refresh", self.refresh, at_least=0, at_most=1)

    def init(self, problem: Problem) -> PartialPoolingState:
        """Start at the prior, without evidence."""
        start = super().init(problem)
        sites.check_reward_variance(require_plain_family(start.family))
        # without evidence the pooled belief is the prior
        nothing = np.zeros_like(start.belief)
        return PartialPoolingState(
            **vars(start), evidence=nothing, others_belief=start.belief, t=0, next_refresh=1
        )

    def pool_evidence(self, family: Family, evidence: FloatArray) -> FloatArray:
        """Return the beliefs of all sites given their evidence: (D, R, N, K) -> (D, R, N, K)."""
        return sites.Sites(family, evidence, self.site_sd).site_beliefs()

    def learn(
        self, state: BayesianState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> PartialPoolingState:
        """Apply Bayes' rule to the own rewards, and pool the others' evidence when it is due."""
        assert isinstance(state, PartialPoolingState)  # made by init
        plays = arms != IDLE
        added_to_all = beliefs.observe(
            state.evidence, np.where(plays, arms, 0), rewards, state.family, 1.0
        )
        evidence = np.where(plays[..., None], added_to_all, state.evidence)
        return self._pool_when_due(state, evidence)

    def learn_arrived(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> PartialPoolingState:
        """Learn in a replayed round, in which some sites have no reward (`posse.replay`)."""
        assert isinstance(state, PartialPoolingState)  # made by init
        statistics = require_plain_family(state.family).statistic(arrivals.reward)  # (D, n)
        evidence = state.evidence.copy()
        # Two rewards of one agent and arm may arrive at once: plain indexing would lose one.
        for coordinate, added in zip(evidence, statistics, strict=True):
            np.add.at(coordinate, (arrivals.run, arrivals.agent, arrivals.arm), added)
        return self._pool_when_due(state, evidence)

    def _pool_when_due(
        self, state: PartialPoolingState, evidence: FloatArray
    ) -> PartialPoolingState:
        """Go on to the next round with new evidence (D, R, N, K)."""
        t = state.t + 1
        others_belief = state.others_belief
        next_refresh = state.next_refresh
        # pooling costs as much as many rounds, so it happens at rounds that grow geometrically
        if t >= next_refresh:
            others_belief = (
                self.pool_evidence(require_plain_family(state.family), evidence) - evidence
            )
            next_refresh = max(t + 1, int(t * (1 + self.refresh)))
        return replace(
            state,
            belief=others_belief + evidence,
            evidence=evidence,
            others_belief=others_belief,
            t=t,
            next_refresh=next_refresh,
        )

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Count an arm and a reward from each agent to every other agent: (R,)."""
        n_agents = state.belief.shape[-2]
        return np.full(len(links), 2.0 * n_agents * (n_agents - 1))
