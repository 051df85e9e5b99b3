"""Weights: laws for every graph and rule, known matrices, and custom ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from posse import networks
from posse.networks import EXAMPLES, GRAPHS, WEIGHT_RULES, Network
from posse.networks.graphs import DIRECTED
from posse.networks.weights import is_dense

UNDIRECTED = [name for name in GRAPHS if name not in DIRECTED]


def example(name: str) -> Network:
    network: Network = getattr(networks, name)(**EXAMPLES[name])
    return network


def dense(weights: Any) -> np.ndarray:
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


def adjacency(network: Network) -> np.ndarray:
    matrix = np.zeros((network.n_agents, network.n_agents))
    i, j = network.edges.T
    matrix[i, j] = matrix[j, i] = 1
    return matrix


def assert_doubly_stochastic(matrix: np.ndarray) -> None:
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", WEIGHT_RULES)
@pytest.mark.parametrize("name", UNDIRECTED)
def test_weights_are_symmetric_doubly_stochastic_and_on_the_links(name: str, rule: str) -> None:
    network = example(name).weighted(rule)
    weights = dense(network.weights)
    assert_doubly_stochastic(weights)
    np.testing.assert_array_equal(weights, weights.T)
    off = weights - np.diag(np.diag(weights))
    np.testing.assert_array_equal(off > 0, adjacency(network) > 0)


@pytest.mark.parametrize("name", UNDIRECTED)
def test_rules_against_their_formulas(name: str) -> None:
    network = example(name)
    links = adjacency(network)
    degrees = links.sum(axis=1)
    identity = np.eye(network.n_agents)
    max_degree = identity - (np.diag(degrees) - links) / (degrees.max() + 1)
    metropolis = links / (1 + np.maximum.outer(degrees, degrees))
    metropolis += np.diag(1 - metropolis.sum(axis=1))
    expected = {
        "max-degree": max_degree,
        "metropolis": metropolis,
        "lazy": (identity + max_degree) / 2,
    }
    for rule, matrix in expected.items():
        np.testing.assert_allclose(dense(network.weighted(rule).weights), matrix, atol=1e-15)


def test_known_matrices() -> None:
    thirds = dense(networks.cycle(50).weights)
    assert set(np.round(thirds[thirds > 0] * 3, 12)) == {1.0}
    grid = dense(networks.grid(8, 8).weights)
    own = np.diag(grid).reshape(8, 8)
    np.testing.assert_allclose(own[1:-1, 1:-1], 1 / 5)
    np.testing.assert_allclose(own[0, 1:-1], 2 / 5)
    np.testing.assert_allclose(own[::7, ::7], 3 / 5)
    np.testing.assert_allclose(grid[(grid > 0) & ~np.eye(64, dtype=bool)], 1 / 5)
    np.testing.assert_allclose(networks.complete(17).weights, 1 / 17, rtol=1e-14)
    np.testing.assert_allclose(networks.cycle(2).weights, 1 / 2)


def test_small_or_dense_is_an_array_and_the_rest_is_sparse() -> None:
    for network in (networks.cycle(10), networks.complete(60)):
        assert isinstance(network.weights, np.ndarray)
        assert not network.weights.flags.writeable
    large = networks.cycle(200)
    for weights in (large.weights, large.expected_weights, large.gossip().expected_weights):
        assert sp.issparse(weights)
        assert weights.format == "csr"
        assert not weights.data.flags.writeable
    assert is_dense(36, 3 * 36) is False
    assert is_dense(29, 3 * 29) is True


@given(st.integers(2, 9), st.integers(0, 2**32 - 1), st.booleans())
def test_mixtures_of_permutations_are_accepted(n: int, seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    # A doubly stochastic matrix is a mixture of permutations; the rotation makes it connected
    shares = rng.dirichlet(np.ones(4))
    orders = [np.roll(np.arange(n), 1), *(rng.permutation(n) for _ in range(3))]
    matrix = sum(share * np.eye(n)[order] for share, order in zip(shares, orders, strict=True))
    network = networks.from_matrix(sp.coo_array(matrix) if sparse else matrix)
    np.testing.assert_array_equal(dense(network.weights), matrix)
    assert network == networks.from_matrix(np.asarray(matrix))
    linked = (matrix + matrix.T > 0) & ~np.eye(n, dtype=bool)
    np.testing.assert_array_equal(adjacency(network) > 0, linked)


def test_sparse_and_dense_input_make_the_same_network() -> None:
    weights = networks.cycle(100).weighted("metropolis").weights
    kinds = (weights, sp.csc_matrix(weights), weights.toarray(), weights.toarray().tolist())
    made = [networks.from_matrix(kind) for kind in kinds]
    assert len(set(made)) == 1
    np.testing.assert_array_equal(made[0].weights.toarray(), weights.toarray())
    np.testing.assert_array_equal(made[0].edges, networks.cycle(100).edges)


def test_a_custom_matrix_is_copied_and_read_only() -> None:
    matrix = np.full((3, 3), 1 / 3)
    network = networks.from_matrix(matrix)
    matrix[0] = 7
    np.testing.assert_array_equal(network.weights, np.full((3, 3), 1 / 3))
    with pytest.raises(ValueError, match="read-only"):
        network.weights[0, 0] = 1.0


GOOD = np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])


def changed(entry: tuple[int, int], value: float) -> np.ndarray:
    matrix = GOOD.copy()
    matrix[entry] = value
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)) / 3, r"matrix must be square, .*got shape \(2, 3\)"),
        (np.ones(4) / 4, r"matrix must be square, .*got shape \(4,\)"),
        (np.ones((0, 0)), r"matrix must be square, .*got shape \(0, 0\)"),
        ([[1.0], [0.0, 1.0]], "matrix must be an array of numbers"),
        ([["a"]], "matrix must be an array of numbers"),
        (changed((1, 2), np.nan), "matrix must be finite, got nan at row 1, column 2"),
        (changed((1, 2), -0.25), "matrix must be non-negative, got -0.25 at row 1, column 2"),
        (changed((1, 2), 0.26), r"stochastic to 1e-09, but row 1 sums to 1.01, off by 0.01"),
        (changed((1, 2), 0.26), r"from_matrix\(W, check=False\) admits any non-negative W"),
        (changed((1, 2), 0.25 + 1e-8), "but row 1 sums to 1.00000001, off by 1e-08"),
        ([[0.5, 0.5], [0.3, 0.7]], r"but column [01] sums to (0.8|1.2), off by -?0.2"),
        (np.eye(3), "matrix must be connected, but it has 3 components"),
        (np.eye(3), r"from_matrix\(W, check=False\) admits any non-negative W"),
        (sp.eye_array(200), "matrix must be connected, but it has 200 components"),
    ],
)
def test_bad_matrices_are_refused(matrix: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        networks.from_matrix(matrix)
    with pytest.raises(ValueError, match=message):
        networks.path(3).weighted(matrix)


def test_a_sum_within_the_tolerance_is_accepted() -> None:
    assert networks.from_matrix(changed((1, 2), 0.25 + 5e-10)).n_agents == 3


def test_unchecked_matrices_come_with_a_warning() -> None:
    halves = np.array([[0.5, 0.25, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    with pytest.warns(UserWarning, match="not checked to be doubly stochastic"):
        network = networks.from_matrix(halves, check=False)
    np.testing.assert_array_equal(network.weights, halves)
    assert network.edges.tolist() == [[0, 1]]
    assert not network.is_stochastic
    assert network.second_eigenvalue == pytest.approx(abs(0.5 - np.sqrt(0.125)), abs=1e-12)
    with pytest.raises(ValueError, match="must be symmetric and doubly stochastic"):
        network.failing(0.1)
    with pytest.raises(ValueError, match="non-negative"):
        networks.from_matrix(-halves, check=False)


def test_large_unchecked_sparse_matrix_keeps_its_size() -> None:
    matrix = sp.coo_array(([0.5, 0.5], ([0, 1], [1, 0])), shape=(50, 50))
    with pytest.warns(UserWarning, match="not checked"):
        network = networks.from_matrix(matrix, check=False)
    assert network.n_agents == 50
    np.testing.assert_array_equal(dense(network.weights), matrix.toarray())


def test_weighted_by_a_matrix_on_the_links() -> None:
    network = networks.path(3).weighted(GOOD)
    np.testing.assert_array_equal(network.weights, GOOD)
    assert network.graph == "path"
    np.testing.assert_allclose(network.link_weights, [0.5, 0.25])
    # Links of the graph may go unused
    assert networks.complete(3).weighted(GOOD).edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    with pytest.raises(ValueError, match="zero where path has no link, but agents 0 and 2 are not"):
        networks.path(3).weighted(np.full((3, 3), 1 / 3))
    with pytest.raises(
        ValueError, match=r"matrix must be of shape \(4, 4\) for path, got \(3, 3\)"
    ):
        networks.path(4).weighted(GOOD)


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights 'metropolys' .*did you mean 'metropolis'"):
        networks.cycle(4).weighted("metropolys")
