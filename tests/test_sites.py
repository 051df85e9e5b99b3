"""Partial pooling against independent oracles: joint normals, quadrature, plain limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import posse
from posse import beliefs, networks, sites
from posse.algorithms import Problem
from posse.families import (
    FAMILIES,
    Bernoulli,
    Bounded,
    Exponential,
    Gaussian,
    GaussianUnknownVariance,
    Grid,
    Poisson,
    Revenue,
    get_optional,
)
from posse.sites import GRID, Sites

EVERY = [
    Gaussian(sigma=1.7, prior_mean=0.4, prior_sd=0.6),
    Bernoulli(1, 19),
    Bounded(2, 3),
    Poisson(1.5, 0.5),
    Exponential(3, 2),
]
MEANS = np.array([0.2, 0.35, 0.5, 0.1])
each_family = pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)


def evidence_of(family, seed, n_sites=3, apart=0.0, most=60):
    """Sums of statistics of 2 runs, as (2, 2, N, 4); some site has no pull of some arm."""
    generator = np.random.default_rng(seed)
    pulls = generator.integers(1, most, (2, n_sites, len(MEANS)))
    pulls[0, 0, 1] = 0
    means = MEANS * np.exp(apart * generator.standard_normal(pulls.shape))
    means = np.minimum(means, 0.95)
    found = np.zeros((2, *pulls.shape))
    for cell in np.ndindex(pulls.shape):
        rewards = family.draw_rewards(np.full(pulls[cell], means[cell]), generator)
        found[(slice(None), *cell)] = family.statistic(rewards).sum(axis=1)
    return found


def prior_of(family):
    return family.prior()[:, None, None, None]


def test_every_family_is_tried_or_refused():
    knows = [name for name, cls in FAMILIES.items() if name in {each.name for each in EVERY}]
    assert set(FAMILIES) - set(knows) == {"gaussian-unknown-variance", "grid", "revenue"}


@pytest.mark.parametrize("family", [GaussianUnknownVariance(), Grid.example(), Revenue()])
def test_a_family_with_a_nuisance_or_no_count_is_refused(family):
    with pytest.raises(ValueError, match="need a family whose mean determines the variance"):
        sites.check_reward_variance(family)
    network = networks.complete(2)
    with pytest.raises(ValueError, match="need a family whose mean determines the variance"):
        posse.PartialPooling(posse.ThompsonSampling()).init(Problem(2, 2, 9, family, network, 1))


@each_family
def test_variances_are_those_of_rewards(family):
    """Exactly, but for bounded rewards, which may vary less and never more."""
    uniform = (np.arange(200_000) + 0.5) / 200_000

    class Strata:
        def random(self, size):
            return uniform

        def standard_normal(self, size):
            return stats.norm.ppf(uniform)

    for mean in (0.2, 0.7):
        drawn = family.draw_rewards(np.full(uniform.shape, mean), Strata()).var()
        said = float(get_optional(family, "variance")(np.array(mean)))
        if family.name == "bounded":
            assert drawn == pytest.approx(said / (1 + family.concentration), rel=1e-3)
        else:
            assert drawn == pytest.approx(said, rel=2e-3)


@each_family
def test_alike_is_pooling_and_far_apart_is_isolation(family):
    evidence = evidence_of(family, 1)
    pooled = prior_of(family) + evidence.sum(axis=2, keepdims=True)
    alone = prior_of(family) + evidence
    alike, apart = Sites(family, evidence, 0.0), Sites(family, evidence, 1e9)
    np.testing.assert_allclose(
        alike.site_beliefs(), np.broadcast_to(pooled, evidence.shape), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(alike.network_belief(), pooled[:, :, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(apart.site_beliefs(), alone, rtol=1e-12, atol=1e-12)


@each_family
@pytest.mark.parametrize("site_sd", [None, 0.0, 0.3])
def test_one_site_is_isolated(family, site_sd):
    evidence = evidence_of(family, 2, n_sites=1)
    found = Sites(family, evidence, site_sd)
    np.testing.assert_allclose(found.site_beliefs(), prior_of(family) + evidence, rtol=1e-12)
    np.testing.assert_allclose(found.probability_alike(), 0.5)
    np.testing.assert_allclose(found.probability_all_alike(), 0.5)


@each_family
@pytest.mark.parametrize("showing", [False, True])
def test_relabelling_sites_and_arms_changes_nothing(family, showing):
    evidence = evidence_of(family, 3, n_sites=4, apart=0.3)
    order, arms = [2, 0, 3, 1], [3, 1, 0, 2]
    found, other = Sites(family, evidence), Sites(family, evidence[:, :, order][..., arms])
    np.testing.assert_allclose(
        other.site_beliefs(showing), found.site_beliefs(showing)[:, :, order][..., arms], rtol=1e-10
    )
    np.testing.assert_allclose(
        other.network_belief(), found.network_belief()[..., arms], rtol=1e-10
    )
    np.testing.assert_allclose(
        other.probability_alike(), found.probability_alike()[..., arms], rtol=1e-10
    )
    np.testing.assert_allclose(
        other.probability_all_alike(), found.probability_all_alike(), rtol=1e-10
    )


@each_family
def test_runs_are_read_apart(family):
    evidence = evidence_of(family, 4, apart=0.4)
    together = Sites(family, evidence)
    for run in range(2):
        alone = Sites(family, evidence[:, run])
        np.testing.assert_allclose(
            together.site_beliefs()[:, run], alone.site_beliefs(), rtol=1e-12
        )
        np.testing.assert_allclose(
            together.network_belief()[:, run], alone.network_belief(), rtol=1e-12
        )
        np.testing.assert_allclose(
            together.probability_all_alike()[run], alone.probability_all_alike(), rtol=1e-12
        )


def joint(family, pulls, total, tau, site=None):
    """The joint normal posterior of (mu_1 .. mu_N, m), m flat: mean (N,) and covariance.

    site: whose mean has the family's prior too.
    """
    n_sites = len(pulls)
    precision, shift = np.zeros((n_sites + 1, n_sites + 1)), np.zeros(n_sites + 1)
    for i in range(n_sites):
        precision[i, i] += pulls[i] / family.sigma**2 + 1 / tau**2
        precision[i, -1] = precision[-1, i] = -1 / tau**2
        precision[-1, -1] += 1 / tau**2
        shift[i] = total[i] / family.sigma**2
    if site is not None:
        precision[site, site] += 1 / family.prior_sd**2
        shift[site] += family.prior_mean / family.prior_sd**2
    covariance = np.linalg.inv(precision)
    return covariance @ shift, covariance


@pytest.mark.parametrize("tau", [0.05, 0.3, 1.5])
def test_gaussian_sites_have_the_joint_normal_posterior(tau):
    family = EVERY[0]
    evidence = evidence_of(family, 5, n_sites=5)[:, 0]
    total, pulls = evidence * family.sigma**2
    found, network = (
        Sites(family, evidence, tau).site_beliefs(),
        Sites(family, evidence, tau).network_belief(),
    )
    for arm in range(len(MEANS)):
        for site in range(5):
            mean, covariance = joint(family, pulls[:, arm], total[:, arm], tau, site)
            shift, precision = found[:, site, arm]
            assert shift / precision == pytest.approx(mean[site], abs=1e-10)
            assert 1 / precision == pytest.approx(covariance[site, site], rel=1e-10)
        # the average over sites, the prior being that of the average
        mean, covariance = joint(family, pulls[:, arm], total[:, arm], tau)
        average, variance = mean[:5].mean(), covariance[:5, :5].mean()
        shift, precision = network[:, arm]
        expected = 1 / family.prior_sd**2 + 1 / variance
        assert precision == pytest.approx(expected, rel=1e-9)
        whole = family.prior_mean / family.prior_sd**2 + average / variance
        assert shift == pytest.approx(whole, rel=1e-9, abs=1e-9)


def test_the_likelihood_is_the_integral_over_the_mean_of_all_sites():
    """REML: the density of the sites' means, with a flat law of their middle."""
    family = EVERY[0]
    evidence = evidence_of(family, 6, n_sites=4)[:, 0]
    found = Sites(family, evidence)
    total, pulls = evidence * family.sigma**2
    for arm in range(len(MEANS)):
        seen = pulls[:, arm] > 0
        means = total[seen, arm] / pulls[seen, arm]
        noise = family.sigma**2 / pulls[seen, arm]

        def marginal(tau, means=means, noise=noise):
            sd = np.sqrt(tau**2 + noise)
            middle, width = means.mean(), 20 * sd.max()
            points = [middle - width, middle + width]
            density = lambda m: np.exp(stats.norm.logpdf(means, m, sd).sum())  # noqa: E731
            return np.log(integrate.quad(density, *points, points=[middle], limit=400)[0])

        expected = np.array([marginal(tau) for tau in GRID * family.prior_sd])
        ours = found.log_likelihood[:, arm]
        np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=1e-7)


@each_family
def test_weights_are_bayes_rule_said_slowly(family):
    found = Sites(family, evidence_of(family, 7, apart=0.3)[:, 0])
    likelihood = np.exp(found.log_likelihood - found.log_likelihood.max(axis=0))
    for showing in (False, True):
        prior = np.full(25, 0.5 / 24)
        prior[0] = 0.5
        if showing:
            edges = [0, *((GRID[1:] + GRID[:-1]) / 2), np.inf]
            prior = np.diff(stats.halfcauchy(scale=0.25).cdf(edges))
        for arm in range(len(MEANS)):
            others = prior * np.prod(np.delete(likelihood, arm, axis=1), axis=1)
            mixed = prior / 5 + 4 * others / others.sum() / 5
            expected = mixed * likelihood[:, arm]
            ours = found.site_sd_probabilities(showing)[:, arm]
            np.testing.assert_allclose(ours, expected / expected.sum(), atol=1e-12)


@each_family
def test_the_belief_has_the_moments_of_the_mixture(family):
    """Components one by one, their means and variances from the family's own posterior."""
    evidence = evidence_of(family, 8, apart=0.5)[:, 0]
    found = Sites(family, evidence)
    unit = get_optional(family, "site_unit")(found.pooled_mean)
    for arm in range(len(MEANS)):
        one = evidence[..., arm : arm + 1]
        multiples = found.sds[:, 0, arm] / float(unit[0, arm])
        parts = np.stack(
            [Sites(family, one, multiple).site_beliefs()[..., 0] for multiple in multiples]
        )
        for site in range(3):
            means = np.array([float(family.posterior_mean(part[:, site])) for part in parts])
            spreads = np.array([variance_of(family, part[:, site], found, arm) for part in parts])
            weights = found.site_sd_probabilities()[:, arm]
            mean = weights @ means
            variance = weights @ spreads + weights @ (means - mean) ** 2
            ours = found.site_beliefs()[:, site, arm]
            assert float(family.posterior_mean(ours)) == pytest.approx(mean, rel=1e-10)
            assert variance_of(family, ours, found, arm) == pytest.approx(variance, rel=1e-10)


def variance_of(family, belief, found, arm):
    """The variance of a component at the pooled variance of a reward, V / A.

    It is the family's own but for its mean: by quadrature at the pooled mean.
    """
    mean = float(found.pooled_mean[0, arm])
    if family.name == "gaussian":
        return 1 / belief[1]
    if family.name == "poisson":
        count = belief[1]
        return stats.gamma(mean * count, scale=1 / count).var()
    if family.name == "exponential":  # V / A, of which the inverse Gamma's own is A / (A - 1)
        count = belief[0] - 1
        return stats.invgamma(belief[0], scale=mean * count).var() * (count - 1) / count
    count = belief.sum()  # the Beta's own is V / (A + 1)
    return stats.beta(mean * count, (1 - mean) * count).var() * (count + 1) / count


@each_family
def test_a_liar_is_worth_no_more_than_its_cap(family):
    """One of three sites claims a trillion pulls: to the others it is V / tau^2 pulls at most."""
    evidence = evidence_of(family, 9)[:, :1]
    honest = evidence.copy()
    rewards = np.array(0.3)
    evidence[:, 0, 2] = 1e12 * family.statistic(rewards)[:, None]
    honest[:, 0, 2] = 0
    found = Sites(family, evidence, 0.3)
    cap = found.variance[0, 0] / found.sds[0, 0, 0] ** 2
    pulls = (found.site_beliefs() - prior_of(family) - evidence)[:, 0]
    heard = Sites(family, pulls).pulls  # of others
    others = honest.sum(axis=2, keepdims=True) - honest
    most = Sites(family, others[:, 0]).pulls + cap
    assert np.all(heard[:2] <= most[:2] * (1 + 1e-9))
    assert np.all(heard[:2] > 0)


def test_sites_that_differ_are_found_to_and_alike_ones_not():
    family = Gaussian()
    generator = np.random.default_rng(10)
    pulls = np.full((8, 3), 200.0)
    for apart, low, high in ((0.0, 0.6, 1.0), (0.5, 0.0, 1e-6)):
        means = apart * generator.standard_normal(pulls.shape)
        means = means + generator.standard_normal(pulls.shape) / np.sqrt(pulls)
        found = Sites(family, np.stack([means * pulls, pulls]))
        assert np.all((low <= found.probability_alike()) & (found.probability_alike() <= high))
        assert low <= found.probability_all_alike() <= high
        sd, least, most = found.sd_between()
        assert np.all((least <= sd) & (sd <= most))
        assert np.all((least <= apart + 0.1) & (apart - 0.1 <= most))


@each_family
@pytest.mark.parametrize("site_sd", [None, 0.2])
def test_the_algorithm_reads_all_evidence_and_own_rewards_at_once(family, site_sd):
    """Played by hand: read anew in rounds 1..., in between prior and others as they were."""
    generator = np.random.default_rng(11)
    network = networks.complete(3)
    algorithm = posse.PartialPooling(posse.ThompsonSampling(), site_sd=site_sd, refresh=0.5)
    state = algorithm.init(Problem(3, 4, 9, family, network, 2))
    evidence = np.zeros_like(state.belief)
    last = state.belief
    for t in range(1, 10):
        arms = algorithm.choose(state, t, generator)
        rewards = family.draw_rewards(MEANS[arms], generator)
        state = algorithm.learn(state, arms, rewards, network.weights)
        evidence = beliefs.observe(evidence, arms, rewards, family, 1.0)
        last = beliefs.observe(last, arms, rewards, family, 1.0)
        if t in (1, 2, 3, 4, 6, 9):
            last = Sites(family, evidence, site_sd).site_beliefs()
        np.testing.assert_allclose(state.belief, last, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [{"site_sd": -0.1}, {"site_sd": "x"}, {"refresh": 2.0}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        posse.PartialPooling(posse.ThompsonSampling(), **bad)
