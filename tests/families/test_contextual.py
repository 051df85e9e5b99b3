"""Laws of families with contexts: they are the plain ones where features say no more than arms do.

Statistical tests have fixed seeds; correct code fails one with probability below 1e-6.
"""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

import posse
from posse import beliefs, policies
from posse.families import CONTEXTUAL, Gaussian, Linear, Logistic, LogitNormal, is_contextual
from posse.policies import POLICIES

seeds = st.integers(0, 2**32 - 1)
few = settings(deadline=None, max_examples=5)
BOTH = [Linear(sigma=0.7, prior_sd=0.8, prior_mean=0.3), Logistic(rate=0.2, prior_sd=0.8)]


def rewards_of(family, generator, shape):
    if isinstance(family, Logistic):
        return (generator.random(shape) < 0.3).astype(float)
    return generator.normal(size=shape)


def contexts_of(generator, shape, d):
    x = generator.uniform(-1, 1, (*shape, d))
    x[..., 0] = 1.0
    return x


def learnt(family, generator, shape, pulls=40):
    """A belief (D, *shape, K) after some pulls of every agent."""
    *between, n_arms = shape
    belief = beliefs.prior(family, tuple(between), 1 if family.shared else n_arms)
    for _ in range(pulls):
        arms = generator.integers(n_arms, size=between)
        of = (*between, n_arms) if family.shared else tuple(between)
        x = contexts_of(generator, of, family.features)
        rewards = rewards_of(family, generator, between)
        belief = beliefs.observe(belief, arms, rewards, family, 1.0, x)
    return belief


def moments(family, belief, x):
    """Mean and variance of x'theta by matrix inversion, each (..., K): the slow plain version."""
    shift, precision = family.unpack_matrices(belief)
    inverse = np.linalg.inv(precision)
    x = np.broadcast_to(x[..., None, :] if x.ndim < belief.ndim else x, shift.shape)
    return (
        np.einsum("...i,...ij,...j->...", x, inverse, shift),
        np.einsum("...i,...ij,...j->...", x, inverse, x),
    )


# The plain families are special cases ----------------------------------------------------------


@given(seed=seeds)
@few
def test_one_hot_contexts_of_one_arm_are_the_arms_of_the_gaussian_family(doubly_stochastic, seed):
    generator = np.random.default_rng(seed)
    linear, gaussian = Linear(sigma=0.7, prior_sd=0.5, features=4), Gaussian(0.7, 0.0, 0.5)
    weights = doubly_stochastic(generator, 6)
    segments, arms = beliefs.prior(linear, 6, 1), beliefs.prior(gaussian, 6, 4)
    for _ in range(50):
        played, rewards = generator.integers(4, size=6), generator.normal(size=6)
        zeros, hot = np.zeros(6, dtype=int), np.eye(4)[played]
        segments = beliefs.observe(segments, zeros, rewards, linear, 6.0, hot)
        arms = beliefs.observe(arms, played, rewards, gaussian, 6.0)
        segments, arms = beliefs.merge(segments, weights), beliefs.merge(arms, weights)
    found = np.stack(
        [linear.at_context(segments, np.tile(e, (6, 1)))[..., 0] for e in np.eye(4)], axis=-1
    )
    np.testing.assert_allclose(found, arms, rtol=1e-12)


def test_an_intercept_alone_is_the_gaussian_family_to_the_bit(doubly_stochastic):
    generator = np.random.default_rng(1)
    linear, gaussian = Linear(sigma=0.7, prior_mean=0.3, prior_sd=0.5), Gaussian(0.7, 0.3, 0.5)
    linear, ones = linear.with_features(1), np.ones((6, 1))
    weights = doubly_stochastic(generator, 6)
    one, plain = beliefs.prior(linear, 6, 4), beliefs.prior(gaussian, 6, 4)
    for t in range(1, 30):
        for policy in map(posse.policies.POLICIES.get, POLICIES):
            chosen = [
                policies.choose(policy(), one, linear, t, None, np.random.default_rng(t), ones),
                policies.choose(policy(), plain, gaussian, t, None, np.random.default_rng(t)),
            ]
            np.testing.assert_array_equal(*chosen)
        rewards = generator.normal(size=6)
        one = beliefs.observe(one, chosen[0], rewards, linear, 6.0, ones)
        plain = beliefs.observe(plain, chosen[0], rewards, gaussian, 6.0)
        one, plain = beliefs.merge(one, weights), beliefs.merge(plain, weights)
        np.testing.assert_array_equal(one, plain)
        np.testing.assert_array_equal(linear.at_context(one, ones), plain)


# The algebra -----------------------------------------------------------------------------------


@given(seed=seeds)
@few
def test_rotating_the_features_changes_no_answer(seed):
    generator = np.random.default_rng(seed)
    family = Linear(sigma=0.5, features=4)
    turn, _ = np.linalg.qr(generator.normal(size=(4, 4)))
    belief = turned = beliefs.prior(family, 3, 5)
    for _ in range(40):
        arms, rewards = generator.integers(5, size=3), generator.normal(size=3)
        x = generator.normal(size=(3, 4))
        belief = beliefs.observe(belief, arms, rewards, family, 3.0, x)
        turned = beliefs.observe(turned, arms, rewards, family, 3.0, x @ turn.T)
    x = generator.normal(size=(3, 4))
    np.testing.assert_allclose(
        family.at_context(belief, x), family.at_context(turned, x @ turn.T), rtol=1e-9
    )


@given(seed=seeds, learning_rate=st.floats(0.1, 5.0))
@few
def test_updates_and_merges_are_those_of_densities_of_theta(doubly_stochastic, seed, learning_rate):
    """Eqs. `posterior_update` and `merge_posteriors` on a grid of two weights."""
    generator = np.random.default_rng(seed)
    family = Linear(sigma=0.9, prior_sd=0.6, prior_mean=0.2, features=2)
    axis = np.linspace(-5, 5, 201)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)  # (G, 2)
    log_density = np.tile(stats.norm(0.2, 0.6).logpdf(theta[:, 0]), (3, 1))
    log_density += stats.norm(0.0, 0.6).logpdf(theta[:, 1])
    belief = beliefs.prior(family, 3, 1)
    for _ in range(4):
        x, rewards = contexts_of(generator, (3,), 2), generator.normal(size=3)
        zeros, weights = np.zeros(3, dtype=int), doubly_stochastic(generator, 3)
        belief = beliefs.observe(belief, zeros, rewards, family, learning_rate, x)
        belief = beliefs.merge(belief, weights)
        likelihood = stats.norm(x @ theta.T, 0.9).logpdf(rewards[:, None])
        log_density = weights @ (log_density + learning_rate * likelihood)
    mass = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    x = contexts_of(generator, (3,), 2)
    values = x @ theta.T
    mean = (mass * values).sum(axis=1)
    variance = (mass * (values - mean[:, None]) ** 2).sum(axis=1)
    at = family.at_context(belief, x)[..., 0]
    np.testing.assert_allclose(family.at_mean.posterior_mean(at), mean, atol=1e-9)
    np.testing.assert_allclose(family.at_mean.posterior_variance(at), variance, rtol=1e-8)


@pytest.mark.parametrize("family", BOTH, ids=lambda family: family.name)
@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("shared", [False, True])
def test_a_belief_at_a_context_is_that_of_matrices(family, d, shared):
    generator = np.random.default_rng(d)
    family = dataclasses.replace(family, features=d, shared=shared)
    belief = learnt(family, generator, (3, 2, 4))
    x = contexts_of(generator, (3, 2, 4) if shared else (3, 2), d)
    at = family.at_context(belief, x)
    everyone = np.repeat(belief, 4, axis=-1) if shared else belief
    mean, variance = moments(family, everyone, x)
    np.testing.assert_allclose(at[0] / at[1], mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(1 / at[1], variance, rtol=1e-9)
    order = generator.permutation(4)
    relabelled = x[..., order, :] if shared else x
    theirs = belief if shared else belief[..., order]
    np.testing.assert_array_equal(family.at_context(theirs, relabelled), at[..., order])
    alone = np.stack([family.at_context(belief[:, :, i], x[:, i]) for i in range(2)], axis=2)
    np.testing.assert_array_equal(alone, at)  # whoever is beside, to the bit


def test_features_of_arms_are_those_of_the_arm_played():
    """One theta, K rows of features: the same as one arm whose context is the row played."""
    generator = np.random.default_rng(3)
    for family in (Linear(features=3, shared=True), Logistic(rate=0.3, features=3, shared=True)):
        belief, by_hand = beliefs.prior(family, 5, 1), beliefs.prior(family, 5, 1)
        for _ in range(20):
            x, arms = contexts_of(generator, (5, 4), 3), generator.integers(4, size=5)
            rewards = rewards_of(family, generator, 5)
            belief = beliefs.observe(belief, arms, rewards, family, 2.0, x)
            rows, zeros = x[np.arange(5), arms], np.zeros(5, dtype=int)
            by_hand = beliefs.observe(by_hand, zeros, rewards, family, 2.0, rows)
        np.testing.assert_array_equal(belief, by_hand)


def test_the_complete_graph_at_rate_n_is_ridge_regression_on_all_data():
    generator = np.random.default_rng(4)
    n_agents, n_arms, d = 5, 3, 4
    family = Linear(sigma=0.5, prior_sd=2.0, features=d)
    belief = beliefs.prior(family, n_agents, n_arms)
    data = [[] for _ in range(n_arms)]
    for _ in range(60):
        x, rewards = contexts_of(generator, (n_agents,), d), generator.normal(size=n_agents)
        arms = generator.integers(n_arms, size=n_agents)
        belief = beliefs.observe(belief, arms, rewards, family, n_agents, x)
        belief = beliefs.merge(belief, np.full((n_agents, n_agents), 1 / n_agents))
        for each, arm, reward in zip(x, arms, rewards, strict=True):
            data[arm].append([*each, reward])
    shift, precision = family.unpack_matrices(belief)
    for arm, rows in enumerate(data):
        *columns, y = np.transpose(rows)
        design = np.transpose(columns)
        ridge = np.linalg.solve(design.T @ design + 0.5**2 / 2.0**2 * np.eye(d), design.T @ y)
        for agent in range(n_agents):
            theta = np.linalg.solve(precision[agent, arm], shift[agent, arm])
            np.testing.assert_allclose(theta, ridge, rtol=1e-9, atol=1e-12)


# Logistic --------------------------------------------------------------------------------------


def test_a_logistic_reward_has_the_slope_and_curvature_of_its_likelihood_where_it_was_met():
    family = Logistic(rate=0.1, features=1)
    for log_odds in (-3.0, 0.0, 2.5):
        at = np.array([log_odds * 4.0, 4.0])
        for reward in (0.0, 1.0, 0.25):
            shift, precision = family.statistic(np.array(reward), np.ones(1), at)
            step = 1e-4

            def likelihood(u, y=reward):
                return y * math.log(special.expit(u)) + (1 - y) * math.log(special.expit(-u))

            low, middle, high = (likelihood(log_odds + k * step) for k in (-1, 0, 1))
            slope, curvature = (high - low) / (2 * step), (high - 2 * middle + low) / step**2
            assert shift - precision * log_odds == pytest.approx(slope, abs=1e-6)
            assert -precision == pytest.approx(curvature, abs=1e-6)


def test_logistic_beliefs_are_those_of_a_slow_plain_filter():
    """One agent, one arm at a time, matrices and the exponential function."""
    generator = np.random.default_rng(5)
    family = Logistic(rate=0.1, prior_sd=0.8, intercept_sd=0.4, features=3)
    belief = beliefs.prior(family, 1, 2)
    mean = [np.array([math.log(1 / 9), 0, 0])] * 2
    covariance = [np.diag([0.4**2, 0.8**2, 0.8**2])] * 2
    for _ in range(300):
        arm, x = int(generator.integers(2)), contexts_of(generator, (), 3)
        reward = float(generator.random() < 0.3)
        belief = beliefs.observe(belief, np.array([arm]), np.array([reward]), family, 1.0, x[None])
        u = float(np.clip(x @ mean[arm], -8, 8))
        p = 1 / (1 + math.exp(-u))
        precision = np.linalg.inv(covariance[arm])
        shift = precision @ mean[arm] + x * (p * (1 - p) * u + reward - p)
        covariance[arm] = np.linalg.inv(precision + p * (1 - p) * np.outer(x, x))
        mean[arm] = covariance[arm] @ shift
    shift, precision = family.unpack_matrices(belief[:, 0])
    np.testing.assert_allclose(np.linalg.inv(precision), covariance, rtol=1e-8, atol=1e-10)
    found = [np.linalg.solve(*each) for each in zip(precision, shift, strict=True)]
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-10)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedAnchor(Logistic):
    """Linearises every reward at the prior mean."""

    def observation_terms(self, rewards, at):
        ones = np.ones_like(rewards)
        return super().observation_terms(
            rewards, np.stack([math.log(self.rate / (1 - self.rate)) * ones, ones])
        )


def test_logistic_intervals_hold_the_truth_where_those_of_a_fixed_anchor_do_not():
    """1500 beliefs of 600 visits each, about strong effects, where streaming covers 0.92 +- 0.01.

    `make study` has whole bandits, of which it demands 0.92 to 0.98.
    """
    n, d, visits = 1500, 5, 600
    options = {"rate": 0.05, "prior_sd": 1.2, "features": d}
    covered = {}
    for kind in (Logistic, FixedAnchor):
        generator, family = np.random.default_rng(9), kind(**options)
        theta = generator.normal(0, 1.2, (n, d))
        theta[:, 0] = generator.normal(math.log(0.05 / 0.95), 0.5, n)
        belief, zeros = beliefs.prior(family, n, 1), np.zeros(n, dtype=int)
        for _ in range(visits):
            x = contexts_of(generator, (n,), d)
            rate = special.expit((x * theta).sum(axis=-1))
            rewards = (generator.random(n) < rate).astype(float)
            belief = beliefs.observe(belief, zeros, rewards, family, 1.0, x)
        x = contexts_of(generator, (n,), d)
        rate, at = special.expit((x * theta).sum(axis=-1)), family.at_context(belief, x)[..., 0]
        low, high = (family.at_mean.mean_quantile(at, level) for level in (0.025, 0.975))
        covered[kind] = ((low <= rate) & (rate <= high)).mean()
    assert 0.88 <= covered[Logistic] <= 0.98
    assert covered[FixedAnchor] < 0.6


# A belief at a context ---------------------------------------------------------------------------


@pytest.mark.parametrize("family", BOTH, ids=lambda family: family.name)
def test_probabilities_of_being_the_best_at_a_context_are_those_of_samples_of_theta(family):
    generator = np.random.default_rng(6)
    family = family.with_features(3)
    belief, x = learnt(family, generator, (4,), pulls=60), contexts_of(generator, (), 3)
    shift, precision = family.unpack_matrices(belief)
    samples = []
    for b, matrix in zip(shift, precision, strict=True):
        root = np.linalg.cholesky(np.linalg.inv(matrix))
        theta = np.linalg.solve(matrix, b) + generator.standard_normal((100_000, 3)) @ root.T
        samples.append(family.inverse_link(theta @ x))
    means = np.transpose(samples)
    at = family.at_context(belief, x)
    summary = posse.summarise(family.at_mean, at)
    best = np.bincount(means.argmax(axis=1), minlength=4) / len(means)
    np.testing.assert_allclose(summary.probability_best, best, atol=5 * 0.5 / math.sqrt(1e5))
    np.testing.assert_allclose(summary.mean, means.mean(axis=0), atol=0.02)
    loss = (means.max(axis=1, keepdims=True) - means).mean(axis=0)
    np.testing.assert_allclose(summary.expected_loss, loss, atol=0.02)
    quantiles = np.quantile(means, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([summary.low, summary.high], quantiles, atol=0.03)
    policy = posse.ThompsonSampling()
    np.testing.assert_allclose(
        policy.probabilities(at, family.at_mean, 1, None), summary.probability_best, atol=1e-7
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("family", BOTH, ids=lambda family: family.name)
def test_policies_choose_as_often_as_they_say(family, policy):
    generator = np.random.default_rng(7)
    family, policy = family.with_features(2), POLICIES[policy]()
    belief, x = learnt(family, generator, (3,), pulls=20), contexts_of(generator, (), 2)
    says = policy.probabilities(family.at_context(belief, x), family.at_mean, 10, None)
    n = 20_000
    many = np.broadcast_to(belief[:, None, :], (len(belief), n, 3))
    arms = policies.choose(policy, many, family, 10, None, generator, np.tile(x, (n, 1)))
    counts = np.bincount(arms, minlength=3)
    assert np.all(np.abs(counts / n - says) < 6 * np.sqrt(says * (1 - says) / n) + 1e-6)


def test_logit_normal_beliefs_are_those_of_their_log_odds(race):
    family, generator = LogitNormal(), np.random.default_rng(8)
    for mean, sd in [(-3.5, 0.2), (0.0, 1.0), (2.0, 0.5), (-4.0, 1.2)]:
        belief = np.array([mean, 1.0]) / sd**2
        levels = np.array([1e-6, 0.025, 0.5, 0.9, 1 - 1e-6])
        quantiles = family.mean_quantile(belief, levels)
        np.testing.assert_allclose(quantiles, special.expit(mean + sd * stats.norm.ppf(levels)))
        np.testing.assert_allclose(family.mean_cdf(belief, quantiles), levels, rtol=1e-6)

        def density(p, belief=belief):
            return math.exp(family.log_density(belief, p))

        low, middle, high = family.mean_quantile(belief, np.array([1e-9, 0.5, 1 - 1e-9]))

        def integral(f, low=low, middle=middle, high=high):
            return sum(
                integrate.quad(f, *ends, limit=200, epsabs=1e-11)[0]
                for ends in ((low, middle), (middle, high))
            )

        assert integral(density) == pytest.approx(1, abs=1e-7)
        first = integral(lambda p: p * density(p))
        second = integral(lambda p: p * p * density(p))
        assert family.posterior_mean(belief) == pytest.approx(first, rel=1e-6)
        assert family.posterior_variance(belief) == pytest.approx(second - first**2, rel=1e-4)
        sample = family.sample_mean(np.tile(belief[:, None], 20_000), generator)
        assert (
            stats.kstest(sample, lambda p, b=belief: family.mean_cdf(b[:, None], p)).pvalue > 1e-6
        )
    means, sds = np.array([-3.6, -3.4, -3.5, -1.0]), np.array([0.3, 0.1, 0.6, 1.0])
    belief = np.stack([means, np.ones(4)]) / sds**2
    best, loss = race(family, belief)
    summary = posse.summarise(family, belief)
    np.testing.assert_allclose(summary.probability_best, best, atol=1e-6)
    np.testing.assert_allclose(summary.expected_loss, loss, atol=1e-6)


# At the door -------------------------------------------------------------------------------------


def test_contextual_families_are_told_from_plain_ones():
    assert all(map(is_contextual, BOTH))
    assert not is_contextual(Gaussian())
    assert set(CONTEXTUAL) == {family.name for family in BOTH}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Logistic(rate=0.0), "rate must be a finite number above 0 and below 1, got 0.0"),
        (lambda: Logistic(rate=1), "rate must be a finite number above 0 and below 1"),
        (lambda: Linear(sigma=0), "sigma must be a finite number at least 1e-30"),
        (lambda: Linear(prior_sd=-1), "prior_sd must be a finite number"),
        (lambda: Linear(features=-1), "features must be a whole number at least 0"),
        (lambda: Linear(shared=1), "shared must be True or False, got 1"),
        (lambda: Linear().prior(), "features must be the number of columns of the contexts"),
        (lambda: Linear(features=3).with_features(4), "features is 3 in Linear, but contexts have"),
        (
            lambda: posse.summarise(Linear(features=1), np.ones((2, 3))),
            "a belief of family 'linear' is summarised at a context: summarise(family.at_mean",
        ),
        (
            lambda: posse.verdict(Linear(features=1), np.ones((2, 3))),
            "verdict does not support contexts",
        ),
        (lambda: LogitNormal().statistic(np.array(1.0)), "LogitNormal cannot learn"),
        (
            lambda: Logistic(rate=0.1, features=1).statistic(np.array(1.0), np.ones(1)),
            "at is missing: a logistic reward",
        ),
    ],
)
def test_families_are_refused_with_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()


@pytest.mark.parametrize(
    "x",
    [
        None,
        np.ones(3),
        np.ones((2, 2)),
        np.full((2, 3), np.nan),
        np.ones((2, 5, 3)),
        [["a"] * 3] * 2,
    ],
)
def test_contexts_of_another_shape_are_refused(x):
    family = Linear(features=3)
    belief, arms = beliefs.prior(family, 2, 4), np.array([0, 1])
    with pytest.raises(ValueError, match=r"contexts must be finite numbers of shape \(2, 3\)"):
        beliefs.observe(belief, arms, np.zeros(2), family, 1.0, x)


def test_contexts_and_families_that_do_not_belong_together_are_refused():
    plain, linear, arms = Gaussian(), Linear(features=2), np.array([0, 1])
    belief, generator, x = beliefs.prior(plain, 2, 4), np.random.default_rng(0), np.ones((2, 2))
    with pytest.raises(ValueError, match="contexts are not for family 'gaussian'"):
        beliefs.observe(belief, arms, np.zeros(2), plain, 1.0, x)
    with pytest.raises(ValueError, match="contexts are not for family 'gaussian'"):
        policies.choose(posse.Greedy(), belief, plain, 1, None, generator, x)
    belief = beliefs.prior(linear, 2, 4)
    with pytest.raises(ValueError, match="contexts are missing: family 'linear' needs them"):
        policies.choose(posse.Greedy(), belief, linear, 1, None, generator)
    with pytest.raises(ValueError, match="arms must be whole numbers from 0 to 3"):
        beliefs.observe(belief, np.array([0, 4]), np.zeros(2), linear, 1.0, x)
