"""Liars: what honest agents receive, by hand; files and refusals."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.algorithms.liars import praise_one_arm, reverse_order

TS = posse.ThompsonSampling()
BANDIT = posse.Bandit.bernoulli([0.7, 0.5, 0.3])


def play_rounds(algorithm, network, rounds=4, seed=0):
    generator = np.random.default_rng(seed)
    problem = Problem(network.n_agents, 3, 10, posse.families.Bernoulli(), network, 2)
    states = [algorithm.init(problem)]
    history = []
    for _ in range(rounds):
        arms = generator.integers(3, size=(2, network.n_agents))
        rewards = generator.integers(2, size=arms.shape).astype(float)
        states.append(algorithm.learn(states[-1], arms, rewards, network.weights))
        history.append((arms, rewards))
    return states, history


def move_to_the_next_arm(means):
    """Tell the belief about arm k as that about arm k + 1, whatever it is."""
    return np.broadcast_to(np.roll(np.arange(means.shape[-1]), 1), means.shape)


def test_orders_of_arms():
    means = np.array([[[0.2, 0.9, 0.5, 0.7]]])
    # the ranks 0, 3, 1, 2 become 3, 0, 2, 1
    np.testing.assert_array_equal(means[0, 0][reverse_order(means)[0, 0]], [0.9, 0.2, 0.7, 0.5])
    np.testing.assert_array_equal(means[0, 0][praise_one_arm(means)[0, 0]], [0.9, 0.2, 0.5, 0.7])
    best_first = means[..., [1, 0, 2, 3]]
    np.testing.assert_array_equal(praise_one_arm(best_first)[0, 0], [0, 1, 2, 3])


def test_algorithm_1_merges_false_beliefs_of_liars():
    network = networks.path(4)
    algorithm = posse.Liars(posse.Decentralized(TS), agents=[1], lies=move_to_the_next_arm)
    states, history = play_rounds(algorithm, network)
    family = posse.families.Bernoulli()
    weights = np.asarray(network.weights)
    for before, after, (arms, rewards) in zip(states, states[1:], history, strict=False):
        updated = posse.beliefs.observe(before.belief, arms, rewards, family, 4)
        for receiver in range(4):
            received = updated.copy()
            if receiver != 1:
                received[:, :, 1] = np.roll(updated[:, :, 1], 1, axis=-1)
            expected = np.einsum("j,drjk->drk", weights[receiver], received)
            np.testing.assert_allclose(after.belief[:, :, receiver], expected, rtol=1e-12)


def test_in_a_tree_liars_falsify_what_they_relay():
    """On a path 0 - 1 - 2 with the liar in the middle, all that the ends receive is false."""
    network = networks.path(3)
    algorithm = posse.Liars(posse.Tree(TS), agents=[1], lies=move_to_the_next_arm)
    states, history = play_rounds(algorithm, network)
    family = posse.families.Bernoulli()
    alone = posse.beliefs.prior(family, (2, 3), 3)
    own = []  # evidence of each agent by round
    for arms, rewards in history:
        after = posse.beliefs.observe(alone, arms, rewards, family, 1.0)
        own.append(after - alone)
    everything = sum(own)
    last = own[-1]
    # agent 2 has: its own, and falsely the middle's up to now, and agent 0's up to a round ago
    told = everything[:, :, 1] + everything[:, :, 0] - last[:, :, 0]
    expected = alone[:, :, 2] + everything[:, :, 2] + np.roll(told, 1, axis=-1)
    np.testing.assert_allclose(states[-1].belief[:, :, 2], expected, rtol=1e-12)
    # the liar itself knows the truth
    truth = alone[:, :, 1] + everything.sum(axis=2)
    np.testing.assert_allclose(states[-1].belief[:, :, 1], truth, rtol=1e-12)


def test_under_flooding_liars_falsify_their_own_observations_alone():
    network = networks.path(3)
    algorithm = posse.Liars(posse.Flooding(TS), agents=[1], lies=move_to_the_next_arm)
    states, history = play_rounds(algorithm, network)
    told = [(np.stack([a[:, 0], (a[:, 1] + 1) % 3, a[:, 2]], axis=1), r) for a, r in history]
    honest = posse.Flooding(TS)
    problem = Problem(3, 3, 10, posse.families.Bernoulli(), network, 2)
    state = honest.init(problem)
    for arms, rewards in told:
        state = honest.learn(state, arms, rewards, network.weights)
    np.testing.assert_allclose(states[-1].belief, state.belief, rtol=1e-12)


@pytest.mark.parametrize("kind", [posse.Decentralized, posse.Tree, posse.Flooding])
def test_without_liars_it_is_the_algorithm_bit_for_bit(kind):
    options = {"horizon": 30, "runs": 3, "engine": "reference"}
    network = networks.cycle(5)
    honest = posse.simulate(BANDIT, network, kind(TS), **options)
    nobody = posse.simulate(BANDIT, network, posse.Liars(kind(TS)), **options)
    np.testing.assert_array_equal(honest.regret, nobody.regret)


@pytest.mark.parametrize("lies", ["opposite", "fixed", reverse_order])
@pytest.mark.parametrize("kind", [posse.Decentralized, posse.Tree, posse.Flooding])
def test_lies_cost_the_honest_agents(kind, lies):
    """60 runs; three standard errors of the paired difference."""
    options = {"horizon": 60, "runs": 60, "engine": "reference", "keep": ("agents", "messages")}
    network = networks.cycle(6)
    liars = posse.Liars(kind(TS), agents=[1, 4], lies=lies)
    honest = liars.honest_agents(6)
    assert honest == [0, 2, 3, 5]
    lied_to = posse.simulate(BANDIT, network, liars, **options)
    truthful = posse.simulate(BANDIT, network, kind(TS), **options)
    np.testing.assert_array_equal(lied_to.numbers_sent, truthful.numbers_sent)
    pair = posse.paired_difference(lied_to.of_agents(honest), truthful.of_agents(honest))
    assert pair.mean > 3 * pair.standard_error > 0


def test_files():
    for lies in ("fixed", reverse_order):
        liars = posse.Liars(posse.Decentralized(TS), agents=[1, 2], lies=lies)
        result = posse.simulate(BANDIT, networks.cycle(5), liars, horizon=3, runs=2)
        assert posse.experiment_of(result).algorithms["algorithm"] == liars


def test_refusals():
    with pytest.raises(ValueError, match="algorithm must be Decentralized, Tree or Flooding"):
        posse.Liars(posse.Isolated(TS))
    with pytest.raises(ValueError, match="agents must be different numbers"):
        posse.Liars(posse.Tree(TS), agents=[1, 1])
    with pytest.raises(ValueError, match="lies 'oposite' is unknown: did you mean 'opposite'"):
        posse.Liars(posse.Tree(TS), agents=[1], lies="oposite")
    small = {"horizon": 2, "runs": 1}
    with pytest.raises(ValueError, match="agents must be numbers from 0 to 4, got 7"):
        posse.simulate(
            BANDIT, networks.cycle(5), posse.Liars(posse.Decentralized(TS), [7]), **small
        )
    with pytest.raises(ValueError, match="need a static network"):
        posse.simulate(
            BANDIT, networks.cycle(5).failing(0.5), posse.Liars(posse.Tree(TS), [1]), **small
        )
    wrong = posse.Liars(posse.Decentralized(TS), [1], tell_one_arm)
    with pytest.raises(ValueError, match="lies must return an order of the arms"):
        posse.simulate(BANDIT, networks.cycle(5), wrong, **small)


def tell_one_arm(means):
    """An order that is none: the same arm everywhere."""
    return np.zeros(means.shape, int)


def test_the_order_in_which_liars_are_named_does_not_matter_under_a_tree():
    network = posse.networks.path(6)
    regrets = [
        posse.simulate(
            posse.Bandit.gaussian([1.0, 0.5, 0.0]),
            network,
            posse.Liars(posse.Tree(posse.ThompsonSampling()), agents=agents),
            horizon=30,
            runs=4,
        ).regret
        for agents in ([1, 3], [3, 1])
    ]
    np.testing.assert_array_equal(*regrets)
