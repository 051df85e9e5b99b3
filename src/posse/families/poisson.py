"""Counts with a Gamma belief about their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import validation
from posse.divergences import Divergence, kl_poisson
from posse.families.belief_divergences import hellinger_distance, kl_gamma, log_normaliser_gamma
from posse.families.family import POSITIVE, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness


@dataclass(frozen=True)
class Poisson(OptionalMethods):
    """Poisson rewards, mean ~ Gamma(shape, rate); coordinates (shape, rate)."""

    name: ClassVar[str] = "poisson"
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    means: ClassVar[Interval] = POSITIVE
    rewards: ClassVar[Interval] = Interval(0.0, np.inf, closed=True)
    powers: ClassVar[tuple[int, ...]] = (1,)
    kernel: ClassVar[str | None] = "GAMMA"
    quantiles_cross_once: ClassVar[bool] = True
    reward_kernel: ClassVar[str | None] = "draw_poisson"
    assumption: ClassVar[str] = "counts are Poisson"

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("shape", self.shape, above=0)
        validation.validate_number("rate", self.rate, above=0)

    @property
    def divergence(self) -> Divergence:
        """Of Poisson laws."""
        return kl_poisson

    def variance(self, means: FloatArray) -> FloatArray:
        """The mean."""
        return means

    def prior(self) -> FloatArray:
        """(shape, rate): (2,)."""
        return np.array([self.shape, self.rate], dtype=float)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(y, 1): (...) -> (2, ...)."""
        return np.stack([rewards, np.ones_like(rewards)])

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """Shape over rate."""
        shape, rate = belief
        return np.asarray(shape / rate)

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """Shape over rate squared."""
        shape, rate = belief
        return np.asarray(shape / rate**2)

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """A Gamma variate."""
        shape, rate = belief
        return np.asarray(generator.standard_gamma(shape) / rate)

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """A Gamma quantile."""
        from scipy.special import gammaincinv

        shape, rate = belief
        return np.asarray(gammaincinv(shape, level) / rate)

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The Gamma distribution function."""
        from scipy.special import gammainc

        shape, rate = belief
        return np.asarray(gammainc(shape, rate * np.maximum(mean, 0.0)))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The Gamma log-density."""
        from scipy.special import gammaln, xlogy

        shape, rate = belief
        mean = np.asarray(mean, dtype=float)
        return np.asarray(
            xlogy(shape, rate) - gammaln(shape) + xlogy(shape - 1, mean) - rate * mean
        )

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) between Gamma laws: (D, ...) -> (...)."""
        return kl_gamma(belief, other)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between two beliefs: (D, ...) -> (...)."""
        return hellinger_distance(log_normaliser_gamma, belief, other)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """y log m - m."""
        from scipy.special import xlogy

        return np.asarray(xlogy(rewards, mean) - np.asarray(mean))

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """A Poisson count, by inversion."""
        from scipy.special import ndtri, pdtr, pdtrik

        level = generator.random(means.shape)
        # pdtrik is the inverse in continuous k: by rounding its ceiling may be one too high,
        # and it is undefined where the level lies below P(0).
        count = np.nan_to_num(np.ceil(pdtrik(level, means)))
        one_less = np.maximum(count - 1, 0.0)
        count = np.where(pdtr(one_less, means) >= level, one_less, count)
        # Above 1e10 pdtrik returns NaN; there the Cornish-Fisher quantile is as accurate.
        score = ndtri(np.maximum(level, 2.0**-54))
        far = np.rint(means + np.sqrt(means) * score + (score**2 - 1) / 6)
        return np.asarray(np.where(means > 1e9, far, count))
