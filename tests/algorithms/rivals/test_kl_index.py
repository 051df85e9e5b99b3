"""The KL-UCB index against SciPy's root finder, for every family that has a divergence."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from posse import theory
from posse.algorithms.rivals.kl_index import LAST_STEP, kl_ucb
from posse.families import FAMILIES, Gaussian, Poisson
from posse.families.family import POSITIVE, Interval


def example_of(family):
    return family.example() if hasattr(family, "example") else family()


EVERY = {
    name: example_of(cls)
    for name, cls in FAMILIES.items()
    if callable(getattr(example_of(cls), "divergence", None))
}
# Means inside the family's range, the smallest and largest that samples have
INSIDE = {
    "bernoulli": [1e-9, 0.01, 0.3, 0.5, 0.97, 1 - 1e-9],
    "bounded": [1e-9, 0.01, 0.3, 0.5, 0.97, 1 - 1e-9],
    "poisson": [1e-9, 0.02, 1.0, 40.0, 1e5],
    "exponential": [1e-9, 0.02, 1.0, 40.0, 1e5],
}
RADII = [1e-12, 1e-7, 1e-3, 0.1, 1.0, 7.0, 30.0]


def root(family, mean, radius):
    """The q above the mean at which the divergence is the radius."""
    kl = theory.get_divergence(family)
    high = mean + 1.0
    if family.rewards.high == 1.0:
        high = np.nextafter(1.0, 0.0)
        if kl(mean, high) <= radius:
            return 1.0
    while kl(mean, high) <= radius:
        high = mean + 2 * (high - mean)
    return brentq(
        lambda q: float(kl(mean, q)) - radius, mean, high, xtol=1e-300, rtol=1e-15, maxiter=500
    )


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("name", EVERY)
def test_it_is_the_root_of_the_divergence(name, radius):
    family, means = EVERY[name], np.array(INSIDE.get(name, [-3.0, 0.0, 0.2, 1e3]))
    if family.means.low == -np.inf and radius > 10 and name != "gaussian":
        means = means[:3]  # e^30 beyond them
    found = kl_ucb(family, means, 4, 4 * radius)
    expected = [root(family, mean, radius) for mean in means]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def error_of_index(name, mean, index):
    """How far a computed index may lie from the true one, q: Newton's last step and roundings.

    The last step. Newton's method stops at a step of LAST_STEP times a scale and then misses no
    more than such a step. The scale is 1 for Bernoulli. For Poisson it is p + start <= 2 q, where
    start <= 2 (q - p) since 2 u^2/(1 + 2 u) >= u - log(1 + u) with u = (q - p)/p. The exponential
    one is found as s = log(q/p) with a scale of 1 + start <= 2 + radius <= 2 + s, as kl <= s, and
    an error of s is a relative one of q. Gaussian ones are in closed form and have none.

    Rounding. kl - radius is a sum of three terms, none larger than x, the distance from the mean,
    and each with at most four roundings: 12 eps x. Divided by the slope of kl, which is at least
    x/q, that is 12 eps q, and p + x adds one. (A term of Bernoulli's grows beyond x near 1, and the
    slope grows with it.) For s the slope 1 - e^-s >= s/(1 + s) gives 12 eps (1 + s), and exp adds
    one. Products of two numbers below the root of the smallest float are lost.
    """
    floats = np.finfo(float)
    relative = {"poisson": 2.0, "exponential": 2.0}.get(name, 0.0)
    growth = 1.0
    if name == "exponential" and mean > 0:
        growth += np.log(index / mean)
    step = LAST_STEP * (relative * index * growth + (name in ("bernoulli", "bounded")))
    return step + 13 * floats.eps * abs(index) * growth + np.sqrt(floats.tiny)


def is_at_most(name, mean, lower, upper):
    """Whether one index is at most another within the errors of both."""
    if lower <= upper:
        return True
    errors = error_of_index(name, mean, lower) + error_of_index(name, mean, upper)
    return bool(np.isfinite(lower) and lower - upper <= errors)


# Two levels whose true indices are one float, and indices whose products underflow.
@example(name="bernoulli", mean=0.375, count=1.0, level=2.0099943159869708e-212, more=2.0)
@example(name="poisson", mean=7e-229, count=3650.0, level=1.2715664404939907e-158, more=1.01)
@given(
    name=st.sampled_from(sorted(EVERY)),
    mean=st.floats(0, 1),
    count=st.floats(1e-3, 1e6),
    level=st.floats(0, 50),
    more=st.floats(1.01, 3),
)
def test_it_grows_with_the_level_and_falls_with_the_count(name, mean, count, level, more):
    family = EVERY[name]
    index = kl_ucb(family, mean, count, level)
    assert index >= mean
    assert index <= family.rewards.high
    assert is_at_most(name, mean, index, kl_ucb(family, mean, count, level * more))
    assert is_at_most(name, mean, kl_ucb(family, mean, count * more, level), index)
    assert kl_ucb(family, mean, 0, level) == np.inf


@pytest.mark.parametrize("name", EVERY)
def test_a_level_of_zero_or_less_leaves_the_mean(name):
    np.testing.assert_array_equal(kl_ucb(EVERY[name], [0.2, 0.7], 3, [0.0, -1.0]), [0.2, 0.7])


def test_the_ends_of_the_range():
    """kl(0, q) is -log(1 - q) of Bernoulli and q of Poisson; nothing lies above 1."""
    bernoulli, level = EVERY["bernoulli"], np.array([0.5, 3.0, 40.0])
    np.testing.assert_allclose(kl_ucb(bernoulli, 0.0, 1, level), -np.expm1(-level), rtol=1e-14)
    np.testing.assert_array_equal(kl_ucb(bernoulli, 1.0, 1, level), 1.0)
    np.testing.assert_array_equal(kl_ucb(bernoulli, [-0.2, 1.3], 1, 0.0), [0.0, 1.0])
    np.testing.assert_allclose(kl_ucb(Poisson(), 0.0, 2, level), level / 2, rtol=1e-14)
    np.testing.assert_array_equal(kl_ucb(EVERY["exponential"], 0.0, 2, level), 0.0)


def test_the_gaussian_one_is_closed():
    index = kl_ucb(Gaussian(sigma=3.0), [[0.1], [0.2]], [1.0, 4.0, 0.0], [[2.0], [8.0]])
    expected = [[0.1 + 6, 0.1 + 3, np.inf], [0.2 + 12, 0.2 + 6, np.inf]]
    np.testing.assert_allclose(index, expected, rtol=1e-15)


def test_a_family_of_ones_own_needs_a_divergence_only():
    @dataclass(frozen=True)
    class Own:
        divergence: object
        means: Interval = POSITIVE
        rewards: ClassVar[Interval] = Interval(0.0, np.inf, closed=True)

    means, radius = np.array([0.1, 2.0, 30.0]), np.array([0.01, 1.0, 20.0])
    own = Own(lambda p, q: theory.kl_poisson(p, q))
    np.testing.assert_allclose(
        kl_ucb(own, means, 1, radius), kl_ucb(Poisson(), means, 1, radius), rtol=1e-12
    )
    bounded = Own(lambda p, q: theory.kl_poisson(p, q), Interval(0.0, 2.5))
    assert kl_ucb(bounded, 2.0, 1, 5.0) == pytest.approx(2.5, rel=1e-12)
    with pytest.raises(ValueError, match="divergence"):
        kl_ucb(FAMILIES["grid"].example(), 0.5, 1, 1.0)
