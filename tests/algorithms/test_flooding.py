"""Flooding: each agent's belief is exact for the observations that have reached it."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.families import Bernoulli, Gaussian
from posse.policies import Greedy, ThompsonSampling

oracle = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("baselines_oracle.py"))))

RUNS, N_ARMS = 3, 4


def matrices(network, rounds, generator):
    """What the network draws: the operators, and each as dense matrices (T, R, N, N)."""
    eye = np.broadcast_to(np.eye(network.n_agents), (RUNS, *2 * (network.n_agents,))).copy()
    operators = [network.sampler(RUNS)(generator) for _ in range(rounds)]
    return operators, np.stack([operator @ eye for operator in operators])


def reach(mixing):
    """Whether agent i knows j's observation of round tau after all rounds: (R, i, tau, j).

    Everything known is passed on over every link that is up, this round's observation included.
    """
    rounds, runs, n_agents, _ = mixing.shape
    known = np.zeros((runs, n_agents, rounds, n_agents), bool)
    for tau, weights in enumerate(mixing):
        known[:, np.arange(n_agents), tau, np.arange(n_agents)] = True
        up = (weights > 0) | np.eye(n_agents, dtype=bool)
        known = np.einsum("rij,rjtk->ritk", up.astype(int), known.astype(int)) > 0
    return known


def assert_chosen_from_what_has_arrived(network, operators, mixing, family=None, seed=0):
    """Drive Greedy by hand: every arm chosen has the highest posterior mean of what arrived."""
    family, n_agents, rounds = family or Gaussian(), network.n_agents, len(mixing)
    generator, algorithm = np.random.default_rng(seed), posse.Flooding(Greedy())
    shape = (rounds, RUNS, n_agents)
    arms = generator.integers(0, N_ARMS, shape)
    rewards = family.draw_rewards(np.array([0.2, 0.5, 0.6, 0.9])[arms], generator)
    played = arms[..., None] == np.arange(N_ARMS)  # (T, R, N, K)
    state = algorithm.init(Problem(n_agents, N_ARMS, rounds, family, network, RUNS))
    for t in range(1, rounds + 1):
        state = algorithm.learn(state, arms[t - 1], rewards[t - 1], operators[t - 1])
        known = reach(mixing[:t]).astype(float)
        count = np.einsum("ritj,trjk->rik", known, played[:t])
        total = np.einsum("ritj,trjk->rik", known, played[:t] * rewards[:t, ..., None])
        prior, weight = (0.5, 2.0) if isinstance(family, Bernoulli) else (0.0, 1.0)
        mean = (prior * weight + total) / (weight + count)
        chosen = algorithm.choose(state, t + 1, generator)
        assert chosen.shape == (RUNS, n_agents)
        value = np.take_along_axis(mean, chosen[..., None], axis=-1)[..., 0]
        np.testing.assert_allclose(value, mean.max(axis=-1), rtol=1e-9, atol=1e-9)


NETWORKS = [
    networks.path(3),
    networks.path(7),
    networks.cycle(6),
    networks.star(5),
    networks.grid(3, 4).weighted("metropolis"),
    networks.complete(4),
    networks.complete(1),
    # agents remember what they saw themselves although W gives them no weight
    networks.from_matrix([[0.0, 1.0], [1.0, 0.0]]),
    networks.from_matrix([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]),
]


@pytest.mark.parametrize("family", [Gaussian(), Bernoulli()], ids=str)
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_an_observation_is_usable_after_as_many_rounds_as_hops(network, family):
    operators, mixing = matrices(network, 12, np.random.default_rng(1))
    hops = oracle.delays(mixing[0, 0])
    rounds = np.arange(12)[:, None]
    np.testing.assert_array_equal(reach(mixing)[0], hops[:, None, :] + rounds <= 12)
    assert_chosen_from_what_has_arrived(network, operators, mixing, family)


@pytest.mark.parametrize(
    "network",
    [
        networks.path(4).gossip(),
        networks.complete(5).gossip(),
        networks.cycle(6).failing(0.5),
        networks.grid(3, 3).failing(0.9),
    ],
    ids=str,
)
def test_where_links_come_and_go_an_observation_waits_for_them(network):
    operators, mixing = matrices(network, 25, np.random.default_rng(2))
    assert_chosen_from_what_has_arrived(network, operators, mixing)


def test_news_crosses_a_path_of_three_in_two_rounds():
    """By hand: agent 0's great reward of round 1 moves agent 1 in round 2, agent 2 in round 3."""
    network, algorithm = networks.path(3), posse.Flooding(Greedy())
    state = algorithm.init(Problem(3, 2, 10, Gaussian(), network, 1))
    generator, arms = np.random.default_rng(3), np.array([[1, 0, 0]])
    chosen = []
    for reward in (100.0, 0.1, 0.1):
        state = algorithm.learn(state, arms, np.array([[reward, 0.1, 0.1]]), network.weights)
        chosen.append(algorithm.choose(state, len(chosen) + 2, generator)[0].tolist())
        arms = np.array([[0, 0, 0]])
    assert chosen == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_regret_is_the_oracles_in_law(kind, engine):
    """Within 4 standard errors at three rounds: 2e-4 a case."""
    network, means, at = networks.path(6), [0.8, 0.5, 0.4, 0.2], np.array([5, 20, 100])
    bandit = getattr(posse.Bandit, kind)(means)
    expected = oracle.flooding(means, np.asarray(network.weights), 100, 400, 4, kind)[:, at - 1]
    result = posse.simulate(
        bandit,
        network,
        posse.Flooding(ThompsonSampling()),
        horizon=100,
        runs=400,
        seed=5,
        engine=engine,
        record=at,
    )
    gap = abs(result.regret.mean(axis=0) - expected.mean(axis=0))
    error = np.sqrt((result.regret.var(axis=0) + expected.var(axis=0)) / 400)
    assert (gap <= 4 * error).all()


def test_on_a_complete_graph_it_is_centralized_in_law():
    """Within 4 standard errors at three rounds: 2e-4."""
    bandit = posse.Bandit.bernoulli([0.8, 0.5, 0.4, 0.2])
    runs = {"horizon": 60, "runs": 400, "record": [3, 10, 60]}
    flooding, central = (
        posse.simulate(bandit, networks.complete(5), kind(ThompsonSampling()), seed=seed, **runs)
        for kind, seed in ((posse.Flooding, 6), (posse.Centralized, 7))
    )
    gap = abs(flooding.regret.mean(axis=0) - central.regret.mean(axis=0))
    error = np.sqrt((flooding.regret.var(axis=0) + central.regret.var(axis=0)) / 400)
    assert (gap <= 4 * error).all()


def test_alone_it_is_an_isolated_agent_and_its_family_may_be_its_own():
    """Exactly the isolated agent's choices: the same streams, the same belief."""
    bandit, family = posse.Bandit.gaussian([0.6, 0.2]), Gaussian(sigma=2.0, prior_sd=3.0)
    runs = {"horizon": 50, "runs": 5, "seed": 8, "engine": "reference"}
    ours, theirs = (
        posse.simulate(bandit, networks.complete(1), kind(ThompsonSampling(), family), **runs)
        for kind in (posse.Flooding, posse.Isolated)
    )
    np.testing.assert_array_equal(ours.regret, theirs.regret)


@pytest.mark.parametrize("bad", [ThompsonSampling, "thompson", None])
def test_what_is_not_a_policy_is_refused(bad):
    with pytest.raises(ValueError, match="policy must be"):
        posse.Flooding(bad)
