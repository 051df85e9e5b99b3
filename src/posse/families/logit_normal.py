"""Logit-normal beliefs: a probability with Gaussian log-odds, which is Logistic at a context."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from posse import validation
from posse.divergences import Divergence, kl_bernoulli
from posse.families.family import UNIT, Interval
from posse.families.gaussian import Gaussian
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness

# The belief about the log-odds has the same coordinates; none of its functions uses sigma.
_LOG_ODDS = Gaussian()


@dataclass(frozen=True)
class LogitNormal(OptionalMethods):
    """Rewards 0 or 1 whose probability has log-odds N(m, 1/L); coordinates (m L, L).

    All functions of the probability follow from the Gaussian by a monotone map, except its mean,
    a quadrature of 20 nodes. Such beliefs are read-only: `Logistic.at_context` returns them.
    """

    name: ClassVar[str] = "logit-normal"
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    means: ClassVar[Interval] = UNIT
    rewards: ClassVar[Interval] = UNIT
    quantiles_cross_once: ClassVar[bool] = True

    prior_mean: float = 0.0  # of the log-odds
    prior_sd: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("prior_mean", self.prior_mean)
        validation.validate_number("prior_sd", self.prior_sd, above=0)

    @property
    def divergence(self) -> Divergence:
        """Of Bernoulli laws."""
        return kl_bernoulli

    @property
    def subgaussian(self) -> float:
        """1/2, by Hoeffding's lemma: rewards lie in [0, 1]."""
        return 0.5

    def variance(self, means: FloatArray) -> FloatArray:
        """m (1 - m)."""
        return means * (1.0 - means)

    def prior(self) -> FloatArray:
        """(prior_mean, 1) / prior_sd^2: (2,)."""
        return np.array([self.prior_mean, 1.0]) / self.prior_sd**2

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """Refused: the likelihood is not Gaussian in the log-odds."""
        raise ValueError("LogitNormal cannot learn: update the belief of Logistic instead")

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """By Gauss-Hermite quadrature."""
        return self._expected_power(belief, 1)

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """By Gauss-Hermite quadrature."""
        mean = self._expected_power(belief, 1)
        # the difference may be negative by rounding
        return np.asarray(np.maximum(self._expected_power(belief, 2) - mean**2, 0.0))

    def _expected_power(self, belief: FloatArray, power: int) -> FloatArray:
        from scipy.special import expit

        scores, weights = hermite_nodes()
        shift, precision = belief[..., None]
        values = expit(shift / precision + scores / np.sqrt(precision))
        # not by BLAS, whose rounding depends on the place of an agent: equal beliefs must tie
        return np.asarray((values**power * weights).sum(axis=-1))

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """The probability of normal log-odds."""
        from scipy.special import expit

        return np.asarray(expit(_LOG_ODDS.sample_mean(belief, generator)))

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """The quantile of the log-odds, as a probability."""
        from scipy.special import expit

        return np.asarray(expit(_LOG_ODDS.mean_quantile(belief, level)))

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The distribution function of the log-odds."""
        from scipy.special import logit

        return _LOG_ODDS.mean_cdf(belief, logit(np.clip(mean, 0.0, 1.0)))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The normal log-density of the log-odds, plus log 1 / (m (1 - m)), the Jacobian."""
        from scipy.special import logit

        mean = np.asarray(mean, dtype=float)
        of_log_odds = _LOG_ODDS.log_density(belief, logit(mean))
        return np.asarray(of_log_odds - np.log(mean) - np.log1p(-mean))

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other), which is that of the log-odds: (2, ...) -> (...)."""
        return _LOG_ODDS.kl(belief, other)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between two beliefs: (D, ...) -> (...)."""
        return _LOG_ODDS.hellinger(belief, other)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """y log m + (1 - y) log(1 - m)."""
        from scipy.special import xlog1py, xlogy

        rewards = np.asarray(rewards, dtype=float)
        return np.asarray(xlogy(rewards, mean) + xlog1py(1.0 - rewards, -np.asarray(mean)))

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """Draw 1 with probability mean, else 0."""
        return np.asarray(generator.random(means.shape) < means, dtype=float)


@cache
def hermite_nodes() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Hermite quadrature: E f(z) = sum of weights f(nodes)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    return nodes, weights / math.sqrt(2 * math.pi)
