"""Rewards of several kinds of visitors: a mixture of normals with a belief about every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posse import validation
from posse.families.family import LARGEST_MEAN
from posse.families.logit_normal import hermite_nodes
from posse.families.variational import Variational
from posse.randomness import FloatArray, Numbers, Randomness

# The largest prior_sd as a share of the distance between kinds. At 1/4 two kinds lie in the other
# order with a prior probability of 0.2%; at 1/2 (8%) labels switched in 4% of simulated networks.
WIDEST = 0.25


@dataclass(frozen=True)
class MixtureOfNormals(Variational):
    """Kind c of visitors comes with probability shares[c] and pays N(m_c, sigma^2), m_c unknown.

    shares:      the known share of each kind among visitors, two or more
    prior_means: the prior expectation of each kind's m_c, all different
    sigma:       the standard deviation of a reward within a kind
    prior_sd:    the prior standard deviation of each m_c, at most a quarter of the least distance
                 between two prior means, which None stands for

    The kind of a visitor is never known; it is a latent variable. The mean of an arm is the sum of
    shares[c] m_c. If kinds pay very differently, most of the variance of rewards lies between the
    kinds; since the shares are known, it does not blur the mean.

    Labels do not switch between agents: kind c is by definition the one with shares[c] and
    prior_means[c], which are the same for all agents, so that coordinate c is about the same kind
    in every belief, and a merge averages like with like. (Kinds without a prior of their own could
    be named in any order, and the average of two orders would mean nothing.) Hence the limit of
    prior_sd: if kinds may well lie in the other order, a few early rewards, which count N times
    under Algorithm 1, can exchange two kinds in all beliefs for ever.

    To simulate a bandit, rewards of an arm with mean m have the kinds at m_c = m + prior_means[c]
    minus the average prior mean.

    >>> family = posse.families.MixtureOfNormals((0.7, 0.3), (0.0, 2.0), sigma=0.5)
    >>> belief = beliefs.prior(family, n_agents=1, n_arms=2)[:, 0]  # (5, 2)
    >>> belief = beliefs.observe(belief, np.array(0), np.array(2.5), family, 1.0)
    >>> means, variances = family.locations(belief[:, 0])  # only the second kind has been seen
    >>> means.round(1).tolist(), variances.round(1).tolist()
    ([0.0, 2.2], [0.2, 0.1])
    """

    name: ClassVar[str] = "mixture-of-normals"

    shares: tuple[float, ...]
    prior_means: tuple[float, ...]
    sigma: float = 1.0
    prior_sd: float | None = None

    def __post_init__(self) -> None:
        shares = _validate_tuple("shares", self.shares)
        if len(shares) < 2 or min(shares) <= 0 or abs(sum(shares) - 1.0) > 1e-6:
            raise ValueError(
                "shares must be two or more positive numbers with sum 1, got "
                f"{validation.format_value(self.shares)}"
            )
        prior_means = _validate_tuple("prior_means", self.prior_means)
        if len(prior_means) != len(shares) or len(set(prior_means)) < len(prior_means):
            raise ValueError(
                f"prior_means must be {len(shares)} different numbers, one for each kind, by which "
                f"kinds are told apart, got {validation.format_value(self.prior_means)}"
            )
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "prior_means", prior_means)
        validation.validate_number("sigma", self.sigma, at_least=1e-30, at_most=1e30)
        if self.prior_sd is not None:
            validation.validate_number("prior_sd", self.prior_sd, at_least=1e-30, at_most=1e30)
            if self.prior_sd > self._widest_sd:
                raise ValueError(
                    f"prior_sd must be at most {self._widest_sd:g}, a quarter of the least "
                    f"distance between prior_means, or kinds could change places, got "
                    f"{self.prior_sd!r}"
                )

    @property
    def _widest_sd(self) -> float:
        return WIDEST * float(np.diff(np.sort(self.prior_means)).min())

    @classmethod
    def example(cls) -> MixtureOfNormals:
        """Browsers and buyers, for the law tests."""
        return cls((0.7, 0.3), (0.0, 3.0))

    @property
    def loadings(self) -> FloatArray:
        """The shares: (C,)."""
        return np.array(self.shares) / sum(self.shares)

    @property
    def _offsets(self) -> FloatArray:
        """The prior distance of each kind from the mean of an arm: (C,)."""
        prior_means = np.array(self.prior_means)
        return np.asarray(prior_means - self.loadings @ prior_means)

    def prior(self) -> FloatArray:
        """Independent normal kinds: (D,)."""
        variance = (self._widest_sd if self.prior_sd is None else self.prior_sd) ** 2
        precision = np.eye(len(self.shares)) / variance
        return self.pack_coordinates(np.array(self.prior_means) / variance, precision)

    def _responsibilities(
        self, rewards: FloatArray, means: FloatArray, variances: Numbers
    ) -> FloatArray:
        """Return the probability of each kind given rewards of N(means, variances): (C, ...)."""
        shares = self.loadings.reshape(-1, *[1] * np.ndim(rewards))
        log_joint = np.log(shares) - ((rewards - means) ** 2 / variances + np.log(variances)) / 2
        joint = np.exp(log_joint - log_joint.max(axis=0))
        return np.asarray(joint / joint.sum(axis=0))

    def local_factor(
        self, rewards: FloatArray, at: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(r y, r) / sigma^2, r the probability of each kind: (C, ...), (C, ...), (C, C, ...)."""
        means, variances = self.locations(at)
        # the predictive law of kind c has the variance of a reward and that of the belief
        kinds = self._responsibilities(rewards, means, self.sigma**2 + variances)
        weight = kinds / self.sigma**2
        return weight * rewards, weight, self._information(kinds, means)

    def _information(self, kinds: FloatArray, means: FloatArray) -> FloatArray:
        """Return the information of rewards that are of these kinds: 2 x (C, ...) -> (C, C, ...).

        That of one kind is the expected outer product of the score (the slope of the
        log-likelihood in all m_c) over rewards of that kind, by Gauss-Hermite quadrature. Averaged
        over the shares it is the Fisher information. Kinds that lie far apart have 1 / sigma^2 each
        for their own m_c; kinds that overlap have less, and hardly tell their difference.
        """
        scores, weights = hermite_nodes()
        column = scores.reshape(-1, *[1] * means.ndim)  # (H, 1, ...)
        rewards = means + self.sigma * column  # (H, C, ...): node, kind of the visitor
        centres = means[:, None, None]  # (C, 1, 1, ...)
        slope = self._responsibilities(rewards, centres, self.sigma**2) * (rewards - centres)
        slope = slope / self.sigma**2  # (C, H, C, ...)
        weighted = slope * (weights.reshape(-1, *[1] * means.ndim) * kinds)
        # pair by pair: twice as fast as one sum over all axes
        information = np.empty((len(means), *means.shape))
        for i, j in zip(*np.triu_indices(len(means)), strict=True):
            information[i, j] = information[j, i] = (weighted[i] * slope[j]).sum(axis=(0, 1))
        return information

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """The log of the sum over kinds, which lie at their prior distances from the mean."""
        residual = np.asarray(rewards, dtype=float) - np.asarray(mean, dtype=float)
        squares = [((residual - offset) / self.sigma) ** 2 for offset in self._offsets]
        terms = [np.log(p) - s / 2 for p, s in zip(self.loadings, squares, strict=True)]
        return np.asarray(np.logaddexp.reduce(terms))

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """mean + offset of a kind + sigma z; one uniform gives the kind and, within it, z."""
        from scipy.special import ndtri

        level = generator.random(means.shape)
        ends = np.cumsum(self.loadings)
        kind = np.minimum(np.searchsorted(ends, level, side="right"), len(ends) - 1)
        within = (level - (ends - self.loadings)[kind]) / self.loadings[kind]
        z = ndtri(np.clip(within, 2.0**-54, 1.0 - 2.0**-53))
        return np.asarray(means + self._offsets[kind] + self.sigma * z)


def _validate_tuple(name: str, values: Any) -> tuple[float, ...]:
    """Return a sequence of numbers of a moderate size as a tuple of floats."""
    array = validation.validate_array(name, values, -LARGEST_MEAN, LARGEST_MEAN)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a list of numbers, got {validation.format_value(values)}")
    return tuple(array.tolist())
