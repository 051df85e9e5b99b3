"""Bayes-UCB: levels and indices by the formula of Alg. 3."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from posse import beliefs
from posse.families import Bernoulli, Exponential, Gaussian, GaussianUnknownVariance, Poisson
from posse.policies import BayesUCB, choose


@pytest.mark.parametrize(
    ("t", "horizon", "log_power", "level"),
    [
        (1, 1000, 0.0, 0.0),
        (2, 1000, 0.0, 0.5),
        (1000, 1000, 0.0, 0.999),
        (1, None, 0.0, 0.0),
        (4, None, 0.0, 0.75),
        (1, 1, 0.0, 0.0),
        (1, 1, 5.0, 0.0),
        (1, 2, 5.0, 0.0),  # log 2 < 1: the formula is negative
        (2, 2, 5.0, 0.0),
        (2, 2, 1.0, 1 - 1 / (2 * math.log(2))),
        (1, 1000, 5.0, 1 - 1 / math.log(1000) ** 5),
        (10, 100, 0.5, 1 - 1 / (10 * math.log(100) ** 0.5)),
    ],
)
def test_levels_by_hand(t, horizon, log_power, level):
    assert BayesUCB(log_power=log_power).quantile_level(t, horizon) == pytest.approx(
        level, abs=1e-15
    )


@given(t=st.integers(1, 10**6), horizon=st.integers(1, 10**6), log_power=st.floats(0.0, 10.0))
def test_levels_by_the_formula(t, horizon, log_power):
    level = BayesUCB(log_power).quantile_level(t, horizon)
    scale = t * math.log(horizon) ** log_power
    expected = 0.0 if scale <= 1 else 1 - 1 / scale
    assert level == pytest.approx(expected, abs=1e-15)
    assert 0.0 <= level <= 1.0
    assert BayesUCB(log_power).quantile_level(t + 1, horizon) >= level


def test_a_power_of_the_horizon_needs_a_horizon():
    with pytest.raises(ValueError, match="needs a horizon"):
        BayesUCB(log_power=1.0).quantile_level(3, None)
    belief = beliefs.prior(Gaussian(), 2, 3)
    with pytest.raises(ValueError, match="log_power"):
        choose(BayesUCB(5.0), belief, Gaussian(), 3, None, np.random.default_rng(0))


@pytest.mark.parametrize("log_power", [-1.0, math.nan, math.inf, "5", True, None])
def test_powers_that_make_no_sense_are_refused(log_power):
    with pytest.raises(ValueError, match="log_power must be"):
        BayesUCB(log_power=log_power)


@pytest.mark.parametrize(
    ("family", "belief", "law"),
    [
        (Bernoulli(), [3.0, 5.0], stats.beta(3, 5)),
        (Gaussian(), [3.0, 4.0], stats.norm(0.75, 0.5)),
        (Poisson(), [3.0, 4.0], stats.gamma(3, scale=0.25)),
        (Exponential(), [3.0, 4.0], stats.invgamma(3, scale=4)),
        (GaussianUnknownVariance(), [2.0, 4.0, 3.0, 2.5], stats.t(6, 0.5, math.sqrt(2 / 12))),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_index_is_the_quantile_of_the_mean(family, belief, law):
    columns = np.repeat(np.array(belief)[:, None], 2, axis=1)
    for t, power in ((2, 0.0), (7, 0.0), (7, 5.0), (10**6, 0.0)):
        policy = BayesUCB(power)
        scores = policy.scores(columns, family, t, 10**6, np.random.default_rng(0))
        level = 1 - 1 / (t * math.log(10**6) ** power)
        np.testing.assert_allclose(scores, [law.ppf(level)] * 2, rtol=1e-7)


def test_the_first_round_is_a_tie_for_every_family(family, learnt):
    """At level 0 every index is the end of the support, without a warning or a NaN."""
    belief = learnt(family, np.random.default_rng(1), (5,), pulls=1)
    scores = BayesUCB().scores(belief, family, 1, None, np.random.default_rng(0))
    np.testing.assert_array_equal(scores, np.full(5, scores[0]))
    assert not np.isnan(scores).any()
    assert scores[0] <= family.means.low


def test_an_arm_less_known_is_preferred_at_equal_means():
    belief = np.array([[50.0, 5.0, 500.0], [50.0, 5.0, 500.0]])
    arm = choose(BayesUCB(), belief, Bernoulli(), 20, None, np.random.default_rng(0))
    assert arm == 1
