"""Gaussian rewards of unknown variance with a Normal-Gamma belief about mean and precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from posse import validation
from posse.divergences import Divergence, kl_gaussian_unknown_variance
from posse.families.belief_divergences import hellinger_distance, kl_gamma
from posse.families.family import LARGEST_MEAN, REAL_LINE, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness


@dataclass(frozen=True)
class NormalGamma:
    """precision ~ Gamma(shape, rate), mean | precision ~ N(location, 1 / (count precision))."""

    location: FloatArray
    count: FloatArray
    shape: FloatArray
    rate: FloatArray

    @property
    def scale(self) -> FloatArray:
        """The mean is location + scale * Student-t with 2 shape degrees of freedom."""
        return np.sqrt(self.rate / (self.shape * self.count))


@dataclass(frozen=True)
class GaussianUnknownVariance(OptionalMethods):
    """N(m, 1/tau) rewards, Normal-Gamma prior; `sigma` only draws rewards, the belief learns it.

    Coordinates (kappa m, kappa, a, b + kappa m^2 / 2) with kappa = count, a = shape, b = rate.
    """

    name: ClassVar[str] = "gaussian-unknown-variance"
    parameters: ClassVar[tuple[str, ...]] = ("mean", "precision")
    means: ClassVar[Interval] = REAL_LINE
    rewards: ClassVar[Interval] = REAL_LINE
    powers: ClassVar[tuple[int, ...]] = (1, 2)
    kernel: ClassVar[str | None] = "STUDENT"
    reward_kernel: ClassVar[str | None] = "draw_gaussian"

    sigma: float = 1.0
    prior_mean: float = 0.0
    prior_count: float = 1.0
    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number(
            "prior_mean", self.prior_mean, at_least=-LARGEST_MEAN, at_most=LARGEST_MEAN
        )
        # Squares and ratios of numbers within these bounds are far from overflow.
        for field in ("sigma", "prior_count", "rate"):
            validation.validate_number(field, getattr(self, field), at_least=1e-30, at_most=1e30)
        # With shape <= 1/2 the mean is Student-t with at most 1 degree of freedom: it has no
        # expectation.
        validation.validate_number("shape", self.shape, above=0.5)

    @property
    def divergence(self) -> Divergence:
        """The divergence to the nearest Gaussian law of that mean, of any variance."""
        return partial(kl_gaussian_unknown_variance, sigma=self.sigma)

    @property
    def reward_parameter(self) -> float:
        """sigma."""
        return float(self.sigma)

    @property
    def shape_offset(self) -> float:
        """shape - prior_count / 2: an observation adds 1 to the count and 1/2 to the shape."""
        return self.shape - self.prior_count / 2

    def prior(self) -> FloatArray:
        """(kappa m, kappa, a, b + kappa m^2 / 2): (4,)."""
        count = self.prior_count
        mean = self.prior_mean
        return np.array([count * mean, count, self.shape, self.rate + count * mean**2 / 2])

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(y, 1, 1/2, y^2/2): (...) -> (4, ...)."""
        ones = np.ones_like(rewards)
        return np.stack([rewards, ones, ones / 2, rewards**2 / 2])

    def unpack_belief(self, belief: FloatArray) -> NormalGamma:
        """The Normal-Gamma parameters behind the coordinates (4, ...)."""
        weighted_mean, count, shape, energy = belief
        # The inverse of the coordinates: b = energy - kappa m^2 / 2 with kappa m = weighted_mean.
        location = weighted_mean / count
        rate = energy - weighted_mean * location / 2
        # rate > 0 in exact arithmetic; for means far from 0 the subtraction can lose all digits,
        # and the bound keeps the posterior proper
        return NormalGamma(location, count, shape, np.maximum(rate, np.finfo(float).eps * energy))

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """The location."""
        return self.unpack_belief(belief).location

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """The variance of Student's t, infinite for shapes up to 1."""
        q = self.unpack_belief(belief)
        finite = q.shape > 1
        return np.where(finite, q.scale**2 * q.shape / np.where(finite, q.shape - 1, 1.0), np.inf)

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """A precision from its Gamma, then a mean given the precision."""
        q = self.unpack_belief(belief)
        # two variates per arm, always in this order: it is part of every published number
        precision = generator.standard_gamma(q.shape) / q.rate
        normal = generator.standard_normal(q.count.shape)
        return np.asarray(q.location + normal / np.sqrt(q.count * precision))

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """A Student-t quantile."""
        from scipy.special import stdtrit

        q = self.unpack_belief(belief)
        # SciPy's stdtrit returns +inf at level 0
        student = np.where(np.asarray(level) > 0, stdtrit(2 * q.shape, level), -np.inf)
        return np.asarray(q.location + q.scale * student)

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The Student-t distribution function."""
        from scipy.special import stdtr

        q = self.unpack_belief(belief)
        return np.asarray(stdtr(2 * q.shape, (mean - q.location) / q.scale))

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """Student-t in the mean alone; Normal-Gamma where the precision is given too."""
        from scipy.special import betaln, gammaln

        q = self.unpack_belief(belief)
        squares = q.count * (mean - q.location) ** 2 / 2
        if nuisance:
            precision = np.asarray(nuisance[0], dtype=float)
            log_gamma = q.shape * np.log(q.rate) - gammaln(q.shape)
            log_normal = np.log(q.count / (2 * math.pi)) / 2
            log_kernel = (q.shape - 0.5) * np.log(precision) - precision * (q.rate + squares)
            return np.asarray(log_gamma + log_normal + log_kernel)
        degrees = 2 * q.shape
        log_norm = np.log(q.scale) + np.log(degrees) / 2 + betaln(0.5, q.shape)
        return np.asarray(-(degrees + 1) / 2 * np.log1p(squares / q.rate) - log_norm)

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) of mean and precision: (4, ...) -> (...).

        That of the precisions, and that of the means given the precision, on average.
        """
        p = self.unpack_belief(belief)
        q = self.unpack_belief(other)
        ratio = q.count / p.count
        squares = q.count * (p.shape / p.rate) * (p.location - q.location) ** 2
        of_means = np.maximum((squares + ratio - 1.0 - np.log(ratio)) / 2, 0.0)
        of_precisions = kl_gamma(np.stack([p.shape, p.rate]), np.stack([q.shape, q.rate]))
        return np.asarray(of_precisions + of_means)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between beliefs about mean and precision: (4, ...) -> (...)."""
        return hellinger_distance(self._log_normaliser, belief, other)

    def _log_normaliser(self, belief: FloatArray) -> FloatArray:
        from scipy.special import gammaln

        q = self.unpack_belief(belief)
        return np.asarray(gammaln(q.shape) - q.shape * np.log(q.rate) - np.log(q.count) / 2)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """(log tau - tau (y - m)^2) / 2."""
        precision = np.asarray(nuisance[0], dtype=float)
        squares = (np.asarray(rewards) - np.asarray(mean)) ** 2
        return np.asarray((np.log(precision) - precision * squares) / 2)

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """mean + sigma z."""
        return np.asarray(means + self.sigma * generator.standard_normal(means.shape))
