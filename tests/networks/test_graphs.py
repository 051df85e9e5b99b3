"""Every graph against an independent oracle, and the exact conventions at the edges."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import re
import tracemalloc
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse import networks
from posse.networks import EXAMPLES, GRAPHS

SIZES = st.integers(1, 12)


def links(network: networks.Network) -> set[tuple[int, int]]:
    return {(i, j) for i, j in network.edges.tolist()}


def oracle(graph: nx.Graph[Any]) -> set[tuple[int, int]]:
    """Links of a NetworkX graph, its nodes numbered in sorted order."""
    order = {node: i for i, node in enumerate(sorted(graph.nodes))}
    pairs = (sorted((order[i], order[j])) for i, j in graph.edges if i != j)
    return {(i, j) for i, j in pairs}


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_are_simple_sorted_and_read_only(name: str) -> None:
    network = getattr(networks, name)(**EXAMPLES[name])
    edges = network.edges
    assert edges.dtype == np.int64
    assert edges.shape == (len(edges), 2)
    assert (edges[:, 0] < edges[:, 1]).all() or network.is_directed
    assert (edges[:, 0] != edges[:, 1]).all()
    assert edges.tolist() == [list(pair) for pair in sorted(links(network))]
    assert edges.min() >= 0
    assert edges.max() < network.n_agents
    assert not edges.flags.writeable


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_has_a_public_constructor_and_an_example(name: str) -> None:
    network = getattr(networks, name)(**EXAMPLES[name])
    assert name in networks.__all__
    assert network.graph == name
    assert getattr(networks, name).__doc__ == GRAPHS[name].__doc__


@given(SIZES)
def test_one_parameter_graphs(n: int) -> None:
    assert links(networks.complete(n)) == oracle(nx.complete_graph(n))
    assert links(networks.cycle(n)) == oracle(nx.cycle_graph(n))
    assert links(networks.path(n)) == oracle(nx.path_graph(n))
    assert links(networks.star(n)) == oracle(nx.star_graph(n - 1))


@given(SIZES, SIZES)
def test_grids(rows: int, columns: int) -> None:
    plain = nx.grid_2d_graph(rows, columns)
    wrapped = nx.grid_2d_graph(rows, columns, periodic=True)
    assert links(networks.grid(rows, columns)) == oracle(plain)
    if min(rows, columns) > 1:  # NetworkX keeps what a side of 1 wraps to apart from us
        assert links(networks.torus(rows, columns)) == oracle(wrapped)
    else:
        assert links(networks.torus(rows, columns)) == links(networks.cycle(rows * columns))


@given(st.integers(3, 20), st.data())
def test_regular_ring(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, (n - 1) // 2))
    network = networks.regular_ring(n, k)
    assert links(network) == oracle(nx.circulant_graph(n, list(range(1, k + 1))))
    assert set(network.degrees.tolist()) == {2 * k}


@pytest.mark.parametrize("dimension", range(6))
def test_hypercube(dimension: int) -> None:
    expected = nx.hypercube_graph(dimension) if dimension else nx.empty_graph(1)
    assert links(networks.hypercube(dimension)) == oracle(expected)


RANDOM = {
    "erdos_renyi": lambda agents, p, seed: nx.fast_gnp_random_graph(agents, p, seed=seed),
    "watts_strogatz": nx.watts_strogatz_graph,
    "barabasi_albert": nx.barabasi_albert_graph,
    "random_regular": lambda agents, degree, seed: nx.random_regular_graph(degree, agents, seed),
    "random_geometric": lambda agents, radius, seed: nx.random_geometric_graph(
        agents, radius, seed=seed
    ),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_graphs_are_those_of_networkx(name: str) -> None:
    arguments = EXAMPLES[name]
    network = getattr(networks, name)(**arguments)
    graph = RANDOM[name](*arguments.values())
    order = {node: i for i, node in enumerate(graph.nodes)}
    pairs = (sorted((order[i], order[j])) for i, j in graph.edges)
    assert links(network) == {(i, j) for i, j in pairs}
    assert network.n_agents == arguments["agents"]


def test_degrees_of_random_graphs() -> None:
    assert set(networks.random_regular(20, 3, seed=5).degrees.tolist()) == {3}
    assert len(networks.watts_strogatz(20, 4, 0.2, seed=3).edges) == 40
    assert len(networks.barabasi_albert(20, 2, seed=3).edges) == 36
    assert links(networks.erdos_renyi(7, 1)) == links(networks.complete(7))


def test_small_conventions() -> None:
    assert links(networks.cycle(2)) == {(0, 1)}
    assert links(networks.torus(2, 2)) == {(0, 1), (0, 2), (1, 3), (2, 3)}
    assert len(networks.torus(2, 5).edges) == 15  # 5 single rungs, two rings of 5
    for alone in (networks.cycle(1), networks.complete(1), networks.from_edges([], agents=1)):
        assert alone.n_agents == 1
        assert len(alone.edges) == 0
        assert alone.max_degree == 0
        np.testing.assert_array_equal(alone.weights, [[1.0]])


def test_neighbours() -> None:
    network = networks.grid(3, 4)
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4), ordering="sorted")
    for agent in range(12):
        assert network.neighbours(agent).tolist() == sorted(graph[agent])
        assert network.degrees[agent] == graph.degree[agent]
    assert network.max_degree == 4
    with pytest.raises(ValueError, match=r"agent must be a whole number .* at most 11, got 12"):
        network.neighbours(12)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_from_edges_forgets_order_direction_and_repeats(pairs: list[tuple[int, int]]) -> None:
    tree = [(i, i + 1) for i in range(6)]
    pairs = tree + [(i, j) for i, j in pairs if i != j]
    network = networks.from_edges(pairs)
    assert links(network) == {(min(pair), max(pair)) for pair in pairs}
    assert network == networks.from_edges([(j, i) for i, j in reversed(pairs)], agents=7)


def test_from_edges_of_small_integers_does_not_overflow() -> None:
    edges = networks.path(200).edges
    assert networks.from_edges(edges.astype(np.uint8)) == networks.from_edges(edges)


def test_from_networkx_numbers_nodes_in_their_order() -> None:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(["hub", "a", "b"])
    graph.add_edges_from([("a", "hub"), ("b", "hub")], distance=3.0)
    assert links(networks.from_networkx(graph)) == {(0, 1), (0, 2)}
    assert networks.from_networkx(graph) == networks.from_edges([(0, 1), (0, 2)])


def weighted_triangle() -> nx.Graph[str]:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(["a", "b", "c"])
    graph.add_weighted_edges_from([("c", "a", 0.5), ("b", "a", 0.5), ("b", "c", 0.25)])
    return graph


def test_weights_of_edges_are_used_ignored_or_refused_but_never_dropped_in_silence() -> None:
    graph = weighted_triangle()
    with pytest.raises(ValueError, match=r"weight='weight' takes .* weight=False ignores them"):
        networks.from_networkx(graph)
    assert networks.from_networkx(graph, weight=False) == networks.from_edges(
        [(0, 1), (0, 2), (1, 2)]
    )
    expected = [[0.0, 0.5, 0.5], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]
    used = networks.from_networkx(graph, weight="weight")
    np.testing.assert_array_equal(used.weights, expected)
    assert used == networks.from_matrix(expected)
    nx.set_edge_attributes(graph, 0.1, "trust")
    trusting = networks.from_networkx(graph, weight="trust").weights
    np.testing.assert_allclose(trusting, 0.1 + 0.7 * np.eye(3), rtol=0, atol=1e-15)
    rounding = networks.from_networkx(nx.star_graph(10), weight=False)
    tenths = nx.star_graph(10)
    nx.set_edge_attributes(tenths, 0.1, "weight")  # ten tenths are a little less or more than 1
    assert networks.from_networkx(tenths, "weight").edges.tolist() == rounding.edges.tolist()


def test_weights_of_edges_that_make_no_matrix_are_refused() -> None:
    graph = weighted_triangle()
    graph.edges["a", "b"]["weight"] = 0.75
    with pytest.raises(ValueError, match=r"those of agent 0 sum to 1.25: divide all by 1.25"):
        networks.from_networkx(graph, weight="weight")
    for wrong in (-0.1, np.nan, "much"):
        graph.edges["a", "b"]["weight"] = wrong
        with pytest.raises(ValueError, match=r"weight 'weight' of edge \(a, b\) must be a"):
            networks.from_networkx(graph, weight="weight")
    del graph.edges["a", "b"]["weight"]
    with pytest.raises(ValueError, match=r"'weight' must be on every edge, but \(a, b\) has none"):
        networks.from_networkx(graph, weight="weight")
    for name in (True, 3):
        with pytest.raises(ValueError, match="weight must be the name of an edge attribute"):
            networks.from_networkx(graph, weight=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GRAPHS)
def test_help_says_that_constructors_return_networks_and_what_they_take(name: str) -> None:
    construct = getattr(networks, name)
    text = pydoc.render_doc(construct, renderer=pydoc.plaintext)
    assert "-> posse.networks.network.Network" in text
    assert "Graph" not in text
    assert len(text.splitlines()[2]) < 120
    assert construct.__annotations__["return"] is networks.Network
    assert construct.__module__ == "posse.networks"
    for argument in inspect.signature(construct).parameters:
        assert re.search(rf"^ *(\w+, )*{argument}(, \w+)*: ", construct.__doc__, re.MULTILINE)
    assert pickle.loads(pickle.dumps(construct)) is construct


def test_a_million_agents_cost_memory_in_proportion_to_links() -> None:
    networks.cycle(3)  # imports are not what is measured
    tracemalloc.start()
    try:
        network = networks.cycle(1_000_000)
        kept, peak = tracemalloc.get_traced_memory()
        assert network.weights.nnz == 3_000_000
        _, with_weights = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 20e6  # the links themselves, 16 bytes each
    assert peak < 120e6
    assert with_weights < 250e6


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("cycle", {"agents": 0}, "agents must be a whole number at least 1 and at most 1.*, got 0"),
        (
            "complete",
            {"agents": 2.5},
            "agents must be a whole number at least 1 and at most 1.*, got 2.5",
        ),
        (
            "path",
            {"agents": "7"},
            "agents must be a whole number at least 1 and at most 1.*, got '7'",
        ),
        ("star", {"agents": True}, "agents must be a whole number"),
        ("grid", {"rows": 0, "columns": 3}, "rows must be"),
        ("torus", {"rows": 3, "columns": -1}, "columns must be"),
        ("regular_ring", {"agents": 6, "k": 3}, "k must satisfy 2 k < agents"),
        ("regular_ring", {"agents": 6, "k": 0}, "k must be a whole number at least 1"),
        ("hypercube", {"dimension": 31}, "dimension must be .* at most 20"),
        ("erdos_renyi", {"agents": 5, "p": 1.1}, "p must be .* at most 1, got 1.1"),
        ("erdos_renyi", {"agents": 5, "p": 0.9, "seed": -1}, "seed must be"),
        ("watts_strogatz", {"agents": 9, "k": 3, "p": 0.1}, "k must be even and below agents=9"),
        ("watts_strogatz", {"agents": 4, "k": 4, "p": 0.1}, "k must be even and below agents=4"),
        ("watts_strogatz", {"agents": 9, "k": 4, "p": -0.1}, "p must be"),
        ("barabasi_albert", {"agents": 5, "m": 5}, "m must be .* at most 4, got 5"),
        ("random_regular", {"agents": 5, "degree": 3}, "agents \\* degree must be even"),
        ("random_regular", {"agents": 5, "degree": 5}, "degree must be .* at most 4"),
        ("random_geometric", {"agents": 5, "radius": 0}, "radius must be .* above 0"),
        ("from_edges", {"edges": [(0, 1, 2)]}, "edges must be pairs .* got shape \\(1, 3\\)"),
        ("from_edges", {"edges": [(0, 1), (2,)]}, "edges must be pairs of whole numbers"),
        ("from_edges", {"edges": [(0.5, 1)]}, "edges must be pairs of whole numbers"),
        ("from_edges", {"edges": [(0, 4)], "agents": 3}, "edges must join agents 0 to 2, got .* 4"),
        ("from_edges", {"edges": [(0, -1)]}, "edges must join agents 0 to 0, got agent -1"),
        ("from_edges", {"edges": [(0, 1), (1, 1)]}, "two different agents, got \\(1, 1\\)"),
    ],
)
def test_bad_arguments_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(networks, name)(**arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "erdos_renyi",
            {"agents": 20, "p": 0.05},
            r"erdos_renyi\(agents=20, p=0.05, seed=0\) must be connected, but has \d+ components: "
            "raise p or try another seed",
        ),
        ("random_geometric", {"agents": 20, "radius": 0.01}, "20 components: raise radius or"),
        ("random_regular", {"agents": 8, "degree": 1}, "4 components: raise degree or"),
        ("from_edges", {"edges": [(0, 1), (2, 3)]}, "2 components: add links"),
        ("from_edges", {"edges": [], "agents": 2}, "2 components: add links"),
    ],
)
def test_disconnected_graphs_are_refused(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(networks, name)(**arguments)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.path_graph(3, create_using=nx.MultiGraph), "graph must be simple, .*networkx.Graph"),
        (nx.Graph([(0, 1), (1, 1)]), "edges must join two different agents"),
        (nx.empty_graph(0), "agents must be a whole number at least 1"),
        (nx.empty_graph(3), "3 components"),
    ],
)
def test_unsuitable_networkx_graphs_are_refused(graph: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        networks.from_networkx(graph)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ValueError, match=r"graph must be one such as .*, got 'karate'"):
        networks.from_networkx("karate")
