"""The constant of Lai and Robbins and Theorem 1: by hand, at the edges, and what they refuse."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse import theory
from tests.theory.material import probabilities, unhurried

# Lai-Robbins ---------------------------------------------------------------------------------


@unhurried
@given(st.lists(probabilities, min_size=1, max_size=6), st.integers(1, 50))
def test_lai_robbins_is_the_sum_over_worse_arms(means: list[float], n_agents: int) -> None:
    best = max(means)
    expected = sum(
        (best - mean) / (n_agents * float(theory.kl_bernoulli(mean, best)))
        for mean in means
        if mean < best
    )
    assert theory.lai_robbins_constant(means, n_agents) == pytest.approx(expected)


def test_lai_robbins_by_hand() -> None:
    # the paper's 17 Bernoulli arms: d(0.1, 0.5) = 0.368064...
    means = [0.5] + [0.1] * 16
    assert theory.lai_robbins_constant(means, 1) == pytest.approx(16 * 0.4 / 0.3680642071684971)
    assert theory.lai_robbins_constant(means, 64) == pytest.approx(0.27169, abs=1e-5)
    # Gaussian arms: gap / (gap^2 / 2) = 2 / gap
    assert theory.lai_robbins_constant(means, 2, theory.kl_gaussian) == pytest.approx(16 * 5 / 2)


def test_lai_robbins_at_the_edges() -> None:
    assert theory.lai_robbins_constant([0.4], 3) == 0
    assert theory.lai_robbins_constant([0.4, 0.4], 3) == 0
    assert theory.lai_robbins_constant([0.4, 0.4, 0.1], 3) == theory.lai_robbins_constant(
        [0.1, 0.4], 3
    )
    # a best arm that never fails is told apart by one failure: no logarithmic regret
    assert theory.lai_robbins_constant([1.0, 0.4], 3) == 0


@pytest.mark.parametrize(
    ("means", "n_agents", "message"),
    [
        ([], 2, "means must be a list of at least one number"),
        ([[0.1, 0.2]], 2, "means must be a list of at least one number"),
        (["a", "b"], 2, "means must be numbers"),
        ([0.1, math.nan], 2, "means must be finite numbers, got"),
        ([0.1, 1.2], 2, "q must be finite numbers at least 0 and at most 1, got"),
        ([0.1, 0.2], 0, "n_agents must be a whole number at least 1, got 0"),
        ([0.1, 0.2], 2.5, "n_agents must be a whole number at least 1, got 2.5"),
    ],
)
def test_lai_robbins_refuses(means: list[float], n_agents: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.lai_robbins_constant(means, n_agents)


# Theorem 1 -----------------------------------------------------------------------------------


def test_theorem_1_by_hand() -> None:
    bound = theory.theorem_1([0.1, 0.5, 0.3], 4, spectral_gap=0.5, horizon=100, epsilon=0.5)
    to_first = 0.1 * math.log(0.2) + 0.9 * math.log(1.8)
    to_third = 0.3 * math.log(0.6) + 0.7 * math.log(1.4)
    leading = 2.25 * math.log(400) / 4 * (0.4 / to_first + 0.2 / to_third)
    network = 3 * 17 * math.log(4) / 0.5 * 0.6
    assert bound.leading == pytest.approx(leading)
    assert bound.network == pytest.approx(network)
    assert bound.explicit == pytest.approx(leading + network)
    assert bound.n_tilde == pytest.approx(4 * math.log(4) / 0.5)
    assert 10**bound.log10_omitted == pytest.approx(0.5**-bound.n_tilde)
    assert bound.epsilon == 0.5


def test_theorem_1_says_it_is_no_finite_time_bound() -> None:
    bound = theory.theorem_1([0.5, 0.1], 64, spectral_gap=0.02, horizon=800, epsilon=0.5)
    assert bound.log10_omitted > 4000
    assert bound.omitted == "O(1/epsilon^N-tilde), constant not given"
    assert bound.omitted in repr(bound)
    assert bound.omitted in bound.describe()
    assert "not a finite-time bound" in bound.describe()
    assert "NOT a finite-time bound" in (theory.Theorem1.__doc__ or "")
    assert "NOT a finite-time bound" in (theory.theorem_1.__doc__ or "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.leading = 0.0  # type: ignore[misc]


def test_theorem_1_of_one_agent_has_no_network_term() -> None:
    bound = theory.theorem_1([0.5, 0.1], 1, spectral_gap=1, horizon=100, epsilon=0.5)
    assert (bound.network, bound.n_tilde, bound.log10_omitted) == (0, 0, 0)
    assert bound.explicit == bound.leading > 0


@unhurried
@given(st.floats(0.01, 0.9), st.floats(1.01, 1.1), st.integers(2, 50))
def test_theorem_1_trades_its_terms_through_epsilon(
    epsilon: float, factor: float, n_agents: int
) -> None:
    small, large = (
        theory.theorem_1([0.5, 0.1], n_agents, 0.3, 1000, value)
        for value in (epsilon, epsilon * factor)
    )
    assert small.leading < large.leading
    assert small.network > large.network
    assert small.log10_omitted > large.log10_omitted


def test_theorem_1_grows_at_the_rate_of_lai_robbins() -> None:
    # remark Optimality: the slope in log T, as epsilon goes to 0
    means, epsilon = [0.5, 0.1, 0.45], 1e-6
    early, late = (theory.theorem_1(means, 9, 0.2, 10**power, epsilon) for power in (6, 9))
    slope = (late.explicit - early.explicit) / math.log(1000)
    assert slope == pytest.approx(theory.lai_robbins_constant(means, 9), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"means": [0.5, 1.5]}, "means must be finite numbers at least 0 and at most 1, got"),
        ({"n_agents": 0}, "n_agents must be a whole number at least 1, got 0"),
        ({"spectral_gap": 0.0}, "spectral_gap must be a finite number above 0 and at most 1"),
        ({"spectral_gap": 1.1}, "spectral_gap must be a finite number above 0 and at most 1"),
        ({"horizon": 0}, "horizon must be a whole number at least 1, got 0"),
        ({"epsilon": 0}, "epsilon must be a finite number above 0, got 0"),
    ],
)
def test_theorem_1_refuses(change: dict[str, object], message: str) -> None:
    good = {"means": [0.5, 0.1], "n_agents": 4, "spectral_gap": 0.5, "horizon": 9, "epsilon": 0.5}
    with pytest.raises(ValueError, match=message):
        theory.theorem_1(**(good | change))
