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
from posse.families.family import Family, name_of
from posse.families.optional_methods import from_count_and_total, get_optional, to_count_and_total
from posse.randomness import FloatArray

# what tau may be, as multiples of the family's `site_spread` and `site_unit`
GRID: FloatArray = np.concatenate([[0.0], np.geomspace(0.01, 2.0, 24)])
# An agent acts as if sites were alike with probability 1/2 beforehand: dear if they are and it
# does not. Intervals for people take no such side: a half-Cauchy law of tau, of this scale.
_ACTING: FloatArray = np.array([0.5] + [0.5 / 24] * 24)
_EDGES = [0.0, *((GRID[1:] + GRID[:-1]) / 2).tolist()]
_SHOWING: FloatArray = np.diff([*(2 / pi * atan(edge / 0.25) for edge in _EDGES), 1.0])
# How far an arm is taught by the others what tau may be. Where one arm alone differs less were
# better, but nothing is lost there either; docs/sites.md.
_TAUGHT = 0.8
SURE = 0.05  # sites differ where the probability that they are alike is below this


def check(family: Family) -> None:
    """Refuse a family of which the variance of a reward is no function of the mean."""
    if get_optional(family, "variance")(np.array([0.5])) is None:
        raise ValueError(
            f"sites that differ need a family that knows the variance of a reward by its mean, "
            f"such as bernoulli, bounded, gaussian, poisson or exponential, got {name_of(family)}"
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
        return np.asarray(self._pair[0])

    @cached_property
    def _pair(self) -> FloatArray:
        """Pulls and sums of rewards: (2, ..., N, K)."""
        return np.asarray(to_count_and_total(self.family, self.evidence) / self._weight)

    @property
    def _weight(self) -> float:
        return float(get_optional(self.family, "observation_weight"))

    @cached_property
    def _prior(self) -> tuple[float, float, float]:
        """The pulls that the prior is worth, their sum, and what its first coordinate has more.

        A posterior mean is (prior sum + sum) / (prior pulls + pulls): of the exponential's shape,
        one is no pull.
        """
        two = from_count_and_total(self.family, self._weight * np.array([2.0, 1.0]))
        more = 2.0 - 1.0 / float(self.family.posterior_mean(two))
        count, total = to_count_and_total(self.family, self.family.prior()) / self._weight
        return float(count) - more, float(total), more

    @cached_property
    def pooled_mean(self) -> FloatArray:
        """The posterior mean if all sites were alike: (..., 1, K)."""
        prior_count, prior_total, _ = self._prior
        count, total = self._pair.sum(axis=-2, keepdims=True)
        return np.asarray((prior_total + total) / (prior_count + count))

    @cached_property
    def variance(self) -> FloatArray:
        """Of one reward, at the pooled posterior mean, where it is never 0: (..., 1, K)."""
        found: FloatArray = get_optional(self.family, "variance")(self.pooled_mean)
        return found

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
    def _capped(self) -> FloatArray:
        """1 / (1 + r n): what a pull of a site is worth for the mean of all sites, (T, ..., N, K).

        So no site is worth more than 1/r pulls, however many it has.
        """
        return np.asarray(1.0 / (1.0 + self._ratio * self.pulls))

    @cached_property
    def log_likelihood(self) -> FloatArray:
        """Of tau, with the mean of all sites integrated out (REML), up to a constant: (T, ..., K).

        How arms were chosen cancels from it.
        """
        pulls, total = self._pair
        apart = total - pulls * self.pooled_mean  # centred, so that nothing cancels below
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(pulls > 0, apart / pulls, 0.0)
            weights = self._capped * pulls
            weight = weights.sum(axis=-2)
            middle = (self._capped * apart).sum(axis=-2)
            squares = (self._capped * (apart * own)).sum(axis=-2) - middle**2 / weight
            noise = np.log(self._capped).sum(axis=-2) - np.log(weight)
            found = (noise - squares / self.variance[..., 0, :]) / 2
        return np.asarray(np.where(weight > 0, found, 0.0))

    def weights(self, showing: bool = False) -> FloatArray:
        """The probability of each tau, of each arm by itself and by the others: (T, ..., K)."""
        return weights(self.log_likelihood, showing)

    def belief(self, showing: bool = False, acted: FloatArray | None = None) -> FloatArray:
        """What each site believes, matched by mean and count to the mixture: (2, ..., N, K).

        showing: as people are shown it, else as agents act on it. acted: other evidence of the
        sites to believe in; how far they differ is still said by `evidence`.
        """
        prior_count, prior_total, _ = self._prior
        if acted is None:
            (pulls, total), capped = self._pair, self._capped
        else:
            pulls, total = to_count_and_total(self.family, acted) / self._weight
            capped = 1.0 / (1.0 + self._ratio * pulls)
        heard = capped * pulls
        summed = capped * total
        heard = heard.sum(axis=-2, keepdims=True) - heard  # of the others
        summed = summed.sum(axis=-2, keepdims=True) - summed
        shared = 1.0 / (1.0 + self._ratio * heard)
        count = prior_count + pulls + heard * shared
        mean = (prior_total + total + summed * shared) / count
        return self._mixture(count, mean, self.weights(showing)[..., None, :])

    def network(self, showing: bool = True) -> FloatArray:
        """The belief about the average over sites of an arm's mean: (2, ..., K)."""
        prior_count, prior_total, _ = self._prior
        pulls, total = self._pair
        capped = self._capped
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
        return self._mixture(whole, mean, self.weights(showing))

    def _mixture(self, count: FloatArray, mean: FloatArray, weights: FloatArray) -> FloatArray:
        """A belief with the mean and the variance of the mixture: (T, ...) each -> (2, ...)."""
        variance = self.variance if count.ndim == self.sds.ndim else self.variance[..., 0, :]
        middle = (weights * mean).sum(axis=0)
        # in units of the variance of a reward
        spread = (weights / count).sum(axis=0)
        spread = spread + (weights * (mean - middle) ** 2).sum(axis=0) / variance
        matched = 1.0 / spread
        more = self._prior[2]
        return from_count_and_total(
            self.family, self._weight * np.stack([matched + more, matched * middle])
        )

    def sd_between(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The standard deviation between sites: mean and 80% range of its posterior, (..., K)."""
        weights = self.weights(showing=True)
        sds = self.sds[..., 0, :]
        above = np.cumsum(weights, axis=0)
        last = len(sds) - 1

        def quantile(level: float) -> FloatArray:
            place = np.minimum((above < level).sum(axis=0), last)
            return np.asarray(np.take_along_axis(sds, place[None], axis=0)[0])

        return (weights * sds).sum(axis=0), quantile(0.1), quantile(0.9)

    def alike(self) -> FloatArray:
        """The probability of each arm to be alike at all sites, 1/2 beforehand: (..., K)."""
        return np.asarray(Sites(self.family, self.evidence).weights()[0])

    def all_alike(self) -> FloatArray:
        """The probability that all arms are alike at all sites, 1/2 beforehand: (...).

        Its odds are a likelihood ratio with the average of "one arm differs" and "all differ by the
        same tau" on the other side. So, if sites are alike, it falls below p at any time in about
        p of all experiments at most, however often one looks (Ville).
        """
        return all_alike(Sites(self.family, self.evidence).log_likelihood)


def weights(log_likelihood: FloatArray, showing: bool = False) -> FloatArray:
    """The probabilities of GRID, as agents act or people are shown: (T, ..., K) -> (T, ..., K).

    The prior of an arm's tau is partly what the other arms say of theirs.
    """
    if len(log_likelihood) == 1:  # a tau that is given
        return np.ones_like(log_likelihood)
    prior = (_SHOWING if showing else _ACTING).reshape(-1, *[1] * (log_likelihood.ndim - 1))
    others = log_likelihood.sum(axis=-1, keepdims=True) - log_likelihood
    taught = _normalised(np.log(prior) + others)
    return _normalised(np.log((1 - _TAUGHT) * prior + _TAUGHT * taught) + log_likelihood)


def all_alike(log_likelihood: FloatArray) -> FloatArray:
    """The probability of tau = 0 for all arms, by the likelihood of GRID: (T, ..., K) -> (...)."""
    by_arm = log_likelihood[1:] - log_likelihood[0]
    together = _log_mean(by_arm.sum(axis=-1), axis=0)
    each = _log_mean(_log_mean(by_arm, axis=0), axis=-1)
    odds = np.logaddexp(together, each) - log(2)
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(odds, 700.0))))


def _normalised(logs: FloatArray) -> FloatArray:
    """Probabilities over the first axis, from their logarithms."""
    values = np.exp(logs - logs.max(axis=0))
    return np.asarray(values / values.sum(axis=0))


def _log_mean(logs: FloatArray, axis: int) -> FloatArray:
    """The logarithm of an average, from logarithms."""
    top = logs.max(axis=axis, keepdims=True)
    found = np.log(np.exp(logs - top).mean(axis=axis, keepdims=True)) + top
    return np.asarray(np.squeeze(found, axis=axis))
