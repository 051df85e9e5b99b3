"""Flows is Algorithm 1: every exchange on an edge is the merge with one pairwise matrix."""

import itertools
import random

import networkx as nx
import numpy as np
import pytest

from posse import beliefs
from posse.live.exchange import Flows
from posse.live.ledger.sums import PER_UNIT
from tests.live.exchange.world import World

ARMS = ("a", "b", "c")


def array(agents):
    """The levels of all agents as a belief (D, N, K)."""
    zero = (0, 0)
    rows = [[agent.level().get(arm, zero) for arm in ARMS] for agent in agents]
    return np.array(rows, dtype=float).transpose(2, 0, 1)


def exchange(one, other, names):
    """One step on one edge, with every message delivered, and none on any other edge."""
    of = {agent.identity: agent for agent in (one, other)}
    first, second = sorted(of)
    for agent in (of[first], of[second]):  # a credit for the owner, then a word of the mirror
        outgoing = agent.tick(0.0)
    queue = [(of[second], to, m) for to, m in outgoing if to == names[first]]
    for _ in range(20):
        if not queue:
            return
        sender, _, message = queue.pop(0)
        receiver = other if sender is one else one
        answers = receiver.receive(names[sender.identity], message, 0.0)
        queue += [(receiver, to, answer) for to, answer in answers]
    raise AssertionError("the edge does not come to rest")


# a division leaves less than a quantum: of so many pulls at once that is a share of 1e-13
@pytest.mark.parametrize("unit", [PER_UNIT, 2**43], ids=["one pull", "many pulls"])
@pytest.mark.parametrize("graph", [nx.path_graph(4), nx.star_graph(4), nx.cycle_graph(5)])
def test_flows_follow_the_pairwise_merge(graph, unit):
    draw = random.Random(3)
    agents = [Flows(fingerprint="f", bounds=(1.0, 1.0), draw=draw.getrandbits) for _ in graph]
    names = {agent.identity: f"agent{nth}" for nth, agent in enumerate(agents)}
    for one, other in graph.edges:
        agents[one].connect(f"agent{other}")
        agents[other].connect(f"agent{one}")
    edges = list(graph.edges)
    for one, other in edges:  # the handshake, while there is nothing to exchange
        for _ in range(3):
            exchange(agents[one], agents[other], names)
    expected = array(agents)
    assert not expected.any()
    n_agents = len(agents)
    for nth in range(60):
        if nth < 30:
            who, arm = draw.randrange(n_agents), draw.randrange(len(ARMS))
            statistic = (draw.randrange(2) * unit, unit)
            agents[who].observe(ARMS[arm], statistic)
            expected[:, who, arm] += statistic
        one, other = draw.choice(edges)
        weight = 1 / (1 + max(graph.degree[one], graph.degree[other]))
        weights = np.eye(n_agents)
        for i, j in itertools.permutations((one, other)):
            weights[i, i] -= weight
            weights[i, j] += weight
        before = array(agents)
        expected = beliefs.merge(expected, weights)
        exchange(agents[one], agents[other], names)
        got = array(agents)
        assert np.abs(got - beliefs.merge(before, weights)).max() <= 1
        assert np.abs(got - expected).max() <= nth + 1
    assert np.abs(expected).max() > 0


def synchronous_ticks(n_agents, pulls):
    """How long Algorithm 1 itself takes on a cycle until all counts agree within one pull."""
    around = np.roll(np.eye(n_agents), 1, axis=0)
    weights = (np.eye(n_agents) + around + around.T) / 3
    counts = np.zeros(n_agents)
    counts[0] = pulls
    ticks = 0
    while np.ptp(counts) >= 1:
        counts = weights @ counts
        ticks += 1
    return ticks


@pytest.mark.parametrize(("loss", "slower"), [(0.0, 1.0), (0.3, 1.6)])
def test_a_cycle_mixes_as_fast_as_the_synchronous_algorithm(loss, slower):
    world = World(Flows, 16, seed=1)
    world.settle(rounds=3)
    world.observe("agent0", 1600)
    limit = slower * synchronous_ticks(16, 1600)
    ticks, counts = 0, [0, 1600 * PER_UNIT]
    while max(counts) - min(counts) >= PER_UNIT and ticks < limit:
        ticks += 1
        for name in world.agents:
            world.tick(name)
        while world.network:
            if world.random.random() < loss:
                world.network.pop()
            else:
                world.deliver(0)
        counts = [agent.level().get("agent0", (0, 0))[1] for agent in world.agents.values()]
    assert max(counts) - min(counts) < PER_UNIT
    world.settle(rounds=2)
    assert world.level() == world.truth
