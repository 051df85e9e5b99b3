"""Tails and quantiles of the kernels against SciPy, from shapes of 1e-3 to 1e7 and far out."""

import numpy as np
import pytest
from scipy import special as sp
from scipy import stats

from posse.lab.compiled import posteriors
from posse.lab.compiled.kernels import rewards
from posse.lab.compiled.numerics import special
from posse.lab.compiled.numerics.quantiles import upper_quantile

SHAPES = (1e-3, 0.03, 0.4, 1.0, 2.5, 9.9, 10.1, 60.0, 1e3, 1e5, 1e7)
GAMMA_SHAPES = SHAPES[:-1]  # from 1e6 on SciPy's own gammainc is off by up to 2% in the far tails
SCORES = np.linspace(-37.0, 37.0, 60)  # down to tails of 1e-300
DEEP = 1e-290  # below it floats lose digits
TAILS = np.concatenate([np.geomspace(1e-200, 0.1, 25), np.linspace(0.1, 0.9, 17)])


def far_and_near(law):
    """Points from one end of a law to the other: standard deviations around the mean, quantiles."""
    spread = law.mean() + SCORES * law.std()
    return np.concatenate([spread, law.ppf(np.linspace(0.01, 0.99, 15)), law.mean() * 2.0**SCORES])


def agree(got, expected, rtol):
    """Relative in each tail where it is the small one; the large one then follows."""
    small = (expected > DEEP) & (expected <= 0.5)
    np.testing.assert_allclose(got[small], expected[small], rtol=rtol)
    np.testing.assert_allclose(got, expected, rtol=0, atol=rtol)


def test_infinities_and_nan_are_safe_whoever_compiles_a_helper_first():
    """Numba gives a helper that states no flags those of its first caller, and keeps them."""
    for function in (upper_quantile, special.gamma_tails, special.beta_tails):
        assert "fastmath" in function.targetoptions
        assert not {"nnan", "ninf"} & set(function.targetoptions["fastmath"])


class TestTails:
    @pytest.mark.parametrize("a", GAMMA_SHAPES)
    def test_of_the_gamma_law(self, a):
        x = far_and_near(stats.gamma(a))
        x = x[x > 0]
        below, above = np.array([special.gamma_tails(a, value) for value in x]).T
        agree(below, sp.gammainc(a, x), rtol=1e-11)
        agree(above, sp.gammaincc(a, x), rtol=1e-11)

    def test_of_a_gamma_law_of_shape_1e7(self):
        """Against 60 digits of the series of the lower tail."""
        below = {
            9_900_000.0: 3.123539470267389e-221,
            9_980_000.0: 1.2364070637223815e-10,
            9_995_000.0: 0.056905070738993404,
        }
        above = {10_005_000.0: 0.056941215219504946, 10_020_000.0: 1.3040198355140065e-10}
        for x, expected in below.items():
            assert special.gamma_tails(1e7, x)[0] == pytest.approx(expected, rel=1e-10, abs=0)
        for x, expected in above.items():
            assert special.gamma_tails(1e7, x)[1] == pytest.approx(expected, rel=1e-10, abs=0)

    def test_of_a_gamma_law_where_the_method_changes(self):
        """A shape just below the change by the series, and by the expansion of larger ones."""
        a = np.nextafter(1e6, 0)
        x = a + SCORES * 1e3
        series = np.array([special.gamma_tails(a, value) for value in x])
        expansion = np.array([special.large_gamma_tails(a, value) for value in x])
        agree(expansion, series, rtol=1e-10)

    @pytest.mark.parametrize("a", SHAPES)
    @pytest.mark.parametrize("b", SHAPES)
    def test_of_the_beta_law(self, a, b):
        x = far_and_near(stats.beta(a, b))
        x = x[(x > 0) & (x < 1)]
        below, above = np.array([special.beta_tails(a, b, value) for value in x]).T
        # 1 - x is known to 1e-16 only, and matters as often as there are counts
        rtol = 1e-10 + 1e-15 * max(a, b)
        agree(below, sp.betainc(a, b, x), rtol)
        agree(above, sp.betaincc(a, b, x), rtol)

    def test_at_the_ends_of_the_range(self):
        assert special.gamma_tails(2.0, 0.0) == (0.0, 1.0)
        assert special.beta_tails(2.0, 3.0, 0.0) == (0.0, 1.0)
        assert special.beta_tails(2.0, 3.0, 1.0) == (1.0, 0.0)

    def test_normal_score(self):
        got = [special.normal_score(tail) for tail in TAILS]
        np.testing.assert_allclose(got, -sp.ndtri(TAILS), rtol=1e-13, atol=1e-13)
        upper = np.array([special.normal_score(1.0 - tail) for tail in TAILS[TAILS > 1e-12]])
        np.testing.assert_allclose(upper, sp.ndtri(TAILS[TAILS > 1e-12]), rtol=1e-4, atol=1e-12)
        assert special.normal_score(0.5) == 0.0


def solve(belief, count, total):
    """Quantiles at all TAILS from starts far below, near, above, and outside the range."""
    kind, mean = posteriors.POSTERIORS[belief], total / count
    starts = (1e-15 * mean, 0.1 * mean, mean, 0.1 + 0.9 * mean, 1 + 1e6 * mean, -1.0)
    return [
        np.array([upper_quantile(kind, count, total, tail, s) for tail in TAILS]) for s in starts
    ]


class TestQuantiles:
    """`upper_quantile` is judged by SciPy's tails a little below and a little above it."""

    def check(self, quantiles, tail_above, high=np.inf):
        for x in quantiles:
            assert np.all(np.isfinite(x) & (x >= 0) & (x <= high))
            below = np.where(x >= high, np.nextafter(high, 0), x * (1 - 1e-10))
            above = np.minimum(x * (1 + 1e-10) + 1e-280, high)
            assert np.all(tail_above(below) >= TAILS * (1 - 1e-8))
            assert np.all(tail_above(above) <= TAILS * (1 + 1e-8))

    @pytest.mark.parametrize("shape", GAMMA_SHAPES)
    def test_of_the_gamma_belief(self, shape):
        quantiles = solve("GAMMA", 3.0, shape)
        self.check(quantiles, lambda x: sp.gammaincc(shape, 3.0 * x))

    @pytest.mark.parametrize("shape", [s for s in GAMMA_SHAPES if s > 1])
    def test_of_the_inverse_gamma_belief(self, shape):
        quantiles = solve("INVERSE_GAMMA", shape, 2.0)
        self.check(quantiles, lambda x: sp.gammainc(shape, 2.0 / x))

    @pytest.mark.parametrize("a", SHAPES)
    @pytest.mark.parametrize("b", SHAPES)
    def test_of_the_beta_belief(self, a, b):
        failures = a + b - a  # what the kernel sees of b
        self.check(solve("BETA", a + b, a), lambda x: sp.betaincc(a, failures, x), high=1.0)

    def test_of_a_gamma_belief_of_shape_1e18(self):
        """At once, not after as many steps as the shape has deviations."""
        got = upper_quantile(posteriors.GAMMA, 2.0, 1e18, 1e-3, 5e17)
        assert (2 * got - 1e18) / 1e9 == pytest.approx(-sp.ndtri(1e-3), rel=1e-6)


class TestRewards:
    LEVELS = np.concatenate(
        [10.0 ** np.arange(-15, -1), np.linspace(0.02, 0.98, 49), 1 - 10.0 ** np.arange(-10, -1.0)]
    )

    @pytest.mark.parametrize("mean", [1e-3, 0.1, 1.0, 7.3, 29.9, 30.1, 400.0, 1e4, 1e6])
    def test_poisson_quantile(self, mean):
        got = np.array([rewards.poisson_quantile(mean, u) for u in self.LEVELS])
        np.testing.assert_array_equal(got, stats.poisson.ppf(self.LEVELS, mean))

    @pytest.mark.parametrize("mean", [1e8, 1e10, 1e13, 1e18, 1e100])
    def test_poisson_quantile_of_huge_means(self, mean):
        """Where every count is a few roundings wide, a few roundings or a few counts are exact."""
        for u in (1e-9, 0.1, 0.5, 0.9, 1 - 1e-9):
            got, expected = rewards.poisson_quantile(mean, u), mean + sp.ndtri(u) * mean**0.5
            assert abs(got - expected) <= max(8.0, 4e-16 * mean)

    def test_poisson_quantile_at_jumps(self):
        """Levels a rounding beside the steps of the distribution function, at most one step off."""
        for mean in (0.5, 3.0, 50.0, 1e3):
            steps = np.arange(int(mean + 6 * mean**0.5) + 2)
            for k, level in zip(steps, stats.poisson.cdf(steps, mean), strict=True):
                if 1e-12 < level < 1 - 1e-12:
                    assert rewards.poisson_quantile(mean, level * (1 - 1e-10)) == k
                    assert rewards.poisson_quantile(mean, level * (1 + 1e-10)) == k + 1

    @pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 4.0, 80.0, 3e4])
    @pytest.mark.parametrize("b", [0.01, 0.3, 1.0, 4.0, 80.0, 3e4])
    def test_beta_quantile(self, a, b):
        levels = self.LEVELS[(self.LEVELS > 1e-9) & (self.LEVELS < 1 - 1e-9)]
        got = np.array([rewards.beta_quantile(a, b, u) for u in levels])
        assert np.all((got >= 0) & (got <= 1))
        # judged by the level: with shapes below 1 a quantile may be 1e-30, which SciPy's own
        # inverse does not always find
        beside = np.array([sp.betainc(a, b, np.clip(got + e, 0, 1)) for e in (-1e-12, 1e-12)])
        assert np.all((beside[0] <= levels + 1e-9) & (levels - 1e-9 <= beside[1]))
