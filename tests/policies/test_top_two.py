"""Top-two sampling: the leader by Thompson Sampling, or the arm hardest to tell from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import posse
from posse.families import Bernoulli, Exponential, Gaussian
from posse.policies import ThompsonSampling, TopTwo, choose
from posse.policies.top_two import equivalent_pulls, posterior_variance, squared_distance


def test_the_challenger_by_hand():
    """Arm 2 is nearer in mean to arm 0, but arm 1 is so uncertain that it is harder to tell."""
    means, sds = np.array([1.0, 0.5, 0.6]), np.array([0.01, 0.5, 0.01])
    belief = np.array([means / sds**2, 1 / sds**2])
    policy = TopTwo(fraction=0.3)
    best = ThompsonSampling().probabilities(belief, Gaussian(), 1, None)
    # of leader 0: (0.5)^2 / 0.2501 = 1, against (0.4)^2 / 0.0002 = 800; of leader 1: 1 or 0.04
    expected = 0.7 * best + 0.3 * np.array([0.0, best[0] + best[2], best[1]])
    said = policy.probabilities(belief, Gaussian(), 1, None)
    np.testing.assert_allclose(said, expected, atol=1e-12)
    many = np.broadcast_to(belief[:, None], (2, 40_000, 3))
    arms = choose(policy, many, Gaussian(), 1, None, np.random.default_rng(1))
    counts = np.bincount(arms, minlength=3)
    likely = said > 1e-3
    law = said[likely] / said[likely].sum() * counts[likely].sum()
    assert stats.chisquare(counts[likely], law).pvalue > 1e-6


def test_an_unlucky_arm_is_not_taken_for_far():
    """One success in 150 has a small variance of its own, yet says less than 50 in 2000 do."""
    pulls, rate = np.array([5000.0, 2000.0, 150.0]), np.array([0.05, 0.03, 1 / 150])
    belief = np.array([1 + pulls * rate, 1 + pulls * (1 - rate)])
    said = TopTwo(1.0).probabilities(belief, Bernoulli(), 1, None)
    assert said.argmax() == 2
    # by hand: the z-score of two shares, the pooled one in the denominator
    mean, n = belief[0] / belief.sum(axis=0), belief.sum(axis=0) + 1
    pooled = (n[0] * mean[0] + n * mean) / (n[0] + n)
    z = (mean[0] - mean) ** 2 / (pooled * (1 - pooled) * (1 / n[0] + 1 / n))
    assert z[2] < z[1]
    worth = equivalent_pulls(Bernoulli(), belief)
    np.testing.assert_allclose(worth, n, rtol=1e-12)
    far = squared_distance(Bernoulli(), mean[:1], worth[:1], mean, worth)
    np.testing.assert_allclose(far, z, rtol=1e-12)
    assert (mean[0] - mean[2]) ** 2 / Bernoulli().posterior_variance(belief)[[0, 2]].sum() > z[1]


def test_fraction_0_is_thompson_sampling(family, learnt):
    belief = learnt(family, np.random.default_rng(1), (5,), pulls=6)
    said = TopTwo(fraction=0.0).probabilities(belief, family, 1, None)
    np.testing.assert_array_equal(said, ThompsonSampling().probabilities(belief, family, 1, None))


def test_a_race_that_is_kept_changes_nothing(family, learnt):
    belief = learnt(family, np.random.default_rng(2), (4,), pulls=6)
    kept = posse.best_arm.Race(family)
    for _ in range(2):
        said = TopTwo().probabilities(belief, family, 1, None, race=kept)
        np.testing.assert_allclose(said, TopTwo().probabilities(belief, family, 1, None), atol=2e-7)


def test_variances_are_those_of_the_density(family, learnt):
    """By quadrature between far quantiles; heavy tails need enough pulls to die out."""
    belief = learnt(family, np.random.default_rng(3), (3,), pulls=60)
    mean, variance = family.posterior_mean(belief), family.posterior_variance(belief)
    for k in range(3):
        one = belief[:, k]
        ends = [float(family.mean_quantile(one, level)) for level in (1e-13, 0.5, 1 - 1e-13)]
        x = np.concatenate([np.linspace(ends[0], ends[1], 20_001)[:-1],
                            np.linspace(ends[1], ends[2], 20_001)])  # fmt: skip
        density = np.exp(family.log_density(one[:, None], x))
        found = integrate.trapezoid(density * (x - mean[k]) ** 2, x)
        assert variance[k] == pytest.approx(found, rel=2e-3)


def test_a_family_without_a_formula_is_read_by_its_quantiles():
    class Plain:
        mean_quantile = staticmethod(Gaussian().mean_quantile)

    belief = np.array([[1.0, 2.0], [4.0, 100.0]])
    np.testing.assert_allclose(posterior_variance(Plain(), belief), [1 / 4, 1 / 100], rtol=0.02)


def test_infinite_variances_are_no_distance():
    """The prior of exponential rewards has none: an arm not yet played is the challenger."""
    family = Exponential()
    played = family.prior()[:, None] + family.statistic(np.full((50, 2), [2.0, 1.0])).sum(axis=1)
    belief = np.column_stack([played, family.prior()])
    assert np.isinf(family.posterior_variance(belief)[2])
    best = ThompsonSampling().probabilities(belief, family, 1, None)
    said = TopTwo(fraction=1.0).probabilities(belief, family, 1, None)
    np.testing.assert_allclose(said, [0.0, best[2], best[0] + best[1]], atol=1e-12)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, np.nan, "half", True])
def test_fractions_that_make_no_sense_are_refused(fraction):
    with pytest.raises(ValueError, match="fraction"):
        TopTwo(fraction=fraction)


def test_one_arm_is_played():
    belief = np.array([[3.0], [4.0]])
    assert TopTwo(1.0).probabilities(belief, Bernoulli(), 1, None).tolist() == [1.0]
    assert choose(TopTwo(1.0), belief, Bernoulli(), 1, None, np.random.default_rng(0)) == 0


def test_in_the_lab_by_either_name():
    bandit = posse.Bandit.gaussian([0.5, 0.0, 0.0])
    result = posse.simulate(
        bandit, posse.networks.cycle(4), posse.Decentralized(posse.TopTwo(0.4)),
        horizon=200, runs=8, seed=3,
    )  # fmt: skip
    shares = result.pulls.mean(axis=(0, 1)) / 200
    assert 0.45 < shares[0] < 0.7  # for ever exploring, unlike Thompson Sampling


def test_a_live_agent_logs_its_probabilities():
    agent = posse.Agent(["red", "green"], Bernoulli(), policy=TopTwo(), seed=1)
    for _ in range(30):
        decision = agent.pull()
        agent.update(decision, 1.0 if decision.arm == "red" else 0.0)
    _, probability = agent.choose(["red", "green"])
    assert probability == pytest.approx(0.5, abs=1e-6)
