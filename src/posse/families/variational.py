"""Variational beliefs: rewards without a conjugate posterior, each approximated once.

The exact posterior of such rewards has no finite coordinates. The belief q is a Gaussian instead,
and a reward adds the natural parameters of its local factor: the Gaussian that replaces its
likelihood, computed at the belief that the reward met. From then on the factor is a constant. So an
observation still adds, a merge still averages, and the coordinates are the only state (partitioned
variational inference: Ashman, Bui, Nguyen and others 2022; `Logistic` does the same with contexts).

A local factor has two parts. Coordinate ascent on a latent variable (how large was the noise, which
kind of visitor was this?) gives the *expected complete-data factor*, hence the location after the
reward. Its precision would be too high: it counts the latent variable as known. The *information*
has the precision that is left (the missing information principle: Orchard and Woodbury 1972). With
the complete-data precision instead, beliefs would not only be too certain: each reward would move
them too little, and they would stay less accurate than the exact posterior for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from posse.families.family import REAL_LINE, Interval
from posse.families.gaussian import Gaussian
from posse.families.gaussian_weights import GaussianWeights
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness

# The belief about the mean of an arm; none of the functions used here depends on sigma.
_MEAN = Gaussian()


class Variational(OptionalMethods, ABC):
    """The base of a variational family: a Gaussian belief about d locations of each arm.

    The mean of an arm is a known combination of its locations.

    Coordinates: d shifts b = Lambda m, then the upper triangle by rows of the precision matrix
    Lambda, D = d + d (d + 1) / 2, as those of `Linear`. One location has (m L, L), as `Gaussian`.

    A subclass is a frozen dataclass with `name`, `loadings`, `prior`, `local_factor`,
    `reward_log_density` and, to simulate rewards, `draw_rewards`.
    """

    anchored: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    means: ClassVar[Interval] = REAL_LINE
    rewards: ClassVar[Interval] = REAL_LINE
    quantiles_cross_once: ClassVar[bool] = True

    @property
    def loadings(self) -> FloatArray:
        """The combination x of the locations theta that is the mean of an arm, x'theta: (d,)."""
        return np.ones(1)

    @abstractmethod
    def prior(self) -> FloatArray:
        """The prior's coordinates, (D,)."""

    @abstractmethod
    def local_factor(
        self, rewards: FloatArray, at: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return targets (d, ...), weights (d, ...) and the information (d, d, ...) of rewards.

        rewards: (...); at: (D, ...), the beliefs that they met. Targets and weights are the natural
        parameters of the expected complete-data factor, whose precision matrix is diagonal. The
        information is the precision that the rewards add, positive semi-definite.
        """

    @cached_property
    def _layout(self) -> GaussianWeights:
        return GaussianWeights(features=len(self.loadings))

    def pack_coordinates(self, shift: FloatArray, precision: FloatArray) -> FloatArray:
        """Return the coordinates (D, ...) of shifts (d, ...) and precisions (d, d, ...)."""
        return np.concatenate([shift, precision[np.triu_indices(len(shift))]])

    def unpack_precision(self, belief: FloatArray) -> FloatArray:
        """Return the precision matrices of beliefs (D, ...): (d, d, ...)."""
        d = len(self.loadings)
        rows, columns = np.triu_indices(d)
        precision = np.empty((d, d, *belief.shape[1:]))
        precision[rows, columns] = precision[columns, rows] = belief[d:]
        return precision

    def locations(self, belief: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the posterior means and variances of all locations: (D, ...) -> two (d, ...)."""
        d = len(self.loadings)
        # each location is the combination by a row of the identity
        rows = np.eye(d).reshape(*[1] * (belief.ndim - 1), d, d)
        marginals = np.moveaxis(self._layout.at_context(belief[..., None], rows), -1, 1)
        # contiguous: what is computed from them is several times as fast
        shift, precision = np.ascontiguousarray(marginals)
        return shift / precision, 1.0 / precision

    def mean_belief(self, belief: FloatArray) -> FloatArray:
        """Return the belief of the family `Gaussian` about the mean: (D, ...) -> (2, ...)."""
        row = self.loadings.reshape(*[1] * (belief.ndim - 1), -1)
        return self._layout.at_context(belief, row)

    def statistic(self, rewards: FloatArray, at: FloatArray | None = None) -> FloatArray:
        """Return the natural parameters of the local factors: (...), (D, ...) -> (D, ...).

        at: the belief about the arm that each reward met.
        """
        if at is None:
            raise ValueError(
                "at is missing: the factor of a reward is computed at a belief, see "
                "posse.beliefs.statistic"
            )
        target, weight, information = self.local_factor(np.asarray(rewards, dtype=float), at)
        location, _ = self.locations(at)
        precision = self.unpack_precision(at)
        complete = precision.copy()
        diagonal = np.arange(len(location))
        complete[diagonal, diagonal] += weight
        # The location moves as far as the complete-data factor moves it, in one belief with the
        # residuals as shifts: a difference of two locations would lose digits.
        move, _ = self.locations(self.pack_coordinates(target - weight * location, complete))
        shift = np.einsum("ij...,j...->i...", precision + information, move)
        shift += np.einsum("ij...,j...->i...", information, location)
        return self.pack_coordinates(shift, information)

    # The posterior of the mean, which is Gaussian

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """The loadings times the locations' means."""
        return _MEAN.posterior_mean(self.mean_belief(belief))

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """One over the precision of the mean."""
        return _MEAN.posterior_variance(self.mean_belief(belief))

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """A normal variate."""
        return _MEAN.sample_mean(self.mean_belief(belief), generator)

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """A normal quantile."""
        return _MEAN.mean_quantile(self.mean_belief(belief), level)

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """The normal distribution function."""
        return _MEAN.mean_cdf(self.mean_belief(belief), mean)

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The normal log-density of the mean."""
        return _MEAN.log_density(self.mean_belief(belief), mean)

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) of beliefs about all locations: (D, ...) -> (...)."""
        return self._layout.kl(belief, other)

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance between beliefs about all locations: (D, ...) -> (...)."""
        return self._layout.hellinger(belief, other)

    @abstractmethod
    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """Return the log-likelihood of rewards, up to a term without the mean."""

    def site_unit(self, means: FloatArray) -> FloatArray:
        """1: a mean may be 0."""
        return np.ones_like(means)
