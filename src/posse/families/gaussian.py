"""Gaussian rewards of known variance with a Gaussian belief about the mean (Lemma 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from posse import validation
from posse.divergences import Divergence, kl_gaussian
from posse.families.belief_divergences import hellinger_distance, kl_normal, log_normaliser_normal
from posse.families.family import LARGEST_MEAN, REAL_LINE, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness


@dataclass(frozen=True)
class Gaussian(OptionalMethods):
    """N(m, sigma^2) rewards, prior N(prior_mean, prior_sd^2); coordinates (m L, L), L = precision.

    In these coordinates the merge is eqs. `sigma_merge` and `mu_merge` of Lemma 2.
    """

    name: ClassVar[str] = "gaussian"
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    means: ClassVar[Interval] = REAL_LINE
    rewards: ClassVar[Interval] = REAL_LINE
    powers: ClassVar[tuple[int, ...]] = (1,)
    kernel: ClassVar[str | None] = "GAUSSIAN"
    quantiles_cross_once: ClassVar[bool] = True
    reward_kernel: ClassVar[str | None] = "draw_gaussian"
    assumption: ClassVar[str] = "sigma is right"

    sigma: float = 1.0
    prior_mean: float = 0.0
    prior_sd: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("sigma", self.sigma, at_least=1e-30, at_most=1e30)
        validation.validate_number(
            "prior_mean", self.prior_mean, at_least=-LARGEST_MEAN, at_most=LARGEST_MEAN
        )
        validation.validate_number("prior_sd", self.prior_sd, at_least=1e-30, at_most=1e30)

    @property
    def divergence(self) -> Divergence:
        """The divergence of Gaussian laws of this sigma."""
        return partial(kl_gaussian, sigma=self.sigma)

    @property
    def subgaussian(self) -> float:
        """sigma."""
        return self.sigma

    @property
    def unit(self) -> float:
        """sigma, so that evidence of agents with other ranges of rewards has one scale."""
        return self.sigma

    @property
    def observation_weight(self) -> float:
        """1 / sigma^2: the kernel's count is a precision."""
        return 1.0 / self.sigma**2

    @property
    def reward_parameter(self) -> float:
        """sigma."""
        return float(self.sigma)

    @property
    def site_spread(self) -> float:
        """prior_sd."""
        return self.prior_sd

    def site_unit(self, means: FloatArray) -> FloatArray:
        """1: a mean may be 0."""
        return np.ones_like(means)

    def variance(self, means: FloatArray) -> FloatArray:
        """sigma^2."""
        return np.full_like(means, self.sigma**2)

    def prior(self) -> FloatArray:
        """(prior_mean / prior_sd^2, 1 / prior_sd^2): (2,)."""
        return np.array([self.prior_mean, 1.0]) / self.prior_sd**2

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(y, 1) / sigma^2: (...) -> (2, ...)."""
        return np.stack([rewards, np.ones_like(rewards)]) / self.sigma**2

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """Shift over precision."""
        shift, precision = belief
        return np.asarray(shift / precision)

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """One over the precision."""
        return np.asarray(1.0 / belief[1])

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """A normal variate."""
        shift, precision = belief
        # mean + sd z = (shift sd + z) sd: one division for each, and no array but these three,
        # since this is hot
        sd = np.sqrt(precision, out=np.empty(precision.shape))
        np.divide(1.0, sd, out=sd)
        sample = np.multiply(shift, sd, out=np.empty(precision.shape))
        sample += generator.standard_normal(precision.shape)
        sample *= sd
        return np.asarray(sample)

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """mean + sd ndtri(level)."""
        from scipy.special import ndtri

        shift, precision = belief
        return np.asarray(shift / precision + ndtri(level) / np.sqrt(precision))

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """ndtr of the standardised mean."""
        from scipy.special import ndtr

        shift, precision = belief
        return np.asarray(ndtr((mean - shift / precision) * np.sqrt(precision)))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The normal log-density."""
        shift, precision = belief
        squares = precision * (mean - shift / precision) ** 2
        return np.asarray((np.log(precision / (2 * math.pi)) - squares) / 2)

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) between normal laws: (D, ...) -> (...)."""
        return kl_normal(belief, other)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between two beliefs: (D, ...) -> (...)."""
        return hellinger_distance(log_normaliser_normal, belief, other)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """-(y - m)^2 / (2 sigma^2)."""
        return np.asarray(-(((np.asarray(rewards) - np.asarray(mean)) / self.sigma) ** 2) / 2)

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """mean + sigma z."""
        return np.asarray(means + self.sigma * generator.standard_normal(means.shape))
