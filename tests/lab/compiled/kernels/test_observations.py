"""Kernels of the rivals that hear: round by round the state and the choice of the reference.

Arms and rewards of the kernels are fed to the reference one round after the other, as in
test_baselines.py; it must come to the same sums, and to a choice that is as good: of arms that tie
any will do.
"""

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.lab.compiled.engine import BlockState, Engine, allocate_workspace
from posse.lab.compiled.kernels.pending_rewards import PendingRewards
from posse.lab.simulation import Simulation
from posse.networks.operators import count_links_in_use

RUNS, SEED, HORIZON = 3, 5, 30
BANDITS = {
    "gaussian": posse.Bandit.gaussian([0.1, 0.9, 0.5], sigma=0.7),
    "bernoulli": posse.Bandit.bernoulli([0.1, 0.9, 0.5]),
    "poisson": posse.Bandit.poisson([0.1, 0.9, 0.5]),
    "exponential": posse.Bandit.exponential([0.1, 0.9, 0.5]),
}
LOPSIDED = networks.from_matrix([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
GRAPHS = {
    "path": networks.path(5),
    "star": networks.star(6),
    "complete": networks.complete(4),
    "one agent": networks.complete(1),
    "one way": LOPSIDED,
}
INDEXED = {
    "UCB-Network": posse.UCBNetwork(index="kl"),
    "of two hops": posse.UCBNetwork(2, sigma=0.6),
    "CO-UCB": posse.UCBNetwork("diameter", index="kl"),
    "FYL": posse.FollowYourLeader(index="kl"),
    "FYL published": posse.FollowYourLeader(sigma=0.6, level=0.3),
    "ComEx": posse.ComEx(index="kl", level=0.4),
    "ComEx published": posse.ComEx(1.5, sigma=0.4),
}


def rounds(bandit, network, algorithm):
    """Each round: the kernels' rows after it, and the reference's state before it.

    Last what the reference says has been sent so far, by an agent on average.
    """
    simulation = Simulation(bandit, network, algorithm, HORIZON, SEED, np.array([HORIZON]))
    engine = Engine(simulation)
    rows = BlockState(simulation, engine.plan, range(RUNS))
    work, n_rows = allocate_workspace(rows, len(rows.arms), engine.arrays.n_words), len(rows.arms)
    pending = PendingRewards(engine.plan.fading)  # none: rewards come at once
    problem = simulation.build_problem(RUNS)
    weights = network.sampler(RUNS)(None)
    state, sent = algorithm.init(problem), np.zeros(RUNS)
    for t in range(1, HORIZON + 1):
        engine.play_rows(rows, work, pending, 0, n_rows, n_rows, t, t + 1, alone=True)
        arms = rows.arms.reshape(RUNS, -1).astype(np.intp)
        rewards = rows.rewards[: arms.size].reshape(arms.shape)
        before, state = state, algorithm.learn(state, arms, rewards, weights)
        links = count_links_in_use(weights, RUNS, network.n_agents)
        sent = sent + algorithm.numbers_sent(state, t, links) / network.n_agents
        yield t, rows, arms, rewards, before, sent


def assert_same_sums(rows, arms, rewards, state):
    counts, totals = np.moveaxis(rows.state.reshape(*arms.shape, 2, 3), 2, 0)
    played = np.eye(3)[arms]
    np.testing.assert_array_equal(counts - played, state.counts)
    np.testing.assert_allclose(totals - played * rewards[..., None], state.totals, atol=1e-9)


def assert_same_messages(bandit, network, algorithm, expected):
    kept = posse.simulate(
        bandit, network, algorithm, horizon=HORIZON, runs=RUNS, seed=SEED, engine="compiled",
        record=[4, HORIZON], keep=["messages"],
    ).numbers_sent  # fmt: skip
    np.testing.assert_allclose(kept, np.stack([expected[4], expected[HORIZON]], axis=1), rtol=1e-12)


CASES = [("gaussian", graph, name) for graph in GRAPHS for name in INDEXED] + [
    (family, "path", name)
    for family in ("bernoulli", "poisson", "exponential")
    for name in ("UCB-Network", "FYL", "ComEx")
]


@pytest.mark.parametrize(("family", "graph", "name"), CASES)
def test_indices(family, graph, name):
    bandit, network, algorithm = BANDITS[family], GRAPHS[graph], INDEXED[name]
    if name.startswith("FYL") and graph == "one way":
        return  # refused
    expected = {}
    for t, rows, arms, rewards, state, sent in rounds(bandit, network, algorithm):
        assert_same_sums(rows, arms, rewards, state)
        chosen = algorithm.choose(state, t, np.random.default_rng(0))
        alike = arms == chosen
        if t > 1:
            index = algorithm.compute_indices(state, t)
            best = np.isclose(np.take_along_axis(index, arms[..., None], -1)[..., 0], index.max(-1))
            follows = np.zeros(network.n_agents, dtype=bool)
            if name.startswith("FYL"):
                follows = state.leaders != np.arange(network.n_agents)
            alike |= best & ~follows & (t > 3 or name.startswith("FYL"))
        assert alike.all() or (t == 1 and name.startswith("FYL"))
        expected[t] = sent
    assert_same_messages(bandit, network, algorithm, expected)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("index", ["gaussian", "published"])
def test_elimination(graph, index):
    algorithm = posse.CoopSE(index, exploration=0.2, sigma=0.15)
    bandit, network, expected, gone = BANDITS["gaussian"], GRAPHS[graph], {}, 0
    for t, rows, arms, rewards, state, sent in rounds(bandit, network, algorithm):
        assert_same_sums(rows, arms, rewards, state)
        left = np.where(state.eliminated, np.inf, state.counts)
        np.testing.assert_array_equal(
            np.take_along_axis(left, arms[..., None], -1)[..., 0], left.min(axis=-1)
        )
        expected[t], gone = sent, state.eliminated.sum()
    assert gone > 0
    assert_same_messages(bandit, network, algorithm, expected)


def test_flooding_goes_the_way_of_the_links(play):
    """On a network where hearing is not mutual, observations go round one way."""
    algorithm = posse.Flooding(posse.ThompsonSampling())
    problem = Problem(3, 3, 12, BANDITS["bernoulli"].family, LOPSIDED, RUNS)
    state = algorithm.init(problem)
    for t in range(1, 13):
        _, rows = play(BANDITS["bernoulli"], LOPSIDED, algorithm, t)
        arms = rows.arms.reshape(RUNS, -1).astype(np.intp)
        counts = rows.state.reshape(RUNS, 3, 2, 3)[:, :, 0]
        np.testing.assert_allclose(counts - np.eye(3)[arms], state.belief.sum(axis=0))
        rewards = rows.rewards[: arms.size].reshape(arms.shape)
        state = algorithm.learn(state, arms, rewards, LOPSIDED.weights)


@pytest.mark.parametrize("network", [networks.cycle(5).gossip(), networks.cycle(5).failing(0.3)])
@pytest.mark.parametrize("algorithm", [posse.UCBNetwork(), posse.ComEx(), posse.CoopSE()], ids=str)
def test_networks_that_change_are_left_to_the_reference(network, algorithm):
    result = posse.simulate(BANDITS["gaussian"], network, algorithm, horizon=5, runs=2)
    assert result.settings["engine"] == "reference"
    with pytest.raises(ValueError, match="on a network that changes"):
        posse.simulate(
            BANDITS["gaussian"], network, algorithm, horizon=5, runs=2, engine="compiled"
        )
