"""Reward kernels: the family's law, from one variate an agent and round whatever the arm.

Statistical tests reject with probability 1e-5 each if all is well.
"""

import numpy as np
import pytest
from scipy import special, stats

from posse.families import Bernoulli, Bounded, Exponential, Gaussian, Poisson, get_optional
from posse.lab.compiled import kernels  # noqa: F401 (the import lists all kernels)
from posse.lab.compiled.jit import KERNELS
from posse.lab.compiled.philox import U64, key_of
from posse.lab.compiled.registry import REWARD_KERNELS

ERROR_RATE = 1e-5
# A family's own odd settings and means, besides what it is by default.
CORNERS = {
    Gaussian: [(Gaussian(sigma=2.5), [-3.0, 0.4, 1e3])],
    Bernoulli: [(Bernoulli(), [0.001, 0.4, 0.97])],
    Bounded: [(Bounded(concentration=0.4), [0.02, 0.4, 0.9])],
    Poisson: [(Poisson(), [0.02, 3.0, 500.0])],
    Exponential: [(Exponential(), [0.02, 1.0, 1e4])],
}
FAMILIES = [
    case
    for family in REWARD_KERNELS
    for case in (
        (family(), family().mean_quantile(family().prior(), np.array([0.1, 0.5, 0.9]))),
        *CORNERS.get(family, []),
    )
]


def draw(family, means, arms, t=1, first_run=0):
    """Rewards of arms (runs, N) with means (runs, K)."""
    name, parameter = REWARD_KERNELS[type(family)], get_optional(family, "reward_parameter")
    n_agents = arms.shape[1]
    out = np.empty(arms.size + 32)  # room for whole vectors
    KERNELS[name](
        np.asarray(means, float).reshape(-1), float(parameter),
        arms.astype(np.uint32).reshape(-1), out,
        U64(0), U64(arms.size), U64(n_agents), U64(np.shape(means)[1]),
        U64(first_run), U64(t), *key_of(11),
    )  # fmt: skip
    return out[: arms.size].reshape(arms.shape)


@pytest.mark.parametrize(("family", "means"), FAMILIES, ids=lambda value: str(value)[:30])
class TestRewards:
    def test_have_the_law_of_the_family(self, family, means):
        """Against rewards that the family itself draws; ties only make the test milder."""
        n = 100_001
        generator = np.random.default_rng(1)
        for arm, mean in enumerate(means):
            got = draw(family, [means], np.full((1, n), arm))[0]
            own = family.draw_rewards(np.full(n, mean), generator)
            got, own = np.round(got, 12), np.round(own, 12)  # 1e-30 and 0 are the same here
            assert stats.ks_2samp(got, own, method="asymp").pvalue > ERROR_RATE
            spread = (got.var() / n + own.var() / n) ** 0.5
            assert abs(got.mean() - own.mean()) < 5 * spread
            assert abs(got.mean() - mean) < 5 * own.std() / n**0.5
            values, counts = np.unique(own, return_counts=True)
            if len(values) < 100:  # discrete: value by value
                same = np.array([(got == value).sum() for value in values])
                enough = counts > 20
                table = np.array([same[enough], counts[enough]])
                if enough.sum() > 1:
                    assert stats.chi2_contingency(table).pvalue > ERROR_RATE

    def test_use_the_same_random_number_whatever_the_arm(self, family, means):
        """Common random numbers: the levels at which rewards lie in their laws are equal."""
        shape = (3, 7)
        rows = [means] * 3
        first, last = (draw(family, rows, np.full(shape, arm)) for arm in (0, 2))
        if isinstance(family, Gaussian):
            np.testing.assert_allclose(first - means[0], last - means[2], rtol=0, atol=1e-12 * 1e3)
        elif isinstance(family, Exponential):
            np.testing.assert_allclose(first / means[0], last / means[2], rtol=1e-12)
        elif isinstance(family, Bounded):
            c = family.concentration
            levels = [
                special.betainc(c * m, c * (1 - m), y)
                for m, y in ((means[0], first), (means[2], last))
            ]
            inside = (first > 1e-12) & (last < 1 - 1e-12)
            np.testing.assert_allclose(levels[0][inside], levels[1][inside], rtol=1e-3)
        assert np.all(first <= last)  # quantiles at one level are ordered like the means
        mixed = np.random.default_rng(0).integers(0, 3, shape)
        by_arm = np.stack([draw(family, rows, np.full(shape, arm)) for arm in range(3)])
        expected = np.take_along_axis(by_arm, mixed[None], axis=0)[0]
        np.testing.assert_array_equal(draw(family, rows, mixed), expected)

    def test_runs_have_their_own_means_and_numbers(self, family, means):
        """Odd numbers of agents too: nothing spills from one run into the next."""
        reversed_means = means[::-1]
        arms = np.zeros((2, 5), int)
        both = draw(family, [means, reversed_means], arms)
        np.testing.assert_array_equal(both[:1], draw(family, [means], arms[:1]))
        np.testing.assert_array_equal(
            both[1:], draw(family, [reversed_means], arms[1:], first_run=1)
        )

    def test_rounds_differ(self, family, means):
        arms = np.full((1, 400), 1)
        a, b = (draw(family, [means], arms, t=t)[0] for t in (1, 2))
        assert not np.array_equal(a, b)
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / 400**0.5


def test_probabilities_of_zero_and_one_are_certain():
    arms = np.tile([0, 1], (1, 5_000))
    got = draw(Bernoulli(), [[0.0, 1.0]], arms)
    np.testing.assert_array_equal(got, arms)
