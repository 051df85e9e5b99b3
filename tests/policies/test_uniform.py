"""Uniform: an even split whatever was learnt, in both engines and with live agents' shares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import posse
from posse.policies import choose


def test_a_certain_best_arm_changes_nothing(family):
    means = np.array([0.3, 0.5, 0.9])
    rewards = family.draw_rewards(np.broadcast_to(means, (4000, 3)), np.random.default_rng(7))
    belief = family.prior()[:, None] + 10 * family.statistic(rewards).sum(axis=1)
    agents = np.broadcast_to(belief[:, None], (len(belief), 2000, 3))
    arms = choose(posse.Uniform(), agents, family, 50, 100, np.random.default_rng(17))
    assert stats.chisquare(np.bincount(arms, minlength=3)).pvalue > 1e-6
    np.testing.assert_array_equal(
        posse.Uniform().probabilities(belief, family, 50, None), np.full(3, 1 / 3)
    )


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_regret_is_the_mean_gap_of_every_round(engine):
    """Exactly in expectation; 20,000 choices, an error rate of 1e-6."""
    result = posse.simulate(
        posse.Bandit.bernoulli([0.9, 0.5, 0.1]),
        posse.networks.cycle(10),
        posse.Isolated(posse.Uniform()),
        horizon=100,
        runs=20,
        seed=3,
        engine=engine,
    )
    regret = result.regret[:, -1]
    error = np.sqrt(np.var([0.0, 0.4, 0.8]) * 100 / 10 / 20)
    assert abs(regret.mean() - 40.0) < 4.9 * error
    counts = result.pulls.sum(axis=0).reshape(-1, 3).sum(axis=0)
    assert stats.chisquare(counts).pvalue > 1e-6
