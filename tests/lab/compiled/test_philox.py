"""Random numbers of the kernels: Philox against a plain version, and the laws of what it feeds.

Statistical tests reject with probability 1e-4 each if all is well.
"""

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from posse.lab.compiled import philox as random
from posse.lab.compiled.philox import U64

ERROR_RATE = 1e-4
KEY = (U64(0x12345678), U64(0x9ABCDEF0))
ONES = 0xFFFFFFFF


def plain_philox(counter, key):
    """Philox4x32-10 as its authors print it: four words of 32 bits in, four out."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def words(counter, key):
    """What the kernel returns, as four words of 32 bits in the order of the plain version."""
    a, b = random.philox(*(U64(word) for word in (*counter, *key)))
    return [int(a) >> 32, int(a) & ONES, int(b) >> 32, int(b) & ONES]


class TestPhilox:
    # from the test vectors of Random123
    KNOWN = (
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    )

    @pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
    def test_known_answers(self, counter, key, expected):
        assert plain_philox(counter, key) == list(expected)
        assert words(counter, key) == list(expected)

    def test_any_address(self):
        for row in np.random.default_rng(0).integers(0, 2**32, (200, 6)).tolist():
            assert words(row[:4], row[4:]) == plain_philox(row[:4], row[4:])

    def test_purposes_and_their_further_calls_never_share_an_address(self):
        names = ["REWARD", "NETWORK", "PIVOT", "PIVOT_AGAIN", "ALL_ARMS", "CONTEST", "TIE"]
        purposes = [int(getattr(random, name)) for name in names]
        assert len(set(purposes)) == len(purposes)
        assert max(purposes) < 16  # further calls add multiples of 16

    def test_key_of_a_seed(self):
        assert random.key_of(7) == tuple(np.random.SeedSequence(7).generate_state(2))
        assert random.key_of(7) != random.key_of(8)
        random.key_of(2**200)  # any whole number is a seed


def test_uniform_covers_the_open_interval_evenly():
    assert random.uniform(U64(0)) == 2.0**-53
    assert random.uniform(U64(2**64 - 1)) == 1 - 2.0**-53
    assert random.uniform(U64(2**63)) == 0.5 + 2.0**-53
    assert random.uniform(U64(1 << 12)) - random.uniform(U64(0)) == 2.0**-52


def test_exp():
    points = np.concatenate([np.linspace(-699.0, 699.0, 4001), np.geomspace(1e-300, 1.0, 200), [0]])
    got = np.array([random.exp(x) for x in points])
    np.testing.assert_allclose(got, np.exp(points), rtol=1e-15)
    assert random.exp(-740.0) == pytest.approx(np.exp(-740.0), rel=0.01)  # it has few digits left
    assert random.exp(-1e9) == 0.0


def test_log():
    generator = np.random.default_rng(1)
    points = np.concatenate([
        generator.random(2000),
        1 + generator.normal(size=1000) * 1e-8,
        np.exp(generator.uniform(-700, 700, 2000)),
        [1.0, 0.5, 2.0, 2.0**-53, 1 - 2.0**-53, 2.0**-0.5, np.nextafter(2.0**-0.5, 0)],
    ])  # fmt: skip
    got = np.array([random.log(x) for x in points])
    np.testing.assert_allclose(got, np.log(points), rtol=1e-15, atol=0)


N = 1_000_000


@pytest.fixture(scope="module", params=["normals", "uniforms"])
def variates(request):
    """A million numbers for agents 0, 1, ...; pair members follow each other."""
    out = np.empty(N + 32)  # room for whole vectors
    fill = getattr(random, f"fill_{request.param}")
    where = (U64(0), U64(N), U64(0), U64(3), U64(5), U64(1))
    fill(out, *where, *KEY)
    return request.param, out[:N]


class TestFilledArrays:
    def test_have_their_law(self, variates):
        name, x = variates
        law = stats.norm if name == "normals" else stats.uniform
        for part in (x, x[::2], x[1::2]):
            assert stats.kstest(part, law.cdf).pvalue > ERROR_RATE
        # the far ends: 3 per mille of the mass each, in both members of a pair
        for part in (x[::2], x[1::2]):
            for edge in (law.ppf(0.003), law.ppf(0.997)):
                n_above = int((part > edge).sum())
                assert stats.binomtest(n_above, part.size, law.sf(edge)).pvalue > ERROR_RATE

    def test_moments(self, variates):
        name, x = variates
        z = x if name == "normals" else (x - 0.5) * 12**0.5
        kurtosis = 3.0 if name == "normals" else 1.8
        limit = stats.norm.isf(ERROR_RATE / 2)
        assert abs(z.mean()) < limit / N**0.5
        assert abs((z**2).mean() - 1) < limit * ((kurtosis - 1) / N) ** 0.5
        assert abs((z**3).mean()) < limit * (15 / N) ** 0.5

    def test_neighbours_are_independent(self, variates):
        name, x = variates
        limit = stats.norm.isf(ERROR_RATE / 2)
        z = x if name == "normals" else (x - 0.5) * 12**0.5
        for a, b in ((z[::2], z[1::2]), (z[:-1], z[1:]), (z[:-2], z[2:])):
            assert abs((a * b).mean()) < limit / len(a) ** 0.5
            squares = (a**2 - 1) * (b**2 - 1)
            assert abs(squares.mean()) < limit * squares.std() / len(a) ** 0.5
        # the direction of a pair is uniform: 64 sectors
        angle = np.arctan2(z[::2], z[1::2])
        if name == "normals":
            sectors = np.bincount(((angle / (2 * math.pi) + 0.5) * 64).astype(int) % 64)
            assert stats.chisquare(sectors).pvalue > ERROR_RATE

    def test_do_not_depend_on_where_they_start(self, variates):
        """Agents 10 to 20 alone get the numbers they get among all others."""
        name, x = variates
        out = np.full(60, np.nan)
        fill = getattr(random, f"fill_{name}")
        fill(out, U64(5), U64(11), U64(10), U64(3), U64(5), U64(1), *KEY)
        np.testing.assert_array_equal(out[5:16], x[10:21])
        assert np.isnan(out[:5]).all()
        assert np.isnan(out[5 + 32 :]).all()  # whole vectors: a little more than asked for


def test_normals_are_box_muller():
    """Against NumPy's log, sin and cos: radius from the first word, angle from the second."""
    generator = np.random.default_rng(2)
    for word0, word1 in generator.integers(0, 2**64, (2000, 2), dtype=np.uint64):
        u = (int(word0) >> 12) * 2.0**-52 + 2.0**-53
        turn = (int(word1) >> 12) * 2.0**-52 - 0.5
        radius = math.sqrt(-2 * math.log(u))
        expected = (radius * math.sin(2 * math.pi * turn), radius * math.cos(2 * math.pi * turn))
        np.testing.assert_allclose(random.normals(word0, word1), expected, rtol=0, atol=4e-15)


@njit
def _streams(n_streams, length, out):
    """The first uniforms of many scalar streams at neighbouring addresses."""
    stream = np.zeros(8, np.uint64)
    for i in range(U64(n_streams)):
        random.open_stream(stream, i, U64(1), U64(0), random.CONTEST, U64(1), U64(2))
        for j in range(length):
            out[i, j] = random.next_uniform(stream)


def test_scalar_streams_at_neighbouring_addresses_are_independent():
    out = np.empty((100_000, 8))
    _streams(*out.shape, out)
    assert stats.kstest(out.ravel(), "uniform").pvalue > ERROR_RATE
    z = (out - 0.5) * 12**0.5
    covariances = [(z[:, i] * z[:, j]).mean() for i in range(8) for j in range(i)]
    covariances += [(z[1:, i] * z[:-1, j]).mean() for i in range(8) for j in range(8)]
    limit = stats.norm.isf(ERROR_RATE / 2 / len(covariances))
    assert np.abs(covariances).max() < limit / len(out) ** 0.5


@njit
def _gammas(shape, out):
    stream = np.zeros(8, np.uint64)
    random.open_stream(stream, U64(0), U64(1), U64(0), random.CONTEST, U64(5), U64(6))
    for i in range(out.size):
        out[i] = random.next_gamma(stream, shape)


@pytest.mark.parametrize("shape", [0.01, 0.3, 0.99, 1.0, 1.7, 30.0, 1e5])
def test_gamma_variates(shape):
    out = np.empty(300_000)
    _gammas(shape, out)
    assert stats.kstest(out, stats.gamma(shape).cdf).pvalue > ERROR_RATE


@pytest.mark.parametrize("n_tied", [2, 3, 5])
def test_ties_are_picked_uniformly(n_tied):
    scores = np.array([1.0, 0.0, 1.0, 1.0, -2.0, 1.0, 1.0])
    tied = np.flatnonzero(scores == 1.0)[:n_tied]
    scores[np.setdiff1d(np.arange(7), tied)] = 0.0
    stream, counts = np.zeros(8, np.uint64), np.zeros(7)
    for agent in range(20_000):
        random.open_stream(stream, U64(agent), U64(1), U64(0), random.TIE, *KEY)
        counts[random.pick_tied(scores, 1.0, n_tied, stream)] += 1
    assert counts[tied].sum() == counts.sum()
    assert stats.chisquare(counts[tied]).pvalue > ERROR_RATE
