"""`level`, the factor of the squared width: identities that do not use the formula of the index."""

import math

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import Problem
from posse.families import Gaussian

RUNS = 4
HORIZON = 60
MEANS = np.array([0.1, 0.9, 0.5, 0.4])
LEVEL = 0.3
INDICES = ("published", "kl")
# At the level and at level 1 with a sigma, if the prior must be scaled as well
PAIRS = {
    f"{cls.__name__} {index} {settings}": (
        cls(index=index, level=LEVEL, **settings),
        cls(index=index, **settings),
    )
    for cls, settings in [
        (posse.UCBNetwork, {}),
        (posse.UCBNetwork, {"hops": "diameter"}),
        (posse.FollowYourLeader, {}),
        (posse.ComEx, {}),
        (posse.GosInE, {}),
        (posse.DistUCB, {}),
    ]
    for index in INDICES
} | {
    "DPE2": (posse.DPE2(level=LEVEL), posse.DPE2()),
    "CoopUCL": (posse.CoopUCL(level=LEVEL), posse.CoopUCL(prior_sd=math.sqrt(LEVEL))),
}


def play_arms(algorithm, sigma):
    """The arms of all rounds (T, R, N) for given rewards, by agents who assume this sigma."""
    network = networks.path(5)
    problem = Problem(5, len(MEANS), HORIZON, Gaussian(sigma), network, RUNS)
    noise = np.random.default_rng(1)
    generator = np.random.default_rng(2)
    weights = network.sampler(RUNS)(None)
    state = algorithm.init(problem)
    arms = []
    for t in range(1, HORIZON + 1):
        if hasattr(algorithm, "prepare"):
            state = algorithm.prepare(state, t, generator)
        arms.append(algorithm.choose(state, t, generator))
        rewards = MEANS[arms[-1]] + noise.standard_normal(arms[-1].shape)
        state = algorithm.learn(state, arms[-1], rewards, weights)
    return np.array(arms)


@pytest.mark.parametrize("name", PAIRS)
def test_a_level_is_a_squared_factor_of_sigma(name):
    at_level, at_sigma = PAIRS[name]
    arms = play_arms(at_level, 1.0)
    np.testing.assert_array_equal(arms, play_arms(at_sigma, math.sqrt(LEVEL)))
    assert (arms != play_arms(at_sigma, 1.0)).any()


@pytest.mark.parametrize("name", PAIRS)
def test_a_level_is_above_zero(name):
    with pytest.raises(ValueError, match="level must be"):
        type(PAIRS[name][0])(level=0.0)
