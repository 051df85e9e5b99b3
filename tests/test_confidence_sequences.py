"""Confidence sequences: the truth is inside at every look, and they are not much too wide."""

import math

import numpy as np
import pytest
from scipy import stats

from posse.confidence_sequences import (
    bounded_mean_interval,
    cluster_difference_interval,
    cluster_variance,
    mixture_quantile,
    widen_quantile,
)

ERROR = 0.05
BUCKETS = 32


@pytest.mark.parametrize("tau", [1e-3, 0.3, 1.0, 17.0, 1e4])
def test_the_mixture_is_the_martingale_where_it_is_one_in_alpha(tau):
    """Oracle: the integral of the likelihood ratio over a normal drift, by quadrature."""
    z = mixture_quantile(tau, ERROR)
    drifts, weights = np.polynomial.hermite_e.hermegauss(200)
    # at information tau, a standard normal drift scaled by 1: exp(d sqrt(tau) z - d^2 tau / 2)
    ratios = np.exp(drifts * math.sqrt(tau) * z - drifts**2 * tau / 2)
    if tau < 100:  # beyond, the integrand is too narrow for the rule
        mixture = (weights * ratios).sum() / math.sqrt(2 * math.pi)
        assert mixture == pytest.approx(1 / ERROR, rel=1e-6)
    density = math.exp(z**2 * tau / (2 * (1 + tau))) / math.sqrt(1 + tau)
    assert density == pytest.approx(1 / ERROR)


def test_students_quantile_has_the_same_tail():
    for dof in (5.0, 31.0, 1e6):
        wide = widen_quantile(3.3, dof)
        assert stats.t.sf(wide, dof) == pytest.approx(stats.norm.sf(3.3), rel=1e-6)
        assert wide > 3.3


def test_the_variance_of_clusters_is_that_of_a_ratio():
    """Oracle: the variance of many samples of clusters whose members are all alike."""
    rng = np.random.default_rng(3)
    n_samples = 4000
    counts = rng.integers(1, 20, (n_samples, BUCKETS)).astype(float)
    sums = counts * rng.normal(0.3, 0.2, (n_samples, BUCKETS))
    means = sums.sum(axis=1) / counts.sum(axis=1)
    estimates = [cluster_variance(n, s) for n, s in zip(counts, sums, strict=True)]
    assert np.mean(estimates) == pytest.approx(means.var(), rel=0.08)
    independent = (0.2**2) / counts.sum(axis=1).mean()  # as if every member were its own
    assert np.mean(estimates) > 5 * independent


def play_shop(rng, days, visits, rates, per_visitor, spread, share=0.1):
    """A shop with a bandit: whether the true uplift was inside at every daily look, and widths.

    Visitors come `per_visitor` times and have rates of their own (log-normal with this spread).
    """
    n_visitors = max(1, days * visits // per_visitor)
    factors = np.exp(rng.normal(0, spread, n_visitors))
    factors /= factors.mean()
    held_out = rng.random(n_visitors) < share
    buckets = rng.integers(0, BUCKETS, n_visitors)
    counts, sums = np.zeros((2, BUCKETS)), np.zeros((2, BUCKETS))
    wins, losses = np.ones(len(rates)), np.ones(len(rates))
    earned, played, inside = 0.0, 0, True
    low = high = math.nan
    for _ in range(days):
        who = rng.integers(0, n_visitors, visits)
        arms = rng.beta(wins, losses, (visits, len(rates))).argmax(axis=1)
        arms = np.where(held_out[who], 0, arms)
        rewards = (rng.random(visits) < np.minimum(1, rates[arms] * factors[who])).astype(float)
        for side, mask in enumerate((~held_out[who], held_out[who])):
            places = buckets[who[mask]]
            counts[side] += np.bincount(places, minlength=BUCKETS)
            sums[side] += np.bincount(places, rewards[mask], minlength=BUCKETS)
        mask = ~held_out[who]
        np.add.at(wins, arms[mask], rewards[mask])
        np.add.at(losses, arms[mask], 1 - rewards[mask])
        earned += rates[arms[mask]].sum()
        played += mask.sum()
        truth = earned / played - rates[0]
        if counts.sum(axis=1).min() < 100:
            continue
        mean = sums.sum() / counts.sum()
        sides = [(counts[side], sums[side]) for side in (0, 1)]
        _, low, high = cluster_difference_interval(*sides, mean * (1 - mean), ERROR)
        inside &= low <= truth <= high
    variances = [cluster_variance(counts[side], sums[side]) for side in (0, 1)]
    one_look = stats.t.ppf(1 - ERROR / 2, BUCKETS - 1) * math.sqrt(sum(variances))
    return inside, (high - low) / 2 / one_look


SHOPS = {
    "one visit each": (np.array([0.03, 0.04, 0.02]), 1, 0.0),
    "visitors who come again": (np.array([0.03, 0.04, 0.02]), 6, 1.0),
    "rare rewards": (np.array([0.005, 0.007]), 3, 0.7),
    "frequent rewards": (np.array([0.3, 0.35]), 3, 0.5),
}


def study_shops(name, n_shops, days):
    rates, per_visitor, spread = SHOPS[name]
    results = [
        play_shop(np.random.default_rng([11, number]), days, 600, rates, per_visitor, spread)
        for number in range(n_shops)
    ]
    return np.mean([inside for inside, _ in results]), np.mean([width for _, width in results])


@pytest.mark.long
@pytest.mark.parametrize("name", SHOPS)
def test_300_shops_looked_at_daily(name):
    """The promise: inside at every look in at least 92%, at most twice as wide as for one look."""
    covered, width = study_shops(name, 300, 30)
    assert covered >= 0.92
    assert width <= 2.0


def test_some_shops_looked_at_daily():
    """The same in short: of 40 shops all but a few; a fixed seed, so no chance is left."""
    covered, width = study_shops("visitors who come again", 40, 10)
    assert covered >= 0.92
    assert width <= 2.0


def test_visits_taken_for_independent_would_be_too_narrow():
    """What buckets are for: with visitors who come again, the plain interval fails."""
    rng = np.random.default_rng(5)
    missed = {"clusters": 0, "visits": 0}
    for _ in range(200):
        rates = rng.beta(0.3, 2.7, (2, 200))  # of 200 visitors a side, who come 20 times each
        wins = rng.binomial(20, rates)
        sums = wins.reshape(2, 20, 10).sum(axis=2).astype(float)
        counts = np.full((2, 20), 200.0)
        mean = sums.sum() / counts.sum()
        difference, low, high = cluster_difference_interval(
            (counts[0], sums[0]), (counts[1], sums[1]), 0.0, ERROR
        )
        missed["clusters"] += not low <= 0 <= high
        plain = 1.96 * math.sqrt(mean * (1 - mean) * 2 / 4000)
        missed["visits"] += abs(difference) > plain
    assert missed["clusters"] <= 4
    assert missed["visits"] >= 50


@pytest.mark.parametrize("law", ["beta", "spikes", "constant"])
def test_the_mean_of_a_metric_is_inside_at_every_look(law):
    """False breaches: at most 5% in 400 runs of 2,000 observations; the seed is fixed."""
    rng = np.random.default_rng(7)
    draws = {
        "beta": lambda: 1000 * rng.beta(1, 9, 2000),
        "spikes": lambda: 1000.0 * (rng.random(2000) < 0.004),  # rare, and as large as can be
        "constant": lambda: np.full(2000, 100.0),
    }
    mean = {"beta": 100.0, "spikes": 4.0, "constant": 100.0}[law]
    missed = 0
    for _ in range(400):
        values = draws[law]()
        totals, squares = values.cumsum(), (values**2).cumsum()
        looks = np.arange(1, 2001)
        spread = np.maximum(0, squares - totals**2 / looks) + 3 * 1000.0**2
        tau = looks / 100.0
        radius = np.sqrt(spread * (1 + 1 / tau) * np.log((1 + tau) / ERROR**2)) / looks
        outside = np.abs(totals / looks - mean) > radius
        missed += outside.any()
        last = bounded_mean_interval(2000.0, totals[-1], squares[-1], (0.0, 1000.0), ERROR)
        assert last == pytest.approx(
            (max(0, totals[-1] / 2000 - radius[-1]), min(1000, totals[-1] / 2000 + radius[-1]))
        )
    assert missed <= 20


def test_nothing_is_known_without_observations():
    assert bounded_mean_interval(0.0, 0.0, 0.0, (2.0, 5.0), ERROR) == (2.0, 5.0)
    zeros = np.zeros(BUCKETS)
    counts = np.full(BUCKETS, 10.0)
    assert cluster_difference_interval((counts, zeros), (counts, zeros), 0.0, ERROR) == (
        *(0.0, -math.inf, math.inf),
    )
