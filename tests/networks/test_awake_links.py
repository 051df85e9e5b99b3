"""Weights among those awake: doubly stochastic, inside the graph, unit rows for sleepers."""

import numpy as np
import pytest

from posse import networks
from posse.networks import as_matrix, cut_off_sleepers
from posse.randomness import Streams

NETWORKS = {
    "star": networks.star(6),
    "lazy": networks.grid(2, 3).weighted("lazy"),
    "metropolis": networks.star(6).weighted("metropolis"),
    "least squares": networks.path(6).weighted("least-squares"),
    "matrix": networks.from_matrix(networks.cycle(6).weights),
    "sparse": networks.cycle(40),
    "failing": networks.complete(6).failing(0.4),
    "gossip": networks.cycle(6).gossip(),
    "complete": networks.complete(6),
}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_weights_among_those_awake(network, share):
    n_agents = network.n_agents
    awake = np.random.default_rng(2).random((3, n_agents)) < share
    full = network.sampler(3)(Streams.for_runs(1, range(3), "network"))
    weights = as_matrix(cut_off_sleepers(network, full, awake), n_agents, 3)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=-2), 1.0, rtol=1e-12)
    assert (weights >= 0).all()
    linked = np.eye(n_agents, dtype=bool)
    linked[tuple(network.edges.T)] = linked[tuple(network.edges.T[::-1])] = True
    assert not weights[:, ~linked].any()
    in_use = as_matrix(full, n_agents, 3) > 0
    for run in range(3):
        asleep = ~awake[run]
        unit = np.eye(n_agents)[asleep]
        np.testing.assert_array_equal(weights[run][asleep], unit)
        np.testing.assert_array_equal(weights[run][:, asleep].T, unit)
        links = (in_use[run] if in_use.ndim == 3 else in_use) & np.outer(awake[run], awake[run])
        np.fill_diagonal(links, False)
        np.testing.assert_array_equal(weights[run][links] > 0, True)
        # all that are linked to anybody mix at least as fast as max-degree weights let them
        degrees = links.sum(axis=1)
        least = 0.5 if network.rule == "lazy" else 1.0
        assert (weights[run][links] >= least / (1 + degrees.max(initial=0)) - 1e-12).all()


def test_all_awake_is_the_network_itself():
    for rule in ("max-degree", "metropolis", "lazy"):
        network = networks.star(6).weighted(rule)
        weights = cut_off_sleepers(network, network.weights, np.ones((1, 6), dtype=bool))
        np.testing.assert_allclose(as_matrix(weights, 6)[0], network.weights, rtol=1e-12)
