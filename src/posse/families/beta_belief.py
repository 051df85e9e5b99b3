"""Beta beliefs about a mean in [0, 1], shared by Bernoulli and Bounded (Lemma 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import validation
from posse.divergences import Divergence, kl_bernoulli
from posse.families.belief_divergences import hellinger_distance, kl_beta, log_normaliser_beta
from posse.families.family import UNIT, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness


@dataclass(frozen=True)
class BetaBelief(OptionalMethods):
    """A Beta belief with coordinates (alpha, beta), the paper's own (Lemma 1)."""

    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    rewards: ClassVar[Interval] = UNIT
    powers: ClassVar[tuple[int, ...]] = (1,)
    kernel: ClassVar[str | None] = "BETA"
    quantiles_cross_once: ClassVar[bool] = True

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("alpha", self.alpha, above=0)
        validation.validate_number("beta", self.beta, above=0)

    @property
    def divergence(self) -> Divergence:
        """The divergence of Bernoulli laws: no two laws on [0, 1] with these means are closer."""
        return kl_bernoulli

    @property
    def subgaussian(self) -> float:
        """1/2, by Hoeffding's lemma: rewards lie in [0, 1]."""
        return 0.5

    def site_unit(self, means: FloatArray) -> FloatArray:
        """The rate of the rarer outcome, success or failure."""
        return np.minimum(means, 1.0 - means)

    def variance(self, means: FloatArray) -> FloatArray:
        """m (1 - m), the largest variance of a reward in [0, 1], which the Beta belief assumes."""
        return means * (1.0 - means)

    def prior(self) -> FloatArray:
        """(alpha, beta): (2,)."""
        return np.array([self.alpha, self.beta], dtype=float)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(y, 1 - y): (...) -> (2, ...)."""
        # A reward between 0 and 1 adds a fraction of a success: the mean is right, and the variance
        # is that of the noisiest rewards with this mean.
        return np.stack([rewards, 1.0 - rewards])

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """alpha / (alpha + beta)."""
        alpha, beta = belief
        return np.asarray(alpha / (alpha + beta))

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """alpha beta / ((alpha + beta)^2 (alpha + beta + 1))."""
        alpha, beta = belief
        both = alpha + beta
        # as ratios, since the product alpha * beta may overflow
        return np.asarray((alpha / both) * (beta / both) / (both + 1))

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """A Beta variate."""
        alpha, beta = belief
        return np.asarray(generator.beta(alpha, beta))

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """The inverse of the regularised incomplete beta function."""
        from scipy.special import betaincinv

        alpha, beta = belief
        return np.asarray(betaincinv(alpha, beta, level))

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The regularised incomplete beta function."""
        from scipy.special import betainc

        alpha, beta = belief
        # betainc is undefined outside [0, 1]
        return np.asarray(betainc(alpha, beta, np.minimum(np.maximum(mean, 0.0), 1.0)))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """(alpha - 1) log m + (beta - 1) log(1 - m) - log B(alpha, beta)."""
        # xlogy: 0 log 0 = 0 at the ends of the range
        from scipy.special import betaln, xlog1py, xlogy

        alpha, beta = belief
        mean = np.asarray(mean, dtype=float)
        log_kernel = xlogy(alpha - 1, mean) + xlog1py(beta - 1, -mean)
        return np.asarray(log_kernel - betaln(alpha, beta))

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) between Beta laws: (D, ...) -> (...)."""
        return kl_beta(belief, other)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between two beliefs: (D, ...) -> (...)."""
        return hellinger_distance(log_normaliser_beta, belief, other)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """y log m + (1 - y) log(1 - m); for fractional y a quasi-likelihood."""
        from scipy.special import xlog1py, xlogy

        rewards = np.asarray(rewards, dtype=float)
        return np.asarray(xlogy(rewards, mean) + xlog1py(1.0 - rewards, -np.asarray(mean)))
