"""Exponential rewards with a Gamma belief about the rate; policies rank the mean, 1/rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import validation
from posse.divergences import Divergence, kl_exponential
from posse.families.belief_divergences import hellinger_distance, kl_gamma, log_normaliser_gamma
from posse.families.family import POSITIVE, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness


@dataclass(frozen=True)
class Exponential(OptionalMethods):
    """Exponential rewards, 1/mean ~ Gamma(shape, rate); coordinates (shape, rate)."""

    name: ClassVar[str] = "exponential"
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    means: ClassVar[Interval] = POSITIVE
    rewards: ClassVar[Interval] = Interval(0.0, np.inf, closed=True)
    powers: ClassVar[tuple[int, ...]] = (1,)
    kernel: ClassVar[str | None] = "INVERSE_GAMMA"
    quantiles_cross_once: ClassVar[bool] = True
    reward_kernel: ClassVar[str | None] = "draw_exponential"
    assumption: ClassVar[str] = "rewards are exponential"

    shape: float = 2.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        # With shape <= 1 the prior expectation of the mean is infinite.
        validation.validate_number("shape", self.shape, above=1)
        validation.validate_number("rate", self.rate, above=0)

    @property
    def divergence(self) -> Divergence:
        """Of exponential laws."""
        return kl_exponential

    def variance(self, means: FloatArray) -> FloatArray:
        """The mean squared."""
        return means**2

    def prior(self) -> FloatArray:
        """(shape, rate): (2,)."""
        return np.array([self.shape, self.rate], dtype=float)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(1, y): (...) -> (2, ...)."""
        return np.stack([np.ones_like(rewards), rewards])

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """rate / (shape - 1)."""
        shape, rate = belief
        return np.asarray(rate / (shape - 1))

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """(rate / (shape - 1))^2 / (shape - 2), infinite for shapes up to 2."""
        shape, rate = belief
        finite = shape > 2
        square = (rate / (shape - 1)) ** 2
        # the inner `where` avoids a division by zero that the outer one would discard
        return np.where(finite, square / np.where(finite, shape - 2, 1.0), np.inf)

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """An inverse-Gamma variate."""
        shape, rate = belief
        # the belief is about the rate 1/mean, hence the inverse
        return np.asarray(rate / generator.standard_gamma(shape))

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """An inverse-Gamma quantile."""
        from scipy.special import gammainccinv

        shape, rate = belief
        with np.errstate(divide="ignore"):  # at level 1 the mean is infinite
            # The mean falls with the rate, hence the complementary inverse.
            return np.asarray(rate / gammainccinv(shape, level))

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """P(1/mean >= 1/m)."""
        from scipy.special import gammaincc

        shape, rate = belief
        with np.errstate(divide="ignore", over="ignore"):  # 0 at and below a mean of 0
            return np.asarray(gammaincc(shape, rate / np.maximum(mean, 0.0)))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The inverse-Gamma log-density."""
        from scipy.special import gammaln

        shape, rate = belief
        mean = np.asarray(mean, dtype=float)
        # The change of variables from 1/m to m has the Jacobian 1/m^2: shape - 1 becomes shape + 1.
        log_norm = shape * np.log(rate) - gammaln(shape)
        return np.asarray(log_norm - (shape + 1) * np.log(mean) - rate / mean)

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) between inverse-Gamma laws: (D, ...) -> (...)."""
        return kl_gamma(belief, other)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between two beliefs: (D, ...) -> (...)."""
        return hellinger_distance(log_normaliser_gamma, belief, other)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """-log m - y / m."""
        mean = np.asarray(mean, dtype=float)
        return np.asarray(-np.log(mean) - np.asarray(rewards) / mean)

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """-mean log(1 - u), by inversion."""
        # 1 - u lies in (0, 1], so that the logarithm is finite.
        return np.asarray(-means * np.log1p(-generator.random(means.shape)))
