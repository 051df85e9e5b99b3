"""Links for algorithms that choose what to send over which one: who, which are up, sums, counts."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem

NETWORKS = {
    "path": networks.path(5),
    "complete": networks.complete(5),
    "sparse": networks.cycle(600),
    "gossip": networks.path(5).gossip(),
    "failing": networks.star(5).failing(0.5),
    "sparse-failing": networks.cycle(600).failing(0.5),
    "directed": networks.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)], directed=True),
    "directed-gossip": networks.from_edges([(0, 1), (1, 2), (2, 0)], directed=True).gossip(),
    "matrix": networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]),
    "one": networks.complete(1),
}


def problem_on(network, n_runs=3):
    return Problem(network.n_agents, 2, 10, posse.families.Gaussian(), network, n_runs)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_links_are_the_entries_of_the_weights_off_the_diagonal(network):
    problem = problem_on(network)
    senders, receivers = problem.senders_receivers
    matrix = network.shares if network.is_directed else network.weights
    dense = networks.as_matrix(matrix, network.n_agents).copy()
    np.fill_diagonal(dense, 0.0)
    expected_receivers, expected_senders = np.nonzero(dense)  # by row, so ascending
    np.testing.assert_array_equal(receivers, expected_receivers)
    np.testing.assert_array_equal(senders, expected_senders)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_link_weights_are_the_entries_of_the_weights_of_the_round(network):
    problem = problem_on(network)
    senders, receivers = problem.senders_receivers
    draw = network.sampler(3)
    generator = posse.randomness.Streams.for_runs(1, range(3), "network")
    for t in range(1, 4):
        weights = draw(generator, t)
        dense = networks.as_matrix(weights, network.n_agents, 3)
        expected = np.broadcast_to(dense[..., receivers, senders], (3, len(senders)))
        np.testing.assert_allclose(problem.get_link_weights(weights), expected, rtol=1e-15)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_sums_by_receiver_are_loops_over_links(network):
    problem = problem_on(network)
    senders, receivers = problem.senders_receivers
    values = np.random.default_rng(0).normal(size=(4, 3, len(senders), 2))
    expected = np.zeros((4, 3, network.n_agents, 2))
    for link, receiver in enumerate(receivers):
        expected[:, :, receiver] += values[:, :, link]
    np.testing.assert_allclose(problem.sum_by_receiver(values), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("receivers", [[], [0, 0, 3], [2], [1, 1, 2]])
def test_agents_without_incoming_links_receive_nothing(receivers):
    values = np.arange(1.0, 1.0 + len(receivers))[:, None]
    sums = networks.sum_by_receiver(values, np.array(receivers, dtype=int), 4)[:, 0]
    expected = np.bincount(np.array(receivers, dtype=int), values[:, 0], minlength=4)
    np.testing.assert_array_equal(sums, expected)


@dataclass(frozen=True)
class EvenRounds:
    """Agents that tell in even rounds how often they played each arm, one number an arm."""

    by_link: bool = True

    def init(self, problem):
        counts = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return problem, 0, counts, np.zeros_like(counts)

    def choose(self, state, t, generator):
        _, _, counts, received = state
        return posse.policies.argmax(-(counts + received), generator)

    def learn(self, state, arms, rewards, weights):
        problem, t, counts, received = state
        counts = counts.copy()
        np.put_along_axis(
            counts, arms[..., None], 1 + np.take_along_axis(counts, arms[..., None], -1), -1
        )
        senders, _ = problem.senders_receivers
        if t % 2:
            received = problem.sum_by_receiver(counts[:, senders])
        return problem, t + 1, counts, received

    def numbers_sent(self, state, t, links):
        problem, t, _, _ = state
        senders, _ = problem.senders_receivers
        sent = np.full((problem.n_runs, len(senders)), problem.n_arms * (t % 2 == 0))
        return sent if self.by_link else sent.sum(axis=1)


def test_numbers_sent_by_link_are_added_up():
    options = {"horizon": 6, "runs": 4, "keep": ("messages",)}
    bandit, network = posse.Bandit.bernoulli([0.6, 0.4]), networks.cycle(7)
    results = [
        posse.simulate(bandit, network, EvenRounds(by_link), **options) for by_link in (True, False)
    ]
    np.testing.assert_array_equal(results[0].numbers_sent, results[1].numbers_sent)
    # two links an agent, two arms, in rounds 2, 4 and 6
    np.testing.assert_array_equal(results[0].numbers_sent[0], [0, 4, 4, 8, 8, 12])


def test_an_algorithm_with_links_of_its_own_builds_no_dense_matrix():
    """At 4,000 agents a dense W would take 128 MB, or 16 MB as booleans."""
    network = networks.cycle(4000).failing(0.2)
    tracemalloc.start()
    try:
        posse.simulate(
            posse.Bandit.bernoulli([0.6, 0.4]),
            network,
            EvenRounds(),
            horizon=4,
            runs=1,
            keep=("messages",),
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4000**2
