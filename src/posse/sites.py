"""Sites that differ: how much of each other's evidence they believe, and how far apart they are.

Site i has means of its own, mu_i = m + tau z_i for each arm. Nothing is exchanged otherwise than
between sites that are alike: evidence of others is discounted when it is read. `evidence` is always
(2, ..., N, K): the sums of the statistics of each of N sites, runs before it or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import atan, log, pi

import numpy as np

from posse import validation
from posse.families.family import Family, get_family_name
from posse.families.optional_methods import from_count_and_total, get_optional, to_count_and_total
from posse.randomness import FloatArray

# what tau may be, as multiples of the family's `site_spread` and `site_unit`
GRID: FloatArray = np.concatenate([[0.0], np.geomspace(0.01, 2.0, 24)])
# An agent acts as if sites were alike with probability 1/2 beforehand: dear if they are and it
# does not. Intervals for people take no such side: a half-Cauchy law of tau, of this scale.
_ACTING_PRIOR: FloatArray = np.array([0.5] + [0.5 / 24] * 24)
_GRID_EDGES = [0.0, *((GRID[1:] + GRID[:-1]) / 2).tolist()]
_DISPLAY_PRIOR: FloatArray = np.diff([*(2 / pi * atan(edge / 0.25) for edge in _GRID_EDGES), 1.0])
# How far an arm is taught by the others what tau may be. Where one arm alone differs less were
# better, but nothing is lost there either; docs/sites.md.
_SHARED = 0.8
SURE = 0.05  # sites differ where the probability that they are alike is below this


def check_reward_variance(family: Family) -> None:
    """Refuse a family of which the variance of a reward is no function of the mean."""
    if get_optional(family, "variance")(np.array([0.5])) is None:
        raise ValueError(
            f"sites that differ need a family that knows the variance of a reward by its mean, "
            f"such as bernoulli, bounded, gaussian, poisson or exponential, "
            f"got {get_family_name(family)}"
        )


def check_site_sd(name: str, site_sd: float | None) -> None:
    """Refuse what is no standard deviation between sites."""
    if site_sd is not None:
        validation.validate_number(name, site_sd, at_least=0, at_most=1e30)


@dataclass(frozen=True)
class Sites:
    """The evidence of N sites about K arms, read under tau = site_sd, or under all of GRID if None.

    A site_sd is in units of the reward for Gaussian arms, else relative to the mean of the arm.
    """

    family: Family
    evidence: FloatArray  # (2, ..., N, K)
    site_sd: float | None = None

    @cached_property
    def pulls(self) -> FloatArray:
        """How often each site played each arm: (..., N, K)."""
        return np.asarray(self._count_and_total[0])

    @cached_property
    def _count_and_total(self) -> FloatArray:
        """Pulls and sums of rewards: (2, ..., N, K)."""
        return np.asarray(to_count_and_total(self.family, self.evidence) / self._observation_weight)

    @property
    def _observation_weight(self) -> float:
        return float(get_optional(self.family, "observation_weight"))

    @cached_property
    def _prior_pulls(self) -> tuple[float, float, float]:
        """The pulls that the prior is worth, their sum, and what its first coordinate has more.

        A posterior mean is (prior sum + sum) / (prior pulls + pulls): of the exponential's shape,
        one is no pull.
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
        """The posterior mean if all sites were alike: (..., 1, K)."""
        prior_count, prior_total, _ = self._prior_pulls
        count, total = self._count_and_total.sum(axis=-2, keepdims=True)
        return np.asarray((prior_total + total) / (prior_count + count))

    @cached_property
    def variance(self) -> FloatArray:
        """Of one reward, at the pooled posterior mean, where it is never 0: (..., 1, K)."""
        variance: FloatArray = get_optional(self.family, "variance")(self.pooled_mean)
        return variance

    @cached_property
    def sds(self) -> FloatArray:
        """What the standard deviation between sites may be: (T, ..., 1, K)."""
        multiples = GRID * self._spread if self.site_sd is None else np.array([self.site_sd])
        unit: FloatArray = get_optional(self.family, "site_unit")(self.pooled_mean)
        return np.asarray(multiples.reshape(-1, *[1] * unit.ndim) * unit)

    @property
    def _spread(self) -> float:
        return float(get_optional(self.family, "site_spread"))

    @cached_property
    def _ratio(self) -> FloatArray:
        """r = tau^2 / V: (T, ..., 1, K)."""
        return np.asarray(self.sds**2 / self.variance)

    @cached_property
    def _pull_worth(self) -> FloatArray:
        """1 / (1 + r n): what a pull of a site is worth for the mean of all sites, (T, ..., N, K).

        So no site is worth more than 1/r pulls, however many it has.
        """
        return np.asarray(1.0 / (1.0 + self._ratio * self.pulls))

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """Of tau, with the mean of all sites integrated out (REML), up to a constant: (T, ..., K).

        How arms were chosen cancels from it.
        """
        pulls, total = self._count_and_total
        apart = total - pulls * self.pooled_mean  # centred, so that nothing cancels below
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
        """The probability of each tau, of each arm by itself and by the others: (T, ..., K)."""
        return compute_site_sd_probabilities(self.log_likelihood, for_display)

    def site_beliefs(
        self, for_display: bool = False, acting_evidence: FloatArray | None = None
    ) -> FloatArray:
        """What each site believes, matched by mean and count to the mixture: (2, ..., N, K).

        showing: as people are shown it, else as agents act on it. acted: other evidence of the
        sites to believe in; how far they differ is still said by `evidence`.
        """
        prior_count, prior_total, _ = self._prior_pulls
        if acting_evidence is None:
            (pulls, total), capped = self._count_and_total, self._pull_worth
        else:
            pulls, total = (
                to_count_and_total(self.family, acting_evidence) / self._observation_weight
            )
            capped = 1.0 / (1.0 + self._ratio * pulls)
        other_pulls = capped * pulls
        other_total = capped * total
        other_pulls = other_pulls.sum(axis=-2, keepdims=True) - other_pulls  # of the others
        other_total = other_total.sum(axis=-2, keepdims=True) - other_total
        shared = 1.0 / (1.0 + self._ratio * other_pulls)
        count = prior_count + pulls + other_pulls * shared
        mean = (prior_total + total + other_total * shared) / count
        return self._match_mixture(
            count, mean, self.site_sd_probabilities(for_display)[..., None, :]
        )

    def network_belief(self, for_display: bool = True) -> FloatArray:
        """The belief about the average over sites of an arm's mean: (2, ..., K)."""
        prior_count, prior_total, _ = self._prior_pulls
        pulls, total = self._count_and_total
        capped = self._pull_worth
        ratio = self._ratio[..., 0, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = (capped * pulls).sum(axis=-2)
            middle = np.where(weight > 0, (capped * total).sum(axis=-2) / weight, 0.0)
            # a site that is not sure of its own mean takes the rest from the middle of all sites
            free = capped.mean(axis=-2)
            spread = ratio * free / pulls.shape[-2]
            count = np.where(weight > 0, 1.0 / (spread + free**2 / weight), 0.0)
        # ratio * capped * total is its pulls' share of the site's own mean, times that mean
        mean = (ratio[..., None, :] * capped * total).mean(axis=-2) + free * middle
        whole = prior_count + count
        mean = (prior_total + count * mean) / whole
        return self._match_mixture(whole, mean, self.site_sd_probabilities(for_display))

    def _match_mixture(
        self, count: FloatArray, mean: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """A belief with the mean and the variance of the mixture: (T, ...) each -> (2, ...)."""
        variance = self.variance if count.ndim == self.sds.ndim else self.variance[..., 0, :]
        middle = (weights * mean).sum(axis=0)
        # in units of the variance of a reward
        spread = (weights / count).sum(axis=0)
        spread = spread + (weights * (mean - middle) ** 2).sum(axis=0) / variance
        matched = 1.0 / spread
        offset = self._prior_pulls[2]
        return from_count_and_total(
            self.family, self._observation_weight * np.stack([matched + offset, matched * middle])
        )

    def sd_between(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The standard deviation between sites: mean and 80% range of its posterior, (..., K)."""
        weights = self.site_sd_probabilities(for_display=True)
        sds = self.sds[..., 0, :]
        above = np.cumsum(weights, axis=0)
        last = len(sds) - 1

        def quantile(level: float) -> FloatArray:
            place = np.minimum((above < level).sum(axis=0), last)
            return np.asarray(np.take_along_axis(sds, place[None], axis=0)[0])

        return (weights * sds).sum(axis=0), quantile(0.1), quantile(0.9)

    def probability_alike(self) -> FloatArray:
        """The probability of each arm to be alike at all sites, 1/2 beforehand: (..., K)."""
        return np.asarray(Sites(self.family, self.evidence).site_sd_probabilities()[0])

    def probability_all_alike(self) -> FloatArray:
        """The probability that all arms are alike at all sites, 1/2 beforehand: (...).

        Its odds are a likelihood ratio with the average of "one arm differs" and "all differ by the
        same tau" on the other side. So, if sites are alike, it falls below p at any time in about
        p of all experiments at most, however often one looks (Ville).
        """
        return compute_probability_all_alike(Sites(self.family, self.evidence).log_likelihood)


def compute_site_sd_probabilities(
    log_likelihood: FloatArray, for_display: bool = False
) -> FloatArray:
    """The probabilities of GRID, as agents act or people are shown: (T, ..., K) -> (T, ..., K).

    The prior of an arm's tau is partly what the other arms say of theirs.
    """
    if len(log_likelihood) == 1:  # a tau that is given
        return np.ones_like(log_likelihood)
    prior = (_DISPLAY_PRIOR if for_display else _ACTING_PRIOR).reshape(
        -1, *[1] * (log_likelihood.ndim - 1)
    )
    other_arms = log_likelihood.sum(axis=-1, keepdims=True) - log_likelihood
    shared = _normalise_logs(np.log(prior) + other_arms)
    return _normalise_logs(np.log((1 - _SHARED) * prior + _SHARED * shared) + log_likelihood)


def compute_probability_all_alike(log_likelihood: FloatArray) -> FloatArray:
    """The probability of tau = 0 for all arms, by the likelihood of GRID: (T, ..., K) -> (...)."""
    by_arm = log_likelihood[1:] - log_likelihood[0]
    together = _log_mean(by_arm.sum(axis=-1), axis=0)
    one_arm = _log_mean(_log_mean(by_arm, axis=0), axis=-1)
    odds = np.logaddexp(together, one_arm) - log(2)
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(odds, 700.0))))


def _normalise_logs(logs: FloatArray) -> FloatArray:
    """Probabilities over the first axis, from their logarithms."""
    values = np.exp(logs - logs.max(axis=0))
    return np.asarray(values / values.sum(axis=0))


def _log_mean(logs: FloatArray, axis: int) -> FloatArray:
    """The logarithm of an average, from logarithms."""
    top = logs.max(axis=axis, keepdims=True)
    log_mean = np.log(np.exp(logs - top).mean(axis=axis, keepdims=True)) + top
    return np.asarray(np.squeeze(log_mean, axis=axis))
