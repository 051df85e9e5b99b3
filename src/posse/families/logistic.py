"""Logistic bandits: rewards 0 or 1 with log-odds x'theta, each reward linearised once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import validation
from posse.families.family import UNIT, Interval
from posse.families.gaussian_weights import GaussianWeights
from posse.families.logit_normal import LogitNormal
from posse.randomness import FloatArray

# The largest log-odds at which a reward is linearised: further out its weight p (1 - p) vanishes.
FARTHEST = 8.0


@dataclass(frozen=True, kw_only=True)
class Logistic(GaussianWeights):
    """1 with probability 1 / (1 + exp(-x'theta_k)) at context x, else 0.

    rate:         the prior guess of the success rate: the intercept's prior mean is logit(rate)
    prior_sd:     the prior standard deviation of the weights, in log-odds: 0.5 is a factor of 1.6
                  either way; too wide is better than too narrow
    intercept_sd: that of the first weight; None: prior_sd
    features:     their number; 0: the contexts of a bandit or an agent set it
    shared:       one theta for all arms, whose features differ: contexts (..., K, d)

    The likelihood is not Gaussian in theta, so each reward enters as the Gaussian with the slope
    and curvature of its log-likelihood at the log-odds that the agent believed at that time (an
    extended Kalman filter; Laplace's approximation, one reward at a time). The update is additive,
    so the coordinates are the only state.
    """

    name: ClassVar[str] = "logistic"
    rewards: ClassVar[Interval] = UNIT
    anchored: ClassVar[bool] = True
    at_mean: ClassVar[LogitNormal] = LogitNormal()

    prior_sd: float = 0.5
    intercept_sd: float | None = 0.5
    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("rate", self.rate, above=0, below=1)

    @classmethod
    def example(cls) -> Logistic:
        """An instance for the law tests: one arm in five pays."""
        return cls(rate=0.2)

    @property
    def _intercept_mean(self) -> float:
        return math.log(self.rate / (1 - self.rate))

    def observation_terms(
        self, rewards: FloatArray, at: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the terms of the normal equations: (w, s) of w x x' and s x, each (...).

        at: (2, ...) the belief at the context, around whose mean u the log-likelihood is expanded:
        with p = 1 / (1 + exp(-u)), w = p (1 - p) and s = w u + y - p.
        """
        if at is None:
            raise ValueError("at is missing: a logistic reward is linearised at a belief")
        from scipy.special import expit

        log_odds = np.clip(at[0] / at[1], -FARTHEST, FARTHEST)
        p = expit(log_odds)
        weight = p * (1.0 - p)
        return weight, weight * log_odds + rewards - p

    def statistic(
        self, rewards: FloatArray, contexts: FloatArray, at: FloatArray | None = None
    ) -> FloatArray:
        """(x s, w x x') of `observation_terms`: (...), (..., d), (2, ...) -> (D, ...)."""
        return self.normal_equations(contexts, *self.observation_terms(rewards, at))

    def inverse_link(self, predictor: FloatArray) -> FloatArray:
        """1 / (1 + exp(-x'theta))."""
        from scipy.special import expit

        return np.asarray(expit(predictor))
