"""Directed networks: links from sender to receiver, shares in place of weights, and refusals."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import ALGORITHMS
from posse.interop.observations import Neighbourhood
from posse.networks import Network

PAIRS = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (2, 3)]  # one of them twice
NETWORK = networks.from_edges(PAIRS, directed=True)
BANDIT = posse.Bandit.gaussian([0.5, 0.1])
TS = posse.ThompsonSampling()
WITHOUT_WEIGHTS = "is a directed network, which has no doubly stochastic weights"


def test_links_lead_from_sender_to_receiver() -> None:
    assert NETWORK.is_directed
    assert not networks.from_edges(PAIRS).is_directed
    assert NETWORK.edges.tolist() == [[0, 1], [1, 2], [2, 0], [2, 3], [3, 0]]
    assert NETWORK.degrees.tolist() == [1, 1, 2, 1]
    assert NETWORK.neighbours(2).tolist() == [0, 3]
    # a reverse is another link, where an undirected network has one
    both = networks.from_edges([(0, 1), (1, 0)], directed=True)
    assert len(both.edges) == 2
    assert both != networks.from_edges([(0, 1), (1, 0)])


def test_shares_are_an_equal_split_and_columns_sum_to_1() -> None:
    expected = np.zeros((4, 4))
    expected[[0, 1], 0] = expected[[1, 2], 1] = expected[[3, 0], 3] = 1 / 2
    expected[[2, 0, 3], 2] = 1 / 3
    np.testing.assert_allclose(NETWORK.shares, expected)
    assert not NETWORK.shares.flags.writeable
    star = networks.star(4)
    np.testing.assert_allclose(star.shares[:, 0], 1 / 4)
    np.testing.assert_allclose(star.shares[:, 1], [1 / 2, 1 / 2, 0, 0])
    np.testing.assert_allclose(star.weighted("lazy").shares, star.shares)  # only links count
    np.testing.assert_allclose(networks.cycle(5).shares, networks.cycle(5).weights)


@pytest.mark.parametrize(
    "name",
    [
        "weights",
        "link_weights",
        "expected_weights",
        "expected_links",
        "spectral_gap",
        "second_eigenvalue",
    ],
)
def test_what_needs_a_doubly_stochastic_matrix_is_refused(name: str) -> None:
    for network in (NETWORK, NETWORK.failing(0.2), networks.random_directed(9, 2)):
        with pytest.raises(ValueError, match=WITHOUT_WEIGHTS):
            getattr(network, name)


def test_networks_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"strongly connected .* has 3 components: add links"):
        networks.from_edges([(0, 1), (1, 2)], directed=True)
    with pytest.raises(ValueError, match="weights of from_edges must be left out"):
        NETWORK.weighted("metropolis")
    with pytest.raises(ValueError, match="weights of from_edges must be left out"):
        NETWORK.weighted(networks.cycle(4).weights)
    with pytest.raises(ValueError, match="directed must be true or false, got 'yes'"):
        networks.from_edges(PAIRS, directed="yes")  # type: ignore[arg-type]

    class Own:
        def sampler(self, network, n_runs):
            return lambda randomness: np.eye(4)

    with pytest.raises(ValueError, match="dynamics Own need an undirected network"):
        NETWORK.varying(Own())


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_random_directed_has_k_links_out_of_every_agent(k: int) -> None:
    network = networks.random_directed(10, k, seed=3)
    assert network.degrees.tolist() == [k] * 10
    assert network == networks.random_directed(10, k, seed=3)
    assert network != networks.random_directed(10, k, seed=4)
    fresh = networks.random_directed(10, k, seed="run")
    assert fresh.is_directed
    assert fresh.of_run(1, 2).is_directed
    with pytest.raises(ValueError, match="k must be"):
        networks.random_directed(10, 10)


def test_a_networkx_digraph_is_directed() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    assert networks.from_networkx(graph) == networks.from_edges(
        [(0, 1), (1, 2), (2, 0)], directed=True
    )
    nx.set_edge_attributes(graph, 0.5, "weight")
    with pytest.raises(ValueError, match="weight must be False"):
        networks.from_networkx(graph, weight="weight")
    assert networks.from_networkx(graph, weight=False).is_directed


def test_undirected_networks_are_described_as_before() -> None:
    assert "directed" not in networks.from_edges([(0, 1)]).to_data()
    assert NETWORK.to_data()["directed"] is True
    assert Network.from_data(NETWORK.to_data()) == NETWORK


def test_an_experiment_file_holds_a_directed_network(tmp_path) -> None:
    file = tmp_path / "directed.toml"
    file.write_text(
        "horizon = 5\nruns = 2\n\n[bandit]\nfamily = 'bernoulli'\nmeans = [0.5, 0.2]\n\n[network]\n"
        "graph = 'from_edges'\nedges = [[0, 1], [1, 2], [2, 0]]\ndirected = true\n\n"
        "[algorithms.push]\nname = 'push-sum'\npolicy = 'thompson-sampling'\n"
        "learning_rate = 'learnt'\n"
    )
    experiment = posse.read_experiment(file)
    assert experiment.network.is_directed
    posse.write_experiment(experiment, tmp_path / "again.toml")
    assert posse.read_experiment(tmp_path / "again.toml") == experiment


def test_a_description_has_both_degrees() -> None:
    facts = networks.describe_size(NETWORK)
    assert facts["out-degree"] == "1 to 2, 1.25 on average"
    assert facts["in-degree"] == "1 to 2, 1.25 on average"
    assert "spectral gap" not in NETWORK._repr_html_()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_that_need_links_both_ways_refuse_before_round_1(name, example_of) -> None:
    algorithm = example_of(ALGORITHMS[name])
    if name in ("push-sum", "isolated", "centralized", "partial-pooling"):
        posse.simulate(BANDIT, NETWORK, algorithm, horizon=3, runs=2, engine="reference")
        return
    with pytest.raises(ValueError, match="needs links in both directions, and from_edges is direc"):
        posse.simulate(BANDIT, NETWORK, algorithm, horizon=3, runs=2)


def test_an_algorithm_of_ones_own_is_given_shares() -> None:
    given = []

    class Own:
        name = "own"

        def init(self, problem):
            return None

        def choose(self, state, t, generator):
            return np.zeros((1, 4), dtype=int)

        def learn(self, state, arms, rewards, weights):
            given.append(networks.as_matrix(weights, 4))

    with pytest.warns(UserWarning, match="cannot be rerun|not rerun"):
        posse.simulate(BANDIT, NETWORK, Own(), horizon=1, runs=1)
    np.testing.assert_allclose(given[0], NETWORK.shares)


def test_neighbours_of_an_environment_are_the_senders() -> None:
    slots = Neighbourhood.from_network(NETWORK)
    assert slots.neighbours[0][slots.filled[0]].tolist() == [2, 3]
    assert slots.neighbours[1][slots.filled[1]].tolist() == [0]
