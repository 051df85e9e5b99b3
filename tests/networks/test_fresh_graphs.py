"""`seed="run"`: a random graph drawn afresh in every run, from the run's own stream."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from posse import networks
from posse.networks import EXAMPLES, Network
from posse.randomness import create_generator

RANDOM = [name for name, arguments in EXAMPLES.items() if "seed" in arguments]
FRESH = {name: getattr(networks, name)(**{**EXAMPLES[name], "seed": "run"}) for name in RANDOM}
SENTENCE = r"this network is a fresh graph in every run: use network\.of_run\(seed, run\)"


def variants(name: str) -> list[Network]:
    base = FRESH[name]
    if base.is_directed:
        return [base, base.gossip(), base.failing(0.3), base.failing(0.3, normalise="realised")]
    return [
        base,
        base.weighted("metropolis"),
        base.gossip(),
        base.failing(0.3),
        base.weighted("lazy").failing(0.2),
        base.failing(0.3, normalise="realised"),
    ]


ALL = [network for name in RANDOM for network in variants(name)]


def test_all_random_graphs_can_be_fresh() -> None:
    assert RANDOM == [
        "erdos_renyi",
        "watts_strogatz",
        "barabasi_albert",
        "random_regular",
        "random_geometric",
        "random_directed",
    ]


@pytest.mark.parametrize("network", ALL, ids=str)
def test_a_recipe_travels_compares_and_prints(network: Network) -> None:
    assert network.is_recipe
    assert "seed='run'" in repr(network)
    data = json.loads(json.dumps(network.to_data()))
    assert data["seed"] == "run"
    again = Network.from_data(data)
    assert again == network
    assert hash(again) == hash(network)
    assert pickle.loads(pickle.dumps(network)) == network
    assert network.n_agents == EXAMPLES[network.graph]["agents"]


@pytest.mark.parametrize("network", ALL, ids=str)
def test_each_run_has_a_plain_network_of_its_own(network: Network) -> None:
    runs = [network.of_run(7, run) for run in range(5)]
    assert runs == [network.of_run(7, run) for run in range(5)]
    assert len(set(runs)) == 5
    assert len({one.edges.tobytes() for one in runs}) == 5
    assert network.of_run(8, 0) != runs[0]
    for one in runs:
        assert not one.is_recipe
        assert (one.rule, one.dynamics) == (network.rule, network.dynamics)
        assert one.n_agents == network.n_agents
        assert one.of_run(1, 2) is one
        assert Network.from_data(one.to_data()) == one
    assert networks.cycle(5).of_run(7, 1) == networks.cycle(5)


@pytest.mark.parametrize("name", RANDOM)
def test_the_graph_is_the_first_connected_one_of_the_runs_stream(name: str) -> None:
    for run in range(20):
        source = create_generator(3, run, "graph")
        while True:
            given = {**EXAMPLES[name], "seed": int(source.integers(2**32))}
            try:
                expected = getattr(networks, name)(**given)
            except ValueError:
                continue
            break
        assert FRESH[name].of_run(3, run) == expected


def test_draws_that_fall_apart_are_drawn_again_but_not_for_ever() -> None:
    sparse = networks.erdos_renyi(12, 0.15, seed="run")  # some one in ten is connected
    first = [int(create_generator(0, run, "graph").integers(2**32)) for run in range(20)]
    kept = [dict(sparse.of_run(0, run).arguments)["seed"] for run in range(20)]
    assert sum(a != b for a, b in zip(first, kept, strict=True)) > 5
    hopeless = networks.random_geometric(30, 0.01, seed="run")
    with pytest.raises(ValueError, match="100 draws for run 4 were not: raise radius"):
        hopeless.of_run(0, 4, most_draws=100)


def test_a_run_is_not_lost_by_bad_luck() -> None:
    sparse = networks.erdos_renyi(12, 0.1, seed="run")  # some one in a hundred is connected
    unlucky = 0
    for run in range(8):
        graph = sparse.of_run(0, run)
        try:
            assert sparse.of_run(0, run, most_draws=100) == graph
        except ValueError:
            unlucky += 1
    assert unlucky > 0


QUESTIONS = [
    "topology",
    "edges",
    "degrees",
    "max_degree",
    "link_weights",
    "weights",
    "expected_weights",
    "expected_links",
    "spectral_gap",
    "second_eigenvalue",
    "is_uniform",
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("network", variants("erdos_renyi"), ids=str)
def test_what_needs_the_graph_is_refused(network: Network, question: str) -> None:
    with pytest.raises(ValueError, match=SENTENCE):
        getattr(network, question)


def test_methods_that_need_the_graph_are_refused() -> None:
    network = FRESH["erdos_renyi"]
    with pytest.raises(ValueError, match=SENTENCE):
        network.neighbours(0)
    with pytest.raises(ValueError, match=SENTENCE):
        network.sampler(3)
    with pytest.raises(
        ValueError, match="weights of erdos_renyi must be the name of a rule, because"
    ):
        network.weighted(np.full((12, 12), 1 / 12))
    alone = networks.erdos_renyi(1, 0.5, seed="run")
    with pytest.raises(ValueError, match=SENTENCE):
        alone.spectral_gap  # noqa: B018
    assert alone.of_run(0, 0).spectral_gap == 1


@dataclass(frozen=True)
class Busy:
    """Dynamics of one's own that ask about the graph."""

    def check(self, network: Network) -> None:
        if network.max_degree > 11:
            raise ValueError("too busy")

    def sampler(self, network: Network, n_runs: int) -> Any:
        return lambda randomness: network.weights


def test_dynamics_of_ones_own_see_each_runs_graph() -> None:
    network = networks.erdos_renyi(12, 0.9, seed="run").varying(Busy())
    degrees = [networks.erdos_renyi(12, 0.9, seed="run").of_run(1, r).max_degree for r in range(9)]
    assert degrees[0] == 11
    one = network.of_run(1, 0)
    assert one.dynamics == Busy()
    np.testing.assert_array_equal(one.sampler(1)(create_generator(0, 0, "network"), 1), one.weights)


def test_arguments_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="p must be a finite number at least 0 and at most 1"):
        networks.erdos_renyi(12, 1.5, seed="run")
    with pytest.raises(ValueError, match="k must be even"):
        networks.watts_strogatz(12, 3, 0.5, seed="run")
    with pytest.raises(ValueError, match="normalise 'realised' is defined for"):
        FRESH["erdos_renyi"].weighted("lazy").failing(0.1, normalise="realised")


@pytest.mark.parametrize("seed", [None, "fresh"])
@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_that_is_none_learns_of_run(name: str, seed: Any) -> None:
    message = "seed must be a whole number .* or 'run' for a fresh graph in every run, got"
    with pytest.raises(ValueError, match=f"{message} {seed!r}"):
        getattr(networks, name)(**{**EXAMPLES[name], "seed": seed})
