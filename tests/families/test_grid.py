"""The grid family: any likelihood of one parameter, against conjugate posteriors and by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from posse import beliefs
from posse.families import Bernoulli, Exponential, Grid


def exponential_log_likelihood(reward, rate):
    return np.log(rate) - rate * reward


def reciprocal(rate):
    return 1 / rate


def exponential_draw(mean, uniform):
    return -mean * np.log1p(-uniform)


# the mean falls as theta = rate rises
RATES = Grid(exponential_log_likelihood, reciprocal, (0.2, 5.0), 2000, exponential_draw)


def test_cells_are_in_the_order_of_ascending_means():
    assert (np.diff(RATES.edges) > 0).all()
    assert (np.diff(RATES.centres) < 0).all()
    means = reciprocal(RATES.centres)
    assert ((RATES.edges[:-1] < means) & (means < RATES.edges[1:])).all()
    assert RATES.means.low == pytest.approx(0.2)
    assert RATES.means.high == pytest.approx(5.0)


def test_the_prior_is_uniform_in_theta():
    x = np.array([0.25, 0.5, 1.0, 4.0])
    rates = stats.uniform(0.2, 4.8)
    np.testing.assert_allclose(
        RATES.mean_cdf(RATES.prior()[:, None], x), rates.sf(1 / x), atol=1e-6
    )


def test_a_decreasing_mean_gives_the_gamma_posterior_of_the_rate():
    rewards = np.array([0.3, 1.2, 0.7, 2.5, 0.1, 0.9, 1.4, 0.6, 1.1, 0.8])
    belief = RATES.prior()
    for reward in rewards:
        belief = belief + 3.0 * RATES.statistic(np.asarray(reward))
    # uniform prior on [0.2, 5] times rate^30 exp(-3 sum rate): a Gamma that fits inside
    exact = stats.invgamma(1 + 30, scale=3 * rewards.sum())
    levels = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(
        RATES.mean_quantile(belief[:, None], levels), exact.ppf(levels), rtol=1e-4
    )
    x = exact.ppf(np.array([0.01, 0.3, 0.7, 0.99]))
    np.testing.assert_allclose(RATES.mean_cdf(belief[:, None], x), exact.cdf(x), rtol=1e-3)
    np.testing.assert_allclose(RATES.log_density(belief[:, None], x), exact.logpdf(x), atol=0.05)
    assert RATES.posterior_mean(belief) == pytest.approx(exact.mean(), rel=1e-4)


def test_rewards_are_drawn_and_their_likelihood_is_read_at_the_theta_of_a_mean():
    rewards = RATES.draw_rewards(np.full(20_000, 1.7), np.random.default_rng(1))
    assert stats.kstest(rewards, stats.expon(scale=1.7).cdf).pvalue > 1e-6
    means = np.array([0.3, 1.0, 3.0])
    np.testing.assert_allclose(
        RATES.reward_log_density(0.8, means),
        Exponential().reward_log_density(0.8, means),
        atol=1e-3,
    )


def test_a_fine_grid_is_the_conjugate_family():
    grid, exact = Grid.example(), Bernoulli()
    generator = np.random.default_rng(2)
    weights = np.array([[0.7, 0.3], [0.3, 0.7]])
    on_grid, conjugate = beliefs.prior(grid, 2, 3), beliefs.prior(exact, 2, 3)
    for _ in range(20):
        arms = generator.integers(3, size=2)
        rewards = exact.draw_rewards(np.array([0.2, 0.5, 0.8])[arms], generator)
        on_grid = beliefs.merge(beliefs.observe(on_grid, arms, rewards, grid, 2.0), weights)
        conjugate = beliefs.merge(beliefs.observe(conjugate, arms, rewards, exact, 2.0), weights)
    np.testing.assert_allclose(
        grid.posterior_mean(on_grid), exact.posterior_mean(conjugate), atol=1e-5
    )
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(
            grid.mean_quantile(on_grid, level), exact.mean_quantile(conjugate, level), atol=1e-4
        )


def test_beliefs_concentrated_in_one_cell_stay_inside_it():
    grid = Grid.example()
    belief = np.full((grid.points, 1), -1e6)
    belief[100] = 0.0
    levels = [grid.mean_quantile(belief, level)[0] for level in (0.0, 0.25, 1.0)]
    low, high = grid.edges[100:102]
    assert levels == pytest.approx([low, low + 0.25 * (high - low), high])
    assert grid.mean_cdf(belief, low)[0] == 0.0
    assert grid.mean_cdf(belief, high)[0] == 1.0
    assert grid.log_density(belief, (low + high) / 2)[0] == pytest.approx(np.log(grid.points))


def test_outside_the_support_there_is_no_density():
    grid = Grid.example()
    assert grid.log_density(grid.prior(), -0.1) == -np.inf
    assert grid.log_density(grid.prior(), 1.1) == -np.inf
    assert grid.log_density(grid.prior(), 0.0) == pytest.approx(0.0, abs=1e-12)
    assert grid.log_density(grid.prior(), 1.0) == pytest.approx(0.0, abs=1e-12)


def test_many_means_do_not_multiply_the_memory_of_the_grid():
    grid = Grid.example()
    belief = beliefs.prior(grid, 1, 10)
    means = np.linspace(0.0, 1.0, 5000)[:, None]
    tracemalloc.start()
    grid.mean_cdf(belief, means)
    grid.log_density(belief, means)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * means.size * 10 * 8  # 512 copies would be 200 MB


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"log_likelihood": "gaussian"}, "log_likelihood must be a function"),
        ({"mean": 3}, "mean must be a function"),
        ({"draw": 3}, "draw must be a function or None"),
        ({"support": 3}, "support must be a pair"),
        ({"support": (0.0, 0.5, 1.0)}, "support must be a pair"),
        ({"support": (1.0, 1.0)}, "high end of support must be a finite number above 1"),
        ({"support": (0.0, np.inf)}, "high end of support must be a finite number"),
        ({"support": (np.nan, 1.0)}, "low end of support must be a finite number"),
        ({"points": 1}, "points must be a whole number at least 2"),
        ({"points": 7.5}, "points must be a whole number"),
        ({"mean": lambda theta: (theta - 1.5) ** 2}, "strictly monotone"),
        ({"mean": lambda theta: theta * np.nan}, "strictly monotone"),
        ({"mean": lambda theta: 1.0}, "strictly monotone"),
    ],
)
def test_what_a_grid_refuses(fields, message):
    good = {"log_likelihood": exponential_log_likelihood, "mean": reciprocal, "support": (1.0, 2.0)}
    with pytest.raises(ValueError, match=message):
        Grid(**{**good, **fields})


def test_equal_grids_are_equal_however_their_numbers_are_written():
    plain = Grid(exponential_log_likelihood, reciprocal, (1.0, 2.0), 16)
    other = Grid(exponential_log_likelihood, reciprocal, [1, 2], 16.0)
    assert plain == other
    assert hash(plain) == hash(other)
    assert other.prior().shape == (16,)


def test_a_grid_without_draw_can_learn_but_not_simulate():
    grid = Grid(exponential_log_likelihood, reciprocal, (1.0, 2.0))
    assert np.isfinite(grid.statistic(np.array([0.5, 1.5]))).all()
    with pytest.raises(ValueError, match="give it draw="):
        grid.draw_rewards(np.array([0.7]), np.random.default_rng(0))
