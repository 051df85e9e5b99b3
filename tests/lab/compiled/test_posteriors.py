"""Beliefs of the kernels: the bounds that lazy Thompson Sampling rests on, and how they sample.

Every kind of the table is judged by its family; the corners below are more of those that need care.
Statistical tests reject with probability 1e-5 each if all is well.
"""

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from posse import families
from posse.lab.compiled import posteriors
from posse.lab.compiled import registry as plan
from posse.lab.compiled.numerics.quantiles import UNKNOWN
from posse.lab.compiled.philox import CONTEST, U64, open_stream

ERROR_RATE = 1e-5
SHAPES = (1e-3, 0.05, 0.5, 1.0, 1.5, 4.0, 40.0, 3e3, 1e6)
# (count, total) at the ends of the range that beliefs can take, besides those learnt from rewards
CORNERS = {
    "GAUSSIAN": [(c, mean * c) for c in (1e-6, 1.0, 1e7) for mean in (-40.0, 0.0, 3.0)],
    "BETA": [(a + b, a) for a in SHAPES for b in SHAPES],
    "GAMMA": [(rate, a) for a in SHAPES for rate in (1e-3, 1.0, 1e4)],
    "INVERSE_GAMMA": [(a, rate) for a in SHAPES if a > 1 for rate in (1e-3, 1.0, 1e4)],
    "STUDENT": [(c, mean * c) for c in (1e-4, 0.5, 1.0, 30.0, 1e5) for mean in (-40.0, 0.0, 3.0)],
}
# beliefs to sample from: tiny, lopsided and huge shapes
SAMPLED = {
    "GAUSSIAN": [(50.0, -20.0), (1e-4, 1.0)],
    "BETA": [(a + b, a) for a, b in ((0.3, 0.4), (0.05, 2.0), (3.0, 0.2), (2.0, 70.0), (1e4, 1e6))],
    "GAMMA": [(3.0, a) for a in (0.05, 0.7, 1e5)],
    "INVERSE_GAMMA": [(a, 2.0) for a in (1.01, 2.0, 1e5)],
    "STUDENT": [(c, 2.0) for c in (1e-3, 1.0, 1e6)],
}


def learnt(kind, sizes):
    """(count, total) after few or many rewards, of arms that lie here and there."""
    generator = np.random.default_rng(7)
    sizes = np.repeat(sizes, 3)
    counts, totals = kind.rows(generator, sizes, generator.normal(size=len(sizes)))
    return list(zip(counts.tolist(), totals.tolist(), strict=True))


def points_above(kind, count, total):
    """From just above total/count to far out, but inside the range."""
    mean = total / count
    belief = kind.coordinates(count, total)
    levels = stats.norm.cdf(np.linspace(0.8, 7.5, 25))  # Mills' ratio needs 0.8 at least
    x = kind.family.mean_quantile(belief, levels)
    if kind.family.means.low == 0.0:
        x = np.concatenate([x, mean * np.geomspace(1.1, 1e6, 9)])
    return x[(x * count > total) & (x < kind.belief.highest)]


def common_bound(kind, count, total, x):
    """What the quick test compares with a threshold, times the factor."""
    d = x * count - total
    exponent = d**2 / (kind.belief.spread(x) * count)
    if kind.belief.n_planes == 3:
        shape = kind.numbers(count, total)[2]
        exponent = exponent / (1 + exponent / (4 * shape))
    return kind.belief.factor * np.exp(-exponent / 2)


class TestBounds:
    """tail <= tail_bound <= the common bound: else the quick test would skip arms that can win."""

    def test_hold_everywhere(self, kind):
        n_checked = 0
        cases = learnt(kind, 10.0 ** np.arange(-3, 7)) + CORNERS.get(kind.name, [])
        for count, total in cases:
            for x in points_above(kind, count, total):
                bound = kind.belief.tail_bound(*kind.numbers(count, total), x)
                tail = kind.belief.tail(*kind.numbers(count, total), x)
                # exponents of counts of 1e6 are known to about 1e-9
                slack = 1 + 1e-8
                assert 0 <= tail <= bound * slack
                assert bound <= common_bound(kind, count, total, x) * slack
                n_checked += 1
        assert n_checked > 250

    def test_the_tail_is_the_familys(self, kind):
        for count, total in learnt(kind, 10.0 ** np.arange(-2, 5)) + CORNERS.get(kind.name, []):
            belief = kind.coordinates(count, total)
            around = kind.family.mean_quantile(belief, stats.norm.cdf(np.linspace(-4, 4, 17)))
            got = np.array([kind.belief.tail(*kind.numbers(count, total), x) for x in around])
            np.testing.assert_allclose(got, kind.tail(count, total, around), atol=1e-8)
        count, total = learnt(kind, np.array([30.0]))[0]
        for x in points_above(kind, count, total):  # and far out, not only near its middle
            tail = kind.tail(count, total, x)
            if tail > 1e-7:
                got = kind.belief.tail(*kind.numbers(count, total), x)
                assert got == pytest.approx(tail, rel=1e-7)

    def test_the_bounds_of_the_family_itself(self, kind):
        """Not only by the kernel's own tails: P(mean > x) is that of the family."""
        for count, total in learnt(kind, 10.0 ** np.arange(-1, 5)):
            for x in points_above(kind, count, total):
                exact = kind.tail(count, total, x)
                if exact > 1e-9:
                    bound = kind.belief.tail_bound(*kind.numbers(count, total), x)
                    assert exact <= bound * (1 + 1e-6)
                    assert exact <= common_bound(kind, count, total, x) * (1 + 1e-6)

    def test_jensens_bound_of_bayes_ucb_lies_between(self, solved_kind):
        """tail_bound <= exp(-count (x - mean)^2 / 2 v((mean + 2x) / 3)): see `_gather_rivals`."""
        kind, n_sharper = solved_kind, 0
        cases = learnt(kind, 10.0 ** np.arange(-3, 7)) + CORNERS.get(kind.name, [])
        for count, total in cases:
            for x in points_above(kind, count, total):
                mean = total / count
                variance = kind.belief.unit_variance((mean + 2 * x) / 3)
                bound = np.exp(-count * (x - mean) ** 2 / (2 * variance))
                assert kind.belief.tail_bound(*kind.numbers(count, total), x) <= bound * (1 + 1e-8)
                n_sharper += bound < 0.9 * common_bound(kind, count, total, x)
        assert n_sharper > 50 or kind.name == "GAUSSIAN"  # whose variance is one for all means

    def test_of_the_beta_belief_at_the_end_of_its_range(self):
        assert posteriors.BETA.tail_bound(5.0, 2.0, 1.0) == 0.0
        assert posteriors.BETA.tail(5.0, 2.0, 1.0) == 0.0
        assert posteriors.BETA.tail_bound(2.0, 2.0, 0.9) >= 0.0  # no failures at all


SOLVED = [name for name, belief in posteriors.POSTERIORS.items() if belief.density is not None]


@pytest.fixture(scope="session", params=SOLVED)
def solved_kind(request, kind_of):
    """A kind whose quantiles are solved for by its density; those of Student have a series."""
    return kind_of(request.param)


class TestForms:
    """What a kind says of itself besides: each against the family, or by its definition."""

    @pytest.mark.parametrize("family", plan.POSTERIOR_KERNELS, ids=lambda family: family.__name__)
    def test_an_observation_adds_rate_times_powers_of_the_reward(self, family):
        model = family()
        weight = families.get_optional(model, "observation_weight")
        for y in (0.0, 0.25, 1.0):
            added = families.to_count_and_total(model, model.statistic(np.array(y)))
            powers = weight * y ** np.arange(1 + max(model.powers))
            np.testing.assert_allclose(added, powers, rtol=1e-15, atol=1e-16)

    def test_the_mean_is_the_familys(self, kind):
        for count, total in learnt(kind, 10.0 ** np.arange(-1, 5)):
            expected = kind.family.posterior_mean(kind.coordinates(count, total))
            got = kind.belief.mean(*kind.numbers(count, total))
            assert got == pytest.approx(expected, rel=1e-12)

    def test_the_density_is_the_slope_of_the_distribution(self, solved_kind):
        kind = solved_kind
        for count, total in learnt(kind, np.array([3.0, 40.0])):
            belief = kind.coordinates(count, total)
            for x in kind.family.mean_quantile(belief, np.array([0.1, 0.5, 0.95])):
                density, slope = kind.belief.density(*kind.numbers(count, total), x)
                assert np.log(density) == pytest.approx(kind.family.log_density(belief, x))
                h = 1e-5 * abs(x)
                around = kind.family.log_density(belief, np.array([x - h, x + h]))
                assert slope == pytest.approx(np.diff(around)[0] / (2 * h), rel=1e-3, abs=1e-3)

    def test_where_it_is_log_concave_a_third_lies_above_the_centre(self, solved_kind):
        """Bayes-UCB takes total/count for a lower bound of quantiles at levels below 0.36."""
        kind = solved_kind
        cases = learnt(kind, 10.0 ** np.arange(-3, 5)) + CORNERS.get(kind.name, [])
        sure = [pair for pair in cases if kind.belief.is_log_concave(*kind.numbers(*pair))]
        assert sure
        for count, total in sure:
            assert kind.belief.tail(*kind.numbers(count, total), total / count) > 0.36

    def test_a_start_is_near_the_quantile(self, solved_kind):
        kind = solved_kind
        for count, total in learnt(kind, np.array([300.0])):
            belief = kind.coordinates(count, total)
            for level in (0.3, 0.01, 1e-4):
                start = kind.belief.start(*kind.numbers(count, total), stats.norm.isf(level))
                assert level / 5 < kind.tail(count, total, start) < 5 * level
                assert kind.family.mean_cdf(belief, start) == pytest.approx(1 - level, abs=0.05)

    def test_near_scores_are_as_near_as_they_say(self, solved_kind):
        """Bayes-UCB leaves the exact tail alone where the bound of the error decides."""
        kind = solved_kind
        n_known = 0
        cases = learnt(kind, 10.0 ** np.arange(-1, 6)) + CORNERS.get(kind.name, [])
        for count, total in cases:
            belief = kind.coordinates(count, total)
            for x in kind.family.mean_quantile(belief, stats.norm.cdf(np.linspace(-1, 6, 29))):
                if not 0 < x < kind.belief.highest and kind.family.means.low == 0.0:
                    continue
                score, slope, error = kind.belief.near_score(*kind.numbers(count, total), x)
                if error == UNKNOWN:
                    continue
                tail = kind.belief.tail(*kind.numbers(count, total), x)
                assert abs(score - stats.norm.isf(tail)) <= error + 1e-12 / max(tail, 1e-12)
                density = kind.belief.density(count, total, x)[0] / stats.norm.pdf(score)
                assert slope == pytest.approx(density, rel=0.5)
                n_known += 1
        assert n_known > 100

    def test_comparisons_with_a_quantile_are_right_where_their_error_says_so(self, solved_kind):
        """For tails below 0.1, with x at or near the quantile: the sign of `ahead` is exact.

        And the quantile is at most so far above x as the last number says.
        """
        kind = solved_kind
        generator = np.random.default_rng(7)
        n_clear = n_cases = n_bounded = 0
        for count, total in learnt(kind, 10.0 ** np.arange(0, 5)) * 12:
            level = 10.0 ** generator.uniform(-5, -1.01)
            score = stats.norm.isf(level)
            hazard = stats.norm.pdf(score) / level
            off = 1 + generator.choice([-1, 1]) * 10.0 ** generator.uniform(-5, 0.5)
            belief = kind.coordinates(count, total)
            x = float(kind.family.mean_quantile(belief, 1 - level * max(off, 0.01)))
            if not 0 < x < kind.belief.highest and kind.family.means.low == 0.0:
                continue
            ahead, _, error, farthest = kind.belief.ahead(
                count, total, x, float(score), math.log(level), float(hazard)
            )
            n_cases += 1
            if farthest != UNKNOWN:
                assert kind.tail(count, total, x + farthest) <= level
                n_bounded += 1
            if abs(ahead) > error:
                assert (ahead > 0) == (kind.belief.tail(*kind.numbers(count, total), x) > level)
                n_clear += 1
        assert n_clear > 0.5 * n_cases > 50
        assert n_bounded > 20 or kind.name != "BETA"

    def test_functions_of_kinds_have_names_of_their_own(self):
        """Numba links by name: two kinds whose functions share one would be mixed up."""
        named = {}
        for belief in posteriors.POSTERIORS.values():
            for function in vars(belief).values():
                if hasattr(function, "py_func"):
                    name = function.py_func.__qualname__
                    assert named.setdefault(name, function) is function


@njit
def _samples(belief, numbers, out):
    stream = np.zeros(8, np.uint64)
    open_stream(stream, U64(0), U64(1), U64(0), CONTEST, U64(3), U64(4))
    for i in range(out.size):
        out[i] = belief.sample(*numbers, stream)


@njit
def _tail_samples(belief, numbers, x, out):
    stream = np.zeros(8, np.uint64)
    open_stream(stream, U64(0), U64(1), U64(0), CONTEST, U64(3), U64(4))
    for i in range(out.size):
        out[i] = belief.sample_tail(*numbers, x, stream)


class TestSamples:
    def test_have_the_law_of_the_belief(self, kind):
        for count, total in learnt(kind, np.array([0.5, 60.0])) + SAMPLED.get(kind.name, []):
            out = np.empty(100_000)
            _samples(kind.belief, kind.numbers(count, total), out)
            belief = kind.coordinates(count, total)
            p = stats.kstest(out, lambda x, b=belief: kind.family.mean_cdf(b[:, None], x)).pvalue
            assert p > ERROR_RATE / 20

    def test_above_a_point_have_the_conditional_law(self, kind):
        """From where the common bound is small on, as the walk through the arms uses it."""
        n_checked = 0
        # of heavy tails the common bound may stop at exp(-count/2): 600 to see 1e-40 of all kinds
        cases = learnt(kind, np.array([0.5, 60.0, 600.0])) + SAMPLED.get(kind.name, [])
        for count, total in cases:
            for level in (0.25, 1e-2, 1e-6, 1e-40):
                x = point_of_bound(kind, count, total, level)
                if x is None:  # a vague belief never lets its bound fall so low: it is not thinned
                    continue
                out = np.empty(20_000)
                _tail_samples(kind.belief, kind.numbers(count, total), x, out)
                assert np.all(out >= x)
                numbers = kind.numbers(count, total)
                above = np.array([kind.belief.tail(*numbers, value) for value in out])
                given = above / kind.belief.tail(*numbers, x)
                assert stats.kstest(given, "uniform").pvalue > ERROR_RATE / 20
                at = kind.tail(count, total, x)
                if at > 1e-7 and max(count, abs(total)) < 1e4:  # not only by the kernel's own tails
                    given = kind.tail(count, total, out) / at
                    assert stats.kstest(given, "uniform").pvalue > ERROR_RATE / 20
                n_checked += 1
        assert n_checked > 10


def point_of_bound(kind, count, total, level):
    """The least x above the mean, to a few digits, whose common bound is at most `level`."""
    low = total / count
    high = kind.belief.highest - 1e-9
    if high == np.inf:
        high = low + 1e4 * (abs(low) + count**-0.5 + 1)
    if common_bound(kind, count, total, high) > level:
        return None
    for _ in range(200):
        middle = (low + high) / 2
        if common_bound(kind, count, total, middle) <= level:
            high = middle
        else:
            low = middle
    return high
