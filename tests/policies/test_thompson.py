"""Thompson Sampling plays each arm with its posterior probability of being the best (Alg. 2)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from posse.families import Bernoulli, Gaussian
from posse.policies import ThompsonSampling, choose


def frequencies(family, belief, seed):
    """How often each arm of one belief (D, K) is played by many agents."""
    n_agents = min(100_000, 2_000_000 // len(belief))
    many = np.broadcast_to(belief[:, None, :], (len(belief), n_agents, belief.shape[-1]))
    arms = choose(ThompsonSampling(), many, family, 1, None, np.random.default_rng(seed))
    return np.bincount(arms, minlength=belief.shape[-1])


@pytest.mark.parametrize("pulls", [0, 2, 15])
def test_frequencies_are_the_probabilities_of_being_best(family, learnt, race, pulls):
    """Chi-square against quadrature at an error rate of 1e-6, fixed seeds."""
    belief = learnt(family, np.random.default_rng(pulls), (4,), pulls=pulls)
    best, _ = race(family, belief)
    assert best.sum() == pytest.approx(1.0, abs=1e-6)
    counts = frequencies(family, belief, seed=1)
    expected = counts.sum() * best / best.sum()
    likely = expected > 5  # the chi-square law needs a few in every class
    assert (counts[~likely] < 30).all()
    excess = (counts - expected)[likely]
    statistic = (excess**2 / expected[likely]).sum()
    assert stats.chi2.sf(statistic, likely.sum() - 1) > 1e-6


def test_two_gaussian_arms_in_closed_form():
    means, sds = np.array([0.3, 0.0]), np.array([0.5, 1.2])
    counts = frequencies(Gaussian(), np.array([means / sds**2, 1 / sds**2]), seed=2)
    chance = ndtr(0.3 / np.hypot(*sds))
    assert stats.binomtest(int(counts[0]), int(counts.sum()), chance).pvalue > 1e-6


def test_two_beta_arms_in_closed_form():
    # P(Beta(2, 1) > Beta(1, 1)) = E[Beta(2, 1)] = 2/3
    counts = frequencies(Bernoulli(), np.array([[2.0, 1.0], [1.0, 1.0]]), seed=3)
    assert stats.binomtest(int(counts[0]), int(counts.sum()), 2 / 3).pvalue > 1e-6
