"""Divergences against sums, integrals and minimisations, and the one that each family has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from posse import families, theory
from tests.theory.material import positive, probabilities, unhurried


@unhurried
@given(probabilities, probabilities)
def test_bernoulli_divergence_is_the_entropy_of_two_outcomes(p: float, q: float) -> None:
    expected = stats.entropy([p, 1 - p], [q, 1 - q])
    assert theory.kl_bernoulli(p, q) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@unhurried
@given(positive, positive)
def test_poisson_divergence_is_the_sum_over_counts(p: float, q: float) -> None:
    counts = np.arange(150)
    laws = stats.poisson.logpmf(counts, p), stats.poisson.logpmf(counts, q)
    expected = np.sum(np.exp(laws[0]) * (laws[0] - laws[1]))
    assert theory.kl_poisson(p, q) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@unhurried
@given(positive, positive)
def test_exponential_divergence_is_the_integral(p: float, q: float) -> None:
    law, other = stats.expon(scale=p), stats.expon(scale=q)
    expected, _ = integrate.quad(
        lambda y: law.pdf(y) * (law.logpdf(y) - other.logpdf(y)), 0, 50 * p, limit=200
    )
    assert theory.kl_exponential(p, q) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@unhurried
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.2, 3))
def test_gaussian_divergence_is_the_integral(p: float, q: float, sigma: float) -> None:
    law, other = stats.norm(p, sigma), stats.norm(q, sigma)
    expected, _ = integrate.quad(
        lambda y: law.pdf(y) * (law.logpdf(y) - other.logpdf(y)), p - 12 * sigma, p + 12 * sigma
    )
    assert theory.kl_gaussian(p, q, sigma) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@unhurried
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.2, 3))
def test_unknown_variance_takes_the_closest_variance(p: float, q: float, sigma: float) -> None:
    def to_law_with(log_sd: float) -> float:
        sd = math.exp(log_sd)
        return log_sd - math.log(sigma) + (sigma**2 + (p - q) ** 2) / (2 * sd**2) - 0.5

    closest = optimize.minimize_scalar(to_law_with, bounds=(-4, 4), method="bounded").fun
    divergence = theory.kl_gaussian_unknown_variance(p, q, sigma)
    assert divergence == pytest.approx(closest, abs=1e-6)
    assert divergence <= theory.kl_gaussian(p, q, sigma) + 1e-15


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (0, 0, 0),
        (1, 1, 0),
        (0, 0.3, -math.log(0.7)),
        (1, 0.3, -math.log(0.3)),
        (0, 1, math.inf),
        (1, 0, math.inf),
        (0.4, 0, math.inf),
        (0.4, 1, math.inf),
        (0.1, 0.5, 0.1 * math.log(0.2) + 0.9 * math.log(1.8)),
    ],
)
def test_bernoulli_divergence_at_the_edges(p: float, q: float, expected: float) -> None:
    assert theory.kl_bernoulli(p, q) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("p", "q", "expected"), [(0, 0, 0), (0, 2, 2), (2, 0, math.inf), (2, 1, 2 * math.log(2) - 1)]
)
def test_poisson_divergence_at_the_edges(p: float, q: float, expected: float) -> None:
    assert theory.kl_poisson(p, q) == pytest.approx(expected)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-8, 1e-11])
def test_divergences_keep_their_digits_when_means_nearly_agree(gap: float) -> None:
    # to leading order a divergence is gap^2 / (2 variance); rounding of 1 - p limits the digits
    best = 0.3
    worse = best - gap
    accuracy = 4 * gap + 1e-15 / gap
    for divergence, variance in [
        (theory.kl_bernoulli, best * (1 - best)),
        (theory.kl_poisson, best),
        (theory.kl_exponential, best**2),
        (theory.kl_gaussian, 1),
        (theory.kl_gaussian_unknown_variance, 1),
    ]:
        expected = (best - worse) ** 2 / (2 * variance)
        assert divergence(worse, best) == pytest.approx(expected, rel=accuracy)


@pytest.mark.parametrize(
    "divergence",
    [theory.kl_bernoulli, theory.kl_poisson, theory.kl_exponential, theory.kl_gaussian],
)
def test_divergences_are_continuous_where_the_series_takes_over(
    divergence: theory.Divergence,
) -> None:
    worse = 0.5 * (1 - np.array([0.00999999, 0.01000001]))
    inside, outside = divergence(worse, 0.5)
    assert outside == pytest.approx(inside, rel=5e-6)
    assert outside > inside


@pytest.mark.parametrize(
    "divergence",
    [
        theory.kl_bernoulli,
        theory.kl_gaussian,
        theory.kl_gaussian_unknown_variance,
        theory.kl_poisson,
        theory.kl_exponential,
    ],
)
def test_divergences_broadcast(divergence: theory.Divergence) -> None:
    p, q = np.array([[0.1], [0.2], [0.5]]), np.array([0.2, 0.5])
    table = divergence(p, q)
    assert table.shape == (3, 2)
    assert table[1, 0] == table[2, 1] == 0
    for row, column in np.ndindex(3, 2):
        assert table[row, column] == divergence(p[row, 0], q[column])


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "a", None])
def test_bernoulli_divergence_refuses_what_is_no_probability(bad: object) -> None:
    with pytest.raises(ValueError, match=r"^p must be .*, got"):
        theory.kl_bernoulli(bad, 0.5)
    with pytest.raises(ValueError, match=r"^q must be .*, got"):
        theory.kl_bernoulli(0.5, bad)


def test_other_divergences_refuse_means_outside_their_family() -> None:
    with pytest.raises(ValueError, match="p must be finite numbers at least 0, got -1"):
        theory.kl_poisson(-1, 1)
    with pytest.raises(ValueError, match="q must be finite numbers above 0, got 0"):
        theory.kl_exponential(1, 0)
    with pytest.raises(ValueError, match="sigma must be a finite number above 0, got 0"):
        theory.kl_gaussian(0, 1, sigma=0)
    with pytest.raises(ValueError, match="p must be finite numbers, got inf"):
        theory.kl_gaussian(math.inf, 1)


# The divergence of a family ------------------------------------------------------------------


@dataclass(frozen=True)
class Mine:
    """A stranger's family, which inherits nothing."""

    name: ClassVar[str] = "mine"

    def divergence(self, p: float, q: float) -> float:
        return 3.0 * abs(p - q)


@dataclass(frozen=True)
class BanditLike:
    family: object
    means: tuple[float, ...]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (families.Bernoulli(), 0.1 * math.log(0.2) + 0.9 * math.log(1.8)),
        (families.Bounded(), 0.1 * math.log(0.2) + 0.9 * math.log(1.8)),
        (families.Gaussian(sigma=2), 0.4**2 / (2 * 2**2)),
        (families.GaussianUnknownVariance(sigma=2), 0.5 * math.log(1 + 0.4**2 / 2**2)),
        (families.Poisson(), 0.1 * math.log(0.2) + 0.4),
        (families.Exponential(), 0.2 - 1 - math.log(0.2)),
        (Mine(), 1.2),
    ],
)
def test_divergence_of_a_family(family: object, expected: float) -> None:
    assert theory.get_divergence(family)(0.1, 0.5) == pytest.approx(expected)
    constant = theory.lai_robbins(BanditLike(family, (0.1, 0.5, 0.1)), n_agents=4)
    assert constant == pytest.approx(2 * 0.4 / (4 * expected))


@pytest.mark.parametrize(
    ("family", "shown"), [(families.Grid.example(), "'grid'"), (BanditLike, "<class"), (3, "3")]
)
def test_divergence_of_an_unknown_family(family: object, shown: str) -> None:
    with pytest.raises(ValueError, match=f"family {shown}.* has no divergence: give it"):
        theory.get_divergence(family)


def test_bernoulli_divergence_is_the_smallest_for_bounded_rewards() -> None:
    # what the choice for Bounded rests on, on its own rewards Beta(c m, c (1 - m))
    for concentration in (0.5, 5, 50):
        law = stats.beta(concentration * 0.3, concentration * 0.7)
        other = stats.beta(concentration * 0.6, concentration * 0.4)
        # on the logit scale, where the density has no poles
        actual, _ = integrate.quad(
            lambda x, law=law, other=other: (
                law.pdf(special.expit(x))
                * special.expit(x)
                * special.expit(-x)
                * (law.logpdf(special.expit(x)) - other.logpdf(special.expit(x)))
            ),
            -30,
            30,
            limit=200,
        )
        assert theory.kl_bernoulli(0.3, 0.6) < actual


# Of an approximate belief from the exact posterior ---------------------------------------------

GRID = families.Grid(lambda y, theta: -((y - theta) ** 2) / 2, lambda theta: theta, (-8, 8), 3000)


def normal_alpha_divergence(mean, sd, other_mean, other_sd, alpha):
    """In closed form, of N(mean, sd^2) and N(other_mean, other_sd^2)."""
    between = alpha * other_sd**2 + (1 - alpha) * sd**2
    distance = (mean - other_mean) ** 2 / (2 * between)
    integral = sd ** (1 - alpha) * other_sd**alpha / math.sqrt(between)
    return (1 - integral * math.exp(-alpha * (1 - alpha) * distance)) / (alpha * (1 - alpha))


@pytest.mark.parametrize("alpha", [-1.0, -0.3, 0.5, 1.4, 2.0])
def test_alpha_divergence_of_normal_beliefs(alpha):
    means, sds = np.array([0.3, -0.2, 1.0]), np.array([0.4, 0.5, 0.5])
    exact = -(((GRID.centres[:, None] - means) / sds) ** 2) / 2  # (G, 3)
    belief = np.array([0.5, 1.0])[:, None] / np.full(3, 0.5) ** 2
    found = theory.alpha_divergence(GRID, exact, families.Gaussian(), belief, alpha)
    expected = [
        normal_alpha_divergence(mean, sd, 0.5, 0.5, alpha)
        for mean, sd in zip(means, sds, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("alpha", "order"), [(1.0, 1), (0.0, -1)])
def test_alpha_divergence_has_the_limits_of_kullback_and_leibler(alpha, order):
    exact = -(((GRID.centres - 0.3) / 0.4) ** 2) / 2
    belief = np.array([0.5, 1.0]) / 0.5**2
    p, q = (stats.norm(0.3, 0.4), stats.norm(0.5, 0.5))[::order]
    expected, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -6, 6)
    found, near = (
        theory.alpha_divergence(GRID, exact, families.Gaussian(), belief, value)
        for value in (alpha, alpha + 1e-6)
    )
    assert found == pytest.approx(expected, rel=1e-9)
    assert near == pytest.approx(expected, rel=1e-4)


def test_alpha_divergence_of_equal_beliefs_is_0_and_of_thin_tails_infinite():
    gaussian = families.Gaussian()
    exact = -(GRID.centres**2) / 2
    for alpha in (-1.0, 0.0, 0.5, 1.0, 2.0):
        same = theory.alpha_divergence(GRID, exact, gaussian, np.array([0.0, 1.0]), alpha)
        assert 0 <= same < 1e-12
    thin = np.array([0.0, 1.0]) / 0.1**2
    assert theory.alpha_divergence(GRID, exact, gaussian, thin, 2.0) == math.inf
    assert theory.alpha_divergence(GRID, exact, gaussian, thin, 1.0) < math.inf


def test_alpha_divergence_refuses_what_its_grid_does_not_hold():
    gaussian, exact = families.Gaussian(), np.zeros(3000)
    for belief in (np.array([0.0, 1e8]), np.array([20.0, 1.0])):  # too narrow, outside
        with pytest.raises(ValueError, match="cells of exact do not resolve the belief, or its"):
            theory.alpha_divergence(GRID, exact, gaussian, belief, 0.5)
    with pytest.raises(ValueError, match="exact must be a family on a grid"):
        theory.alpha_divergence(gaussian, np.ones(2), gaussian, np.ones(2), 0.5)
