"""The baselines' kernels: round by round the state and the choice of the reference algorithms.

A run of t rounds is the start of a run of t + 1 rounds, so its last arms and rewards, fed to the
reference one round after the other, must lead it to the same state and the same next arms. Rewards
are continuous: beyond what is forced nothing ties, so arms must agree exactly.
"""

import dataclasses

import numpy as np
import pytest

import posse
from posse import networks
from posse.lab.compiled.network_arrays import build_network_arrays
from posse.lab.compiled.registry import plan_kernels
from posse.lab.simulation import Simulation

RUNS, SEED, HORIZON = 3, 5, 40
BANDIT = posse.Bandit.gaussian([0.1, 0.9, 0.5], sigma=0.7)
STATIC = {
    "cycle": networks.cycle(7),
    "grid": networks.grid(2, 3),
    "star": networks.star(5).weighted("metropolis"),
    "complete": networks.complete(4),
    "one agent": networks.complete(1),
}
CONSENSUS = {
    "coop-UCB": posse.CoopUCB(1.3),
    "coop-UCB2": posse.CoopUCB2(1.3),
    "coop-UCL": posse.CoopUCL(prior_mean=0.4, prior_sd=2.0),
}
STAGED = {
    "accelerated": posse.DDUCB(1.5),
    "unaccelerated": posse.DDUCB(variant="unaccelerated", epsilon=0.5),
    "practical": posse.DDUCB(variant="practical", sigma=0.4),
}


def rounds(play, network, algorithm, horizon=HORIZON):
    """Each round: t, the kernels' rows after it, its arms, and the reference's state before it."""
    problem = posse.algorithms.Problem(
        network.n_agents, 3, horizon, BANDIT.family, network, RUNS
    )  # fmt: skip
    weights = network.sampler(RUNS)(None)
    state = algorithm.init(problem)
    for t in range(1, horizon + 1):
        _, rows = play(BANDIT, network, algorithm, t)
        arms = rows.arms.reshape(RUNS, -1).astype(np.intp)
        yield t, rows, arms, state
        rewards = rows.rewards[: arms.size].reshape(arms.shape)
        state = algorithm.learn(state, arms, rewards, weights)


def pairs(array, network):
    """Rows of (counts, totals) as (..., runs, N, K)."""
    return np.moveaxis(array.reshape(RUNS, network.n_agents, -1, 3), 2, 0)


@pytest.mark.parametrize("name", CONSENSUS)
@pytest.mark.parametrize("graph", STATIC)
def test_running_consensus(play, name, graph):
    network, algorithm = STATIC[graph], CONSENSUS[name]
    for t, rows, arms, state in rounds(play, network, algorithm):
        chosen = algorithm.choose(state, t, np.random.default_rng(0))
        np.testing.assert_array_equal(arms, chosen)
        after = pairs(rows.other if rows.flipped else rows.state, network)
        played = np.eye(3)[arms]
        np.testing.assert_allclose(after[0] - played, state.counts, rtol=1e-12, atol=1e-12)
        rewards = rows.rewards[: arms.size].reshape(arms.shape)[..., None]
        np.testing.assert_allclose(after[1] - played * rewards, state.totals, atol=1e-12)


@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize("graph", STATIC)
def test_stages(play, name, graph):
    """Chebyshev's recursion is written differently in the two engines: to 1e-10."""
    network, algorithm = STATIC[graph], STAGED[name]
    for t, rows, arms, state in rounds(play, network, algorithm):
        chosen = algorithm.choose(state, t, np.random.default_rng(0))
        np.testing.assert_array_equal(arms, chosen)
        fresh, settled = np.split(pairs(rows.store, network), 2)
        if t > 3:
            np.testing.assert_allclose(settled, state.averaged, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fresh[0] - np.eye(3)[arms], state.fresh[0], atol=1e-12)


@pytest.mark.parametrize("network", [networks.path(5), networks.grid(2, 3), networks.complete(4)])
def test_flooding(play, network):
    """The belief after a round, without its own reward: what the reference held before it."""
    algorithm = posse.Flooding(posse.ThompsonSampling())
    for _, rows, arms, state in rounds(play, network, algorithm, horizon=12):
        precision, shift = pairs(rows.state, network)
        played, rewards = np.eye(3)[arms], rows.rewards[: arms.size].reshape(arms.shape)
        weight = 1 / 0.7**2
        np.testing.assert_allclose(precision - weight * played, state.belief[1], rtol=1e-12)
        np.testing.assert_allclose(
            shift - weight * played * rewards[..., None], state.belief[0], atol=1e-12
        )


@pytest.mark.parametrize(
    "network", [networks.path(5), networks.grid(2, 3), networks.star(6), networks.cycle(6)]
)
def test_tree(play, network):
    """As flooding: what the reference held before the round's own reward."""
    algorithm = posse.Tree(posse.RandUCB())
    for _, rows, arms, state in rounds(play, network, algorithm, horizon=12):
        precision, shift = pairs(rows.state, network)
        played, rewards = np.eye(3)[arms], rows.rewards[: arms.size].reshape(arms.shape)
        weight = 1 / 0.7**2
        np.testing.assert_allclose(precision - weight * played, state.belief[1], rtol=1e-12)
        np.testing.assert_allclose(
            shift - weight * played * rewards[..., None], state.belief[0], atol=1e-12
        )


def test_a_tree_whose_links_fail_never_counts_twice():
    """Observations known: whole numbers, never fewer than before, at most all that were made."""
    network, horizon = networks.grid(2, 3).failing(0.5), 30
    result = posse.simulate(
        posse.Bandit.gaussian([0.1, 0.9, 0.5]), network, posse.Tree(posse.RandUCB()),
        horizon=horizon, runs=20, seed=2, engine="compiled", keep="beliefs",
    )  # fmt: skip
    known = result.beliefs[:, :, 1].sum(axis=-1) - 3  # (runs, rounds, agents)
    np.testing.assert_allclose(known, known.round(), atol=1e-9)
    own = np.arange(1, horizon + 1)[:, None]
    assert (known >= own - 1e-9).all()
    assert (known <= 6 * own + 1e-9).all()
    assert (np.diff(known, axis=1) >= 1 - 1e-9).all()
    assert 0 < (6 * own - known)[:, 10:].mean() < 25  # late, not lost
    played = result.beliefs[:, -1, 1] - 1  # (runs, agents, arms) of which means are known
    total = result.pulls.sum(axis=1, keepdims=True)
    assert (played <= total + 1e-9).all()


@pytest.mark.parametrize("algorithm", [*CONSENSUS.values(), *STAGED.values()])
def test_forced_pulls_can_go_uncharged(algorithm):
    free = dataclasses.replace(algorithm, charge_initial=False)
    for engine in ("compiled", "reference"):
        options = {"horizon": 30, "runs": 4, "engine": engine}
        charged = posse.simulate(BANDIT, networks.cycle(5), algorithm, **options)
        uncharged = posse.simulate(BANDIT, networks.cycle(5), free, **options)
        assert (uncharged.regret[:, :3] == 0).all()
        np.testing.assert_allclose(uncharged.regret[:, 3:], charged.regret[:, 3:] - 1.2, atol=1e-12)
        np.testing.assert_array_equal(uncharged.pulls, charged.pulls)


def test_the_stages_of_a_network_with_weights_of_many_kinds():
    """What the kernel is told: 2 W/lambda_2, and the length of a stage."""
    network = networks.erdos_renyi(12, 0.4, seed=1).weighted("metropolis")
    simulation = Simulation(BANDIT, network, posse.DDUCB(), 5, 0, np.array([5]))
    links = build_network_arrays(network, plan_kernels(simulation))
    np.testing.assert_allclose(links.weights.sum(), 12 * 2 / network.second_eigenvalue)
    assert links.constants[0] == posse.DDUCB().stage_length(network)
