"""half_life: evidence fades by its age, whoever holds it and whichever way it came."""

import math
import warnings

import numpy as np
import pytest

import posse
from posse import beliefs, networks
from posse.algorithms import Problem
from posse.effective_samples import SIGNS
from posse.families import Gaussian
from posse.lab.experiments import Experiment
from posse.policies import ThompsonSampling

TS = ThompsonSampling()
KINDS = [posse.Decentralized, posse.Isolated, posse.Centralized, posse.Flooding]
RUNS, N_ARMS = 2, 3


# beliefs.fade -------------------------------------------------------------------------------


def test_fading_and_merging_commute(family, learnt, doubly_stochastic):
    generator = np.random.default_rng(1)
    belief, weights = learnt(family, generator, (2, 4, 3)), doubly_stochastic(generator, 4)
    one = beliefs.merge(beliefs.fade(belief, family, 0.7), weights)
    other = beliefs.fade(beliefs.merge(belief, weights), family, 0.7)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_faded_belief_lies_between_the_prior_and_itself(family, learnt):
    belief = learnt(family, np.random.default_rng(2), (4, 3))
    before, prior = belief.copy(), beliefs.prior(family, 4, 3)
    np.testing.assert_allclose(beliefs.fade(belief, family, 0.0), prior)
    np.testing.assert_allclose(
        beliefs.fade(belief, family, 0.25) - prior, (belief - prior) / 4, rtol=1e-9, atol=1e-9
    )
    twice = beliefs.fade(beliefs.fade(belief, family, 0.5), family, 0.5)
    np.testing.assert_allclose(twice, beliefs.fade(belief, family, 0.25), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(beliefs.fade(belief, family, 1.0), before)  # to the bit
    np.testing.assert_array_equal(belief, before)
    for level in (0.1, 0.5, 0.9):  # it is a belief still
        assert np.isfinite(family.mean_quantile(beliefs.fade(belief, family, 0.3), level)).all()


# The four algorithms against a slow loop ----------------------------------------------------


def history(family, network, rounds, generator, typical_means):
    shape = (rounds, RUNS, network.n_agents)
    arms = generator.integers(0, N_ARMS, shape)
    means = typical_means(family, generator, (N_ARMS,))
    return arms, family.draw_rewards(means[arms], generator)


def played(algorithm, family, network, arms, rewards, weights):
    problem = Problem(network.n_agents, N_ARMS, len(arms), family, network, RUNS)
    state = algorithm.init(problem)
    for t in range(len(arms)):
        state = algorithm.learn(state, arms[t], rewards[t], weights[t])
    return state.belief


def slow(kind, half_life, family, arms, rewards, weights):
    """Every reward on its own: how much of it there is at each agent, then how old it is."""
    rounds, runs, n_agents = arms.shape
    belief = beliefs.prior(family, (runs, n_agents), N_ARMS)
    for s in range(rounds):
        for run in range(runs):
            for source in range(n_agents):
                there = np.eye(n_agents)[source]  # of this reward, at each agent
                for w in weights[s:]:
                    if kind is posse.Decentralized:
                        there = w @ there
                    elif kind is posse.Centralized:
                        there = np.ones(n_agents)
                    elif kind is posse.Flooding:
                        there = np.maximum(there, (w @ there > 0).astype(float))
                rate = n_agents if kind is posse.Decentralized else 1
                amount = rate * there * 0.5 ** ((rounds - 1 - s) / half_life)
                statistic = family.statistic(rewards[s, run, source])
                belief[:, run, :, arms[s, run, source]] += amount * statistic[:, None]
    return belief


@pytest.mark.parametrize("kind", KINDS)
def test_every_reward_fades_by_its_own_age(kind, family, typical_means):
    generator, network = np.random.default_rng(3), networks.path(4)
    arms, rewards = history(family, network, 9, generator, typical_means)
    weights = [np.asarray(network.weights)] * len(arms)
    ours = played(kind(TS, half_life=2.5), family, network, arms, rewards, weights)
    expected = slow(kind, 2.5, family, arms, rewards, weights)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


def test_what_floods_over_links_that_come_and_go_fades_on_its_way(typical_means):
    generator, network = np.random.default_rng(4), networks.cycle(5).failing(0.6)
    arms, rewards = history(Gaussian(), network, 20, generator, typical_means)
    weights = [network.sampler(1)(generator) @ np.eye(5)[None] for _ in arms]
    dense = [w[0] for w in weights]
    ours = played(posse.Flooding(TS, half_life=4.0), Gaussian(), network, arms, rewards, dense)
    expected = slow(posse.Flooding, 4.0, Gaussian(), arms, rewards, dense)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_an_arm_that_is_always_played_is_worth_one_over_one_minus_g_pulls(kind, family):
    """Per agent for whoever is alone, N times as much where all that is known is shared."""
    network, rounds, half_life = networks.complete(4), 60, 2.0
    arms, rewards = np.zeros((rounds, RUNS, 4), int), np.ones((rounds, RUNS, 4))
    weights = [np.asarray(network.weights)] * rounds
    belief = played(kind(TS, half_life=half_life), family, network, arms, rewards, weights)
    pulls = 1 / (1 - 0.5 ** (1 / half_life)) * (1 if kind is posse.Isolated else 4)
    whole = family.prior() + pulls * family.statistic(np.asarray(1.0))
    expected = np.broadcast_to(whole[:, None, None], belief.shape[:-1])
    np.testing.assert_allclose(belief[..., 0], expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(belief[..., 1:], beliefs.prior(family, (RUNS, 4), 2))


# In the lab ---------------------------------------------------------------------------------


def simulate(algorithm, network=None, bandit=None, **options):
    asked = {"horizon": 40, "runs": 4, "seed": 5, "engine": "reference", "keep": ("beliefs",)}
    bandit = bandit or posse.Bandit.gaussian([0.5, 0.4, 0.1])
    return posse.simulate(bandit, network or networks.cycle(6), algorithm, **asked | options)


@pytest.mark.parametrize("kind", KINDS)
def test_who_never_forgets_is_as_ever(kind):
    """None is the code without fading; so is a half-life too long for a float to tell."""
    plain, long = simulate(kind(TS)), simulate(kind(TS, half_life=1e300))
    np.testing.assert_array_equal(long.beliefs, plain.beliefs)
    np.testing.assert_array_equal(long.regret, plain.regret)
    near = simulate(kind(TS, half_life=1e9))
    np.testing.assert_allclose(near.beliefs, plain.beliefs, rtol=1e-6, atol=1e-6)
    assert not np.array_equal(near.beliefs, plain.beliefs)


@pytest.mark.parametrize("half_life", [10.0, 1000.0])
def test_signs_fade_with_the_beliefs(half_life):
    """A Gaussian belief's precision is the prior's 1 plus the weights of its pulls."""
    result = simulate(posse.Decentralized(TS, half_life=half_life), keep=("beliefs", "signs"))
    weights = result.signs[:, :, 0]
    np.testing.assert_allclose(result.beliefs[:, :, 1], 1 + weights, rtol=1e-9)
    left = np.cumsum(0.5 ** (np.arange(40) / half_life))  # of all pulls, 36 a round in weight
    np.testing.assert_allclose(weights.sum(axis=(2, 3)), np.tile(36 * left, (4, 1)), rtol=1e-9)
    assert result.signs.shape[2] == 1 + SIGNS
    assert (np.abs(result.signs[:, :, 1:]) <= weights[:, :, None] + 1e-9).all()


def test_the_compiled_engine_plays_it():
    algorithm = posse.Decentralized(TS, half_life=10)
    assert simulate(algorithm, engine="auto", keep=()).engine == "compiled"


def test_a_memory_shorter_than_mixing_takes_is_warned_of():
    """1/gap of a cycle of 6 is 3."""
    with pytest.warns(UserWarning, match=r"half_life is 2 rounds, below .*1/gap = 3.*narrow"):
        simulate(posse.Decentralized(TS, half_life=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(posse.Decentralized(TS, half_life=2), keep=())
        simulate(posse.Decentralized(TS, half_life=2), keep=("beliefs", "signs"))
        simulate(posse.Decentralized(TS, half_life=4))
        simulate(posse.Isolated(TS, half_life=2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, True, "10"])
def test_what_is_no_half_life_is_refused(kind, bad):
    with pytest.raises(ValueError, match="half_life must be a"):
        kind(TS, half_life=bad)


def test_it_is_given_by_name_and_comes_back_from_a_file(tmp_path):
    algorithms = {kind.__name__: kind(TS, half_life=30.0) for kind in KINDS}
    experiment = Experiment(
        posse.Bandit.bernoulli([0.5, 0.1]), networks.cycle(4), algorithms, horizon=5, runs=2
    )
    posse.write_experiment(experiment, tmp_path / "e.toml")
    assert "half_life = 30.0" in (tmp_path / "e.toml").read_text()
    assert posse.read_experiment(tmp_path / "e.toml") == experiment
    with pytest.raises(TypeError):
        posse.Isolated(TS, None, 30.0)
