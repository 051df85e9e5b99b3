"""Pictures of networks: every agent and link is there, in the colour of its cost."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from posse import networks, theory
from posse.networks import EXAMPLES, GRAPHS
from posse.networks.plots import place_agents

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", GRAPHS)
def test_every_agent_has_a_place_of_its_own(name: str) -> None:
    network = getattr(networks, name)(**EXAMPLES[name])
    places = place_agents(network)
    assert places.shape == (network.n_agents, 2)
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    assert (apart + np.eye(network.n_agents)).min() > 1e-3
    np.testing.assert_array_equal(places, place_agents(network))


def test_colours_are_costs_and_widths_are_weights() -> None:
    network = networks.grid(2, 3)
    axes = network.weighted("metropolis").plot()
    lines, points = axes.collections
    np.testing.assert_allclose(
        points.get_array(), theory.network_cost(network.weighted("metropolis")).per_agent
    )
    assert points.get_clim()[0] == 0
    weights = network.weighted("metropolis").link_weights
    widths = np.asarray(lines.get_linewidths())
    np.testing.assert_allclose((widths - 0.4) / 1.6, weights / weights.max())
    assert len(lines.get_segments()) == len(network.edges)
    places = points.get_offsets()
    np.testing.assert_allclose(np.array(lines.get_segments()), np.asarray(places)[network.edges])


def test_own_numbers_axes_and_no_colours() -> None:
    _, axes = plt.subplots()
    assert networks.path(4).plot([1.0, 2.0, 3.0, 4.0], axes=axes, label="regret") is axes
    assert axes.figure.axes[1].get_ylabel() == "regret"
    plain = networks.path(4).gossip().plot(None)
    assert plain.collections[1].get_array() is None
    assert len(plain.figure.axes) == 1
    assert networks.complete(1).plot().get_title() == "complete(agents=1)"
    # weights that are not symmetric have no link weights
    rotation = np.roll(np.eye(4), 1, axis=0) / 2 + np.eye(4) / 2
    assert networks.from_matrix(rotation).plot().collections[1].get_array().shape == (4,)


def test_plot_refuses() -> None:
    with pytest.raises(ValueError, match=r"one number for each of the 4 agents, got shape \(3,\)"):
        networks.path(4).plot([1, 2, 3])
    with pytest.raises(ValueError, match=r"values 'costs' is unknown: did you mean 'cost'"):
        networks.path(4).plot("costs")
    with pytest.raises(ValueError, match="has 3,000 agents: a picture shows 2,000 at most"):
        networks.cycle(3000).plot()
    with pytest.raises(ValueError, match="fresh graph in every run"):
        networks.erdos_renyi(9, 0.5, seed="run").plot()
