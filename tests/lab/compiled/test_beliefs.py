"""Beliefs of the kernels: the bounds that lazy Thompson Sampling rests on, and how they sample.

Statistical tests reject with probability 1e-5 each if all is well.
"""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from posse.lab.compiled import beliefs
from posse.lab.compiled.random import CONTEST, U64, open_stream

ERROR_RATE = 1e-5
SHAPES = (1e-3, 0.05, 0.5, 1.0, 1.5, 4.0, 40.0, 3e3, 1e6)


def parameters(belief):
    """Pairs (count, total) over the whole range that beliefs can take."""
    if belief == "GAUSSIAN":
        return [(count, mean * count) for count in (1e-6, 1.0, 1e7) for mean in (-40.0, 0.0, 3.0)]
    if belief == "BETA":
        return [(a + b, a) for a in SHAPES for b in SHAPES]
    if belief == "GAMMA":
        return [(rate, a) for a in SHAPES for rate in (1e-3, 1.0, 1e4)]
    return [(a, rate) for a in SHAPES if a > 1 for rate in (1e-3, 1.0, 1e4)]


def law_of(belief, count, total):
    """The same belief as SciPy has it."""
    if belief == "GAUSSIAN":
        return stats.norm(total / count, count**-0.5)
    if belief == "BETA":
        return stats.beta(total, count - total)
    if belief == "GAMMA":
        return stats.gamma(total, scale=1 / count)
    return stats.invgamma(count, scale=total)


def points_above_the_mean(belief, count, total):
    """From just above total/count to far out, but inside the range."""
    mean = total / count
    sd = law_of(belief, count, total).std()
    near = sd if np.isfinite(sd) else mean
    if belief == "GAUSSIAN":
        return mean + sd * np.geomspace(0.8, 35, 30)  # Mills' ratio needs 0.8 at least
    x = np.concatenate([mean + near * np.geomspace(1e-3, 30, 30), mean * np.geomspace(1.1, 1e6, 9)])
    return x[(x < 1) | (belief != "BETA")]


BELIEFS = ("GAUSSIAN", "BETA", "GAMMA", "INVERSE_GAMMA")


@pytest.fixture(params=BELIEFS)
def belief(request):
    """Each kind of belief in turn."""
    return request.param


class TestBounds:
    """tail <= tail_bound <= the common bound: else the quick test would skip arms that can win."""

    def test_hold_everywhere(self, belief):
        code = getattr(beliefs, belief)
        n_checked = 0
        for count, total in parameters(belief):
            for x in points_above_the_mean(belief, count, total):
                d = x * count - total
                if d <= 0:
                    continue
                common = beliefs.factor(code) * np.exp(
                    -(d**2) / (2 * beliefs.spread(code, x) * count)
                )
                bound = beliefs.tail_bound(code, count, total, x)
                tail = beliefs.tail(code, count, total, x)
                # exponents of counts of 1e6 are known to about 1e-9
                slack = 1 + 1e-8
                assert 0 <= tail <= bound * slack
                assert bound <= common * slack
                n_checked += 1
        assert n_checked > 250

    def test_the_tail_is_scipys(self, belief):
        code = getattr(beliefs, belief)
        for count, total in parameters(belief):
            if max(count, total) > 1e5 and belief != "BETA":
                continue  # SciPy's gammainc is not accurate there
            law = law_of(belief, count, total)
            x = points_above_the_mean(belief, count, total)
            x = np.concatenate([x, [law.mean() / 2]])
            got = np.array([beliefs.tail(code, count, total, value) for value in x])
            np.testing.assert_allclose(got, law.sf(x), rtol=1e-7, atol=1e-280)

    def test_of_the_beta_belief_at_the_end_of_its_range(self):
        assert beliefs.tail_bound(beliefs.BETA, 5.0, 2.0, 1.0) == 0.0
        assert beliefs.tail(beliefs.BETA, 5.0, 2.0, 1.0) == 0.0
        assert beliefs.tail_bound(beliefs.BETA, 2.0, 2.0, 0.9) >= 0.0  # no failures at all


@njit
def _samples(belief, count, total, out):
    stream = np.zeros(8, np.uint64)
    open_stream(stream, U64(0), U64(1), U64(0), CONTEST, U64(3), U64(4))
    for i in range(out.size):
        out[i] = beliefs.sample(belief, count, total, stream)


@njit
def _tail_samples(belief, count, total, x, out):
    stream = np.zeros(8, np.uint64)
    open_stream(stream, U64(0), U64(1), U64(0), CONTEST, U64(3), U64(4))
    for i in range(out.size):
        out[i] = beliefs.sample_tail(belief, count, total, x, stream)


class TestSamples:
    CASES = (
        *[("GAUSSIAN", count, total) for count, total in ((1.0, 0.0), (50.0, -20.0), (1e-4, 1.0))],
        *[
            ("BETA", a + b, a)
            for a, b in ((1, 1), (0.3, 0.4), (0.05, 2), (3, 0.2), (2, 70), (900, 40), (1e4, 1e6))
        ],
        *[("GAMMA", 3.0, a) for a in (0.05, 0.7, 1.0, 2.5, 60.0, 1e5)],
        *[("INVERSE_GAMMA", a, 2.0) for a in (1.01, 2.0, 3.5, 60.0, 1e5)],
    )

    @pytest.mark.parametrize(("belief", "count", "total"), CASES)
    def test_have_the_law_of_the_belief(self, belief, count, total):
        out = np.empty(100_000)
        _samples(getattr(beliefs, belief), float(count), float(total), out)
        assert stats.kstest(out, law_of(belief, count, total).cdf).pvalue > ERROR_RATE

    @pytest.mark.parametrize(("belief", "count", "total"), CASES)
    def test_above_a_point_have_the_conditional_law(self, belief, count, total):
        """From where the common bound is small on, as the walk through the arms uses it."""
        code, law = getattr(beliefs, belief), law_of(belief, count, total)
        count, total = float(count), float(total)
        for level in (0.25, 1e-2, 1e-6, 1e-40):
            x = point_of_bound(code, count, total, level)
            if x is None:  # a vague belief never lets its bound fall so low: it is not thinned
                continue
            out = np.empty(20_000)
            _tail_samples(code, count, total, x, out)
            assert np.all(out >= x)
            above = np.array([beliefs.tail(code, count, total, value) for value in out])
            given = above / beliefs.tail(code, count, total, x)
            assert stats.kstest(given, "uniform").pvalue > ERROR_RATE
            if level >= 1e-6 and max(count, total) < 1e4:  # not only by the kernel's own tails
                assert stats.kstest(law.sf(out) / law.sf(x), "uniform").pvalue > ERROR_RATE


def point_of_bound(code, count, total, level):
    """The least x above the mean, to a few digits, whose common bound is at most `level`."""

    def bound(x):
        d = x * count - total
        return beliefs.factor(code) * np.exp(-(d**2) / (2 * beliefs.spread(code, x) * count))

    low = total / count
    high = 1 - 1e-9 if code == beliefs.BETA else low + 1e4 * (abs(low) + count**-0.5 + 1)
    if bound(high) > level:
        return None
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if bound(middle) <= level else (middle, high)
    return high
