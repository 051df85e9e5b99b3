"""Tree: each observation comes to everybody exactly once, by the way through a spanning tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

import posse
from posse import beliefs, networks
from posse.algorithms import Flooding, Isolated, Problem, Tree
from posse.algorithms.algorithm import ArrivedRewards
from posse.algorithms.tree import Channels
from posse.families import Bernoulli, Gaussian
from posse.networks.spanning import spanning_tree
from posse.randomness import Streams

TS = posse.ThompsonSampling()
TREES = [
    networks.path(2),
    networks.path(9),
    networks.star(7),
    networks.barabasi_albert(20, 1, seed=3),
    networks.path(40).weighted("metropolis"),  # sparse weights
]
GRAPHS = [
    *TREES,
    networks.cycle(9),
    networks.grid(3, 5),
    networks.complete(6),
    networks.erdos_renyi(20, 0.2, seed=1),
    networks.watts_strogatz(40, 4, 0.1, seed=2),
]


def hops_in_tree(network):
    links = spanning_tree(network)
    shape = (network.n_agents, network.n_agents)
    steps = coo_array((np.ones(len(links)), links.T), shape=shape).tocsr()
    return shortest_path(steps, directed=False, unweighted=True)


@pytest.mark.parametrize("network", GRAPHS, ids=str)
def test_the_tree_spans_the_graph_by_its_own_links(network):
    links = spanning_tree(network)
    assert links.shape == (network.n_agents - 1, 2)
    assert {tuple(link) for link in links} <= {tuple(link) for link in network.edges}
    hops = hops_in_tree(network)
    assert np.isfinite(hops).all()
    # rooted in the middle: no way is longer than twice the radius of the root
    assert hops.max() <= 2 * hops.max(axis=1).min()


def test_the_middle_of_a_grid_keeps_ways_short():
    """From a corner of 5 x 7 the deepest agent is 10 links away; from the middle 5."""
    assert hops_in_tree(networks.grid(5, 7)).max(axis=1).min() == 5


@pytest.mark.parametrize("network", TREES, ids=str)
@pytest.mark.parametrize("half_life", [None, 7.0])
def test_on_a_tree_beliefs_are_those_of_flooding(network, family, learnt, half_life):
    """In every round, to 5e-14 of the largest coordinate."""
    generator = np.random.default_rng(0)
    n_runs, n_arms = 2, 3
    problem = Problem(network.n_agents, n_arms, 30, family, network, n_runs)
    ours, flooding = Tree(TS, half_life=half_life), Flooding(TS, half_life=half_life)
    mine, theirs = ours.init(problem), flooding.init(problem)
    low, high = max(family.means.low, 0.2), min(family.means.high, 0.8)
    for _ in range(12):
        arms = generator.integers(0, n_arms, (n_runs, network.n_agents))
        rewards = family.draw_rewards(generator.uniform(low, high, arms.shape), generator)
        mine = ours.learn(mine, arms, rewards, network.weights)
        theirs = flooding.learn(theirs, arms, rewards, network.weights)
        scale = np.abs(theirs.belief).max()
        np.testing.assert_allclose(mine.belief, theirs.belief, rtol=1e-12, atol=5e-14 * scale)


@pytest.mark.parametrize("open_", ["wait", "count"])
def test_on_a_tree_late_rewards_are_those_of_flooding(open_):
    generator, network = np.random.default_rng(1), networks.star(5)
    problem = Problem(5, 3, 30, Bernoulli(), network, 1)
    ours, flooding = Tree(TS, open=open_, half_life=9.0), Flooding(TS, open=open_, half_life=9.0)
    mine, theirs = ours.init(problem), flooding.init(problem)
    played = []
    for t in range(1, 13):
        arms = generator.integers(0, 3, (1, 5))
        played.append(arms)
        pulled = max(1, t - 2)  # two rounds late
        agents = np.arange(5) if t > 2 else np.arange(0)
        heard = ArrivedRewards(
            t, 0 * agents, agents, played[pulled - 1][0, agents],
            (generator.random(len(agents)) < 0.5).astype(float), np.full(len(agents), pulled),
        )  # fmt: skip
        mine = ours.learn_delayed(mine, arms, heard, network.weights)
        theirs = flooding.learn_delayed(theirs, arms, heard, network.weights)
        np.testing.assert_allclose(mine.belief, theirs.belief, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("network", GRAPHS, ids=str)
def test_every_observation_is_known_once_after_as_many_rounds_as_links_in_the_tree(network):
    """The exact sum: what i sees in round s is in j's belief from round s + max(1, d) on."""
    family, n_agents, n_rounds = Gaussian(), network.n_agents, 25
    generator = np.random.default_rng(2)
    arms = generator.integers(0, 3, (n_rounds, n_agents))
    rewards = generator.normal(size=arms.shape)
    wait = np.maximum(1, hops_in_tree(network)).astype(int)
    algorithm = Tree(TS)
    state = algorithm.init(Problem(n_agents, 3, n_rounds, family, network))
    for t in range(n_rounds):
        state = algorithm.learn(state, arms[t : t + 1], rewards[t : t + 1], network.weights)
        if t % 4 and t > 4:
            continue
        expected = beliefs.prior(family, n_agents, 3)
        for j in range(n_agents):
            for i in range(n_agents):
                for s in range(max(0, t + 2 - wait[i, j])):
                    expected[:, j, arms[s, i]] += [rewards[s, i], 1.0]
        np.testing.assert_allclose(state.belief[:, 0], expected, rtol=1e-12, atol=5e-14 * t)


@dataclass(frozen=True)
class Silent:
    """Own dynamics for the test: any entry of W may be 0, also in one direction only."""

    seed: int
    loss: float
    doubly_stochastic = False

    def sampler(self, network, n_runs):
        generator = np.random.default_rng(self.seed)
        weights = np.asarray(network.weights)

        def draw(randomness):
            kept = generator.random((n_runs, *weights.shape)) >= self.loss
            return np.where(kept | np.eye(len(weights), dtype=bool), weights, 0.0)

        return draw


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    which=st.sampled_from([networks.star(5), networks.path(6), networks.grid(3, 3)]),
    one_way=st.booleans(),
)
def test_with_losses_nothing_is_counted_twice(seed, which, one_way):
    """40% of messages lost. Agent i plays arm i only, so j's arm i is what it knows of i's rewards.

    It is always the sum of the first so many of them, as many as flooding through the tree's links
    that worked would have brought.
    """
    network = which.varying(Silent(seed, 0.4)) if one_way else which.failing(0.4)
    n_agents, n_rounds, n_runs = network.n_agents, 15, 2
    family, algorithm = Gaussian(), Tree(TS)
    generator = np.random.default_rng(seed)
    draw, source = network.sampler(n_runs), Streams.for_runs(seed, range(n_runs), "network")
    channels = Channels.from_network(network)
    state = algorithm.init(Problem(n_agents, n_agents, n_rounds, family, network, n_runs))
    rewards = generator.normal(size=(n_runs, n_rounds, n_agents))
    sums = np.concatenate([np.zeros((n_runs, 1, n_agents)), np.cumsum(rewards, axis=1)], axis=1)
    known = np.zeros((n_runs, n_agents, n_agents), dtype=int)
    everybody = np.broadcast_to(np.arange(n_agents), (n_runs, n_agents))
    for t in range(n_rounds):
        weights = draw(source, t + 1)
        hears = networks.as_matrix(weights, n_agents, n_runs) > 0
        state = algorithm.learn(state, everybody, rewards[:, t], weights)
        known[:, np.arange(n_agents), np.arange(n_agents)] = t + 1
        before, in_use = known.copy(), np.zeros(n_runs)
        for run in range(n_runs):
            for j, i in zip(channels.receiver, channels.sender, strict=True):
                if hears[run, j, i]:
                    known[run, j] = np.maximum(known[run, j], before[run, i])
                    in_use[run] += 1
            expected = sums[run][known[run], np.arange(n_agents)]
            np.testing.assert_allclose(state.belief[1, run], 1.0 + known[run], rtol=1e-12)
            np.testing.assert_allclose(state.belief[0, run], expected, rtol=1e-12, atol=1e-12)
        sent = algorithm.numbers_sent(state, t + 1, np.zeros(n_runs))
        np.testing.assert_array_equal(sent, in_use * 2 * n_agents)


@pytest.mark.parametrize("p", [0.3, 0.6])
def test_sparse_weights_of_runs_are_read_link_by_link(p):
    """The same as from the dense ones."""
    network = networks.cycle(60).failing(p)
    channels, draw = Channels.from_network(network), network.sampler(3)
    source = Streams.for_runs(1, range(3), "network")
    for t in range(1, 4):
        weights = draw(source, t)
        dense = networks.as_matrix(weights, 60, 3)[:, channels.receiver, channels.sender] > 0
        np.testing.assert_array_equal(channels.find_active(weights, 3), dense)
        assert abs(dense.mean() - (1 - p)) < 0.2


@pytest.mark.parametrize("network", GRAPHS, ids=str)
def test_it_sends_a_belief_over_every_link_of_the_tree(network):
    algorithm = Tree(TS)
    state = algorithm.init(Problem(network.n_agents, 4, 9, Gaussian(), network, 3))
    sent = algorithm.numbers_sent(state, 1, np.zeros(3))
    np.testing.assert_array_equal(sent, 2 * (network.n_agents - 1) * 2 * 4)


@pytest.mark.parametrize("policy", [TS, posse.RandUCB()], ids=str)
def test_one_agent_is_alone(policy):
    bandit, network = posse.Bandit.gaussian([0.5, 0.2, 0.1]), networks.complete(1)
    settings_ = {"horizon": 60, "runs": 5, "seed": 4, "engine": "reference"}
    tree = posse.simulate(bandit, network, Tree(policy), keep=("messages",), **settings_)
    alone = posse.simulate(bandit, network, Isolated(policy), **settings_)
    np.testing.assert_array_equal(tree.regret, alone.regret)
    assert not tree.numbers_sent.any()


def test_a_fresh_graph_in_every_run_has_its_own_tree():
    bandit = posse.Bandit.gaussian([0.5, 0.0])
    network = networks.erdos_renyi(8, 0.4, seed="run")
    result = posse.simulate(
        bandit, network, Tree(TS), horizon=40, runs=6, seed=1, keep=("beliefs",), engine="reference"
    )
    # all but the last rounds of far agents are known: 8 agents saw 40 rewards each
    pulls = result.beliefs[:, -1, 1].sum(axis=-1) - 2
    assert ((pulls > 8 * 40 - 8 * 7) & (pulls <= 8 * 40)).all()


def test_gossip_is_refused():
    bandit = posse.Bandit.gaussian([0.5, 0.2])
    with pytest.raises(ValueError, match="gossip of random pairs"):
        posse.simulate(bandit, networks.cycle(5).gossip(), Tree(TS), horizon=5, runs=1, seed=1)


def test_links_that_one_end_alone_uses_make_no_tree():
    bandit = posse.Bandit.gaussian([0.5, 0.2])
    ring = networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    with pytest.raises(ValueError, match="only 1 of 3 agents are reached"):
        posse.simulate(bandit, ring, Tree(TS), horizon=5, runs=1, seed=1)
