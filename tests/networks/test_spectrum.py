"""Spectral gaps: closed forms, Lanczos and inverses, all against a dense eigen-solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from posse import networks
from posse.networks import EXAMPLES, GRAPHS, WEIGHT_RULES, Network, spectrum
from posse.networks.graphs import DIRECTED
from posse.networks.spectrum import LAPLACIANS

SIDES = st.integers(1, 7)


def dense_gap(network: Network) -> float:
    weights = network.expected_weights
    matrix = weights if isinstance(weights, np.ndarray) else weights.toarray()
    if len(matrix) == 1:
        return 1.0
    return float(1 - np.sort(abs(np.linalg.eigvals(matrix)))[-2])


def assert_gaps(network: Network) -> None:
    kinds = [network.weighted(rule) for rule in WEIGHT_RULES]
    kinds += [network.gossip(), network.failing(0.3), network.weighted("metropolis").failing(0.8)]
    for kind in kinds:
        assert kind.spectral_gap == pytest.approx(dense_gap(kind), abs=1e-10)
        assert kind.second_eigenvalue == 1 - kind.spectral_gap


@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in DIRECTED])
def test_gap_of_every_graph_rule_and_dynamics(name: str) -> None:
    assert_gaps(getattr(networks, name)(**EXAMPLES[name]))


@given(SIDES)
def test_closed_forms_of_one_size(n: int) -> None:
    for build in (networks.complete, networks.cycle, networks.path, networks.star):
        assert_gaps(build(n))


@given(SIDES, SIDES)
def test_closed_forms_of_grids(rows: int, columns: int) -> None:
    assert_gaps(networks.grid(rows, columns))
    assert_gaps(networks.torus(rows, columns))


@given(st.integers(3, 15), st.data())
def test_closed_forms_of_rings(n: int, data: st.DataObject) -> None:
    assert_gaps(networks.regular_ring(n, data.draw(st.integers(1, (n - 1) // 2))))


@pytest.mark.parametrize("dimension", range(5))
def test_closed_forms_of_cubes(dimension: int) -> None:
    assert_gaps(networks.hypercube(dimension))


@pytest.mark.parametrize("name", LAPLACIANS)
def test_laplacian_spectra(name: str) -> None:
    network = getattr(networks, name)(**EXAMPLES[name])
    adjacency = np.zeros((network.n_agents, network.n_agents))
    i, j = network.edges.T
    adjacency[i, j] = adjacency[j, i] = 1
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    exact = np.linalg.eigvalsh(laplacian)
    values = LAPLACIANS[name](**EXAMPLES[name])
    assert values[0] == 0
    for one, others in ((values, exact), (exact, values)):  # the same sets
        assert max(min(abs(v - others)) for v in one) < 1e-10


def test_known_gaps() -> None:
    assert networks.complete(64).spectral_gap == pytest.approx(1, abs=1e-14)
    assert networks.grid(8, 8).spectral_gap == pytest.approx(0.030, abs=5e-4)
    assert networks.cycle(100).spectral_gap == pytest.approx(
        (2 - 2 * np.cos(2 * np.pi / 100)) / 3, rel=1e-12
    )
    ring = 1 - (1 + 2 * sum(np.cos(2 * np.pi * s / 64) for s in (1, 2, 3))) / 7
    assert networks.regular_ring(64, 3).spectral_gap == pytest.approx(ring, rel=1e-12)
    assert networks.complete(64).gossip().spectral_gap == pytest.approx(1 / 63, rel=1e-12)
    assert networks.complete(64).failing(0.9).spectral_gap == pytest.approx(0.1, rel=1e-12)
    assert networks.cycle(1).second_eigenvalue == 0.0
    assert networks.cycle(1).gossip().second_eigenvalue == 0.0


def test_a_tiny_gap_keeps_its_digits() -> None:
    exact = 4 / 3 * (np.pi / 1e6) ** 2  # up to a relative error of order 1e-11
    assert networks.cycle(10**6).spectral_gap == pytest.approx(exact, rel=1e-9)


# Large matrices take other ways: the same matrices at small sizes go through them all
@pytest.mark.parametrize("rule", ["max-degree", "metropolis", "lazy"])
@pytest.mark.parametrize(
    "network",
    [
        networks.erdos_renyi(150, 0.06, seed=4),
        networks.barabasi_albert(120, 2, seed=4),
        networks.watts_strogatz(100, 4, 0.2, seed=4),
        networks.grid(9, 12),
        networks.path(70),
        networks.complete(60),
    ],
    ids=str,
)
def test_iterative_ways_agree_with_the_dense_one(network: Network, rule: str) -> None:
    network = network.weighted(rule)
    weights = sp.csr_array(network.weights)
    exact = dense_gap(network)
    assert spectrum.large_gap(weights) == pytest.approx(exact, abs=1e-10)
    assert spectrum.inverse_gap(weights) == pytest.approx(exact, abs=1e-10)
    assert spectrum.arnoldi_gap(weights, stochastic=True) == pytest.approx(exact, abs=1e-10)
    assert spectrum.arnoldi_gap(weights, stochastic=False) == pytest.approx(exact, abs=1e-10)


def test_negative_eigenvalues_count() -> None:
    # Even cycle with little weight on oneself: the eigenvalue nearest to -1 is the second
    n, own = 40, 0.001
    ring = np.roll(np.eye(n), 1, axis=1)
    matrix = own * np.eye(n) + (1 - own) / 2 * (ring + ring.T)
    network = networks.from_matrix(matrix)
    exact = 2 * own
    assert network.spectral_gap == pytest.approx(exact, abs=1e-12)
    weights = sp.csr_array(matrix)
    assert spectrum.large_gap(weights) == pytest.approx(exact, abs=1e-10)
    assert spectrum.inverse_gap(weights) == pytest.approx(exact, abs=1e-10)


def test_asymmetric_matrices() -> None:
    n = 30
    turn = 0.3 * np.eye(n) + 0.7 * np.roll(np.eye(n), 1, axis=1)
    network = networks.from_matrix(turn)
    exact = abs(0.3 + 0.7 * np.exp(2j * np.pi / n))
    assert network.second_eigenvalue == pytest.approx(exact, abs=1e-12)
    assert spectrum.arnoldi_gap(sp.csr_array(turn), True) == pytest.approx(1 - exact, abs=1e-10)
    with pytest.raises(ValueError, match="must be symmetric and doubly stochastic"):
        network.failing(0.2)


class TestLarge:
    """More agents than a dense eigen-solver is meant for."""

    def test_a_thin_graph_against_its_closed_form(self) -> None:
        path = networks.path(5000)
        assert networks.from_edges(path.edges).spectral_gap == pytest.approx(
            path.spectral_gap, rel=1e-6
        )

    def test_a_fat_graph_against_its_closed_form(self) -> None:
        cube = networks.hypercube(11)
        assert networks.from_edges(cube.edges).spectral_gap == pytest.approx(
            cube.spectral_gap, rel=1e-9
        )

    def test_gossip_and_failure_go_the_same_way(self) -> None:
        torus = networks.torus(40, 30)
        copy = networks.from_edges(torus.edges)
        for one, other in (
            (torus.gossip(), copy.gossip()),
            (torus.failing(0.5), copy.failing(0.5)),
        ):
            assert other.spectral_gap == pytest.approx(one.spectral_gap, rel=1e-9)

    def test_an_asymmetric_matrix(self) -> None:
        n, steps = 1200, (0, 1, 34, 400)
        agents = np.arange(n)
        ends = np.concatenate([agents for _ in steps]), np.concatenate([agents + s for s in steps])
        matrix = sp.coo_array((np.full(4 * n, 1 / 4), (ends[0], ends[1] % n)), shape=(n, n))
        turns = np.exp(2j * np.pi * agents[1:] / n)
        exact = abs(sum(turns**s for s in steps) / 4).max()
        assert networks.from_matrix(matrix).second_eigenvalue == pytest.approx(exact, abs=1e-10)

    def test_no_convergence_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import scipy.sparse.linalg as linalg

        def give_up(*args: Any, **kwargs: Any) -> None:
            raise linalg.ArpackNoConvergence("no", np.empty(0), np.empty(0))

        monkeypatch.setattr(linalg, "eigs", give_up)
        monkeypatch.setattr(linalg, "eigsh", give_up)
        for stochastic in (True, False):
            with pytest.raises(RuntimeError, match="1001-agent matrix did not converge"):
                spectrum.compute_matrix_gap(networks.cycle(1001).weights, stochastic)
