"""RandUCB: a quantile at a random level, and the lengths of the levels at which each arm wins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import posse
from posse.families import Bernoulli, Exponential, Gaussian, GaussianUnknownVariance, Poisson
from posse.policies import RandUCB, choose
from tests.effort import limit_count

LEVELS = 0.5 + 0.5 * (np.arange(20_000) + 0.5) / 20_000
CROSSING_ONCE = [Gaussian(), Bernoulli(), Poisson(), Exponential()]


def shares_by_integration(family, belief, levels=LEVELS):
    """How often each arm is highest on a fine grid of levels, ties shared: (D, K) -> (K,)."""
    scores = family.mean_quantile(belief[:, None], levels[:, None])
    highest = scores == scores.max(axis=1, keepdims=True)
    return (highest / highest.sum(axis=1, keepdims=True)).mean(axis=0)


@pytest.mark.parametrize("pulls", [0, 2, 25])
def test_arms_are_chosen_as_often_as_their_quantile_is_highest(family, learnt, pulls):
    """Chi-square against numerical integration over the level; error rate 1e-6."""
    belief = learnt(family, np.random.default_rng(1), (4,), pulls=pulls)
    belief[:, 1] = belief[:, 0]
    n_agents = limit_count(family, 20_000)
    grid = LEVELS if n_agents == 20_000 else LEVELS[::10]
    expected = shares_by_integration(family, belief, grid)
    agents = np.broadcast_to(belief[:, None], (len(belief), n_agents, 4))
    arms = choose(RandUCB(), agents, family, 3, None, np.random.default_rng(2))
    counts = np.bincount(arms, minlength=4)
    likely = expected * n_agents > 5
    assert (counts[~likely] < 40).all()
    law = expected[likely] / expected[likely].sum() * counts[likely].sum()
    assert stats.chisquare(counts[likely], law).pvalue > 1e-6 or likely.sum() == 1


def test_agents_draw_levels_of_their_own_and_arms_share_them():
    """One level per agent: all arms of one belief score alike, agents differ, none below median."""
    belief = np.broadcast_to(np.array([2.0, 4.0])[:, None, None], (2, 20_000, 3))  # N(1/2, 1/4)
    scores = RandUCB().scores(belief, Gaussian(), 1, None, np.random.default_rng(3))
    np.testing.assert_array_equal(scores, np.repeat(scores[:, :1], 3, axis=1))
    assert len(np.unique(scores[:, 0])) > 19_990
    z = (scores[:, 0] - 0.5) / 0.5
    assert z.min() >= 0
    assert stats.kstest(z, stats.halfnorm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("sampling", [0.3, 1.0])
def test_sampling_mixes_with_thompson_sampling(sampling):
    """By the two laws apart, and as often as it says; error rate 1e-6."""
    family, belief = Bernoulli(), np.array([[9.0, 3.0, 2.0], [6.0, 2.0, 2.0]])
    said = RandUCB(sampling).probabilities(belief, family, 1, None)
    pure = RandUCB().probabilities(belief, family, 1, None)
    best = posse.ThompsonSampling().probabilities(belief, family, 1, None)
    np.testing.assert_allclose(said, (1 - sampling) * pure + sampling * best, atol=1e-9)
    many = np.broadcast_to(belief[:, None], (2, 40_000, 3))
    arms = choose(RandUCB(sampling), many, family, 1, None, np.random.default_rng(1))
    counts = np.bincount(arms, minlength=3)
    assert stats.chisquare(counts, said / said.sum() * counts.sum()).pvalue > 1e-6


@pytest.mark.parametrize("width", [0.5, 1.4])
def test_a_width_is_a_multiple_of_the_normal_score(width, learnt):
    """Of Gaussian beliefs, all deviations times it; of others the level that this is."""
    mean, sd = np.array([0.5, 0.3, 0.0]), np.array([0.1, 0.4, 1.0])
    said = RandUCB(width=width).probabilities(
        np.array([mean, [1, 1, 1]]) / sd**2, Gaussian(), 1, None
    )
    np.testing.assert_allclose(said, envelope(mean, width * sd), atol=1e-10)
    for family in CROSSING_ONCE:
        belief = learnt(family, np.random.default_rng(4), (4,), pulls=5)
        said = RandUCB(width=width).probabilities(belief, family, 1, None)
        levels = stats.norm.cdf(width * stats.norm.ppf(LEVELS))
        expected = shares_by_integration(family, belief, levels)
        np.testing.assert_allclose(said, expected, atol=2 / 20_000)
        many = np.broadcast_to(belief[:, None], (2, 10_000, 4))
        arms = choose(RandUCB(width=width), many, family, 1, None, np.random.default_rng(5))
        freely = np.bincount(arms, minlength=4) / 10_000
        assert (np.abs(freely - expected) < 5.5 * np.sqrt(expected / 10_000) + 1e-3).all()


@pytest.mark.parametrize("width", [0.0, -1.0, np.inf, "wide", True])
def test_widths_that_make_no_sense_are_refused(width):
    with pytest.raises(ValueError, match="width"):
        RandUCB(width=width)


@pytest.mark.parametrize("sampling", [-0.1, 1.1, np.nan, "half", True])
def test_shares_of_sampling_that_make_no_sense_are_refused(sampling):
    with pytest.raises(ValueError, match="sampling"):
        RandUCB(sampling)


def envelope(mean, sd):
    """The shares of each line mean + z sd, z half-normal, by all pairwise crossings: (K,)."""
    crossings = {0.0, math.inf}
    for a in range(len(mean)):
        for b in range(a):
            if sd[a] != sd[b]:
                crossings.add((mean[a] - mean[b]) / (sd[b] - sd[a]))
    ends = sorted(z for z in crossings if z >= 0)
    shares = np.zeros(len(mean))
    for low, high in itertools.pairwise(ends):
        middle = low + 1.0 if high == math.inf else (low + high) / 2
        shares[np.argmax(mean + middle * sd)] += 2 * (stats.norm.sf(low) - stats.norm.sf(high))
    return shares


@given(seed=st.integers(0, 10**6), n_arms=st.integers(2, 8), spread=st.sampled_from([0.1, 1.0, 5]))
def test_gaussian_probabilities_are_those_of_the_upper_envelope(seed, n_arms, spread):
    generator = np.random.default_rng(seed)
    mean, sd = spread * generator.normal(size=n_arms), np.exp(generator.normal(size=n_arms))
    belief = np.array([mean / sd**2, 1 / sd**2])
    said = RandUCB().probabilities(belief, Gaussian(), 1, None)
    assert said.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(said, envelope(mean, sd), atol=1e-10)


@pytest.mark.parametrize("family", CROSSING_ONCE, ids=lambda family: family.name)
@pytest.mark.parametrize("seed", range(6))
def test_probabilities_are_those_of_integration(family, learnt, seed):
    """The grid of 20 000 levels misses a crossing by at most 1 in 20 000."""
    generator = np.random.default_rng(seed)
    belief = np.concatenate(
        [learnt(family, generator, (2,), pulls=int(p)) for p in generator.integers(0, 20, 4)],
        axis=1,
    )
    said = RandUCB().probabilities(belief, family, 1, None)
    np.testing.assert_allclose(said, shares_by_integration(family, belief), atol=2 / 20_000)


@pytest.mark.parametrize("family", CROSSING_ONCE, ids=lambda family: family.name)
def test_quantiles_of_two_beliefs_cross_at_most_once_where_a_family_says_so(family, learnt):
    generator = np.random.default_rng(5)
    tail = np.geomspace(1e-6, 0.5, 100)
    levels = np.concatenate([tail, 1 - tail[::-1]])
    for pulls in (1, 3, 30):
        a, b = (learnt(family, generator, (100,), pulls=p) for p in (pulls, 5))
        apart = [family.mean_quantile(each[:, None], levels[:, None]) for each in (a, b)]
        sign = np.sign(apart[0] - apart[1])
        assert (np.abs(np.diff(sign, axis=0)).sum(axis=0) <= 2).all()


def test_quantiles_of_student_t_may_cross_three_times():
    """Heavier tails and a sharper peak: so the family does not say that they cross once."""
    family, levels = GaussianUnknownVariance(), np.linspace(0.01, 0.99, 500)
    wide, sharp = np.array([0.0, 1.0, 30.0, 30.0]), np.array([0.0, 1.0, 0.6, 0.15])
    apart = [family.mean_quantile(each[:, None], levels) for each in (wide, sharp)]
    assert np.abs(np.diff(np.sign(apart[0] - apart[1]))).sum() == 6
    assert not family.quantiles_cross_once


def test_arms_of_equal_belief_share(family, learnt):
    belief = np.repeat(learnt(family, np.random.default_rng(1), (1,)), 5, axis=1)
    said = RandUCB().probabilities(belief, family, 1, None)
    if said is not None:
        np.testing.assert_allclose(said, 0.2, atol=1e-12)


def test_beliefs_that_rounding_alone_tells_apart_are_settled():
    """Nothing can be said of which of them wins, but it is said at once, and is 1 in sum."""
    generator = np.random.default_rng(8)
    for _ in range(20):
        alpha = 7.0 * (1 + 1e-15 * generator.normal(size=4))
        said = RandUCB().probabilities(np.array([alpha, 2 * alpha[::-1]]), Bernoulli(), 1, None)
        assert said.sum() == pytest.approx(1.0, abs=1e-12)


def test_quantiles_at_the_end_of_the_range_tie():
    """Beta(3, 0.01) has its median at 1 in floats: both such arms are highest nearly always."""
    belief = np.array([[3.0, 2.0, 1.0], [0.01, 0.01, 1.0]])
    said = RandUCB().probabilities(belief, Bernoulli(), 1, None)
    np.testing.assert_allclose(said, shares_by_integration(Bernoulli(), belief), atol=1e-4)
    np.testing.assert_allclose(said, [0.5, 0.5, 0.0], atol=1e-4)


def test_a_live_agent_logs_its_probabilities():
    agent = posse.Agent(["red", "green"], Bernoulli(), policy=RandUCB(), seed=1)
    for _ in range(30):
        decision = agent.pull()
        agent.update(decision, 1.0 if decision.arm == "red" else 0.0)
        assert 0 < decision.probability <= 1


def test_a_live_agent_refuses_a_family_whose_quantiles_may_cross_often():
    with pytest.raises(ValueError, match="cannot decide for a live agent"):
        posse.Agent(["a", "b"], GaussianUnknownVariance(), policy=RandUCB(), reward_range=(0, 1))
