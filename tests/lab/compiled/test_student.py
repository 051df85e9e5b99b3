"""The Student posterior: how rows of sums become its numbers, and its quantiles, against SciPy."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtrit

import posse
from posse import families
from posse.families import GaussianUnknownVariance
from posse.lab.compiled.philox import U64
from posse.lab.compiled.posteriors import student

FAMILY = GaussianUnknownVariance(prior_mean=0.4, prior_count=0.3, shape=2.5, rate=0.7)


def test_rows_of_sums_become_the_laws_of_the_family():
    """Location, scale and degrees of freedom are those of `unpack_belief`, for every row."""
    generator = np.random.default_rng(3)
    n_rows, n_arms = 7, 5
    belief = np.tile(FAMILY.prior()[:, None, None], (1, n_rows, n_arms))
    for _ in range(20):
        rewards = generator.normal(3.0, 2.0, (n_rows, n_arms))
        weights = generator.exponential(size=(n_rows, n_arms))
        belief = belief + weights * FAMILY.statistic(rewards)
    sums = families.to_count_and_total(FAMILY, belief)  # (3, rows, K)
    np.testing.assert_allclose(families.from_count_and_total(FAMILY, sums), belief, rtol=1e-13)
    rows = np.ascontiguousarray(np.moveaxis(sums, 0, 1)).reshape(-1)
    acted = np.zeros(rows.size)
    offset = FAMILY.shape_offset
    student.standardise_rows(acted, rows, offset, U64(1), U64(n_rows), U64(n_arms))
    count, total, shape = np.moveaxis(acted.reshape(n_rows, 3, n_arms), 1, 0)
    assert not acted[: 3 * n_arms].any()  # of another tile
    law = FAMILY.unpack_belief(belief[:, 1:])
    np.testing.assert_allclose(total[1:] / count[1:], law.location, rtol=1e-12)
    np.testing.assert_allclose(count[1:] ** -0.5, law.scale, rtol=1e-12)
    np.testing.assert_allclose(shape[1:], law.shape, rtol=1e-12)


def test_a_variance_that_rounds_to_nothing_is_as_the_family_says():
    """Rewards of 1e9 that differ by nothing: the difference of squares has no digit left."""
    belief = FAMILY.prior() + 1e6 * FAMILY.statistic(np.array(1e9))
    sums = families.to_count_and_total(FAMILY, belief)
    acted = np.zeros(3)
    student.standardise_rows(acted, sums, FAMILY.shape_offset, U64(0), U64(1), U64(1))
    assert acted[0] ** -0.5 == pytest.approx(float(FAMILY.unpack_belief(belief).scale), rel=1e-6)


@pytest.mark.parametrize("shape", [0.51, 1.0, 3.3, 40.0, 5e3])
@pytest.mark.parametrize("level", [0.9, 0.5, 0.3, 1e-2, 1e-5, 1e-9])
def test_quantiles_are_scipys(shape, level):
    score = stats.norm.isf(level)
    exact = -stdtrit(2 * shape, level) if level != 0.5 else 0.0
    solved = student.student_quantile(shape, level, score)
    assert solved == pytest.approx(exact, rel=1e-8, abs=1e-9)
    estimate, error = student.near_quantile(shape, score)
    if error < student.VAGUE:
        assert abs(estimate - solved) <= error / 2 + 1e-9 * abs(solved) + 1e-9


def test_the_series_is_as_good_as_it_says():
    """Its bound is at least twice the error where it is far above the solver's own error."""
    generator = np.random.default_rng(1)
    n_known = 0
    for _ in range(3000):
        shape, score = 10 ** generator.uniform(0, 4), generator.uniform(0.3, 7)
        estimate, error = student.near_quantile(shape, score)
        if 1e-8 < error < student.VAGUE:
            solved = student.student_quantile(shape, stats.norm.sf(score), score)
            assert abs(estimate - solved) < error / 2
            n_known += 1
    assert n_known > 300


def test_the_engine_is_compiled_with_every_policy():
    bandit = posse.Bandit(FAMILY, [0.2, 0.9, 0.5])
    for policy in (posse.ThompsonSampling(), posse.BayesUCB(), posse.TopTwo(), posse.RandUCB()):
        algorithm = posse.Decentralized(policy)
        result = posse.simulate(bandit, posse.networks.cycle(5), algorithm, horizon=20, runs=2)
        assert result.engine == "compiled"
