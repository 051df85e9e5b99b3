"""Mixing time and consensus deviation against powers of the weights."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from posse import theory
from tests.theory.material import (
    max_degree,
    random_doubly_stochastic,
    second_eigenvalue,
    second_singular_value,
    seeds,
    unhurried,
)


@unhurried
@given(st.integers(2, 10_000), st.floats(0.001, 0.99), st.floats(1e-6, 0.9))
def test_mixing_time_is_the_smallest(n_agents: int, second: float, accuracy: float) -> None:
    def bound(rounds: int) -> float:
        return math.sqrt(n_agents) / 2 * second**rounds

    rounds = theory.mixing_time(n_agents, second, accuracy)
    assert isinstance(rounds, int)
    assert bound(rounds) <= accuracy * (1 + 1e-9)
    assert rounds == 0 or bound(rounds - 1) > accuracy * (1 - 1e-9)


@pytest.mark.parametrize("accuracy", [0.3, 0.01, 1e-6])
def test_mixing_time_bounds_the_total_variation_distance(
    weights: np.ndarray, accuracy: float
) -> None:
    n_agents = len(weights)
    rounds = theory.mixing_time(n_agents, second_eigenvalue(weights), accuracy)
    power = np.linalg.matrix_power(weights, rounds)
    distances = np.abs(power - 1 / n_agents).sum(axis=1) / 2
    assert distances.max() <= accuracy * (1 + 1e-9)


def test_mixing_time_at_the_edges() -> None:
    assert theory.mixing_time(10, 0.0) == 1
    assert theory.mixing_time(10, 1.0) == math.inf
    assert theory.mixing_time(1, 0.0) == 0
    assert theory.mixing_time(1, 1.0) == 0
    assert theory.mixing_time(2, 0.5, accuracy=0.9) == 0
    assert theory.mixing_time(4, 0.1, accuracy=0.001) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5), "n_agents must be a whole number at least 1"),
        ((3, -0.1), "second_eigenvalue must be a finite number at least 0 and at most 1"),
        ((3, 1.1), "second_eigenvalue must be a finite number at least 0 and at most 1"),
        ((3, 0.5, 0), "accuracy must be a finite number above 0 and below 1"),
        ((3, 0.5, 1), "accuracy must be a finite number above 0 and below 1"),
    ],
)
def test_mixing_time_refuses(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.mixing_time(*arguments)


def deviation_by_hand(weights: np.ndarray, rounds: int) -> float:
    """Fact `W_sum_conv`, left-hand side, index by index."""
    n_agents = len(weights)
    powers = [np.linalg.matrix_power(weights, rounds - tau) for tau in range(1, rounds + 1)]
    return max(
        sum(abs(power[i, j] - 1 / n_agents) for power in powers for j in range(n_agents))
        for i in range(n_agents)
    )


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_consensus_deviation_is_the_sum(weights: np.ndarray, rounds: int) -> None:
    deviation = theory.consensus_deviation(weights, rounds)
    assert deviation.largest == pytest.approx(deviation_by_hand(weights, rounds))


@pytest.mark.parametrize("rounds", [1, 10, 500])
def test_fact_w_sum_conv_holds(weights: np.ndarray, rounds: int) -> None:
    largest, bound = theory.consensus_deviation(weights, rounds)
    gap = 1 - second_eigenvalue(weights)
    assert bound == pytest.approx(4 * math.log(len(weights)) / gap)
    assert largest <= bound


@unhurried
@given(st.integers(2, 8), seeds)
def test_fact_w_sum_conv_holds_for_weights_that_are_not_symmetric(n: int, seed: int) -> None:
    weights = random_doubly_stochastic(n, np.random.default_rng(seed))
    largest, bound = theory.consensus_deviation(weights, 60)
    assert largest == pytest.approx(deviation_by_hand(weights, 60))
    assert bound == pytest.approx(4 * math.log(n) / (1 - second_singular_value(weights)), rel=1e-6)
    assert largest <= bound


def test_consensus_deviation_by_hand() -> None:
    # two agents: W^s - 1/2 has rows +-second^s/2, so the sum is geometric
    lazy = np.array([[0.9, 0.1], [0.1, 0.9]])
    assert theory.consensus_deviation(lazy, 20).largest == pytest.approx((1 - 0.8**20) / 0.2)
    # complete graph: only the round itself (W^0) deviates
    assert theory.consensus_deviation(np.full((5, 5), 0.2), 20).largest == pytest.approx(1.6)
    assert theory.consensus_deviation([[1.0]], 20) == (0, 0)
    # two islands never agree
    islands = np.kron(np.eye(2), np.full((3, 3), 1 / 3))
    assert theory.consensus_deviation(islands, 20).bound == math.inf


def test_consensus_deviation_takes_sparse_weights() -> None:
    dense = max_degree(nx.cycle_graph(6))
    assert theory.consensus_deviation(sparse.csr_array(dense), 9) == theory.consensus_deviation(
        dense, 9
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights must be a square matrix, got shape"),
        ([[0.5, 0.5]], "weights must be a square matrix, got shape"),
        ([[0.5, 0.5], [0.4, 0.6]], "weights must be doubly stochastic, got row and column sums"),
        ([[1.5, -0.5], [-0.5, 1.5]], "weights must be finite numbers at least 0, got"),
    ],
)
def test_bad_weights_are_refused(weights: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.consensus_deviation(weights, 3)
    with pytest.raises(ValueError, match=message):
        theory.posterior_closed_form([[0, 0]], [[1, 1]], weights, 2, 2)


def test_consensus_deviation_refuses_no_rounds() -> None:
    with pytest.raises(ValueError, match="rounds must be a whole number at least 1, got 0"):
        theory.consensus_deviation(np.eye(2), 0)
