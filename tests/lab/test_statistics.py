"""Intervals against scipy.stats, which the library itself is too impatient to import."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import posse
from posse.lab.results import Result
from posse.lab.statistics import (
    Estimate,
    Growth,
    agent_regrets,
    compare_paired,
    correct_p_values,
    find_pareto_front,
    fit_growth,
    holm,
    mean_interval,
    p_value,
    paired_difference,
    tail_percentile,
    wrong_leader_share,
)


def result(final, horizon=10):
    final = np.asarray(final, dtype=float)
    regret = final[:, None] * np.array([0.5, 1.0])
    pulls = np.full((len(final), 1, 2), horizon // 2)
    return Result([1, horizon], regret, pulls, "reference", {})


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("runs", [2, 3, 30, 500])
def test_mean_interval_is_the_student_t_interval(level, runs):
    values = np.random.default_rng(runs).gamma(2.0, 3.0, size=runs)
    mean, error, low, high = mean_interval(values, level=level)
    assert mean == pytest.approx(sum(values) / runs, rel=1e-12)
    assert error == pytest.approx(stats.sem(values), rel=1e-12)
    expected = stats.t.interval(level, runs - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected, rel=1e-9)


@given(
    runs=st.integers(2, 8),
    length=st.integers(1, 5),
    scale=st.floats(1e-6, 1e6),
    axis=st.sampled_from([0, 1, -1]),
)
@settings(deadline=None, max_examples=50)
def test_every_column_is_treated_alone(runs, length, scale, axis):
    values = scale * np.random.default_rng(runs * length).normal(size=(runs, length))
    along = values if axis == 0 else values.T
    interval = mean_interval(along, axis=axis)
    for column in range(length):
        alone = mean_interval(values[:, column])
        for whole, part in zip(interval, alone, strict=True):
            np.testing.assert_allclose(whole[column], part, rtol=1e-9, atol=1e-12 * scale)


def test_interval_names_its_parts():
    interval = mean_interval([1.0, 3.0])
    assert interval._fields == ("mean", "standard_error", "low", "high")
    assert (interval.mean, interval.standard_error) == (2.0, 1.0)
    # Student t with one degree of freedom is Cauchy, whose quantile is a tangent
    margin = math.tan(math.pi * (0.975 - 0.5))
    assert (interval.low, interval.high) == pytest.approx((2.0 - margin, 2.0 + margin))


def test_the_interval_covers_the_truth_as_often_as_it_says():
    sample = np.random.default_rng(1).normal(5.0, 2.0, size=(6, 20_000))
    _, _, low, high = mean_interval(sample, level=0.9)
    covered = np.mean((low < 5.0) & (high > 5.0))
    assert covered == pytest.approx(0.9, abs=5 * math.sqrt(0.09 / 20_000))


def test_one_run_has_a_mean_but_no_interval():
    mean, *rest = mean_interval([[1.0, 2.0]])
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    np.testing.assert_array_equal(rest, np.full((3, 2), np.nan))


@pytest.mark.parametrize("values", [[], np.empty((0, 3)), 3.0])
def test_no_runs_are_refused(values):
    with pytest.raises(ValueError, match="at least one run"):
        mean_interval(values)


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, float("nan"), "0.9"])
def test_levels_lie_between_0_and_1(level):
    with pytest.raises(ValueError, match="level must be"):
        mean_interval([1.0, 2.0], level=level)


def test_paired_difference_is_the_paired_t_interval():
    rng = np.random.default_rng(3)
    shared = rng.gamma(5.0, 10.0, size=40)
    a, b = shared + rng.normal(3.0, 1.0, size=40), shared
    difference = paired_difference(result(a), result(b), level=0.9)
    expected = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert difference.mean == pytest.approx(np.mean(a) - np.mean(b))
    assert difference.standard_error == pytest.approx(stats.sem(a - b))
    assert (difference.low, difference.high) == pytest.approx((expected.low, expected.high))
    assert all(type(part) is float for part in difference)


def test_common_random_numbers_make_the_difference_sharper():
    rng = np.random.default_rng(4)
    shared = rng.gamma(5.0, 10.0, size=40)
    a, b = result(shared + rng.normal(3.0, 1.0, size=40)), result(shared)
    apart = math.hypot(a.summary().standard_error, b.summary().standard_error)
    assert paired_difference(a, b).standard_error < apart / 10


def test_pairs_across_engines_say_what_they_do_not_share():
    a = result([1.0, 2.0, 4.0])
    b = dataclasses.replace(result([0.0, 2.0, 3.0]), engine="compiled")
    with pytest.warns(UserWarning, match="share means and graphs but not rewards") as caught:
        difference = paired_difference(a, b)
    assert caught[0].filename == __file__
    assert difference.mean == pytest.approx(2 / 3)


def test_only_the_same_runs_are_paired():
    later = dataclasses.replace(result([1.0, 2.0, 4.0]), settings={"runs": {"start": 3, "stop": 6}})
    with pytest.raises(ValueError, match="got runs 0 to 2 of 10 rounds and runs 3 to 5 of"):
        paired_difference(result([1.0, 2.0, 4.0]), later)


def test_a_result_does_not_differ_from_itself():
    same = result([1.0, 2.0, 4.0])
    assert tuple(paired_difference(same, same)) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("other", [result([1.0, 2.0]), result([1.0, 2.0, 3.0], horizon=12)])
def test_only_results_of_the_same_size_are_paired(other):
    with pytest.raises(ValueError, match="same runs and horizon"):
        paired_difference(result([1.0, 2.0, 3.0]), other)


def curves(regret, times):
    pulls = np.ones((len(regret), 1, 2), dtype=int)
    return Result(times, regret, pulls, "reference", {})


class TestGrowth:
    TIMES = np.unique(np.geomspace(1, 1000, 60).astype(int))

    def test_a_logarithm_has_its_slope_and_does_not_accelerate(self):
        rng = np.random.default_rng(1)
        slopes = rng.normal(3.0, 0.5, 40)
        regret = 20 + slopes[:, None] * np.log(self.TIMES)
        fit = fit_growth(curves(regret, self.TIMES))
        assert fit.slope == pytest.approx(tuple(map(float, mean_interval(slopes))))
        assert fit.late.mean == pytest.approx(slopes.mean())
        assert fit.acceleration.mean == pytest.approx(0, abs=1e-9)
        assert fit.is_logarithmic()

    def test_a_power_grows_faster(self):
        rng = np.random.default_rng(2)
        regret = (1 + 0.1 * rng.random((30, 1))) * self.TIMES**0.5
        fit = fit_growth(curves(regret, self.TIMES))
        assert fit.acceleration.low > 0
        assert not fit.is_logarithmic()
        assert fit.is_logarithmic(least=1e3)  # what everybody must reach in the end

    @pytest.mark.parametrize("slope", [3.0, -3.0])
    def test_a_rise_by_rounding_is_none(self, slope):
        def fit(low, late=5.0):
            rise = Estimate(low, 0.0, low, low)
            whole, later = Estimate(slope, 0.1, 2.8, 3.2), Estimate(late, 0.0, late, late)
            return Growth(whole, later, rise, rounds=(10, 100), late_rounds=(32, 100))

        assert fit(1e-12).is_logarithmic()
        assert fit(2.9e-9).is_logarithmic()
        assert not fit(3.1e-9).is_logarithmic()
        assert fit(1.0, late=2.0).is_logarithmic(least=2.0)
        assert not fit(1.0, late=2.1).is_logarithmic(least=2.0)

    def test_the_slope_is_that_of_least_squares_where_ln_t_is_even(self):
        times = 2 ** np.arange(8)
        regret = np.random.default_rng(3).random((6, 8)).cumsum(axis=1)
        kept = times >= 4
        expected = [stats.linregress(np.log(times[kept]), run[kept]).slope for run in regret]
        assert fit_growth(curves(regret, times), start=4).slope.mean == pytest.approx(
            np.mean(expected)
        )

    @pytest.mark.parametrize("start", [0, 1001, 999, 2.5])
    def test_what_cannot_be_fitted_is_refused(self, start):
        with pytest.raises(ValueError, match=r"start|growth needs"):
            fit_growth(curves(np.ones((3, len(self.TIMES))), self.TIMES), start=start)


def test_p_values_are_those_of_the_t_test():
    values = np.random.default_rng(4).normal(0.3, 1.0, 25)
    interval = Estimate(*map(float, mean_interval(values)))
    assert p_value(interval, 25) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert p_value(Estimate(0.0, 0.0, 0.0, 0.0), 5) == 1.0
    assert p_value(Estimate(1.0, 0.0, 1.0, 1.0), 5) == 0.0


def test_holm_by_hand():
    """0.01 * 4, 0.02 * 3, 0.03 * 2, 0.04 * 1, never falling."""
    np.testing.assert_allclose(holm([0.03, 0.01, 0.04, 0.02]), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])
    assert len(holm([])) == 0


def test_holm_rarely_errs():
    """The share of families of 10 true hypotheses with a false alarm, 2000 of them: 5% at most,
    within 4 standard errors."""
    p = np.random.default_rng(5).random((2000, 10))
    alarms = np.mean([holm(family).min() < 0.05 for family in p])
    assert alarms < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 2000)
    assert alarms > 0.03


@given(st.lists(st.none() | st.floats(0, 1), max_size=12))
def test_holms_correction_by_its_definition(p_values):
    known = [p for p in p_values if p is not None]
    found = correct_p_values(p_values)
    for p, corrected in zip(p_values, found, strict=True):
        if p is None:
            assert corrected is None
            continue
        # the largest of (number of those not below it) x (itself), over all that are not above
        steps = [sum(other >= each for other in known) * each for each in known if each <= p]
        assert corrected == pytest.approx(min(1.0, max(steps)))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9))
def test_the_front_is_what_nobody_beats(points):
    def beats(a, b):
        return a[0] <= b[0] and a[1] <= b[1] and a != b

    expected = [not any(beats(other, point) for other in points) for point in points]
    found = find_pareto_front(np.array(points, dtype=float).reshape(-1, 2))
    assert found.tolist() == expected


def test_paired_differences_are_students():
    generator = np.random.default_rng(1)
    a, b = generator.normal(1.0, 1.0, 30), generator.normal(0.5, 1.0, 30)
    interval, p = compare_paired(a, b)
    expected = stats.ttest_rel(a, b)
    assert p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_few_runs_show_nothing():
    few = np.arange(9.0)
    assert compare_paired(few + 5, few)[1] is None
    assert tail_percentile(few, 95) is None
    many = np.arange(200.0)
    assert tail_percentile(many, 99) == pytest.approx(np.percentile(many, 99))
    assert tail_percentile(many[:199], 99) is None
    assert tail_percentile(many[:40], 95) == pytest.approx(np.percentile(many[:40], 95))


def test_regret_of_agents_and_a_wrong_leader_by_their_pulls():
    pulls = np.array([[[8, 2], [6, 4]], [[1, 9], [4, 6]]], dtype=np.int32)
    gaps = np.array([[0.0, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(agent_regrets(pulls, gaps), [[1.0, 2.0], [9.0, 6.0]])
    assert wrong_leader_share(pulls, gaps) == 0.5
    assert wrong_leader_share(pulls, np.zeros((2, 2))) == 0.0


def test_a_paired_difference_says_its_p_value_and_runs():
    comparison = posse.compare(
        posse.Bandit.bernoulli([0.7, 0.3]),
        posse.networks.cycle(3),
        {
            "dec": posse.Decentralized(posse.ThompsonSampling()),
            "alone": posse.Isolated(posse.ThompsonSampling()),
        },
        horizon=10,
        runs=12,
        engine="reference",
    )
    finals = [comparison[name].regret[:, -1] for name in ("dec", "alone")]
    found = posse.paired_difference(comparison["dec"], comparison["alone"])
    assert found.p_value == pytest.approx(stats.ttest_rel(*finals).pvalue, rel=1e-9)
    assert found.runs == 12
    assert f"p_value={found.p_value:.2g}, runs=12)" in repr(found)
    mean, _, _, _ = found
    assert mean == pytest.approx((finals[0] - finals[1]).mean())
    copy = pickle.loads(pickle.dumps(found))
    assert (copy, copy.p_value, copy.runs) == (found, found.p_value, 12)
