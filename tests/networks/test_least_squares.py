"""Least-squares weights: optimal by KKT, no worse than SciPy's solver and than other rules."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize, nnls

from posse import networks, theory
from posse.networks import Network, least_squares

CLIQUE = [(i, j) for i in range(5) for j in range(i)]
BARBELL = networks.from_edges([*CLIQUE, (4, 5), (5, 6), *[(i + 6, j + 6) for i, j in CLIQUE]])
NETWORKS = {
    "pair": networks.path(2),
    "star": networks.star(7),
    "path": networks.path(6),
    "cycle": networks.cycle(5),
    "grid": networks.grid(3, 3),
    "complete": networks.complete(5),
    "barbell": BARBELL,
    "attachment": networks.barabasi_albert(12, 2, seed=1),
    "random": networks.erdos_renyi(14, 0.25, seed=3),
}


@cache
def optimal(name: str) -> Network:
    """The network with least-squares weights, which several tests look at."""
    return NETWORKS[name].weighted("least-squares")


def incidence(network: Network) -> np.ndarray:
    matrix = np.zeros((len(network.edges), network.n_agents))
    for row, (i, j) in zip(matrix, network.edges, strict=True):
        row[[i, j]] = 1
    return matrix


def cost_and_gradient(network: Network, links: np.ndarray) -> tuple[float, np.ndarray]:
    """Sum over l != 1 of l^2/(1 - l^2) and its gradient, by perturbation of eigenvalues."""
    i, j = network.edges.T
    weights = np.eye(network.n_agents)
    for a, b, weight in zip(i, j, links, strict=True):
        difference = np.eye(network.n_agents)[a] - np.eye(network.n_agents)[b]
        weights -= weight * np.outer(difference, difference)
    values, vectors = np.linalg.eigh(weights)
    # a solver may try weights that never mix, where the cost is infinite
    values, vectors = np.clip(values[:-1], -1 + 1e-6, 1 - 1e-6), vectors[:, :-1]
    slopes = 2 * values / (1 - values**2) ** 2
    return float(np.sum(values**2 / (1 - values**2))), -((vectors[i] - vectors[j]) ** 2) @ slopes


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_satisfy_the_conditions_of_optimality(name: str) -> None:
    """KKT: gradient = multipliers of w >= 0 minus those of w_ii >= 0, on active constraints."""
    network = NETWORKS[name]
    links = optimal(name).link_weights
    slacks = 1 - incidence(network).T @ links
    assert links.min() > 0
    assert slacks.min() > 0
    _, gradient = cost_and_gradient(network, links)
    columns = np.hstack(
        [np.eye(len(links))[:, links < 1e-5], -incidence(network)[:, slacks < 1e-5]]
    )
    residual = np.abs(gradient).max()
    if columns.size:
        _, residual = nnls(columns, gradient)
    scale = 1 + np.abs(gradient).max()
    assert residual < 1e-4 * scale


@pytest.mark.parametrize("name", ["star", "path", "grid", "barbell", "attachment"])
def test_a_general_solver_finds_nothing_better(name: str) -> None:
    network = NETWORKS[name]
    n_links = len(network.edges)
    generator = np.random.default_rng(5)
    best = np.inf
    for _ in range(3):
        start = generator.random(n_links) / (1 + network.max_degree)
        found = minimize(
            lambda links: cost_and_gradient(network, links),
            start,
            jac=True,
            method="SLSQP",
            bounds=[(0, 1)] * n_links,
            constraints=[LinearConstraint(incidence(network).T, -np.inf, 1)],
            options={"ftol": 1e-12, "maxiter": 500},
        )
        best = min(best, found.fun)
    own = theory.network_cost(optimal(name)).total * network.n_agents
    assert own == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_rule_costs_less(name: str) -> None:
    least = theory.network_cost(optimal(name)).total
    for rule in ("max-degree", "metropolis", "lazy"):
        assert least <= theory.network_cost(NETWORKS[name].weighted(rule)).total + 1e-9


def test_a_star_gives_all_of_the_hub_to_its_leaves() -> None:
    links = optimal("star").link_weights
    np.testing.assert_allclose(links, 1 / 6, rtol=1e-6)


def test_relabelling_relabels_the_weights() -> None:
    network = NETWORKS["attachment"]
    order = np.random.default_rng(1).permutation(network.n_agents)
    moved = networks.from_edges(order[network.edges].tolist())
    weights = optimal("attachment").weights
    np.testing.assert_allclose(
        moved.weighted("least-squares").weights[np.ix_(order, order)], weights, atol=1e-6
    )


@pytest.mark.parametrize("name", ["star", "random"])
def test_many_links_take_the_iterative_solver(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = optimal(name).link_weights
    monkeypatch.setattr(least_squares, "MOST_DIRECT", 0)
    iterative = least_squares.minimise_deviation(NETWORKS[name].topology)
    np.testing.assert_allclose(iterative, direct, atol=1e-6)


def test_weights_go_with_failing_links_and_round_trip() -> None:
    network = networks.star(5).weighted("least-squares").failing(0.3)
    assert Network.from_data(network.to_data()) == network
    assert theory.network_cost(network).total > 0


def test_too_many_agents_are_refused() -> None:
    with pytest.raises(ValueError, match="for at most 1000 agents, got 2000: use 'metropolis'"):
        networks.cycle(2000).weighted("least-squares").link_weights  # noqa: B018
