"""A network is its recipe: prints, compares, hashes, and travels as plain data."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from posse import networks
from posse.networks import DYNAMICS, EXAMPLES, GRAPHS, WEIGHT_RULES, Network

MATRIX = np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])


def variants(name: str) -> list[Network]:
    base = getattr(networks, name)(**EXAMPLES[name])
    if base.is_directed:
        return [base, base.gossip(), base.failing(0.3), base.failing(0.3, normalise="realised")]
    return [
        *(base.weighted(rule) for rule in WEIGHT_RULES),
        base.gossip(),
        base.failing(0.3),
        base.failing(0.3, normalise="realised"),
        base.weighted("metropolis").failing(0.25),
        base.weighted(base.weighted("lazy").weights),
    ]


OTHERS = [
    networks.from_edges([(0, 1), (1, 2), (2, 0), (2, 1)], directed=True),
    networks.from_matrix(MATRIX),
    networks.from_matrix(MATRIX).failing(0.1),
    networks.complete(3).weighted(MATRIX),
    networks.from_matrix(networks.cycle(60).weights),
    networks.path(60).weighted(networks.path(60).weighted("lazy").weights),
]
ALL = [*(network for name in GRAPHS for network in variants(name)), *OTHERS]


@pytest.mark.parametrize("network", ALL, ids=str)
def test_plain_data_and_back(network: Network) -> None:
    data = json.loads(json.dumps(network.to_data()))
    again = Network.from_data(data)
    assert again == network
    assert hash(again) == hash(network)
    assert again.to_data() == network.to_data()
    np.testing.assert_array_equal(again.edges, network.edges)
    kept = "shares" if network.is_directed else "weights"
    difference = abs(getattr(again, kept) - getattr(network, kept))
    assert difference.max() == 0
    assert pickle.loads(pickle.dumps(network)) == network


def test_different_recipes_differ() -> None:
    assert len(set(ALL)) == len({str(network) for network in ALL})
    assert len(set(OTHERS)) == len(OTHERS)
    assert networks.cycle(5) != networks.path(5)
    assert networks.erdos_renyi(12, 0.4, seed=1) != networks.erdos_renyi(12, 0.4, seed=3)


def test_the_same_recipe_however_written() -> None:
    assert networks.cycle(5) == networks.cycle(agents=5) == networks.cycle(np.int64(5))
    assert networks.cycle(5.0).to_data() == {"graph": "cycle", "agents": 5}
    assert networks.erdos_renyi(7, 1) == networks.erdos_renyi(agents=7, p=1.0, seed=0)
    assert networks.grid(2, columns=3) == Network("grid", (("columns", 3), ("rows", 2)))
    assert networks.cycle(5).weighted("max-degree") == networks.cycle(5)
    assert networks.cycle(5).weighted("lazy").failing(0.2) == networks.cycle(5).failing(
        0.2
    ).weighted("lazy")


def test_data_reads_well() -> None:
    network = networks.cycle(100)
    assert network.to_data() == {"graph": "cycle", "agents": 100}
    assert network.gossip().to_data() == {"graph": "cycle", "agents": 100, "dynamics": "gossip"}
    assert network.weighted("metropolis").failing(0.3).to_data() == {
        "graph": "cycle",
        "agents": 100,
        "weights": "metropolis",
        "dynamics": {"name": "link-failure", "p": 0.3, "normalise": "full"},
    }
    assert networks.from_edges([(1, 0)]).to_data() == {
        "graph": "from_edges",
        "edges": [[0, 1]],
        "agents": 2,
    }
    assert networks.from_matrix(MATRIX).to_data() == {
        "graph": "from_matrix",
        "matrix": MATRIX.tolist(),
    }
    kept = networks.complete(3).weighted(MATRIX).to_data()
    assert kept == {"graph": "complete", "agents": 3, "weights": {"matrix": MATRIX.tolist()}}
    assert networks.from_matrix(networks.cycle(60).weights).to_data()["entries"][0] == [
        0,
        0,
        1 - 2 / 3,
    ]


def test_data_written_by_hand() -> None:
    from_data = Network.from_data
    hyphens = {"graph": "erdos-renyi", "agents": 12, "p": 0.4, "seed": 1}
    assert from_data(hyphens) == networks.erdos_renyi(12, 0.4, seed=1)
    link_failure = {"name": "link-failure", "p": 0.5}
    assert from_data({"graph": "cycle", "agents": 5, "dynamics": link_failure}) == networks.cycle(
        5
    ).failing(0.5)
    assert from_data({"graph": "cycle", "agents": 5, "dynamics": "static"}) == networks.cycle(5)
    rows = MATRIX.tolist()
    assert from_data({"graph": "from-matrix", "matrix": rows}) == networks.from_matrix(MATRIX)
    weighted = {"graph": "path", "agents": 3, "weights": rows}
    assert from_data(weighted) == networks.path(3).weighted(MATRIX)


def test_unchecked_matrices_travel_with_their_warning() -> None:
    with pytest.warns(UserWarning, match="not checked"):
        network = networks.from_matrix([[0.5, 0.5], [0.1, 0.9]], check=False)
    data = network.to_data()
    assert data["check"] is False
    with pytest.warns(UserWarning, match="not checked"):
        assert Network.from_data(data) == network


def test_reading_data_does_not_change_it() -> None:
    data = {"graph": "cycle", "agents": 5, "dynamics": {"name": "link-failure", "p": 0.5}}
    before = json.dumps(data)
    Network.from_data(data)
    assert json.dumps(data) == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], r"network must be a table of names and values, got \[\]"),
        ({}, "graph None is unknown: allowed are complete, cycle"),
        ({"graph": "circle", "agents": 5}, "graph 'circle' .*did you mean 'cycle'"),
        ({"graph": "erdos renyi"}, "graph 'erdos renyi' .*did you mean 'erdos_renyi'"),
        ({"graph": "cycle"}, "cycle needs agents, got none"),
        ({"graph": "grid", "rows": 3}, "grid needs columns, got rows"),
        (
            {"graph": "cycle", "agent": 5},
            "cycle argument 'agent' is unknown: did you mean 'agents'.*weights, dynamics",
        ),
        (
            {"graph": "cycle", "agents": 5, "weigths": "lazy"},
            "cycle argument 'weigths' is unknown: did you mean 'weights'",
        ),
        ({"graph": "cycle", "agents": 5, "weights": "lasy"}, "did you mean 'lazy'"),
        ({"graph": "cycle", "agents": 5, "weights": 3}, "matrix must be square"),
        ({"graph": "cycle", "agents": 5, "dynamics": "gosip"}, "did you mean 'gossip'"),
        ({"graph": "cycle", "agents": 5, "dynamics": 3}, "dynamics must be a table .* got 3"),
        (
            {"graph": "cycle", "agents": 5, "dynamics": {"p": 3}},
            "dynamics None is unknown: allowed are static, gossip, link-failure",
        ),
        (
            {"graph": "cycle", "agents": 5, "dynamics": "link-failure"},
            "dynamics 'link-failure' needs p, got none",
        ),
        (
            {"graph": "cycle", "agents": 5, "dynamics": {"name": "gossip", "p": 0.1}},
            "dynamics 'gossip' argument 'p' is unknown",
        ),
        ({"graph": "from_matrix"}, "from_matrix needs matrix"),
        ({"graph": "from_matrix", "matrx": [[1]]}, "did you mean 'matrix'"),
        ({"graph": "from_matrix", "entries": [[0, 1]]}, "entries must be rows"),
        ({"graph": "from_matrix", "entries": [[0, 0.5, 1]]}, "with whole indices"),
    ],
)
def test_bad_data_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network.from_data(data)


def test_networks_print_short() -> None:
    network = networks.cycle(100)
    assert repr(network) == "cycle(agents=100)"
    assert repr(network.gossip()) == "cycle(agents=100, dynamics=Gossip())"
    assert repr(network.weighted("lazy").failing(0.3)) == (
        "cycle(agents=100, weights='lazy', dynamics=LinkFailure(p=0.3, normalise='full'))"
    )
    assert len(repr(networks.from_edges(network.edges))) < 90


def test_networks_are_frozen() -> None:
    with pytest.raises(AttributeError):
        networks.cycle(5).graph = "path"  # type: ignore[misc]


def test_registries_are_plain_dicts() -> None:
    assert all(type(registry) is dict for registry in (GRAPHS, WEIGHT_RULES, DYNAMICS))
    assert list(EXAMPLES) == list(GRAPHS)


def test_importing_networks_is_light() -> None:
    code = (
        "import sys, posse.networks; "
        "print([m for m in sys.modules if m.split('.')[0] in ('scipy', 'networkx')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
