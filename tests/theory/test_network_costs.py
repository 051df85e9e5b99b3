"""The cost of a network against powers of W, products of drawn W(t) and enumerated failures."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from posse import networks, theory
from posse.networks import Network
from posse.theory.network_costs import _lanczos_quadrature, compute_decay, follow_push_sum
from tests.theory.material import random_doubly_stochastic

NETWORKS = {
    "pair": networks.cycle(2),
    "complete": networks.complete(7),
    "cycle": networks.cycle(9),
    "path": networks.path(6),
    "star": networks.star(8),
    "grid": networks.grid(3, 4),
    "torus": networks.torus(3, 5),
    "ring": networks.regular_ring(11, 2),
    "hypercube": networks.hypercube(3),
    "lazy star": networks.star(6).weighted("lazy"),
    "metropolis": networks.barabasi_albert(12, 2, seed=3).weighted("metropolis"),
    "asymmetric": networks.from_matrix(random_doubly_stochastic(6, np.random.default_rng(2))),
}
VARYING = {
    "gossip": networks.path(5).gossip(),
    "gossip on a star": networks.star(6).gossip(),
    "failing": networks.cycle(6).failing(0.4),
    "failing, unequal weights": networks.star(5).weighted("metropolis").failing(0.7),
    "failing, own weights": networks.path(3)
    .weighted([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    .failing(0.2),
}


def dense(weights: object) -> np.ndarray:
    return weights.toarray() if sp.issparse(weights) else np.asarray(weights)  # type: ignore[attr-defined]


def squares_by_powers(weights: np.ndarray, rounds: int) -> np.ndarray:
    """||row i of W^t - 1/N||^2 for t = 1..rounds: (rounds, N)."""
    n_agents = len(weights)
    power, squares = np.eye(n_agents), []
    for _ in range(rounds):
        power = weights @ power
        squares.append(((power - 1 / n_agents) ** 2).sum(axis=1))
    return np.array(squares)


def possible_weights(network: Network) -> list[tuple[float, np.ndarray]]:
    """All values of W(t) with their probabilities, built from their definitions."""
    n_agents, links = network.n_agents, network.edges.tolist()

    def assemble(link_weights: list[float]) -> np.ndarray:
        weights = np.eye(n_agents)
        for (i, j), weight in zip(links, link_weights, strict=True):
            difference = np.eye(n_agents)[i] - np.eye(n_agents)[j]
            weights -= weight * np.outer(difference, difference)
        return weights

    if isinstance(network.dynamics, networks.Gossip):
        halves = 0.5 * np.eye(len(links))
        return [(1 / len(links), assemble(list(row))) for row in halves]
    p = network.dynamics.p
    whole = dense(network.weights)
    every = [whole[i, j] for i, j in links]
    return [
        (
            math.prod(1 - p if up else p for up in ups),
            assemble([w * up for w, up in zip(every, ups, strict=True)]),
        )
        for ups in itertools.product([0, 1], repeat=len(links))
    ]


def squares_by_enumeration(network: Network, rounds: int) -> np.ndarray:
    """E ||row i of W(t) ... W(1) - 1/N||^2 for t = 1..rounds, by D = E[W D W^T]: (rounds, N)."""
    possible = possible_weights(network)
    deviation, squares = np.eye(network.n_agents) - 1 / network.n_agents, []
    for _ in range(rounds):
        deviation = sum(p * weights @ deviation @ weights.T for p, weights in possible)
        squares.append(deviation.diagonal())
    return np.array(squares)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_static_cost_is_the_sum_over_powers(network: Network) -> None:
    squares = squares_by_powers(dense(network.weights), 800)
    cost = theory.network_cost(network)
    np.testing.assert_allclose(cost.per_agent, squares.sum(axis=0), atol=1e-9)
    assert cost.total == pytest.approx(squares.sum(axis=0).mean(), abs=1e-9)
    assert cost.standard_error == 0
    for rounds in (1, 2, 7, 100):
        cut = theory.network_cost(network, rounds)
        np.testing.assert_allclose(cut.per_agent, squares[:rounds].sum(axis=0), atol=1e-9)


PUSHED = {
    "star": networks.star(7),
    "path": networks.path(5),
    "attachment": networks.barabasi_albert(12, 2, seed=3).weighted("metropolis"),
    "asymmetric": NETWORKS["asymmetric"],
    "directed": networks.random_directed(9, 2, seed=4),
}


def push_plainly(network: Network, rounds: int) -> list[np.ndarray]:
    """Weights with which observations count in push-sum, once masses are settled, by round."""
    shares = dense(network.shares)
    mass = np.ones(network.n_agents)
    for _ in range(3000):
        mass = shares @ mass
    # column j is the evidence of one observation of agent j
    evidence, weights = np.eye(network.n_agents), []
    for _ in range(rounds):
        evidence = shares @ evidence
        weights.append(evidence / mass[:, None])
    return weights


@pytest.mark.parametrize("network", PUSHED.values(), ids=PUSHED)
def test_cost_of_push_sum_is_the_sum_over_rounds(network: Network) -> None:
    weights = np.array(push_plainly(network, 600))
    even = 1 / network.n_agents
    squares = ((weights - even) ** 2).sum(axis=2)
    cost = theory.network_cost(network, merge="push-sum")
    np.testing.assert_allclose(cost.per_agent, squares.sum(axis=0), atol=1e-9)
    assert cost.total == pytest.approx(squares.sum(axis=0).mean())
    cut = theory.network_cost(network, 3, merge="push-sum")
    np.testing.assert_allclose(cut.per_agent, squares[:3].sum(axis=0), atol=1e-12)
    decay, shares = follow_push_sum(network, 600)
    np.testing.assert_allclose(decay[1:], (weights**2).sum(axis=(1, 2)) / network.n_agents)
    own = (np.diagonal(weights, axis1=1, axis2=2) - even) ** 2
    assert shares.own == pytest.approx(own.sum() / squares.sum())
    assert shares.random == 0


def test_push_sum_costs_less_at_hubs_and_the_same_where_degrees_are_equal() -> None:
    star = networks.star(36)
    assert theory.network_cost(star, merge="push-sum").total < theory.network_cost(star).total / 10
    for network in (networks.cycle(9), networks.complete(4), networks.complete(1)):
        pushed = theory.network_cost(network, merge="push-sum")
        np.testing.assert_allclose(
            pushed.per_agent, theory.network_cost(network).per_agent, atol=1e-12
        )


def test_push_sum_refuses() -> None:
    for network in (networks.cycle(4).gossip(), networks.cycle(4).failing(0.5)):
        with pytest.raises(ValueError, match=r'merge="push-sum" needs a static network of at most'):
            theory.network_cost(network, merge="push-sum")
    with pytest.warns(UserWarning, match="not checked to be doubly stochastic"):
        unchecked = networks.from_matrix(np.eye(2), check=False)
    with pytest.raises(ValueError, match="needs a network whose matrix was checked"):
        theory.network_cost(unchecked, merge="push-sum")
    with pytest.raises(ValueError, match="fresh graph in every run"):
        theory.network_cost(networks.erdos_renyi(9, 0.5, seed="run"), merge="push-sum")
    with pytest.raises(ValueError, match="merge 'tree' is unknown: allowed are average, push-sum"):
        theory.network_cost(networks.cycle(4), merge="tree")
    with pytest.raises(ValueError, match=r'directed network has no .*: use merge="push-sum"'):
        theory.network_cost(PUSHED["directed"])


@pytest.mark.parametrize("network", VARYING.values(), ids=VARYING)
def test_varying_cost_is_the_sum_over_products(network: Network) -> None:
    squares = squares_by_enumeration(network, 600)
    assert squares[-1].max() < 1e-9
    cost = theory.network_cost(network)
    np.testing.assert_allclose(cost.per_agent, squares.sum(axis=0), rtol=1e-7)
    for rounds in (1, 5):
        cut = theory.network_cost(network, rounds)
        np.testing.assert_allclose(cut.per_agent, squares[:rounds].sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize(
    "network", [*NETWORKS.values(), *VARYING.values()], ids=[*NETWORKS, *VARYING]
)
def test_decay_is_the_mean_of_squared_rows(network: Network) -> None:
    varying = not isinstance(network.dynamics, networks.Static)
    squares = (
        squares_by_enumeration(network, 300)
        if varying
        else squares_by_powers(dense(network.weights), 300)
    )
    expected = np.append(1.0, squares.mean(axis=1) + 1 / network.n_agents)
    # an asymmetric W is sampled: 40 runs of 16 signs
    sampled = not varying and not np.allclose(dense(network.weights), dense(network.weights).T)
    tolerance = 0.03 if sampled else 1e-8
    np.testing.assert_allclose(compute_decay(network, 300), expected, atol=tolerance)


@pytest.mark.parametrize("network", [networks.path(24).failing(0.5), networks.path(16).gossip()])
def test_decay_of_slow_networks_is_stable(network: Network) -> None:
    """Many Lanczos steps, in which rounding must not grow: an eigenvalue of 1 would never decay."""
    n_agents = network.n_agents
    nodes, _ = _lanczos_quadrature(network, steps=90)
    assert 0 < nodes.min() < nodes.max() < 1 - 1e-4
    deviation, expected = np.eye(n_agents) - 1 / n_agents, [1.0]
    for _ in range(1200):
        deviation = network.dynamics.expected_product(network, deviation)
        expected.append(deviation.trace() / n_agents + 1 / n_agents)
    np.testing.assert_allclose(compute_decay(network, 1200), expected, rtol=1e-10)


def test_cost_known_by_hand() -> None:
    # two agents, W = [[1-w, w], [w, 1-w]]: one mode, l = 1 - 2 w, in each agent to one half
    pair = networks.from_matrix([[0.9, 0.1], [0.1, 0.9]])
    assert theory.network_cost(pair).total == pytest.approx(0.64 / 0.36 / 2)
    # gossip of random pairs of the complete graph: the mode shrinks by 1 - 1/(N - 1) in the mean
    gossip = networks.complete(36).gossip()
    assert theory.network_cost(gossip).total == pytest.approx(35 / 36 * 34)
    assert theory.network_cost(networks.complete(1)).total == 0
    assert theory.network_cost(networks.cycle(1)).per_agent.tolist() == [0]


def test_hubs_cost_more_than_cycles_though_their_spectral_gap_is_larger() -> None:
    star, cycle = networks.star(36), networks.cycle(36)
    assert star.spectral_gap > cycle.spectral_gap
    assert theory.network_cost(star).total > 4 * theory.network_cost(cycle).total


def test_large_structured_networks_have_closed_forms() -> None:
    cycle = theory.network_cost(networks.cycle(20_000))
    # an integral in the limit: sum of 1/(1 - l^2) - 1 is about N^2/(8 c pi^2 ...) for W = I - L/3
    steps = 4 / 3 * np.sin(np.pi * np.arange(1, 20_000) / 20_000) ** 2
    assert cycle.total == pytest.approx(np.sum((1 - steps) ** 2 / steps / (2 - steps)) / 20_000)
    assert cycle.per_agent is not None
    assert cycle.per_agent.shape == (20_000,)
    star = theory.network_cost(networks.star(5000), rounds=50)
    assert star.per_agent is None
    small = theory.network_cost(networks.star(1000), rounds=50)
    assert star.total == pytest.approx(small.total, rel=0.05)


def test_periodic_weights_never_mix() -> None:
    swap = networks.from_matrix([[0.0, 1.0], [1.0, 0.0]])
    assert theory.network_cost(swap).total == math.inf
    assert theory.network_cost(swap, rounds=10).total == pytest.approx(5)
    rotation = networks.from_matrix(np.roll(np.eye(5), 1, axis=0))
    assert theory.network_cost(rotation).total == math.inf
    assert theory.network_cost(rotation, rounds=10).total == pytest.approx(8)


@dataclass(frozen=True)
class Alternating:
    """User-defined dynamics: the cycle's weights in odd rounds, none in even ones."""

    def sampler(self, network, n_runs):
        weights = [np.eye(network.n_agents), dense(network.weights)]
        return lambda randomness, t: weights[t % 2]


def test_user_defined_dynamics_are_sampled_with_an_error() -> None:
    cycle = networks.cycle(8)
    squares = squares_by_powers(dense(cycle.weights), 200).mean(axis=1)
    expected = float(np.repeat(squares, 2).sum())  # every power lasts two rounds
    cost = theory.network_cost(cycle.varying(Alternating()))
    assert 0 < cost.standard_error < 0.1 * expected
    # the seed is fixed; 4 standard errors would fail by chance in 1 of 15,000 seeds
    assert abs(cost.total - expected) < 4 * cost.standard_error
    cut = theory.network_cost(cycle.varying(Alternating()), rounds=2)
    assert abs(cut.total - 2 * squares[0]) < 4 * cut.standard_error
    assert "±" in str(cost)


def test_samples_agree_with_the_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    network = networks.cycle(6).failing(0.4)
    exact = theory.network_cost(network, rounds=30)
    realised = theory.network_cost(networks.cycle(6).failing(0.0, normalise="realised"), rounds=30)
    whole = theory.network_cost(networks.cycle(6), rounds=30)
    assert abs(realised.total - whole.total) < 4 * realised.standard_error
    monkeypatch.setattr("posse.theory.network_costs.RECURSION_LIMIT", 5)
    sampled = theory.network_cost(network, rounds=30)
    assert abs(sampled.total - exact.total) < 4 * sampled.standard_error
    # 640 squares of signs: relative errors of about 9% at each agent, so 36% are 4 errors
    assert sampled.per_agent == pytest.approx(exact.per_agent, rel=0.36)
    assert compute_decay(network, 30)[1:].sum() == pytest.approx(exact.total + 5, rel=0.05)


def test_cost_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="rounds must be a whole number at least 1, got 0"):
        theory.network_cost(networks.cycle(4), rounds=0)
    with pytest.raises(ValueError, match=r"fresh graph in every run: use network.of_run"):
        theory.network_cost(networks.erdos_renyi(9, 0.5, seed="run"))
    with pytest.warns(UserWarning, match="not checked"):
        unchecked = networks.from_matrix([[0.5, 0.2], [0.1, 0.5]], check=False)
    with pytest.raises(ValueError, match="needs doubly stochastic weights"):
        theory.network_cost(unchecked)
    monkeypatch.setattr("posse.theory.network_costs.MOST_SAMPLED", 1e5)
    with pytest.raises(ValueError, match=r"did not converge in .* rounds: give rounds"):
        theory.network_cost(networks.cycle(8).varying(Alternating()))
