"""The decentralised baselines against an independent oracle: the same arms, and the same regret."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.families import Gaussian

oracle = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "baselines_oracle.py")))

MEANS = [0.2, 0.9, 0.4, 0.1]
SEVENTEEN = [0.5] + [0.1] * 16
# The algorithm, and how the oracle calls it
STATIC_ONLY = {
    "coop-UCB": (posse.CoopUCB(), "coop-ucb", {}),
    "coop-UCB 2": (posse.CoopUCB(exploration=2.0), "coop-ucb", {"exploration": 2.0}),
    "DDUCB": (posse.DDUCB(), "dducb", {}),
    "DDUCB bold": (
        posse.DDUCB(exploration=0.5, epsilon=0.3),
        "dducb",
        {"exploration": 0.5, "epsilon": 0.3},
    ),
    "DDUCB plain": (posse.DDUCB(variant="unaccelerated"), "dducb", {"variant": "unaccelerated"}),
    "DDUCB practical": (posse.DDUCB(variant="practical"), "dducb", {"variant": "practical"}),
}
ANY_NETWORK = {
    "coop-UCB2": (posse.CoopUCB2(), "coop-ucb2", {}),
    "coop-UCB2 3": (posse.CoopUCB2(exploration=3.0), "coop-ucb2", {"exploration": 3.0}),
    "coop-UCL": (posse.CoopUCL(), "coop-ucl", {}),
    "coop-UCL prior": (
        posse.CoopUCL(prior_mean=1.5, prior_sd=0.3),
        "coop-ucl",
        {"prior_mean": 1.5, "prior_sd": 0.3},
    ),
}
EVERY = STATIC_ONLY | ANY_NETWORK
DDUCBS = [name for name in EVERY if name.startswith("DDUCB")]

# Simple spectra and repeated eigenvalues, negative ones too
NETWORKS = {
    "cycle": networks.cycle(6),
    "star": networks.star(5).weighted("metropolis"),
    "path": networks.path(5),
    "lazy": networks.path(6).weighted("lazy"),
    "matrix": networks.from_matrix([[0.1, 0.6, 0.3], [0.6, 0.4, 0.0], [0.3, 0.0, 0.7]]),
    "complete": networks.complete(4),
    "pair": networks.cycle(2),
    "alone": networks.complete(1),
}


def arms_of(algorithm, network, noise, means=MEANS, sigma=1.0, mixing=None):
    """The arms (T, R, N) when driven by hand with the given noise (T, R, N) and W(t)."""
    horizon, runs, n_agents = noise.shape
    problem = Problem(n_agents, len(means), horizon, Gaussian(sigma=sigma), network, runs)
    generator, sample = np.random.default_rng(0), network.sampler(runs)
    state, arms = algorithm.init(problem), np.empty(noise.shape, int)
    for t in range(1, horizon + 1):
        arms[t - 1] = algorithm.choose(state, t, generator)
        rewards = np.asarray(means)[arms[t - 1]] + noise[t - 1]
        weights = sample(generator) if mixing is None else mixing[t - 1]
        state = algorithm.learn(state, arms[t - 1], rewards, weights)
    return arms


def dense(network):
    weights = network.weights
    return weights.toarray() if hasattr(weights, "toarray") else np.asarray(weights)


def noise_for(network, rounds, runs=3, seed=1):
    return np.random.default_rng(seed).standard_normal((rounds, runs, network.n_agents))


@pytest.mark.parametrize("where", NETWORKS)
@pytest.mark.parametrize("name", EVERY)
def test_every_arm_is_the_oracles(name, where):
    """Exactly: given the rewards nothing is random, and real rewards make no ties."""
    algorithm, kind, parameters = EVERY[name]
    network = NETWORKS[where]
    noise = noise_for(network, 250)
    expected = oracle.play(kind, MEANS, dense(network), noise, **parameters)
    np.testing.assert_array_equal(arms_of(algorithm, network, noise), expected)


@pytest.mark.parametrize("name", EVERY)
def test_sigma_scales_the_bonus(name):
    """Exactly, whether it comes from the bandit or is given."""
    algorithm, kind, parameters = EVERY[name]
    network = networks.path(4)
    noise = 2 * noise_for(network, 120)
    expected = oracle.play(kind, MEANS, dense(network), noise, sigma=2.0, **parameters)
    np.testing.assert_array_equal(arms_of(algorithm, network, noise, sigma=2.0), expected)
    given = type(algorithm)(sigma=2.0, **parameters)
    np.testing.assert_array_equal(arms_of(given, network, noise, sigma=1.0), expected)


@pytest.mark.long  # the same at small sizes is not
@pytest.mark.parametrize("network", [networks.cycle(100), networks.grid(10, 10)], ids=str)
@pytest.mark.parametrize("name", ["coop-UCB", *DDUCBS, "coop-UCB2", "coop-UCL"])
def test_every_arm_is_the_oracles_at_the_size_of_the_paper(name, network):
    algorithm, kind, parameters = EVERY[name]
    noise = noise_for(network, 450, runs=1)
    expected = oracle.play(kind, SEVENTEEN, dense(network), noise, **parameters)
    np.testing.assert_array_equal(arms_of(algorithm, network, noise, SEVENTEEN), expected)


@pytest.mark.parametrize("name", ANY_NETWORK)
def test_every_arm_is_the_oracles_when_the_network_varies(name, doubly_stochastic):
    algorithm, kind, parameters = EVERY[name]
    network = networks.cycle(5).gossip()
    noise, generator = noise_for(network, 200), np.random.default_rng(2)
    eye = np.broadcast_to(np.eye(5), (3, 5, 5)).copy()
    for mixing in (
        np.stack([doubly_stochastic(generator, 5) for _ in noise]),  # one W(t) for all runs
        np.stack([network.sampler(3)(generator) @ eye for _ in noise]),  # (T, R, N, N)
    ):
        expected = oracle.play(kind, MEANS, mixing, noise, **parameters)
        np.testing.assert_array_equal(arms_of(algorithm, network, noise, mixing=mixing), expected)


@pytest.mark.parametrize("name", EVERY)
def test_relabelling_the_agents_relabels_their_arms(name):
    algorithm = EVERY[name][0]
    network, order = networks.path(6), np.array([3, 1, 5, 0, 4, 2])
    relabelled = networks.from_matrix(dense(network)[np.ix_(order, order)])
    noise = noise_for(network, 150)
    before, after = (
        arms_of(algorithm, network, noise),
        arms_of(algorithm, relabelled, noise[:, :, order]),
    )
    np.testing.assert_array_equal(after, before[:, :, order])


STAGES = [
    (networks.cycle(100), "accelerated", 164),
    (networks.cycle(200), "accelerated", 355),
    (networks.grid(10, 10), "accelerated", 43),
    (networks.cycle(20), "accelerated", 27),
    (networks.cycle(64), "accelerated", 100),
    (networks.grid(8, 8), "accelerated", 32),
    (networks.grid(8, 8), "practical", 32),
    (networks.cycle(100), "unaccelerated", 5847),
    (networks.grid(10, 10), "unaccelerated", 390),
    (networks.complete(50), "accelerated", 1),
    (networks.complete(50), "unaccelerated", 1),
    (networks.complete(1), "accelerated", 1),
]


@pytest.mark.parametrize(("network", "variant", "length"), STAGES, ids=str)
def test_stages_are_as_long_as_published(network, variant, length):
    assert posse.DDUCB(variant=variant).stage_length(network) == length


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 0.9])
@pytest.mark.parametrize("variant", ["accelerated", "unaccelerated"])
def test_stage_length_follows_the_formula(variant, epsilon):
    network = networks.grid(3, 4).weighted("lazy")
    length, _ = oracle.stage_length(dense(network), epsilon, variant)
    assert posse.DDUCB(epsilon=epsilon, variant=variant).stage_length(network) == length


def test_an_agent_keeps_its_arm_for_a_stage():
    network = networks.grid(8, 8)
    arms = arms_of(posse.DDUCB(), network, noise_for(network, 17 + 3 * 32, runs=1), SEVENTEEN)
    stages = arms[17:].reshape(3, 32, 64)
    np.testing.assert_array_equal(stages, stages[:, :1].repeat(32, axis=1))
    assert (stages[0, 0] != stages[1, 0]).any()
