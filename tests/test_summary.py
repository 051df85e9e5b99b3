"""The summary of a belief against closed forms, independent quadrature and Monte Carlo.

Monte Carlo has fixed seeds and tolerates 4.5 standard errors: error rate 7e-6 a number.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc, betaln, ndtr

from posse import beliefs
from posse.families import Bernoulli, Exponential, Gaussian, GaussianUnknownVariance, Grid, Poisson
from posse.summary import estimate_lift, probability_best, summarise
from tests.effort import limit_count

SAMPLES = 400_000


def gaussian_belief(means, sds):
    means, sds = np.array(means, dtype=float), np.array(sds, dtype=float)
    return np.array([means / sds**2, 1 / sds**2])


def assert_probabilities(values, n_arms):
    assert values.shape == (n_arms,)
    assert ((values >= 0) & (values <= 1 + 1e-12)).all()
    assert values.sum() == pytest.approx(1.0, abs=1e-12)


# Every family -------------------------------------------------------------------------------


@pytest.mark.parametrize("pulls", [0, 3, 20, 300])
def test_against_independent_quadrature(family, learnt, race, pulls):
    belief = learnt(family, np.random.default_rng(pulls), (4,), pulls=pulls)
    summary = summarise(family, belief)
    best, loss = race(family, belief)
    assert_probabilities(summary.probability_best, 4)
    np.testing.assert_allclose(summary.probability_best, best, rtol=1e-3, atol=2e-6)
    np.testing.assert_allclose(summary.expected_loss, loss, rtol=1e-3, atol=2e-6)
    np.testing.assert_array_equal(summary.mean, family.posterior_mean(belief))
    np.testing.assert_allclose(family.mean_cdf(belief, summary.low), 0.025, rtol=1e-9)
    np.testing.assert_allclose(family.mean_cdf(belief, summary.high), 0.975, rtol=1e-9)
    np.testing.assert_array_equal(probability_best(family, belief), summary.probability_best)


def test_against_samples(family, learnt):
    generator = np.random.default_rng(1)
    belief = learnt(family, generator, (5,), pulls=8)
    summary = summarise(family, belief)
    n_samples = min(SAMPLES, 10_000_000 // len(belief))
    means = np.concatenate(
        [
            family.sample_mean(np.broadcast_to(belief[:, None], (len(belief), 2000, 5)), generator)
            for _ in range(n_samples // 2000)
        ]
    )
    best = summary.probability_best
    frequency = np.bincount(means.argmax(axis=1), minlength=5) / len(means)
    error = np.sqrt(best * (1 - best) / len(means))
    assert (np.abs(frequency - best) < 4.5 * error + 1e-9).all()
    losses = means.max(axis=1, keepdims=True) - means
    error = losses.std(axis=0) / np.sqrt(len(means))
    assert (np.abs(losses.mean(axis=0) - summary.expected_loss) < 4.5 * error).all()


@pytest.mark.parametrize("n_arms", [2, 3, 17])
@pytest.mark.parametrize("pulls", [0, 5])
def test_identical_arms_share_alike(family, learnt, n_arms, pulls):
    one = learnt(family, np.random.default_rng(2), (1,), pulls=pulls)
    summary = summarise(family, np.repeat(one, n_arms, axis=1))
    np.testing.assert_allclose(summary.probability_best, 1 / n_arms, rtol=1e-9)
    np.testing.assert_allclose(summary.expected_loss, summary.expected_loss[0], rtol=1e-12)
    assert summary.expected_loss[0] > 0


def test_relabelling_arms_relabels_the_summary(family, learnt):
    belief = learnt(family, np.random.default_rng(3), (5,))
    order = np.array([4, 2, 0, 1, 3])
    before, after = summarise(family, belief), summarise(family, belief[:, order])
    np.testing.assert_allclose(after.probability_best, before.probability_best[order], rtol=1e-9)
    np.testing.assert_allclose(after.expected_loss, before.expected_loss[order], rtol=1e-9)


def test_one_arm_is_the_best_for_sure(family, learnt):
    summary = summarise(family, learnt(family, np.random.default_rng(4), (1,)))
    np.testing.assert_allclose(summary.probability_best, [1.0])
    np.testing.assert_allclose(summary.expected_loss, [0.0], atol=1e-7)


def test_many_arms(family, learnt, race):
    n_arms = max(12, limit_count(family, 50, 200))
    belief = learnt(family, np.random.default_rng(5), (n_arms,), pulls=6)
    values = probability_best(family, belief)
    assert_probabilities(values, n_arms)
    np.testing.assert_allclose(values, race(family, belief)[0], rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("learning_rate", [1.0, 1000.0])
def test_after_a_million_pulls(family, typical_means, learning_rate):
    generator = np.random.default_rng(7)
    means = typical_means(family, generator, 4)
    rewards = family.draw_rewards(np.broadcast_to(means, (1000, 4)), generator)
    belief = beliefs.prior(family, (), 4) + learning_rate * 1000 * family.statistic(rewards).sum(1)
    summary = summarise(family, belief)
    assert_probabilities(summary.probability_best, 4)
    assert np.isfinite([summary.low, summary.high, summary.expected_loss]).all()
    leader = family.posterior_mean(belief).argmax()
    assert summary.probability_best.argmax() == leader
    assert summary.expected_loss.argmin() == leader


# Closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0, 6.0, 9.0, 12.0])
@pytest.mark.parametrize("sds", [(1.0, 1.0), (0.2, 3.0), (1e-6, 10.0), (1e-6, 1e-6)])
def test_two_gaussian_arms(gap, sds):
    """Also for probabilities of 1e-17, in relative terms."""
    spread = math.hypot(*sds)
    means = [0.0, gap * spread]
    summary = summarise(Gaussian(), gaussian_belief(means, sds))
    expected = [ndtr(-gap), ndtr(gap)]
    np.testing.assert_allclose(summary.probability_best, expected, rtol=1e-6)
    density = math.exp(-(gap**2) / 2) / math.sqrt(2 * math.pi)
    loss = spread * np.array([density + gap * ndtr(gap), density - gap * ndtr(-gap)])
    np.testing.assert_allclose(summary.expected_loss, loss, rtol=1e-6, atol=1e-12 * spread)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_narrow_arm_among_wide_ones(offset):
    """P(best) of arm 0 at a point is the product of the others' distribution functions there."""
    means, sds = np.array([1.0, 0.0, 2.0, -4.0]) + offset, [1e-6, 1.0, 3.0, 10.0]
    values = probability_best(Gaussian(), gaussian_belief(means, sds))
    expected = np.prod([ndtr((means[0] - means[j]) / sds[j]) for j in (1, 2, 3)])
    assert values[0] == pytest.approx(expected, rel=1e-5)


def exact_beta(alpha, beta, other_alpha, other_beta):
    """P(Beta(alpha, beta) > Beta(other)) for whole alpha: a finite sum of positive terms."""
    i = np.arange(alpha)
    logs = betaln(other_alpha + i, other_beta + beta) - np.log(beta + i) - betaln(1 + i, beta)
    return np.exp(logs - betaln(other_alpha, other_beta)).sum()


@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 5), (4, 4)), ((1, 1), (30, 10)), ((200, 300), (260, 240)), ((1, 0.5), (2, 0.5))],
)
def test_two_beta_arms(first, second):
    values = probability_best(Bernoulli(), np.array([first, second], dtype=float).T)
    assert values[0] == pytest.approx(exact_beta(*first, *second), rel=1e-6)


@pytest.mark.parametrize("prior", [0.5, 0.2, 0.05])
def test_beta_priors_below_one(race, prior):
    """Densities that are infinite at 0, such as that of Jeffreys' prior."""
    belief = prior + np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 3.0, 4.0, 2.0]])
    best, loss = race(Bernoulli(), belief)
    summary = summarise(Bernoulli(), belief)
    assert_probabilities(summary.probability_best, 4)
    np.testing.assert_allclose(summary.probability_best, best, rtol=1e-4)
    np.testing.assert_allclose(summary.expected_loss, loss, rtol=1e-4)


def test_jeffreys_prior_at_both_ends(race):
    """Infinite at 1 too, where neighbouring means lie 1e-16 apart."""
    belief = 0.5 + np.array([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    best, loss = race(Bernoulli(), belief)
    summary = summarise(Bernoulli(), belief)
    assert_probabilities(summary.probability_best, 4)
    np.testing.assert_allclose(summary.probability_best, best, rtol=1e-4)
    np.testing.assert_allclose(summary.expected_loss, loss, rtol=1e-4)


@pytest.mark.parametrize("shapes", [(1.5, 2.0), (3.0, 40.0), (0.3, 0.5), (500.0, 700.0)])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (2.0, 50.0)])
def test_two_gamma_arms(shapes, rates):
    belief = np.array([shapes, rates])
    share = rates[0] / sum(rates)
    below = betainc(*shapes, share)
    above = betainc(*shapes[::-1], 1 - share)
    np.testing.assert_allclose(probability_best(Poisson(), belief), [above, below], rtol=1e-6)
    if min(shapes) > 1:
        values = probability_best(Exponential(), belief)
        np.testing.assert_allclose(values, [below, above], rtol=1e-6)


def test_student_arms_against_scipy_quadrature():
    """Prior against posterior: heavy tails beside a narrow arm."""
    family = GaussianUnknownVariance()
    rewards = np.random.default_rng(9).normal(1.0, 1.0, 50)
    belief = np.stack([family.prior(), family.prior() + family.statistic(rewards).sum(1)], axis=1)
    weighted, count, shape, energy = belief
    location = weighted / count
    scale = np.sqrt((energy - weighted * location / 2) / (shape * count))
    wide, narrow = (stats.t(2 * shape[k], location[k], scale[k]) for k in (0, 1))
    levels = (np.arange(200_000) + 0.5) / 200_000  # midpoint rule over the narrow arm's levels
    expected = wide.sf(narrow.ppf(levels)).mean()
    summary = summarise(family, belief)
    assert summary.probability_best[0] == pytest.approx(expected, rel=1e-5)


def test_grids_exactly():
    """Inside a cell every distribution function is linear: Gauss-Legendre is exact there."""
    grid = Grid.example()
    pulls = np.array([3.0, 30.0, 300.0])
    wins = pulls * np.array([0.5, 0.52, 0.48])
    theta = grid.centres[:, None]
    belief = wins * np.log(theta) + (pulls - wins) * np.log1p(-theta)
    masses = np.exp(belief - belief.max(axis=0))
    masses /= masses.sum(axis=0)
    start = np.cumsum(masses, axis=0) - masses
    expected = np.zeros(3)
    for node, weight in zip(*np.polynomial.legendre.leggauss(4), strict=True):
        below = start + masses * (1 + node) / 2
        for arm in range(3):
            others = np.delete(below, arm, axis=1).prod(axis=1)
            expected[arm] += weight / 2 * (masses[:, arm] * others).sum()
    np.testing.assert_allclose(probability_best(grid, belief), expected, rtol=1e-6)


def test_arms_known_to_the_last_digit():
    """Too certain for two quantiles to differ: the best mean wins, equal ones share."""
    certain = gaussian_belief([1.0, 2.0, 2.0], [1e-20, 1e-20, 1e-20])
    summary = summarise(Gaussian(), certain)
    np.testing.assert_allclose(summary.probability_best, [0.0, 0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(summary.expected_loss, [1.0, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("pulls", [0, 1, 3, 20, 300])
def test_the_quick_rule(family, learnt, pulls):
    for seed in range(5):
        generator = np.random.default_rng([seed, pulls])
        belief = learnt(family, generator, (5,), pulls=pulls)
        quick = probability_best(family, belief, quick=True)
        np.testing.assert_allclose(quick, probability_best(family, belief), atol=1e-6, rtol=0)


@pytest.mark.parametrize("prior", [0.5, 0.1, 0.01])
def test_the_quick_rule_at_both_ends(prior):
    belief = np.array([[prior, prior, prior + 3], [prior, prior + 5, prior]])
    quick = probability_best(Bernoulli(), belief, quick=True)
    np.testing.assert_allclose(quick, probability_best(Bernoulli(), belief), atol=1e-6, rtol=0)


# Lift ---------------------------------------------------------------------------------------


def share_below(samples, value):
    """The share of samples up to a value, and 4.5 of its standard errors at 2.5 or 97.5%."""
    return (samples <= value).mean(), 4.5 * math.sqrt(0.025 * 0.975 / len(samples))


def test_the_interval_of_a_lift_against_monte_carlo(family, learnt):
    belief = learnt(family, np.random.default_rng(40), (2,), pulls=100)
    lift = estimate_lift(family, belief)
    generator = np.random.default_rng(1)
    samples = 3000 if isinstance(family, Grid) else 60_000  # a grid's sampling takes long
    many = np.repeat(belief[:, :, None], samples, axis=2)
    first, second = family.sample_mean(many, generator)
    samples = first / second - 1 if lift.relative else first - second
    assert lift.relative == (family.means.low >= 0)
    for bound, level in ((lift.low, 0.025), (lift.high, 0.975)):
        share, error = share_below(samples, bound)
        assert share == pytest.approx(level, abs=error)
    assert lift.low < lift.estimate < lift.high


@pytest.mark.parametrize("beliefs_of", [((3000, 97_000), (4, 40)), ((4, 40), (3000, 97_000))])
def test_the_lift_of_arms_of_which_one_is_known_well(beliefs_of):
    lift = estimate_lift(Bernoulli(), np.array(beliefs_of, dtype=float).T)
    (first, second) = (stats.beta(*column) for column in beliefs_of)
    scores = np.linspace(-7, 7, 20_001)  # so fine that either arm may be the narrow one
    weights = stats.norm.pdf(scores) * (scores[1] - scores[0])
    for bound, level in ((lift.low, 0.025), (lift.high, 0.975)):
        below = weights @ first.cdf((1 + bound) * second.ppf(ndtr(scores)))
        assert below == pytest.approx(level, abs=1e-6)


def test_the_lift_of_gaussian_arms_has_a_closed_form():
    lift = estimate_lift(Gaussian(), gaussian_belief([2.0, 1.0], [0.3, 0.4]))
    assert (lift.estimate, lift.relative) == (pytest.approx(1.0), False)
    assert (lift.low, lift.high) == pytest.approx((1 - 1.96 * 0.5, 1 + 1.96 * 0.5), abs=1e-4)
