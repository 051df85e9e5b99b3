"""Rewards of every family: drawn one variate each, where their own likelihood is highest.

Those that SciPy knows, by the name of the family, have its law and its likelihood.

Seeds are fixed; a correct family fails a statistical test with probability below 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import pdtr

from posse.families import FAMILIES, Exponential, Poisson

# The law of a reward given the mean, and the log-likelihood of a reward given all parameters.
REWARD_LAWS = {
    "bernoulli": lambda family, mean: stats.bernoulli(mean),
    "bounded": lambda family, mean: stats.beta(
        family.concentration * mean, family.concentration * (1 - mean)
    ),
    "gaussian": lambda family, mean: stats.norm(mean, family.sigma),
    "gaussian-unknown-variance": lambda family, mean: stats.norm(mean, family.sigma),
    "poisson": lambda family, mean: stats.poisson(mean),
    "exponential": lambda family, mean: stats.expon(scale=mean),
    "grid": lambda family, mean: stats.bernoulli(mean),  # Grid.example() is Bernoulli
}
LOG_LIKELIHOODS = {
    "bernoulli": lambda family, y, mean: stats.bernoulli.logpmf(y, mean),
    # a quasi-likelihood: the same formula with a fractional reward
    "bounded": lambda family, y, mean: np.log(mean**y * (1 - mean) ** (1 - y)),
    "gaussian": lambda family, y, mean: stats.norm.logpdf(y, mean, family.sigma),
    "gaussian-unknown-variance": lambda family, y, mean, precision: stats.norm.logpdf(
        y, mean, precision**-0.5
    ),
    "poisson": lambda family, y, mean: stats.poisson.logpmf(y, mean),
    "exponential": lambda family, y, mean: stats.expon.logpdf(y, scale=mean),
    "grid": lambda family, y, mean: stats.bernoulli.logpmf(y, mean),
}


class Levels:
    """A generator whose uniforms are given."""

    def __init__(self, levels):
        self.levels = levels

    def random(self, size):
        return np.broadcast_to(self.levels, size)


@pytest.mark.parametrize("seed", range(3))
def test_rewards_come_from_the_mean_that_their_likelihood_prefers(
    family, with_random_prior, typical_means, seed
):
    """The expected score is 0 at the true mean, within 5.5 standard errors, and falls there."""
    generator = np.random.default_rng(seed)
    family = with_random_prior(family, generator)
    mean = float(typical_means(family, generator, ()))
    # a conversion is that of the rewards; a precision does not move the best mean
    nuisance = [
        np.asarray(getattr(family, name, generator.uniform(0.5, 2.0)))
        for name in family.parameters[1:]
    ]
    rewards = family.draw_rewards(np.full(100_000, mean), generator)
    step = 0.02 * min(rewards.std(), *(abs(end - mean) for end in family.means[:2]))
    below, at, above = (
        family.reward_log_density(rewards, np.asarray(x), *nuisance)
        for x in (mean - step, mean, mean + step)
    )
    score, bend = (above - below) / (2 * step), (above - 2 * at + below) / step**2
    # the third derivative is at most of the second's size over the distance to an end
    bias = 0.02 * np.abs(bend.mean()) * step
    assert abs(score.mean()) < 5.5 * score.std() / np.sqrt(len(rewards)) + bias
    assert bend.mean() < 0


@pytest.mark.parametrize("name", REWARD_LAWS)
@pytest.mark.parametrize("seed", range(3))
def test_rewards_follow_their_law(name, example_of, with_random_prior, typical_means, seed):
    generator = np.random.default_rng(seed)
    family = example_of(FAMILIES[name])
    family = with_random_prior(family, generator)
    mean = float(typical_means(family, generator, ()))
    law = REWARD_LAWS[family.name](family, mean)
    rewards = family.draw_rewards(np.full(20_000, mean), generator)
    assert law.mean() == pytest.approx(mean, rel=1e-12)
    if hasattr(law.dist, "pdf"):
        assert stats.kstest(rewards, law.cdf).pvalue > 1e-6
    else:
        values = np.arange(law.ppf(0.999) + 1)
        observed = [*(np.count_nonzero(rewards == value) for value in values)]
        expected = len(rewards) * law.pmf(values)
        rest = len(rewards) - np.array([sum(observed), expected.sum()])
        if rest[1] > 1e-6:
            observed, expected = [*observed, rest[0]], [*expected, rest[1]]
        assert sum(observed) == len(rewards)
        assert stats.chisquare(observed, expected).pvalue > 1e-6


@pytest.mark.parametrize("name", LOG_LIKELIHOODS)
@pytest.mark.parametrize("seed", range(3))
def test_log_likelihoods_are_those_of_scipy(
    name, example_of, with_random_prior, typical_means, mean_grid, seed
):
    """Up to a term free of the parameters."""
    generator = np.random.default_rng(seed)
    family = example_of(FAMILIES[name])
    family = with_random_prior(family, generator)
    parameters = [mean_grid(family)]
    if len(family.parameters) > 1:
        parameters.append(generator.uniform(0.1, 5.0, len(parameters[0])))
    rewards = family.draw_rewards(typical_means(family, generator, 6), generator)
    for reward in rewards:
        ours = family.reward_log_density(reward, *parameters)
        theirs = LOG_LIKELIHOODS[family.name](family, reward, *parameters)
        np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-11, atol=1e-12)


def test_rewards_have_their_means_and_stay_in_range(family, typical_means):
    generator = np.random.default_rng(8)
    means = np.broadcast_to(typical_means(family, generator, 5), (40_000, 5))
    rewards = family.draw_rewards(means, generator)
    standard_error = rewards.std(axis=0) / np.sqrt(len(rewards))
    assert rewards.shape == means.shape
    assert family.rewards.contains(rewards).all()
    assert (np.abs(rewards.mean(axis=0) - means[0]) < 5.5 * standard_error).all()


def test_a_reward_takes_one_variate_whatever_its_mean(family, typical_means):
    """Common random numbers: the stream does not depend on the arms played."""
    ends = []
    for seed in range(5):
        stream = np.random.default_rng(9)
        family.draw_rewards(typical_means(family, np.random.default_rng(seed), (50,)), stream)
        ends.append(stream.random())
    assert len(set(ends)) == 1


def test_rewards_rise_with_the_mean_under_the_same_noise(family, typical_means):
    means = np.sort(typical_means(family, np.random.default_rng(10), 2))
    lower, upper = (
        family.draw_rewards(np.full(2000, mean), np.random.default_rng(11)) for mean in means
    )
    assert (upper >= lower).all()
    assert (upper > lower).any()


# Inversion at the extremes ------------------------------------------------------------------


@pytest.mark.parametrize("mean", [1e-9, 1e-3, 0.5, 3.0, 17.3, 250.0])
def test_poisson_counts_invert_the_sum_of_their_probabilities(mean):
    levels = np.concatenate([[0.0, 1e-300, 1e-16], np.linspace(0.0, 1.0, 2001)[1:-1], [1 - 1e-9]])
    counts = Poisson().draw_rewards(np.full(levels.shape, mean), Levels(levels))
    cumulative = np.cumsum(stats.poisson.pmf(np.arange(2000), mean))
    expected = np.searchsorted(cumulative, levels)
    near = np.abs(cumulative[expected] - levels) < 1e-13  # a rounding may decide there
    np.testing.assert_array_equal(counts[~near], expected[~near])
    assert (np.abs(counts - expected)[near] <= 1).all()


@pytest.mark.parametrize("mean", [0.5, 3.0, 17.3, 250.0])
def test_a_level_that_a_count_just_reaches_gives_that_count(mean):
    counts = np.arange(np.ceil(mean + 3 * np.sqrt(mean)))
    drawn = Poisson().draw_rewards(np.full(counts.shape, mean), Levels(pdtr(counts, mean)))
    np.testing.assert_array_equal(drawn, counts)


@pytest.mark.parametrize("mean", [1e6, 1e9, 1e11, 1e13])
def test_poisson_counts_of_large_means(mean):
    levels = np.linspace(0.001, 0.999, 99)
    counts = Poisson().draw_rewards(np.full(levels.shape, mean), Levels(levels))
    score = (counts - mean) / np.sqrt(mean)
    np.testing.assert_allclose(score, stats.norm.ppf(levels), atol=5e-3)


def test_exponential_rewards_at_the_ends_of_the_uniforms():
    levels = np.array([0.0, 1 - 2.0**-53])
    np.testing.assert_allclose(
        Exponential().draw_rewards(np.full(2, 3.0), Levels(levels)), [0.0, 3 * 53 * np.log(2)]
    )
