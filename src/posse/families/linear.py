"""Linear bandits: rewards x'theta + noise, with a Gaussian belief about theta (LinTS, ridge)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from posse import validation
from posse.families.family import LARGEST_MEAN, REAL_LINE, Interval
from posse.families.gaussian import Gaussian
from posse.families.gaussian_weights import GaussianWeights
from posse.randomness import FloatArray


@dataclass(frozen=True, kw_only=True)
class Linear(GaussianWeights):
    """N(x'theta_k, sigma^2) rewards of arm k at context x; prior N(0, prior_sd^2) of each weight.

    sigma:        the standard deviation of a reward around x'theta
    prior_mean:   the prior mean of the first weight, the intercept
    prior_sd:     the prior standard deviation of every weight
    intercept_sd: that of the first weight; None: prior_sd
    features:     their number; 0: the contexts of a bandit or an agent set it
    shared:       one theta for all arms, whose features differ: contexts (..., K, d)

    At a context it is a Gaussian belief about x'theta: Thompson Sampling then is LinTS (each arm's
    mean is sampled independently), and Bayes-UCB is the Bayesian LinUCB.

    >>> family = posse.families.Linear(sigma=0.5, features=2)
    >>> belief = beliefs.prior(family, n_agents=1, n_arms=3)[:, 0]  # (5, 3)
    >>> belief = beliefs.observe(belief, np.array(1), np.array(1.0), family, 1.0, np.array([1, 1]))
    >>> at_context = family.at_context(belief, np.array([1.0, 1.0]))
    >>> family.at_mean.posterior_mean(at_context).round(2).tolist()
    [0.0, 0.89, 0.0]
    """

    name: ClassVar[str] = "linear"
    rewards: ClassVar[Interval] = REAL_LINE
    anchored: ClassVar[bool] = False

    sigma: float = 1.0
    prior_mean: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("sigma", self.sigma, at_least=1e-30, at_most=1e30)
        validation.validate_number(
            "prior_mean", self.prior_mean, at_least=-LARGEST_MEAN, at_most=LARGEST_MEAN
        )

    @property
    def _intercept_mean(self) -> float:
        return self.prior_mean

    @cached_property
    def at_mean(self) -> Gaussian:
        """Gaussian, of the same sigma."""
        return Gaussian(self.sigma, self.prior_mean, self.prior_sd)

    def observation_terms(
        self, rewards: FloatArray, at: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the terms of the normal equations: (w, s) of w x x' and s x, each (...)."""
        return np.full_like(rewards, 1.0) / self.sigma**2, rewards / self.sigma**2

    def statistic(
        self, rewards: FloatArray, contexts: FloatArray, at: FloatArray | None = None
    ) -> FloatArray:
        """(x y, x x') / sigma^2, whatever was believed: (...), (..., d) -> (D, ...)."""
        return self.normal_equations(contexts, *self.observation_terms(rewards, at))

    def inverse_link(self, predictor: FloatArray) -> FloatArray:
        """The mean is x'theta itself."""
        return predictor
