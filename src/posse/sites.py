"""Partial pooling of heterogeneous sites, by empirical Bayes.

Site i has its own means, mu_i = m + tau z_i for each arm; tau is the heterogeneity, a standard
deviation between sites. Sites exchange the same evidence as homogeneous ones and discount the
evidence of others when they use it. `evidence` is always (2, ..., N, K): the sums of the statistics
of each of N sites, with or without an axis of runs before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import atan, log, pi

import numpy as np

from posse import validation
from posse.families import (
    Family,
    from_count_and_total,
    get_family_name,
    get_optional,
    to_count_and_total,
)
from posse.randomness import FloatArray

# Candidate values of tau, as multiples of the family's `site_spread` and `site_unit`.
GRID: FloatArray = np.concatenate([[0.0], np.geomspace(0.01, 2.0, 24)])
# The prior for decisions gives probability 1/2 to homogeneous sites (tau = 0): if they are
# homogeneous, not pooling is expensive. The prior for displayed intervals is neutral: half-Cauchy.
ACTING_PRIOR: FloatArray = np.array([0.5] + [0.5 / 24] * 24)
_GRID_EDGES = [0.0, *((GRID[1:] + GRID[:-1]) / 2).tolist()]
_DISPLAY_PRIOR: FloatArray = np.diff([*(2 / pi * atan(edge / 0.25) for edge in _GRID_EDGES), 1.0])
# The weight of the other arms in the prior of an arm's tau. Less would be better if a single arm
# differs, but nothing is lost there either; see docs/sites.md.
SHARED_WEIGHT = 0.8
SURE = 0.05  # sites count as different if the probability that they are alike is below this


def check_reward_variance(family: Family) -> None:
    """Refuse a family in which the mean does not determine the variance of a reward."""
    if get_optional(family, "variance")(np.array([0.5])) is None:
        raise ValueError(
            f"heterogeneous sites need a family whose mean determines the variance of a reward, "
            f"such as bernoulli, bounded, gaussian, poisson or exponential, "
            f"got {get_family_name(family)}"
        )


def check_site_sd(name: str, site_sd: float | None) -> None:
    """Refuse a value that is not a standard deviation between sites."""
    if site_sd is not None:
        validation.validate_number(name, site_sd, at_least=0, at_most=1e30)


@dataclass(frozen=True)
class Sites:
    """The evidence of N sites about K arms, under tau = site_sd, or under all of GRID if None.

    A site_sd is in units of the reward for Gaussian arms, else relative to the mean of the arm.
    """

    family: Family
    evidence: FloatArray  # (2, ..., N, K)
    site_sd: float | None = None

    @cached_property
    def pulls(self) -> FloatArray:
        """The number of pulls of each arm at each site: (..., N, K)."""
        return np.asarray(self._count_and_total[0])

    @cached_property
    def _count_and_total(self) -> FloatArray:
        """Pulls and sums of rewards: (2, ..., N, K)."""
        return np.asarray(to_count_and_total(self.family, self.evidence) / self._observation_weight)

    @property
    def _observation_weight(self) -> float:
        return float(get_optional(self.family, "observation_weight"))

    @cached_property
    def prior_pulls(self) -> tuple[float, float, float]:
        """The prior as pulls and their sum, and the offset of its first coordinate.

        The posterior mean is (prior sum + sum) / (prior pulls + pulls); in the shape of the
        exponential family, 1 is not a pull, hence the offset.
        """
        two_pulls = from_count_and_total(
            self.family, self._observation_weight * np.array([2.0, 1.0])
        )
        offset = 2.0 - 1.0 / float(self.family.posterior_mean(two_pulls))
        count, total = (
            to_count_and_total(self.family, self.family.prior()) / self._observation_weight
        )
        return float(count) - offset, float(total), offset

    @cached_property
    def pooled_mean(self) -> FloatArray:
        """The posterior mean if all sites were homogeneous: (..., 1, K)."""
        prior_count, prior_total, _ = self.prior_pulls
        count, total = self._count_and_total.sum(axis=-2, keepdims=True)
        return np.asarray((prior_total + total) / (prior_count + count))

    @cached_property
    def variance(self) -> FloatArray:
        """The variance of one reward at the pooled mean, where it is positive: (..., 1, K)."""
        variance: FloatArray = get_optional(self.family, "variance")(self.pooled_mean)
        return variance

    @property
    def multiples(self) -> FloatArray:
        """The candidate standard deviations between sites, in units of `site_unit`: (T,)."""
        spread = float(get_optional(self.family, "site_spread"))
        return GRID * spread if self.site_sd is None else np.array([float(self.site_sd)])

    @cached_property
    def sds(self) -> FloatArray:
        """The candidate standard deviations between sites: (T, ..., 1, K)."""
        unit: FloatArray = get_optional(self.family, "site_unit")(self.pooled_mean)
        return np.asarray(self.multiples.reshape(-1, *[1] * unit.ndim) * unit)

    @cached_property
    def _ratio(self) -> FloatArray:
        """r = tau^2 / V: (T, ..., 1, K)."""
        return np.asarray(self.sds**2 / self.variance)

    @cached_property
    def _pull_worth(self) -> FloatArray:
        """1 / (1 + r n): the worth of one pull of a site for the mean of all sites, (T, ..., N, K).

        So a site is worth at most 1/r pulls, however many it has.
        """
        return np.asarray(1.0 / (1.0 + self._ratio * self.pulls))

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """The log-likelihood of tau with the mean of all sites integrated out (REML): (T, ..., K).

        It is up to a constant; the way in which arms were chosen cancels.
        """
        pulls, total = self._count_and_total
        # Centred at the pooled mean, so that the sums of squares below do not cancel.
        apart = total - pulls * self.pooled_mean
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.where(pulls > 0, apart / pulls, 0.0)
            weights = self._pull_worth * pulls
            weight = weights.sum(axis=-2)
            middle = (self._pull_worth * apart).sum(axis=-2)
            squares = (self._pull_worth * (apart * deviation)).sum(axis=-2) - middle**2 / weight
            noise = np.log(self._pull_worth).sum(axis=-2) - np.log(weight)
            log_likelihood = (noise - squares / self.variance[..., 0, :]) / 2
        return np.asarray(np.where(weight > 0, log_likelihood, 0.0))

    def site_sd_probabilities(self, for_display: bool = False) -> FloatArray:
        """Return the posterior of tau for each arm, partly shared between arms: (T, ..., K)."""
        return compute_site_sd_probabilities(self.log_likelihood, for_display)

    def site_beliefs(
        self, for_display: bool = False, acting_evidence: FloatArray | None = None
    ) -> FloatArray:
        """Return the belief of each site, matched in mean and variance: (2, ..., N, K).

        for_display: with the prior for displayed intervals, else that for decisions.
        acting_evidence: other evidence for the means; `evidence` still determines tau.
        """
        prior_count, prior_total, _ = self.prior_pulls
        if acting_evidence is None:
            (pulls, total), worth = self._count_and_total, self._pull_worth
        else:
            pulls, total = (
                to_count_and_total(self.family, acting_evidence) / self._observation_weight
            )
            worth = 1.0 / (1.0 + self._ratio * pulls)
        other_pulls = worth * pulls
        other_total = worth * total
        other_pulls = other_pulls.sum(axis=-2, keepdims=True) - other_pulls  # of the other sites
        other_total = other_total.sum(axis=-2, keepdims=True) - other_total
        shared = 1.0 / (1.0 + self._ratio * other_pulls)
        count = prior_count + pulls + other_pulls * shared
        mean = (prior_total + total + other_total * shared) / count
        return self._match_mixture(
            count, mean, self.site_sd_probabilities(for_display)[..., None, :]
        )

    def network_belief(self, for_display: bool = True) -> FloatArray:
        """Return the belief about the average of an arm's mean over sites: (2, ..., K)."""
        prior_count, prior_total, _ = self.prior_pulls
        pulls, total = self._count_and_total
        worth = self._pull_worth
        ratio = self._ratio[..., 0, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = (worth * pulls).sum(axis=-2)
            middle = np.where(weight > 0, (worth * total).sum(axis=-2) / weight, 0.0)
            # Shrinkage: a site with little evidence takes the rest from the mean of all sites.
            free = worth.mean(axis=-2)
            spread = ratio * free / pulls.shape[-2]
            count = np.where(weight > 0, 1.0 / (spread + free**2 / weight), 0.0)
        # ratio * worth * total is the weight of the site's own mean, times that mean.
        mean = (ratio[..., None, :] * worth * total).mean(axis=-2) + free * middle
        whole = prior_count + count
        mean = (prior_total + count * mean) / whole
        return self._match_mixture(whole, mean, self.site_sd_probabilities(for_display))

    def _match_mixture(
        self, count: FloatArray, mean: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return a belief with the mean and variance of the mixture: (T, ...) each -> (2, ...)."""
        variance = self.variance if count.ndim == self.sds.ndim else self.variance[..., 0, :]
        middle = (weights * mean).sum(axis=0)
        # Variances below are in units of the variance of one reward.
        spread = (weights / count).sum(axis=0)
        spread = spread + (weights * (mean - middle) ** 2).sum(axis=0) / variance
        matched = 1.0 / spread
        offset = self.prior_pulls[2]
        return from_count_and_total(
            self.family, self._observation_weight * np.stack([matched + offset, matched * middle])
        )

    def sd_between(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean and 80% interval of the standard deviation between sites, (..., K)."""
        weights = self.site_sd_probabilities(for_display=True)
        sds = self.sds[..., 0, :]
        above = np.cumsum(weights, axis=0)
        last = len(sds) - 1

        def quantile(level: float) -> FloatArray:
            place = np.minimum((above < level).sum(axis=0), last)
            return np.asarray(np.take_along_axis(sds, place[None], axis=0)[0])

        return (weights * sds).sum(axis=0), quantile(0.1), quantile(0.9)

    def probability_alike(self) -> FloatArray:
        """Return the probability that an arm is homogeneous over sites, 1/2 a priori: (..., K)."""
        return np.asarray(Sites(self.family, self.evidence).site_sd_probabilities()[0])

    def probability_all_alike(self) -> FloatArray:
        """Return the probability that all arms are homogeneous over sites, 1/2 a priori: (...).

        Its odds are a likelihood ratio against the average of "one arm differs" and "all differ by
        the same tau". So, if sites are homogeneous, it ever falls below p in at most about a share
        p of all experiments, however often one looks (Ville).
        """
        return compute_probability_all_alike(Sites(self.family, self.evidence).log_likelihood)


def compute_site_sd_probabilities(
    log_likelihood: FloatArray, for_display: bool = False
) -> FloatArray:
    """Return the posterior of tau on GRID, for decisions or display: (T, ..., K) -> (T, ..., K).

    Empirical Bayes: the prior of an arm's tau is partly the posterior of the other arms.
    """
    if len(log_likelihood) == 1:  # tau is given
        return np.ones_like(log_likelihood)
    prior = (_DISPLAY_PRIOR if for_display else ACTING_PRIOR).reshape(
        -1, *[1] * (log_likelihood.ndim - 1)
    )
    other_arms = log_likelihood.sum(axis=-1, keepdims=True) - log_likelihood
    shared = _normalise_logs(np.log(prior) + other_arms)
    return _normalise_logs(
        np.log((1 - SHARED_WEIGHT) * prior + SHARED_WEIGHT * shared) + log_likelihood
    )


def compute_probability_all_alike(log_likelihood: FloatArray) -> FloatArray:
    """Return the probability of tau = 0 for all arms: (T, ..., K) -> (...)."""
    by_arm = log_likelihood[1:] - log_likelihood[0]
    together = _log_mean(by_arm.sum(axis=-1), axis=0)
    one_arm = _log_mean(_log_mean(by_arm, axis=0), axis=-1)
    odds = np.logaddexp(together, one_arm) - log(2)
    # exp(700) is finite and exp(710) is not
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(odds, 700.0))))


def _normalise_logs(logs: FloatArray) -> FloatArray:
    """Normalise log-weights to probabilities over the first axis."""
    values = np.exp(logs - logs.max(axis=0))
    return np.asarray(values / values.sum(axis=0))


def _log_mean(logs: FloatArray, axis: int) -> FloatArray:
    """Return the logarithm of an average, from logarithms."""
    # relative to the largest term, so that exp does not overflow
    top = logs.max(axis=axis, keepdims=True)
    log_mean = np.log(np.exp(logs - top).mean(axis=axis, keepdims=True)) + top
    return np.asarray(np.squeeze(log_mean, axis=axis))
