"""What agents send, counted by hand: every number that crosses a link, message by message."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import posse
from posse import networks
from posse.algorithms import ALGORITHMS, Problem
from posse.families import Bernoulli, Gaussian, GaussianUnknownVariance
from posse.networks.operators import (
    GossipPairs,
    SparseRuns,
    SparseWeights,
    UniformWeights,
    as_matrix,
    count_links_in_use,
)
from posse.randomness import Streams

RUNS, N_ARMS, ROUNDS = 3, 4, 14
TS = posse.ThompsonSampling()
LOPSIDED = networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
STATIC = [
    networks.complete(1),
    networks.cycle(2),
    networks.path(6),
    networks.cycle(7),
    networks.star(5),
    networks.complete(5),
    networks.complete(5).weighted("lazy"),
    networks.grid(3, 4).weighted("metropolis"),
    networks.cycle(40),
    LOPSIDED,
    networks.from_matrix([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]),
]
CHANGING = [
    networks.path(4).gossip(),
    networks.complete(6).gossip(),
    networks.cycle(6).failing(0.5),
    networks.grid(3, 3).failing(0.8),
    networks.cycle(40).failing(0.3),
    networks.complete(5).failing(0.4, normalise="realised"),
]


class Watched:
    """W(t) that notes how many numbers of each agent pass through it in a round."""

    def __init__(self, weights):
        self.weights, self.numbers = weights, 0

    def __matmul__(self, x):
        n_runs, n_agents, _ = x.shape[-3:]
        self.numbers += x.size // (n_runs * n_agents)
        return self.weights @ x


def by_hand(weights, n_agents):
    """The directed links of each run, one by one: (R,) lists of (hearer, speaker)."""
    eye = np.broadcast_to(np.eye(n_agents), (RUNS, n_agents, n_agents)).copy()
    return [
        [(i, j) for i in range(n_agents) for j in range(n_agents) if i != j and w[i, j] != 0]
        for w in weights @ eye
    ]


def rounds_of(algorithm, network, family, rounds=ROUNDS):
    """Play, and give what the algorithm says it sent with all that lets one count it: by round."""
    generator = np.random.default_rng(0)
    n_agents = network.n_agents
    problem = Problem(n_agents, N_ARMS, rounds, family, network, RUNS)
    draw, source = network.sampler(RUNS), Streams.for_runs(4, range(RUNS), "network")
    state = start = algorithm.init(problem)
    for t in range(1, rounds + 1):
        arms = algorithm.choose(state, t, generator)
        rewards = family.draw_rewards(np.full(arms.shape, 0.4), generator)
        weights = draw(source, t)
        watched = Watched(weights)
        state = algorithm.learn(state, arms, rewards, watched)
        links = count_links_in_use(weights, RUNS, n_agents)
        yield t, state, start, links, by_hand(weights, n_agents), watched.numbers


# All that agents of these learn of each other passes through W(t).
THROUGH_WEIGHTS = (
    *("decentralized", "isolated", "coop-ucb", "coop-ucb2", "coop-ucl", "dducb"),
    *("discounted-ucb", "sliding-window-ucb"),
)
# The others have messages of their own, which tests of their own count: flooding's and a centre's
# below, those of a tree in test_tree.py, of push-sum in test_push_sum.py, of events in
# test_event_triggered.py, of what agents hear in test_heard.py, and of the other rivals, which name
# the paper that they are from as their `source`, in test_rivals.py.
OTHERWISE = (
    *("flooding", "centralized", "partial-pooling", "tree", "push-sum", "event-triggered"),
)
HEARD = ("ucb-network", "follow-your-leader", "comex", "coop-se")


def is_refused(name, network):
    """Whether an algorithm cannot be run on a network."""
    if name in ("coop-ucb", "dducb") and (network in CHANGING or network is LOPSIDED):
        return True
    return name == "coop-ucb" and network.n_agents == 1


def test_the_messages_of_every_algorithm_are_counted_somewhere():
    rivals = {name for name, cls in ALGORITHMS.items() if hasattr(cls, "source")}
    assert {*THROUGH_WEIGHTS, *OTHERWISE, *HEARD, *rivals} == set(ALGORITHMS)
    for name in (*OTHERWISE, *HEARD):
        assert hasattr(ALGORITHMS[name], "numbers_sent")


@pytest.mark.parametrize(
    ("name", "network"),
    [
        pytest.param(name, network, id=f"{network}-{name}")
        for name in THROUGH_WEIGHTS
        for network in (*STATIC, *CHANGING)
        if not is_refused(name, network)
    ],
)
def test_numbers_are_those_that_pass_from_agent_to_agent(name, network):
    cls = ALGORITHMS[name]
    algorithm = cls.example() if hasattr(cls, "example") else cls()
    for t, state, start, links, counted, numbers in rounds_of(algorithm, network, Gaussian()):
        expected = [numbers * len(one) for one in counted]
        sent = algorithm.numbers_sent(state, t, links)
        assert sent.dtype == np.float64
        np.testing.assert_array_equal(sent, expected)
        np.testing.assert_array_equal(algorithm.numbers_sent(start, t, links), expected)


@pytest.mark.parametrize(
    ("family", "n_coordinates"), [(Bernoulli(), 2), (GaussianUnknownVariance(), 4)], ids=str
)
def test_a_belief_takes_all_its_coordinates(family, n_coordinates):
    """By hand: on a ring of 7 each of 14 directed links carries D K numbers."""
    algorithm = posse.Decentralized(TS)
    for t, state, _, links, _, _ in rounds_of(algorithm, networks.cycle(7), family, rounds=3):
        sent = algorithm.numbers_sent(state, t, links)
        np.testing.assert_array_equal(sent, 14 * n_coordinates * N_ARMS)


@pytest.mark.parametrize("network", [*STATIC, *CHANGING], ids=str)
def test_flooding_sends_what_the_other_end_lacks(network):
    """Every agent keeps the set of observations that it knows; both ends of a link compare."""
    algorithm = posse.Flooding(TS)
    knows = [[set() for _ in range(network.n_agents)] for _ in range(RUNS)]
    told = rounds_of(algorithm, network, Bernoulli(), rounds=25)
    for t, state, start, links, counted, _ in told:
        expected = np.zeros(RUNS)
        for run in range(RUNS):
            for agent, known in enumerate(knows[run]):
                known.add((agent, t))
            before = [set(known) for known in knows[run]]
            for hearer, speaker in counted[run]:
                for observation in before[speaker] - before[hearer]:
                    expected[run] += len(("arm", "reward"))
                    knows[run][hearer].add(observation)
        np.testing.assert_array_equal(algorithm.numbers_sent(state, t, links), expected)
        if network in STATIC:  # known beforehand
            np.testing.assert_array_equal(algorithm.numbers_sent(start, t, links), expected)


def test_on_a_complete_graph_flooding_sends_what_a_centre_needs():
    """By hand: 5 agents tell 4 others 2 numbers each; a path's ends hear of each other late."""
    for network in (networks.complete(5), networks.path(5)):
        for central in (posse.Centralized(TS), posse.PartialPooling(TS)):
            state = central.init(Problem(5, N_ARMS, 9, Gaussian(), network, RUNS))
            np.testing.assert_array_equal(central.numbers_sent(state, 3, np.full(RUNS, 8)), 40)
    flooding = posse.Flooding(TS)
    for network, expected in ((networks.complete(5), [40, 40]), (networks.path(3), [8, 12, 12])):
        state = flooding.init(Problem(network.n_agents, N_ARMS, 9, Gaussian(), network, 1))
        links = count_links_in_use(network.weights, 1)
        sent = [flooding.numbers_sent(state, t + 1, links)[0] for t in range(len(expected))]
        assert sent == expected


class Halves:
    """An operator that says nothing of itself: agents 0 and 1 take their average."""

    def __matmul__(self, x):
        mixed = x.copy()
        mixed[..., :2, :] = x[..., :2, :].mean(axis=-2, keepdims=True)
        return mixed


W = networks.path(6).weights
HOLED = sp.csr_array(networks.cycle(6).weights)
HOLED.data[1] = 0.0  # a stored zero is no link
SOME = np.stack([W, np.eye(6), networks.cycle(6).weights])
KINDS = {
    "dense": (W, [10, 10, 10]),
    "without a diagonal": (np.eye(6)[[1, 0, 3, 2, 5, 4]], [6, 6, 6]),
    "of each run": (SOME, [10, 0, 12]),
    "sparse": (sp.coo_array(W), [10, 10, 10]),
    "sparse operator": (SparseWeights(sp.csr_array(W)), [10, 10, 10]),
    "stored zeros": (SparseWeights(HOLED), [11, 11, 11]),
    "sparse runs": (SparseRuns(sp.csr_array(sp.block_diag(list(SOME)))), [10, 0, 12]),
    "uniform": (UniformWeights(6), [30, 30, 30]),
    "pairs": (GossipPairs(np.array([0, 1, 4]), np.array([3, 2, 5])), [2, 2, 2]),
    "own": (Halves(), [2, 2, 2]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_links_in_use_and_entries_of_every_kind_of_weights(kind):
    weights, expected = KINDS[kind]
    for _ in range(2):
        np.testing.assert_array_equal(count_links_in_use(weights, 3, 6), expected)
    matrix = as_matrix(weights, 6, 3)
    assert matrix.shape in ((6, 6), (3, 6, 6))
    assert isinstance(matrix, np.ndarray)
    x = np.random.default_rng(1).normal(size=(3, 6, 2))
    product = (weights.toarray() if hasattr(weights, "toarray") else weights) @ x
    np.testing.assert_allclose(matrix @ x, product, rtol=0, atol=1e-15)
    assert networks.as_matrix is as_matrix


def test_weights_without_a_shape_ask_for_the_number_of_agents():
    with pytest.raises(ValueError, match="n_agents must be given for weights without a shape"):
        count_links_in_use(Halves(), 3)
    np.testing.assert_array_equal(count_links_in_use(W, 3), 10)
