"""Rewards with outliers: Student-t noise around the mean, with a Gaussian belief about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import validation
from posse.families.family import LARGEST_MEAN
from posse.families.variational import Variational
from posse.randomness import FloatArray, Numbers, Randomness

# Steps of coordinate ascent. A belief that is narrower than the noise needs one.
_STEPS = 12


@dataclass(frozen=True)
class StudentT(Variational):
    """mean + sigma t rewards, t of Student's law; prior N(prior_mean, prior_sd^2) of the mean.

    sigma:      the scale of the noise: that of most rewards, without the outliers
    degrees:    the degrees of freedom, above 1: 2 to 5 for outliers; 30 is nearly Gaussian
    prior_mean: the prior expectation of the mean
    prior_sd:   the prior standard deviation of the mean

    The noise of a reward is normal with precision w / sigma^2, w ~ Gamma(degrees/2, degrees/2), a
    latent variable. A reward far from the belief has a small expected w: it moves the belief by
    little and adds little precision. Coordinates (m L, L), as those of `Gaussian`.

    >>> family = posse.families.StudentT(sigma=0.5, degrees=3.0)
    >>> belief = beliefs.prior(family, n_agents=1, n_arms=2)[:, 0]  # (2, 2)
    >>> belief = beliefs.observe(belief, np.array(0), np.array(0.4), family, 1.0)
    >>> belief = beliefs.observe(belief, np.array(0), np.array(50.0), family, 1.0)  # an outlier
    >>> family.posterior_mean(belief).round(2).tolist()
    [0.34, 0.0]
    """

    name: ClassVar[str] = "student-t"
    assumption: ClassVar[str] = "noise is symmetric"

    sigma: float = 1.0
    degrees: float = 4.0
    prior_mean: float = 0.0
    prior_sd: float = 1.0

    def __post_init__(self) -> None:
        validation.validate_number("sigma", self.sigma, at_least=1e-30, at_most=1e30)
        # with 1 degree or fewer the noise has no expectation
        validation.validate_number("degrees", self.degrees, above=1, at_most=1e6)
        validation.validate_number(
            "prior_mean", self.prior_mean, at_least=-LARGEST_MEAN, at_most=LARGEST_MEAN
        )
        validation.validate_number("prior_sd", self.prior_sd, at_least=1e-30, at_most=1e30)

    def prior(self) -> FloatArray:
        """(prior_mean / prior_sd^2, 1 / prior_sd^2): (2,)."""
        return np.array([self.prior_mean, 1.0]) / self.prior_sd**2

    def local_factor(
        self, rewards: FloatArray, at: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(w y, w) / sigma^2 with the expected w of each reward: (1, ...), (1, ...), (1, 1, ...).

        q(mean) and q(w) are updated in turn: w = (degrees + 1) / (degrees + E[(y - m)^2] /
        sigma^2), the expectation over the belief after the reward. w rises with w, so that steps
        from the largest possible w fall to the largest solution: if the belief is wide, a reward
        far away is rather believed than called an outlier.

        The information is that share of w which the latent variable leaves: Student's law has the
        Fisher information (degrees + 1) / (degrees + 3) / sigma^2, and the expectation of w is 1.
        """
        shift, precision = at
        squares = ((rewards - shift / precision) / self.sigma) ** 2
        spread = 1.0 / (precision * self.sigma**2)
        weight = np.full_like(squares, 1.0 + 1.0 / self.degrees)
        for _ in range(_STEPS):
            left = 1.0 / (1.0 + weight * spread)  # the share of residual and variance that is left
            weight = (self.degrees + 1.0) / (self.degrees + squares * left**2 + spread * left)
        weight = weight / self.sigma**2
        known = (self.degrees + 1.0) / (self.degrees + 3.0)
        return (weight * rewards)[None], weight[None], known * weight[None, None]

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """-(degrees + 1) / 2 log(1 + (y - m)^2 / (degrees sigma^2))."""
        squares = ((np.asarray(rewards) - np.asarray(mean)) / self.sigma) ** 2
        return np.asarray(-(self.degrees + 1.0) / 2.0 * np.log1p(squares / self.degrees))

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """mean + sigma t, by inversion."""
        from scipy.special import stdtrit

        # at level 0 the quantile is infinite
        level = np.maximum(generator.random(means.shape), 2.0**-54)
        return np.asarray(means + self.sigma * stdtrit(self.degrees, level))
