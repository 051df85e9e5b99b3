"""The sketch of weights, and beliefs made as sure as their evidence allows."""

import numpy as np
import pytest

import posse
from posse import beliefs, families, networks
from posse import effective_samples as calibration
from posse.effective_samples import CAUTION, SIGNS, calibrate, effective_pulls


class TestEffectivePulls:
    def test_even_weights_are_worth_their_number_but_for_the_caution(self):
        """Ten pulls of weight 7: (70)^2 / (1.4 * 490)."""
        assert effective_pulls(70.0, 490.0) == pytest.approx(10 / 1.4)

    def test_one_heavy_pull_is_worth_one(self):
        assert effective_pulls(100.0, 100.0**2) == pytest.approx(1 / 1.4)

    def test_never_more_than_the_weight(self):
        assert effective_pulls(0.5, 1e-9) == 0.5

    def test_nothing_is_worth_nothing(self):
        np.testing.assert_array_equal(effective_pulls(np.zeros(2), np.zeros(2)), [0, 0])


def played(n_agents, n_arms, rounds, seed):
    """Weights of every pull (pulls, N, K) followed one by one, beside the sketch itself."""
    rng = np.random.default_rng(seed)
    network = networks.cycle(n_agents)
    sketch = calibration.create_sketch(n_agents, n_arms)
    pulls = np.zeros((0, n_agents, n_arms))
    for _ in range(rounds):
        arms = rng.integers(n_arms, size=n_agents)
        sketch = beliefs.merge(
            calibration.update_sketch(sketch, arms, n_agents, rng), network.weights
        )
        fresh = np.zeros((n_agents, n_agents, n_arms))
        fresh[np.arange(n_agents), np.arange(n_agents), arms] = n_agents
        pulls = beliefs.merge(np.concatenate([pulls, fresh]), network.weights)
    return sketch, pulls


def test_the_sketch_is_the_sum_of_weights_and_its_signs_tell_the_sum_of_squares():
    """Weights followed pull by pull, which takes rounds^2, are what the sketch takes rounds for."""
    estimates = []
    for seed in range(60):
        sketch, pulls = played(6, 2, 12, seed)
        np.testing.assert_allclose(sketch[0], pulls.sum(axis=0), atol=1e-12)
        estimates.append((sketch[1:] ** 2).mean(axis=0) / (pulls**2).sum(axis=0))
    # each has a relative variance of at most 2 / SIGNS; within 4.5 standard errors of 60 of them
    np.testing.assert_allclose(np.mean(estimates, axis=0), 1, atol=4.5 * (2 / SIGNS / 60) ** 0.5)
    assert np.std(estimates) < 1.2 * (2 / SIGNS) ** 0.5


@pytest.mark.parametrize(
    "family",
    [
        families.Bernoulli(2, 3),
        families.Gaussian(2.0, 1.0, 3.0),
        families.Poisson(),
        families.GaussianUnknownVariance(),
    ],
)
def test_the_mean_stays_and_the_pulls_become_fewer(family):
    """As if the same average reward had been seen so many times."""
    rewards = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    statistics = family.statistic(rewards)  # (D, pulls)
    signs = np.concatenate([[[40.0]], np.full((SIGNS, 1), 30.0)])  # sum w 40, sum w^2 900
    weights = np.array([20.0, 15.0, 3.0, 1.0, 1.0])
    belief = family.prior()[:, None] + (statistics * weights).sum(axis=1, keepdims=True)
    pulls = 40**2 / (CAUTION * 900)
    average = (statistics * weights).sum(axis=1, keepdims=True) / 40
    expected = family.prior()[:, None] + pulls * average
    np.testing.assert_allclose(calibrate(family, belief, signs), expected, rtol=1e-12)


def test_an_arm_never_played_keeps_the_prior():
    family = families.Gaussian()
    belief = beliefs.prior(family, 3, 4)
    np.testing.assert_array_equal(
        calibrate(family, belief, calibration.create_sketch(3, 4)), belief
    )


@pytest.mark.parametrize("shape", [(17, 3), (17, 2, 4), (1, 3, 4), (17,)])
def test_a_sketch_of_another_shape_is_refused(shape):
    belief = beliefs.prior(families.Gaussian(), 3, 4)
    with pytest.raises(ValueError, match=r"signs must have the shape \(1 \+ signs, 3, 4\)"):
        posse.calibrate(families.Gaussian(), belief, np.ones(shape))
