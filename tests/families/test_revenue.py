"""Revenue per visit: the law of conversion times average sale, against oracles that share no code.

SciPy's adaptive quadrature, a two-dimensional grid of (conversion, sale), and Monte Carlo. Seeds
are fixed; a correct family fails a statistical test with probability below 1e-6.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, special, stats

from posse import beliefs
from posse.best_arm import Race, evaluate_arms
from posse.families import Revenue, revenue
from posse.live.agent.evidence import Evidence

FAMILY = Revenue()
# (alpha, beta, sale_shape, sale_scale): priors, few and many visits, conversions near 0 and 1,
# sales that are known far better than the conversion, and far worse
BELIEFS = {
    "prior": (1.0, 1.0, 2.0, 1.0),
    "rare sales": (4.0, 130.0, 5.0, 160.0),
    "many visits": (301.0, 9_700.0, 302.0, 12_000.0),
    "every visit buys": (1_000.0, 0.5, 1_001.0, 40_000.0),
    "one sale": (2.0, 33.0, 3.0, 80.0),
    "sales known": (1.0, 32.0, 5_000.0, 200_000.0),
    "conversion known": (3e4, 1e6, 1.5, 20.0),
    "small prior": (0.5, 0.5, 1.1, 1.0),
}
LEVELS = np.array([1e-6, 0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.999, 1 - 1e-6])


@pytest.fixture(params=BELIEFS)
def belief(request):
    return np.array(BELIEFS[request.param])


def quad_cdf(belief, x):
    """P(p m <= x) = E[P(1/m >= p/x)], over levels of p: SciPy's adaptive rule."""
    alpha, beta, shape, scale = belief

    def below(level):
        return special.gammaincc(shape, scale * special.betaincinv(alpha, beta, level) / x)

    tails = 10.0 ** -np.arange(12, 0, -1)
    pieces = np.concatenate([[0.0], tails, [0.3, 0.5, 0.7], 1 - tails[::-1], [1.0]])
    return sum(
        integrate.quad(below, *ends, epsabs=1e-15, epsrel=1e-13, limit=200)[0]
        for ends in itertools.pairwise(pieces)
    )


def test_the_distribution_function_is_that_of_adaptive_quadrature(belief):
    for x in FAMILY.mean_quantile(belief[:, None], LEVELS):
        assert FAMILY.mean_cdf(belief, x) == pytest.approx(quad_cdf(belief, x), abs=1e-11)


def test_the_density_is_kummers_function():
    """f(x) = d^c x^(-c-1) B(a+c, b) / (Gamma(c) B(a, b)) M(a+c, a+b+c, -d/x), by SciPy."""
    for name in ("prior", "rare sales", "one sale", "small prior"):
        belief = np.array(BELIEFS[name])
        a, b, c, d = belief
        x = FAMILY.mean_quantile(belief[:, None], LEVELS[2:-1])
        log_norm = special.betaln(a + c, b) - special.betaln(a, b) - special.gammaln(c)
        kummer = special.hyp1f1(a + c, a + b + c, -d / x)
        expected = log_norm + c * np.log(d) - (c + 1) * np.log(x) + np.log(kummer)
        np.testing.assert_allclose(
            FAMILY.log_density(belief[:, None], x), expected, rtol=0, atol=1e-9, err_msg=name
        )


def test_the_distribution_function_is_that_of_a_grid_of_conversion_and_sale(belief):
    """Mass of the cells of a grid by (p, m), 600 quantiles of each: no formula of the product."""
    alpha, beta, shape, scale = belief
    levels = (np.arange(600) + 0.5) / 600
    conversion = special.betaincinv(alpha, beta, levels)
    sale = scale / special.gammainccinv(shape, levels)
    products = np.sort(np.outer(conversion, sale).ravel())
    for x in FAMILY.mean_quantile(belief[:, None], np.array([0.01, 0.2, 0.5, 0.9, 0.99])):
        share = np.searchsorted(products, x) / products.size
        assert FAMILY.mean_cdf(belief, x) == pytest.approx(share, abs=1e-3)


def test_samples_are_products(belief):
    generator = np.random.default_rng(1)
    alpha, beta, shape, scale = belief
    product = generator.beta(alpha, beta, 50_000) * scale / generator.gamma(shape, 1.0, 50_000)
    many = np.broadcast_to(belief[:, None], (4, 50_000))
    assert stats.ks_2samp(FAMILY.sample_mean(many, generator), product).pvalue > 1e-6
    assert stats.kstest(FAMILY.mean_cdf(many[:, :2000], product[:2000]), "uniform").pvalue > 1e-6


def test_quantiles_invert_in_both_tails_and_rise(belief):
    levels = np.array([1e-15, 1e-10, *LEVELS, 1 - 1e-10])
    x = FAMILY.mean_quantile(belief[:, None], levels)
    assert (np.diff(x) > 0).all()
    np.testing.assert_allclose(FAMILY.mean_cdf(belief[:, None], x), levels, rtol=1e-9, atol=1e-15)


def test_closer_nodes_change_nothing(monkeypatch):
    """200 random beliefs, shapes of amounts from 0.03 to 100: half the step, a longer range."""
    generator = np.random.default_rng(6)
    alpha, beta, scale = 10 ** generator.uniform([-0.3, -0.3, 0.0], [5, 6, 3], (200, 3)).T
    shape = 1.5 + alpha * 10 ** generator.uniform(-1.5, 2, 200)
    belief = np.stack([alpha, beta, shape, scale])
    x = FAMILY.mean_quantile(belief, generator.random(200))
    before = FAMILY.mean_cdf(belief, x), FAMILY.log_density(belief, x)
    u = np.arange(-6.6, 6.6, 0.04)
    monkeypatch.setattr(revenue, "_OFFSETS", np.sinh(u))
    monkeypatch.setattr(revenue, "_WEIGHTS", 0.04 * np.cosh(u))
    np.testing.assert_allclose(FAMILY.mean_cdf(belief, x), before[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(FAMILY.log_density(belief, x), before[1], rtol=0, atol=1e-7)


def test_many_means_of_one_belief_are_interpolated(belief):
    x = FAMILY.mean_quantile(belief[:, None], np.linspace(0.0005, 0.9995, 40))
    x = np.interp(np.linspace(0, 39, 2000), np.arange(40), x)
    for function, error in ((FAMILY.mean_cdf, 1e-12), (FAMILY.log_density, 1e-10)):
        alone = np.concatenate([function(belief[:, None], part) for part in np.split(x, 10)])
        np.testing.assert_allclose(function(belief[:, None], x), alone, rtol=error, atol=error)


def test_moments_are_those_of_the_factors(belief):
    """E[p] E[m] and E[p^2] E[m^2] - (E[p] E[m])^2, with SciPy's moments of both laws."""
    alpha, beta, shape, scale = belief
    conversion = stats.beta(alpha, beta)
    sale = stats.invgamma(shape, scale=scale)
    mean = conversion.mean() * sale.mean()
    squares = (conversion.var() + conversion.mean() ** 2) * (sale.var() + sale.mean() ** 2)
    assert FAMILY.posterior_mean(belief) == pytest.approx(mean, rel=1e-12)
    assert FAMILY.posterior_variance(belief) == pytest.approx(squares - mean**2, rel=1e-6)


def test_p_best_is_that_of_monte_carlo():
    """Four arms that differ in conversion, in sale, in both and in evidence; 200,000 samples."""
    belief = np.array(
        [
            [31.0, 40.0, 31.0, 2.0],
            [970.0, 960.0, 970.0, 33.0],
            [32.0, 41.0, 32.0, 3.0],
            [1300.0, 1280.0, 1600.0, 90.0],
        ]
    )
    generator = np.random.default_rng(2)
    n = 200_000
    alpha, beta, shape, scale = belief
    means = generator.beta(alpha, beta, (n, 4)) * scale / generator.gamma(shape, 1.0, (n, 4))
    best = np.bincount(means.argmax(axis=1), minlength=4) / n
    behind = means.max(axis=1, keepdims=True) - means
    chances, loss = evaluate_arms(FAMILY, belief)
    limit = 5 * np.sqrt(best * (1 - best) / n)  # an error rate of 4 x 6e-7
    assert (np.abs(chances - best) < limit).all()
    assert (np.abs(loss - behind.mean(axis=0)) < 6 * behind.std(axis=0) / np.sqrt(n)).all()
    np.testing.assert_allclose(Race(FAMILY)(belief), chances, rtol=0, atol=1e-7)


def test_much_evidence_is_normal():
    """A billion visits: the law of log x is normal with the variances of log p and log m."""
    belief = np.array([3e7, 9.7e8, 3e7, 1.2e9])
    sd = np.sqrt(1 / 3e7 - 1 / 1e9 + 1 / 3e7)
    low, high = np.log(FAMILY.mean_quantile(belief[:, None], np.array([0.025, 0.975])))
    assert high - low == pytest.approx(2 * stats.norm.isf(0.025) * sd, rel=1e-3)


def test_rewards_have_the_conversion_the_mean_and_the_spread():
    family = Revenue(shape=4.0, conversion=0.05)
    rewards = family.draw_rewards(np.full(400_000, 2.0), np.random.default_rng(3))
    sales = rewards[rewards > 0]
    assert stats.binomtest(len(sales), len(rewards), 0.05).pvalue > 1e-6
    assert stats.kstest(sales, stats.gamma(4.0, scale=10.0).cdf).pvalue > 1e-6


def test_a_sale_and_a_visit_without_one_by_hand():
    family = Revenue(shape=2.0, alpha=1, beta=32, sale_shape=3, sale_scale=80)
    belief = beliefs.prior(family, 1, 2)[:, 0]
    belief = beliefs.observe(belief, np.array(0), np.array(50.0), family, 1.0)
    belief = beliefs.observe(belief, np.array(1), np.array(0.0), family, 1.0)
    np.testing.assert_array_equal(belief, [[2, 1], [32, 33], [5, 3], [180, 80]])
    np.testing.assert_allclose(family.posterior_mean(belief), [2 / 34 * 45, 1 / 34 * 40])


@pytest.mark.parametrize(
    ("field", "value"),
    [("shape", 0.0), ("alpha", 0.4), ("beta", 0.0), ("sale_shape", 1.0), ("conversion", 1.5)],
)
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be a finite number .*, got {value}"):
        Revenue(**{field: value})


class TestLiveEvidence:
    """Sums of whole numbers: amounts, sales and visits."""

    evidence = Evidence.for_family(Revenue(shape=2.0), (0.0, 500.0))

    def test_sums_give_the_statistic(self):
        generator = np.random.default_rng(4)
        rewards = Revenue(conversion=0.2).draw_rewards(np.full(300, 8.0), generator)
        rows = [self.evidence.quantize_reward(float(y), generator) for y in rewards]
        total = tuple(map(sum, zip(*rows, strict=True)))
        np.testing.assert_allclose(
            self.evidence.statistic(total),
            Revenue(shape=2.0).statistic(rewards).sum(axis=1),
            rtol=1e-5,  # a reward is rounded to a millionth of the largest
        )
        assert self.evidence.reward_sum(total) == pytest.approx(rewards.sum(), rel=1e-5)

    def test_amounts_without_sales_are_clipped_to_what_sales_can_give(self):
        """A neighbour that lies: 100 visits, half of the largest amount on average, no sale."""
        visit = self.evidence.quantize_reward(0.0, np.random.default_rng(5))
        forged = [100 * value for value in visit]
        forged[0] = forged[-1] // 2
        sales, others, shape, amount = self.evidence.statistic(forged)
        assert (sales, others, shape) == pytest.approx((50.0, 50.0, 100.0))
        assert amount == pytest.approx(2.0 * 25_000.0)
