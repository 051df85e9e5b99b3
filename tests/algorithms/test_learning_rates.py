"""A learning rate for each agent in Algorithm 1: both engines, delayed rewards, files, refusals."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import ArrivedRewards, Problem
from posse.lab.experiments import experiment_from_toml, experiment_to_toml

RATES = (0.5, 1.0, 4.0, 9.0, 2.0)
N_ARMS = 3
NETWORKS = {
    "path": networks.path(5),
    "complete": networks.complete(5),
    "gossip": networks.cycle(5).gossip(),
    "failing": networks.cycle(5).failing(0.4),
}


def decentralized(rates=RATES, **options):
    return posse.Decentralized(posse.ThompsonSampling(), learning_rate=rates, **options)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_pull_of_an_agent_adds_its_own_rate_to_the_sum_of_beliefs(network, engine):
    """Merges conserve the sum over agents, so the sum of precisions is known from the pulls."""
    result = posse.simulate(
        posse.Bandit.gaussian([0.5, 0.0, 0.2], sigma=2.0),
        network,
        decentralized(),
        horizon=40,
        runs=3,
        seed=5,
        engine=engine,
        keep=("beliefs",),
    )
    precision = result.beliefs[:, -1, 1].sum(axis=1)  # (runs, arms)
    expected = 5 + np.einsum("n,rnk->rk", RATES, result.pulls) / 2.0**2
    np.testing.assert_allclose(precision, expected, rtol=1e-12)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_equal_rates_are_one_rate_bit_for_bit(engine):
    bandit = posse.Bandit.bernoulli([0.6, 0.4, 0.3])
    options = {"horizon": 60, "runs": 4, "seed": 2, "engine": engine}
    for network in NETWORKS.values():
        alike = posse.simulate(bandit, network, decentralized([5, 5, 5, 5, 5]), **options)
        default = posse.simulate(bandit, network, decentralized(None), **options)
        np.testing.assert_array_equal(alike.regret, default.regret)


def test_delayed_rewards_count_with_the_rate_of_their_agent():
    """Rewards that arrive in the round of their pull are ordinary rewards."""
    problem = Problem(5, N_ARMS, 10, posse.families.Gaussian(), NETWORKS["path"], n_runs=2)
    algorithm = decentralized()
    arms = np.array([[0, 1, 2, 0, 1], [2, 2, 0, 1, 0]])
    rewards = np.linspace(-1.0, 2.0, 10).reshape(2, 5)
    run, agent = (axis.ravel() for axis in np.indices((2, 5)))
    arrivals = ArrivedRewards(1, run, agent, arms.ravel(), rewards.ravel(), np.ones(10, dtype=int))
    state = algorithm.init(problem)
    weights = problem.network.weights
    at_once = algorithm.learn(state, arms, rewards, weights)
    delayed = algorithm.learn_delayed(state, arms, arrivals, weights)
    np.testing.assert_allclose(delayed.belief, at_once.belief, rtol=1e-14)


def test_sketches_weigh_pulls_by_the_rate_of_their_agent():
    result = posse.simulate(
        posse.Bandit.bernoulli([0.6, 0.4, 0.3]),
        NETWORKS["path"],
        decentralized(),
        horizon=20,
        runs=2,
        keep=("signs",),
    )
    weight = result.signs[:, -1, 0].sum(axis=1)  # (runs, arms)
    np.testing.assert_allclose(weight, np.einsum("n,rnk->rk", RATES, result.pulls), rtol=1e-12)


def test_files_and_equality():
    experiment = posse.Experiment(
        bandit=posse.Bandit.bernoulli([0.6, 0.4]),
        network=NETWORKS["path"],
        algorithms={"rates": decentralized(np.array(RATES))},
        horizon=3,
        runs=2,
    )
    text = experiment_to_toml(experiment)
    assert "learning_rate = [0.5, 1.0, 4.0, 9.0, 2.0]" in text
    assert experiment_from_toml(text) == experiment
    assert posse.experiment_of(experiment.run()).algorithms == dict(experiment.algorithms)
    assert hash(decentralized(list(RATES))) == hash(decentralized(RATES))
    # a whole number in a file stays one number
    one = experiment_from_toml(text.replace(str(list(RATES)), "3"))
    assert one.algorithms["rates"].learning_rate == 3.0


@pytest.mark.parametrize("rates", [(1.0, 0.0, 1.0, 1.0, 1.0), (1.0, "2"), [[1.0, 2.0]], (1, True)])
def test_refused_rates(rates):
    with pytest.raises(ValueError, match="learning_rate must be"):
        decentralized(rates)


def test_another_number_of_agents_is_refused_before_round_1():
    with pytest.raises(ValueError, match="one for each of the 5 agents, got 2 numbers"):
        posse.simulate(
            posse.Bandit.bernoulli([0.6, 0.4]), NETWORKS["path"], decentralized((1, 2)), horizon=5
        )
