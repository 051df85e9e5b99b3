"""What the baselines compute, against matrix identities and numbers worked out by hand."""

import dataclasses
import math
from statistics import NormalDist

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.algorithms.rivals.coop_ucb import mixing_errors
from posse.algorithms.rivals.dducb import chebyshev_values
from posse.families import Gaussian

GRAPHS = {
    "cycle": networks.cycle(9),
    "grid": networks.grid(3, 4),
    "metropolis": networks.star(6).weighted("metropolis"),
    "random": networks.erdos_renyi(10, 0.4, seed=2),
}


def dense(network):
    weights = network.weights
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_stage_of_dducb_is_a_chebyshev_polynomial(graph):
    """C steps of the recursion are T_C(W/l2) / T_C(1/l2), to 1e-13."""
    network, algorithm = GRAPHS[graph], posse.DDUCB()
    w, l2 = dense(network), network.second_eigenvalue
    length = algorithm.stage_length(network)
    state = algorithm.init(Problem(network.n_agents, 3, 100, Gaussian(), network))
    start = np.random.default_rng(0).normal(size=state.mixing.shape)
    state = dataclasses.replace(state, mixing=start)
    for step in range(length):
        state = algorithm.mix_once(state, step, w)
    values, vectors = np.linalg.eigh(w)
    polynomial = np.polynomial.Chebyshev.basis(length)
    factors = polynomial(values / l2) / polynomial(1 / l2)
    expected = (vectors * factors) @ vectors.T @ start
    np.testing.assert_allclose(state.mixing, expected, atol=1e-13)


def test_chebyshevs_recursion():
    for lambda_2 in (0.2, 0.9, 0.999):
        for n in range(1, 30):
            past, present, following = chebyshev_values(lambda_2, n)
            assert following == pytest.approx(2 / lambda_2 * present - past, rel=1e-12)


@pytest.mark.parametrize("name", ["coop-ucb", "coop-ucb2", "coop-ucl"])
def test_running_consensus_is_a_sum_of_matrix_powers(name):
    """n = W^T (forced) + the sum over later rounds of W^(T - t + 1) 1{played in t}."""
    network, n_arms, rounds = networks.grid(2, 3), 3, 12
    algorithm = posse.algorithms.ALGORITHMS[name]()
    w, rng = dense(network), np.random.default_rng(1)
    state = algorithm.init(Problem(6, n_arms, rounds, Gaussian(), network))
    arms = rng.integers(0, n_arms, (rounds, 1, 6))
    arms[:n_arms] = np.arange(n_arms)[:, None, None]
    rewards = rng.normal(size=arms.shape)
    for played, paid in zip(arms, rewards, strict=True):
        state = algorithm.learn(state, played, paid, w)
    counts = totals = 0
    for t in range(rounds):
        power = np.linalg.matrix_power(w, rounds - max(t, n_arms))
        one = np.eye(n_arms)[arms[t, 0]]
        counts = counts + power @ one
        totals = totals + power @ (one * rewards[t, 0][:, None])
    np.testing.assert_allclose(state.counts[0], counts, atol=1e-12)
    np.testing.assert_allclose(state.totals[0], totals, atol=1e-12)


def test_indices_by_hand():
    """Two agents, n = 4 and s = 6 for one arm, t = 10, sigma = 2."""
    network = networks.from_matrix([[0.75, 0.25], [0.25, 0.75]])
    problem = Problem(2, 3, 100, Gaussian(sigma=2.0), network)
    n, s = np.full((2, 1), 4.0), np.full((2, 1), 6.0)

    def index(algorithm):
        values = algorithm.build_index(problem).evaluate(
            n, s, 10, algorithm.index_scale(problem, 10)
        )
        return values[:, 0]

    log = math.log(10)
    eps = 5 / 6  # see the next test
    ucb = 1.5 + 2 * math.sqrt(2 * 1.01 * (4 + eps) / (2 * 4) * log / 4)
    np.testing.assert_allclose(index(posse.CoopUCB(1.01)), ucb)
    f = math.sqrt(log)
    ucb2 = 1.5 + 2 * math.sqrt(2 * 1.01 * (4 + f) / (2 * 4) * log / 4)
    np.testing.assert_allclose(index(posse.CoopUCB2(1.01)), ucb2)
    d = 4 / 9  # sigma^2/sigma_0^2
    z = NormalDist().inv_cdf(1 - 1 / (math.sqrt(2 * math.pi * math.e) * 10))
    mean = (d * 0.5 + 2 * 6) / (d + 2 * 4)
    ucl = mean + 2 * math.sqrt((4 + f) / 4 / (d + 2 * 4)) * z
    np.testing.assert_allclose(index(posse.CoopUCL(0.5, 3.0)), ucl)


def test_the_bound_of_dducb_by_hand():
    """N = 2 agents: in its first stage s = K; then the observations of all but the last stage."""
    network = networks.from_matrix([[0.75, 0.25], [0.25, 0.75]])
    problem = Problem(2, 3, 100, Gaussian(sigma=2.0), network)
    algorithm = posse.DDUCB(2.0)
    length = algorithm.stage_length(problem.network)
    assert length == math.ceil(math.log(2 * 2 * 22) / math.sqrt(2 * math.log(2)))
    for t in (4, 3 + length):
        assert algorithm.index_scale(problem, t) == pytest.approx(2 * 2 * 4 * math.log(3) / 2)
    assert algorithm.index_scale(problem, 4 + length) == pytest.approx(
        2 * 2 * 4 * math.log(3 * 2) / 2
    )
    later = 2 * 2 * 4 * math.log((3 + length) * 2) / 2
    assert algorithm.index_scale(problem, 4 + 2 * length) == pytest.approx(later)


def test_mixing_errors_of_two_agents_by_hand():
    """Eigenvalues 1 and 1/2: 2 (1 * 1/4 + 1/3 * 1/2) = 5/6."""
    network = networks.from_matrix([[0.75, 0.25], [0.25, 0.75]])
    np.testing.assert_allclose(mixing_errors(network), 5 / 6)


SIMPLE = {"path": networks.path(7), "lazy": networks.path(6).weighted("lazy")}
SIMPLE |= {"random": GRAPHS["random"]}


@pytest.mark.parametrize("graph", SIMPLE)
def test_mixing_errors_in_the_three_cases_of_the_source(graph):
    """As published, where eigenvalues are simple and eigenvectors not a matter of choice."""
    w = dense(SIMPLE[graph])
    values, vectors = np.linalg.eigh(w)
    values, vectors = values[::-1], vectors[:, ::-1]
    n_agents = len(w)
    expected = np.zeros(n_agents)
    for p in range(n_agents):
        for j in range(1, n_agents):
            product, v = values[p] * values[j], vectors[:, p] * vectors[:, j]
            above, below = v[v > 0].sum(), v[v < 0].sum()
            for i in range(n_agents):
                if product < 0:
                    a = max(abs(below), above) * abs(v[i])
                else:
                    a = above * v[i] if v[i] >= 0 else below * v[i]
                expected[i] += n_agents * abs(product) / (1 - abs(product)) * a
    np.testing.assert_allclose(mixing_errors(SIMPLE[graph]), expected, rtol=1e-9)


def test_mixing_errors_of_equivalent_agents_are_equal():
    """Where eigenvalues repeat the slack must not depend on the eigenvectors LAPACK returns."""
    np.testing.assert_allclose(mixing_errors(networks.cycle(12)), 25.75126, rtol=1e-6)
    grid = mixing_errors(networks.grid(4, 4)).reshape(4, 4)
    for same in (grid.T, grid[::-1], grid[:, ::-1]):
        np.testing.assert_allclose(same, grid, rtol=1e-9)
    leaves = mixing_errors(networks.star(6))[1:]
    np.testing.assert_allclose(leaves, leaves[0], rtol=1e-9)


@pytest.mark.parametrize("graph", GRAPHS)
def test_mixing_errors_follow_the_agents_when_they_are_relabelled(graph):
    order = np.random.default_rng(3).permutation(GRAPHS[graph].n_agents)
    relabelled = networks.from_matrix(dense(GRAPHS[graph])[np.ix_(order, order)])
    expected = mixing_errors(GRAPHS[graph])[order]
    np.testing.assert_allclose(mixing_errors(relabelled), expected, rtol=1e-9, atol=1e-12)


def test_an_arm_whose_estimated_count_is_not_positive_is_played():
    """Chebyshev's weights can be negative, and then so can estimates."""
    network, algorithm = networks.cycle(5), posse.DDUCB()
    problem = Problem(5, 3, 100, Gaussian(), network)
    averaged = np.ones((2, 1, 5, 3))
    averaged[0, 0, :, 1] = [-1e-3, 0.0, -2.0, -1e-9, 0.0]
    state = dataclasses.replace(algorithm.init(problem), averaged=averaged)
    chosen = algorithm.choose(state, 4, np.random.default_rng(0))
    np.testing.assert_array_equal(chosen, 1)
