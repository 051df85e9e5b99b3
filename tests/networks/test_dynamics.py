"""Dynamics: what every W(t) must be, on average and one by one, and operators against matmul."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from posse import beliefs, networks
from posse.networks import DYNAMICS, EXAMPLES, GRAPHS, WEIGHT_RULES, Network
from posse.networks.gossip import Gossip
from posse.networks.graphs import DIRECTED
from posse.networks.link_failure import LinkFailure
from posse.networks.operators import (
    GossipPairs,
    SparseRuns,
    SparseWeights,
    UniformWeights,
    as_operator,
)
from posse.networks.static import Static
from posse.randomness import Streams

UNDIRECTED = [name for name in GRAPHS if name not in DIRECTED]
KINDS = [Static(), Gossip(), LinkFailure(0.3), LinkFailure(0.6, normalise="realised")]


def every_network() -> list[Network]:
    """Each graph, rule and kind of dynamics that go together, and some large enough for CSR."""
    bases = [getattr(networks, name)(**EXAMPLES[name]) for name in UNDIRECTED]
    bases += [networks.cycle(1), networks.cycle(2), networks.cycle(50), networks.grid(7, 8)]
    made = []
    for base, rule, dynamics in itertools.product(bases, WEIGHT_RULES, KINDS):
        static_rule = base.weighted(rule)
        try:
            made.append(Network(base.graph, base.arguments, rule, dynamics))
        except ValueError:
            # Only these combinations may be refused
            assert rule != "max-degree"
            assert static_rule.rule == rule
            assert dynamics in (KINDS[1], KINDS[3])
    return made


NETWORKS = every_network()


def streams(runs: Any, seed: int = 1) -> Streams:
    return Streams.for_runs(seed, runs, "network")


def matrices(weights: Any, n_runs: int, n_agents: int) -> np.ndarray:
    """W(t) of each run, (R, N, N), by mixing the identity."""
    eye = np.broadcast_to(np.eye(n_agents), (n_runs, n_agents, n_agents)).copy()
    mixed: np.ndarray = weights @ eye
    return mixed


def adjacency(network: Network) -> np.ndarray:
    matrix = np.zeros((network.n_agents, network.n_agents), dtype=bool)
    i, j = network.edges.T
    matrix[i, j] = matrix[j, i] = True
    return matrix


def dense(weights: Any) -> np.ndarray:
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


def test_every_kind_is_covered() -> None:
    assert {type(kind) for kind in KINDS} == set(DYNAMICS.values())


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_each_sample_is_symmetric_doubly_stochastic_and_on_the_links(network: Network) -> None:
    n, r = network.n_agents, 3
    sample, source = network.sampler(r), streams(range(r))
    allowed = adjacency(network) | np.eye(n, dtype=bool)
    for _ in range(4):
        w = matrices(sample(source), r, n)
        assert (w >= 0).all()
        np.testing.assert_allclose(w.sum(axis=1), 1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(w.sum(axis=2), 1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(w, w.swapaxes(1, 2), rtol=0, atol=1e-15)
        assert not w[:, ~allowed].any()


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_a_run_does_not_depend_on_its_block(network: Network) -> None:
    n = network.n_agents
    block, alone = network.sampler(4), network.sampler(1)
    of_block, of_run = streams([5, 9, 2, 7]), streams([2])
    for _ in range(3):
        together = matrices(block(of_block), 4, n)
        np.testing.assert_array_equal(together[2], matrices(alone(of_run), 1, n)[0])


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_samples_mix_any_leading_axes_like_matmul(network: Network) -> None:
    n, r = network.n_agents, 3
    rng = np.random.default_rng(0)
    weights = network.sampler(r)(streams(range(r)))
    w = matrices(weights, r, n)
    for leading in ((r,), (2, r), (2, 1, r)):
        for n_arms in (1, 5):
            x = rng.normal(size=(*leading, n, n_arms))
            kept = x.copy()
            mixed = weights @ x
            assert mixed.shape == x.shape
            np.testing.assert_allclose(mixed, w @ x, rtol=0, atol=1e-13)
            np.testing.assert_array_equal(x, kept)
            assert not np.shares_memory(mixed, x)


MEANS = [n for n in NETWORKS if n.n_agents > 1 and n.dynamics in (KINDS[1], KINDS[2])]


@pytest.mark.parametrize("network", MEANS, ids=str)
def test_the_mean_of_many_samples_is_the_expected_weights(network: Network) -> None:
    """6 standard errors a link: some 1e-7 each, below 1e-4 over all cases (seeds are fixed)."""
    n, r, rounds = network.n_agents, 50, 100
    sample, source = network.sampler(r), streams(range(r), seed=3)
    mean = sum(matrices(sample(source), r, n).mean(axis=0) for _ in range(rounds)) / rounds
    expected = dense(network.expected_weights)
    i, j = network.edges.T
    # A link weighs either 0 or its full weight; diagonals follow, since rows sum to 1
    full = 0.5 if network.dynamics == Gossip() else network.link_weights
    error = np.sqrt((full - expected[i, j]) * expected[i, j] / (r * rounds))
    assert (abs(mean - expected)[i, j] <= 6 * error).all()
    np.testing.assert_allclose(expected.sum(axis=0), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(expected, expected.T)


@pytest.mark.parametrize("name", UNDIRECTED)
def test_expected_weights_are_the_published_formulas(name: str) -> None:
    network = getattr(networks, name)(**EXAMPLES[name])
    links = adjacency(network).astype(float)
    laplacian = np.diag(links.sum(axis=1)) - links
    identity = np.eye(network.n_agents)
    gossip = identity - laplacian / links.sum()
    failing = identity - (1 - 0.3) * laplacian / (network.max_degree + 1)
    np.testing.assert_allclose(dense(network.gossip().expected_weights), gossip, atol=1e-15)
    np.testing.assert_allclose(dense(network.failing(0.3).expected_weights), failing, atol=1e-15)
    static = dense(network.weighted("metropolis").weights)
    off = 0.3 * (static - np.diag(np.diag(static)))
    np.testing.assert_allclose(
        dense(network.weighted("metropolis").failing(0.7).expected_weights),
        off + np.diag(1 - off.sum(axis=1)),
        atol=1e-15,
    )


@pytest.mark.parametrize("network", [networks.complete(9), networks.cycle(50)], ids=str)
def test_link_failure_against_its_definition(network: Network) -> None:
    n, r, p = network.n_agents, 4, 0.4
    i, j = network.edges.T
    drawn = streams(range(r)).random((r, len(i)))
    for normalise in ("full", "realised"):
        w = matrices(network.failing(p, normalise).sampler(r)(streams(range(r))), r, n)
        for run in range(r):
            links = np.zeros((n, n))
            up = drawn[run] >= p
            links[i[up], j[up]] = links[j[up], i[up]] = 1
            degrees = links.sum(axis=1)
            scale = 1 + (network.max_degree if normalise == "full" else degrees.max())
            expected = np.eye(n) - (np.diag(degrees) - links) / scale
            np.testing.assert_allclose(w[run], expected, rtol=0, atol=1e-15)


def test_gossip_against_its_definition() -> None:
    network = networks.complete(7).gossip()
    drawn = streams(range(5)).random((5, 1))[:, 0]
    w = matrices(network.sampler(5)(streams(range(5))), 5, 7)
    for run, (i, j) in enumerate(network.edges[(drawn * 21).astype(int)]):
        e = np.eye(7)[i] - np.eye(7)[j]
        np.testing.assert_allclose(w[run], np.eye(7) - np.outer(e, e) / 2, atol=1e-15)


def test_no_failures_is_static() -> None:
    for network in (networks.cycle(50), networks.complete(8).weighted("lazy")):
        w = matrices(network.failing(0).sampler(2)(streams(range(2))), 2, network.n_agents)
        np.testing.assert_allclose(w[1], dense(network.weights), rtol=0, atol=1e-15)


def test_a_symmetric_matrix_can_fail() -> None:
    matrix = np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    network = networks.from_matrix(matrix).failing(0.5)
    expected = [[0.75, 0.25, 0.0], [0.25, 0.625, 0.125], [0.0, 0.125, 0.875]]
    np.testing.assert_allclose(network.expected_weights, expected, atol=1e-15)
    seen = {matrices(network.sampler(1)(streams([r])), 1, 3)[0].tobytes() for r in range(50)}
    assert len(seen) == 4  # two links, up or down


def test_the_way_of_mixing_fits_the_network() -> None:
    def weights_of(network: Network) -> Any:
        return network.sampler(3)(streams(range(3)))

    assert isinstance(weights_of(networks.complete(50)), UniformWeights)
    assert isinstance(weights_of(networks.complete(50).weighted("metropolis")), UniformWeights)
    assert isinstance(weights_of(networks.complete(50).weighted("lazy")), np.ndarray)
    assert isinstance(weights_of(networks.cycle(10)), np.ndarray)
    assert isinstance(weights_of(networks.cycle(100)), SparseWeights)
    assert isinstance(weights_of(networks.cycle(100).gossip()), GossipPairs)
    assert isinstance(weights_of(networks.cycle(100).failing(0.1)), SparseRuns)
    assert weights_of(networks.complete(64).failing(0.1)).shape == (3, 64, 64)


@pytest.mark.parametrize("leading", [(), (1,), (2,), (2, 3), (2, 3, 4)])
def test_as_operator_takes_arrays_sparse_matrices_and_operators(leading: tuple[int, ...]) -> None:
    static = networks.cycle(60)
    w = static.weights.toarray()
    x = np.random.default_rng(2).normal(size=(*leading, 60, 3))
    kinds = (w, sp.csr_array(w), sp.csr_matrix(w), sp.coo_array(w), static.sampler(1)(streams([0])))
    for weights in kinds:
        np.testing.assert_allclose(as_operator(weights) @ x, w @ x, rtol=0, atol=1e-14)
        if leading:
            np.testing.assert_allclose(beliefs.merge(x, weights), w @ x, rtol=0, atol=1e-14)


def test_sparse_operators_work_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posse.networks.operators._BLOCK_ENTRIES", 1000)  # 5 copies of 180
    w = networks.cycle(60).weights
    x = np.random.default_rng(2).normal(size=(13, 60, 3))
    operator = SparseWeights(w)
    copies = []
    kron = sp.kron

    def record_copies(eye: Any, *others: Any, **options: Any) -> Any:
        copies.append(eye.shape[0])
        return kron(eye, *others, **options)

    monkeypatch.setattr(sp, "kron", record_copies)
    for _ in range(2):  # the second time both are there
        np.testing.assert_allclose(operator @ x, w.toarray() @ x, rtol=0, atol=1e-14)
    assert copies == [5, 3]


def test_any_layout_of_x_in_memory_is_fine() -> None:
    x = np.asfortranarray(np.random.default_rng(2).normal(size=(2, 3, 60, 4)))
    for network in (
        networks.cycle(60),
        networks.cycle(60).gossip(),
        networks.cycle(60).failing(0.2),
    ):
        weights = network.sampler(3)(streams(range(3)))
        w = matrices(weights, 3, 60)
        np.testing.assert_allclose(weights @ x, w @ x, rtol=0, atol=1e-14)


def test_dynamics_do_not_chain() -> None:
    network = networks.cycle(5)
    for first in (network.gossip(), network.failing(0.1)):
        for second in (lambda n: n.gossip(), lambda n: n.failing(0.2)):
            with pytest.raises(ValueError, match=r"dynamics do not chain: cycle\(agents=5, dyn"):
                second(first)


def test_gossip_has_no_weights() -> None:
    with pytest.raises(ValueError, match="weights 'lazy' have no effect under gossip"):
        networks.cycle(5).gossip().weighted("lazy")
    with pytest.raises(ValueError, match="weights 'metropolis' have no effect under gossip"):
        networks.cycle(5).weighted("metropolis").gossip()


@pytest.mark.parametrize("p", [-0.1, 1, 1.5, np.nan, "0.3"])
def test_bad_failure_probabilities_are_refused(p: Any) -> None:
    with pytest.raises(ValueError, match="p must be a"):
        networks.cycle(5).failing(p)


def test_bad_normalisation_is_refused() -> None:
    with pytest.raises(ValueError, match="normalise 'ful' is unknown: did you mean 'full'"):
        networks.cycle(5).failing(0.3, normalise="ful")
    with pytest.raises(ValueError, match="'max-degree' only, got 'lazy'"):
        networks.cycle(5).weighted("lazy").failing(0.3, normalise="realised")
    network = networks.cycle(5).failing(0.3, normalise="realised")
    for name in ("expected_weights", "spectral_gap", "second_eigenvalue"):
        with pytest.raises(ValueError, match="no closed form with normalise='realised'"):
            getattr(network, name)


def test_a_sampler_needs_a_run() -> None:
    with pytest.raises(ValueError, match="n_runs must be a whole number at least 1, got 0"):
        networks.cycle(5).sampler(0)
