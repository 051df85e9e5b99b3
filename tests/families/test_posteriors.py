"""Posteriors of the mean against the distributions of SciPy, for the families that it knows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from posse.families import FAMILIES, Bernoulli, Exponential, GaussianUnknownVariance, Poisson


def student_t(weighted_mean, count, shape, energy):
    location = weighted_mean / count
    rate = energy - weighted_mean**2 / count / 2
    return stats.t(2 * shape, location, np.sqrt(rate / (shape * count)))


def histogram(*log_density):
    probabilities = np.exp(log_density - np.max(log_density))
    edges = np.linspace(0.0, 1.0, len(probabilities) + 1)  # Grid.example() has mean = theta
    return stats.rv_histogram((probabilities / probabilities.sum(), edges), density=False)


POSTERIORS = {
    "bernoulli": stats.beta,
    "bounded": stats.beta,
    "gaussian": lambda shift, precision: stats.norm(shift / precision, precision**-0.5),
    "gaussian-unknown-variance": student_t,
    "poisson": lambda shape, rate: stats.gamma(shape, scale=1 / rate),
    "exponential": lambda shape, rate: stats.invgamma(shape, scale=rate),
    "grid": histogram,
}
LEVELS = np.array([1e-9, 0.02, 0.5, 0.9, 1 - 1e-9])


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("pulls", [0, 1, 30])
@pytest.mark.parametrize("seed", range(2))
def test_posteriors_are_those_of_scipy(name, example_of, learnt, with_random_prior, seed, pulls):
    generator = np.random.default_rng(seed)
    family = with_random_prior(example_of(FAMILIES[name]), generator)
    belief = learnt(family, generator, (), pulls=pulls)
    law = POSTERIORS[family.name](*belief)
    x = law.ppf(np.array([0.001, 0.11, 0.37, 0.83, 0.999]))
    quantile = family.mean_quantile(belief[:, None], LEVELS)
    np.testing.assert_allclose(family.log_density(belief[:, None], x), law.logpdf(x), rtol=1e-9)
    np.testing.assert_allclose(family.mean_cdf(belief[:, None], x), law.cdf(x), rtol=1e-9)
    np.testing.assert_allclose(quantile, law.ppf(LEVELS), rtol=1e-7, atol=1e-12)
    assert family.posterior_mean(belief) == pytest.approx(law.mean(), rel=1e-9, abs=1e-12)


def test_quantiles_at_levels_0_and_1_are_the_ends_of_the_support(family):
    prior = family.prior()
    ends = [float(family.mean_quantile(prior, level)) for level in (0.0, 1.0)]
    assert ends == pytest.approx(family.means[:2], abs=1e-12)


@given(alpha=st.floats(1e-2, 1e7), beta=st.floats(1e-2, 1e7), level=st.floats(1e-9, 1 - 1e-9))
@settings(deadline=None, max_examples=60)
def test_beta_quantiles_far_from_the_prior(alpha, beta, level):
    belief = np.array([alpha, beta])
    quantile = Bernoulli().mean_quantile(belief, level)
    assert 0.0 <= quantile <= 1.0
    if 1e-300 < quantile < 1 - 1e-9:  # beyond, neighbouring floats lie far apart in level
        assert Bernoulli().mean_cdf(belief, quantile) == pytest.approx(level, rel=1e-6)


@given(shape=st.floats(1.01, 1e7), rate=st.floats(1e-3, 1e7), level=st.floats(1e-9, 1 - 1e-9))
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("family", [Poisson(), Exponential()], ids=["poisson", "exponential"])
def test_gamma_quantiles_far_from_the_prior(family, shape, rate, level):
    belief = np.array([shape, rate])
    quantile = family.mean_quantile(belief, level)
    assert 0.0 < quantile < np.inf
    assert family.mean_cdf(belief, quantile) == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e5])
def test_the_unknown_variance_is_learnt_far_from_zero(offset):
    """The coordinates keep sums of squares; what is subtracted is known to 1e-16 of them."""
    family = GaussianUnknownVariance(sigma=2.0, prior_mean=offset)
    rewards = family.draw_rewards(np.full(4000, offset), np.random.default_rng(1))
    belief = family.prior() + family.statistic(rewards).sum(axis=1)
    width = np.diff(family.mean_quantile(belief[:, None], np.array([0.025, 0.975])))
    assert width == pytest.approx(2 * 1.96 * rewards.std() / np.sqrt(4000), rel=0.005)
    assert family.posterior_mean(belief) == pytest.approx(rewards.mean(), abs=1e-3)


@pytest.mark.parametrize("reward", [0.0, 1.1, 1.1e3, 1.1e5, 1.1e9, -1.1e15])
@pytest.mark.parametrize("times", [1.0, 7.3, 1.3e6])
def test_the_unknown_variance_is_not_below_what_its_coordinates_resolve(reward, times):
    """The rate against exact fractions: within their rounding, and never less than that."""
    family = GaussianUnknownVariance(prior_mean=reward)  # so that all rewards agree
    belief = family.prior() + times * family.statistic(np.asarray(reward))
    weighted_mean, count, _, energy = map(Fraction, belief.tolist())
    exact = energy - weighted_mean**2 / (2 * count)
    rounding = np.finfo(float).eps * belief[3]
    rate = family.unpack_belief(belief).rate
    assert abs(rate - float(exact)) <= 4 * rounding
    assert rate >= rounding > 0


def test_the_unknown_variance_never_goes_negative():
    family = GaussianUnknownVariance()
    belief = family.prior() + 1e6 * family.statistic(np.asarray(1e9))
    quantiles = family.mean_quantile(belief[:, None], np.array([0.1, 0.9]))
    assert np.isfinite(quantiles).all()
    assert quantiles[0] <= quantiles[1]
