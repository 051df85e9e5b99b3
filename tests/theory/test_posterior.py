"""The Beta posterior in closed form and its bounds, against Algorithm 2 run agent by agent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse import theory
from tests.theory.material import (
    random_doubly_stochastic,
    second_eigenvalue,
    seeds,
    thompson_run,
    unhurried,
)


@unhurried
@given(st.integers(1, 7), st.integers(0, 25), st.floats(0.3, 12), seeds)
def test_closed_form_equals_update_then_merge(
    n_agents: int, rounds: int, learning_rate: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    weights = random_doubly_stochastic(n_agents, generator)
    arms, rewards, beliefs = thompson_run(
        weights, [0.5, 0.2, 0.4], rounds, learning_rate, generator
    )
    alpha, beta = theory.posterior_closed_form(arms, rewards, weights, learning_rate, n_arms=3)
    np.testing.assert_allclose(alpha, beliefs[-1][0], rtol=1e-11)
    np.testing.assert_allclose(beta, beliefs[-1][1], rtol=1e-11)


def test_closed_form_by_hand() -> None:
    # one round: an observation reaches an agent with weight W_ij, its own with W_ii
    weights = np.array([[0.75, 0.25], [0.25, 0.75]])
    alpha, beta = theory.posterior_closed_form([[0, 1]], [[1, 0.5]], weights, 2.0, n_arms=2)
    np.testing.assert_allclose(alpha, [[1 + 2 * 0.75, 1 + 0.25], [1 + 2 * 0.25, 1 + 0.75]])
    np.testing.assert_allclose(beta, [[1, 1 + 0.25], [1, 1 + 0.75]])


def test_closed_form_before_any_round_is_the_prior() -> None:
    nothing = np.empty((0, 3))
    alpha, beta = theory.posterior_closed_form(nothing, nothing, np.full((3, 3), 1 / 3), 3, 4)
    assert alpha.shape == beta.shape == (3, 4)
    assert np.all(alpha == 1)
    assert np.all(beta == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": [[0, 2]]}, "arms must be whole numbers from 0 to 1, got"),
        ({"arms": [[0, -1]]}, "arms must be whole numbers from 0 to 1, got"),
        ({"arms": [[0, 0.5]]}, "arms must be whole numbers from 0 to 1, got"),
        ({"arms": [0, 1]}, r"arms and rewards must both have shape \(rounds, 2\), got"),
        ({"arms": [[0, 1, 1]]}, r"arms and rewards must both have shape \(rounds, 2\), got"),
        ({"rewards": [[1, 0], [0, 0]]}, r"arms and rewards must both have shape \(rounds, 2\)"),
        ({"rewards": [[1, 2]]}, "rewards must be finite numbers at least 0 and at most 1, got"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0, got 0"),
        ({"n_arms": 0}, "n_arms must be a whole number at least 1, got 0"),
    ],
)
def test_closed_form_refuses(change: dict[str, object], message: str) -> None:
    good = {
        "arms": [[0, 1]],
        "rewards": [[1, 0]],
        "weights": np.full((2, 2), 0.5),
        "learning_rate": 2,
        "n_arms": 2,
    }
    with pytest.raises(ValueError, match=message):
        theory.posterior_closed_form(**(good | change))


@pytest.mark.parametrize("learning_rate", [None, 1.0])
def test_alpha_beta_bounds_hold_on_runs(weights: np.ndarray, learning_rate: float | None) -> None:
    n_agents, means = len(weights), [0.5, 0.1, 0.3]
    rate = n_agents if learning_rate is None else learning_rate
    arms, rewards, beliefs = thompson_run(weights, means, 60, rate, np.random.default_rng(5))
    for time in (0, 1, 10, 60):
        played = arms[:time, :, None] == np.arange(3)
        pulls = played.sum(axis=(0, 1))
        successes = (played * rewards[:time, :, None]).sum(axis=(0, 1))
        bounds = theory.alpha_beta_bounds(
            successes, pulls, n_agents, 1 - second_eigenvalue(weights), learning_rate
        )
        alpha, beta = beliefs[time]
        rounding = 1e-9
        assert np.all(bounds.alpha_low - rounding <= alpha)
        assert np.all(alpha <= bounds.alpha_high + rounding)
        assert np.all(bounds.beta_low - rounding <= beta)
        assert np.all(beta <= bounds.beta_high + rounding)


def test_alpha_beta_bounds_by_hand() -> None:
    slack = 4 * math.log(4) / 0.5
    bounds = theory.alpha_beta_bounds([10, 0], [30, 5], 4, 0.5, learning_rate=2)
    np.testing.assert_allclose(bounds.alpha_low, [5 + 1 - 2 * slack, 1 - 2 * slack])
    np.testing.assert_allclose(bounds.alpha_high, [5 + 1 + 2 * slack, 1 + 2 * slack])
    np.testing.assert_allclose(bounds.beta_low, [10 + 1 - 2 * slack, 2.5 + 1 - 2 * slack])
    np.testing.assert_allclose(bounds.beta_high, [10 + 1 + 2 * slack, 2.5 + 1 + 2 * slack])
    # learning rate N: the pooled posterior of a central agent, plus or minus 4 N log N / gap
    pooled = theory.alpha_beta_bounds(10, 30, 4, 0.5)
    assert (pooled.alpha_low + pooled.alpha_high) / 2 == pytest.approx(11)
    assert (pooled.beta_low + pooled.beta_high) / 2 == pytest.approx(21)
    assert (pooled.alpha_high - pooled.alpha_low) / 2 == pytest.approx(4 * slack)


def test_alpha_beta_bounds_of_one_agent_are_exact() -> None:
    assert theory.alpha_beta_bounds(3, 10, 1, 1.0) == (4, 4, 8, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"successes": [4]}, "successes must be at most pulls"),
        ({"successes": [-1]}, "successes must be finite numbers at least 0, got"),
        ({"pulls": [-1]}, "pulls must be finite numbers at least 0, got"),
        ({"n_agents": 0}, "n_agents must be a whole number at least 1"),
        ({"spectral_gap": 0}, "spectral_gap must be a finite number above 0 and at most 1"),
        ({"learning_rate": -1}, "learning_rate must be a finite number above 0, got -1"),
    ],
)
def test_alpha_beta_bounds_refuse(change: dict[str, object], message: str) -> None:
    good = {"successes": [1], "pulls": [3], "n_agents": 2, "spectral_gap": 0.5}
    with pytest.raises(ValueError, match=message):
        theory.alpha_beta_bounds(**(good | change))
