"""Complete graphs of so many agents that their links are not listed."""

import numpy as np
import pytest

import posse
from posse.networks import graphs

RULES = ("max-degree", "metropolis", "lazy")
MILLION = posse.networks.complete(10**6)


@pytest.fixture
def small(monkeypatch):
    """The networks of seven agents, with their links listed and not."""
    listed = posse.networks.complete(7)
    monkeypatch.setattr(graphs, "_MOST_LISTED", 6)
    return listed, posse.networks.complete(7)


def test_what_is_known_without_links_is_what_links_give(small):
    listed, large = small
    assert isinstance(large.topology, graphs.LargeCompleteGraph)
    assert large == listed
    assert (large.n_agents, large.n_links) == (listed.n_agents, len(listed.edges)) == (7, 21)
    np.testing.assert_array_equal(large.degrees, listed.degrees)
    for agent in range(7):
        np.testing.assert_array_equal(large.neighbours(agent), listed.neighbours(agent))
    assert large.is_complete
    assert large.is_uniform
    assert posse.theory.network_cost(large).total == posse.theory.network_cost(listed).total


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_simulation_is_the_same_bit_for_bit(small, engine):
    results = [
        posse.simulate(
            posse.Bandit.bernoulli([0.6, 0.4]),
            network,
            posse.Decentralized(posse.ThompsonSampling()),
            horizon=20,
            runs=2,
            engine=engine,
            keep=("messages", "agents"),
        )
        for network in small
    ]
    assert (results[0].regret == results[1].regret).all()
    assert (results[0].numbers_sent == results[1].numbers_sent).all()
    assert (results[0].agent_regret == results[1].agent_regret).all()


def test_a_million_agents_play():
    result = posse.simulate(
        posse.Bandit.bernoulli([0.6, 0.4]),
        MILLION,
        posse.Decentralized(posse.ThompsonSampling()),
        horizon=2,
        runs=1,
        keep=("messages",),
    )
    # the first round is a coin for each agent: half of them lose 0.2
    assert result.regret[0, 0] == pytest.approx(0.1, abs=5 * 0.1 / 1000)
    # two coordinates of two arms to all others, every round
    assert result.numbers_sent[0, -1] == 2 * 4 * 999_999
    assert MILLION.spectral_gap == 1
    assert "999999" in MILLION._repr_html_()


@pytest.mark.parametrize(
    "name", ["edges", "weights", "link_weights", "shares", "senders_receivers", "expected_weights"]
)
def test_links_are_refused_in_one_sentence(name):
    with pytest.raises(
        ValueError, match=r"^complete\(1000000\) has 499,999,500,000 links, "
    ) as error:
        getattr(MILLION, name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", [lambda n: n.gossip(), lambda n: n.failing(0.1)])
def test_dynamics_are_refused_when_they_are_played(change):
    with pytest.raises(ValueError, match=r"has 499,999,500,000 links"):
        posse.simulate(
            posse.Bandit.bernoulli([0.6, 0.4]),
            change(MILLION),
            posse.Decentralized(posse.ThompsonSampling()),
            horizon=2,
            runs=1,
        )


@pytest.mark.parametrize("rule", RULES)
def test_the_spectral_gap_is_that_of_the_matrix(monkeypatch, rule):
    matrix = posse.networks.complete(7).weighted(rule).weights
    oracle = 1 - np.sort(np.abs(np.linalg.eigvalsh(matrix)))[-2]
    monkeypatch.setattr(graphs, "_MOST_LISTED", 6)
    large = posse.networks.complete(7).weighted(rule)
    assert large.spectral_gap == pytest.approx(oracle, abs=1e-12)
