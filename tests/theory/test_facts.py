"""Facts of the paper's appendix that have no code of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from posse import theory
from tests.theory.material import probabilities, unhurried


def test_fact_beta_binom_with_alpha_plus_beta_minus_1_trials() -> None:
    alpha, beta, x = np.meshgrid(np.arange(1, 9), np.arange(1, 9), np.linspace(0.05, 0.95, 19))
    beta_law = special.betainc(alpha, beta, x)
    np.testing.assert_allclose(
        beta_law, 1 - special.bdtr(alpha - 1, alpha + beta - 1, x), atol=1e-13
    )
    # as printed, with alpha + beta + 1 trials, it is off by up to 0.55
    as_printed = 1 - special.bdtr(alpha - 1, alpha + beta + 1, x)
    assert np.abs(beta_law - as_printed).max() > 0.5


def test_facts_beta_cdf_1_and_2() -> None:
    y = np.linspace(0.1, 0.9, 9)
    assert np.all(special.betainc(5, 3, y) < special.betainc(4, 3, y))
    assert np.all(special.betainc(5, 3, y) < special.betainc(5, 4, y))
    mean = 0.3
    few, many = (special.betainc(mean * n + 1, (1 - mean) * n + 1, y) for n in (200, 400))
    above = (y > mean + 0.05) & (few < 1)
    assert above.sum() >= 2
    assert np.all(few[above] < many[above])


@unhurried
@given(st.integers(1, 200), probabilities, probabilities)
def test_fact_chernoff(trials: int, mean: float, level: float) -> None:
    bound = math.exp(-trials * float(theory.kl_bernoulli(level, mean)))
    count = math.floor(trials * level + 1e-9)
    if level > mean:
        assert stats.binom.sf(count, trials, mean) <= bound * (1 + 1e-9)
    elif level < mean:
        strictly_below = math.ceil(trials * level - 1e-9) - 1
        assert stats.binom.cdf(strictly_below, trials, mean) <= bound * (1 + 1e-9)


def test_a_step_of_lemma_6_is_false_as_printed() -> None:
    """Without the -1, the sum is that of a likely event: docs/paper-map.md has these numbers."""
    j, mean, threshold = 200, 0.5, 0.4
    s = np.arange(math.floor(threshold * j) + 1, j + 1)
    total = 2 * stats.binom.pmf(s, j, mean).sum()
    bound = 4 * math.exp(-2 * j * (threshold - mean) ** 2)
    assert total == pytest.approx(1.99, abs=0.01)
    assert bound == pytest.approx(0.073, abs=0.001)
    # with it, 1/F - 1 <= 2 (1 - F) where F >= 1/2, and the tail 1 - F is small
    below = stats.binom.cdf(s, j + 1, threshold)
    assert (below >= 0.5).all()
    assert (1 / below - 1 <= 2 * (1 - below) + 1e-15).all()


def test_what_docs_paper_map_says_about_the_thresholds_of_the_proof() -> None:
    best, worse = 0.5, 0.1
    total = float(theory.kl_bernoulli(worse, best))

    def thresholds(epsilon: float) -> tuple[float, float]:
        x = optimize.brentq(
            lambda x: theory.kl_bernoulli(x, best) - total / (1 + epsilon), worse, best
        )
        y = optimize.brentq(
            lambda y: theory.kl_bernoulli(x, y) - total / (1 + epsilon) ** 2, x, best
        )
        return x, y

    # x_k - mu_k > epsilon / 2 does not hold, nor does x_k > (1 + epsilon/8) mu_k + epsilon/8
    x, _ = thresholds(0.5)
    assert x - worse < 0.07 < 0.5 / 2
    assert x < (1 + 0.5 / 8) * worse + 0.5 / 8
    # 1/d(y_k, mu_1) is of order 1/epsilon^2, not 1/epsilon
    large, small = (
        epsilon**2 / float(theory.kl_bernoulli(thresholds(epsilon)[1], best))
        for epsilon in (0.02, 0.01)
    )
    assert small == pytest.approx(large, rel=0.05)
