"""Worlds beyond the paper's on whichever engine plays them: fading, drift, delays, sites.

Rewards here have no noise, so that arms tell them, and a run of t rounds is the start of a run of
t + 1 rounds. So results alone tell the whole story, and the algorithm itself, given these arms,
rewards, delays and W, must arrive at the beliefs that were recorded, to 1e-12. Nothing here knows
which engine played.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms import ArrivedRewards, Problem
from posse.bandits import NEVER, RandomWalk, Sines, draw_delays
from posse.families import Bernoulli, Gaussian, GaussianUnknownVariance
from posse.randomness import Streams
from tests.combinations import all_combinations

SEED, RUNS, HORIZON = 5, 3, 9
TS = posse.ThompsonSampling()
# Rewards are 0 or 1 for certain, or equal to their mean in all digits.
SURE = posse.Bandit(Bernoulli(2.0, 0.5), [1.0, 0.0, 1.0, 0.0])
EXACT = posse.Bandit(Gaussian(sigma=1e-30), [0.3, 0.9, -0.5, 0.7])
SITES = dataclasses.replace(
    EXACT, means=np.random.default_rng(0).uniform(0.2, 0.8, (RUNS, 5, 4)).round(3)
)
MODEL = Gaussian(sigma=0.7, prior_mean=0.3, prior_sd=2.0)
HALF = {"half_life": 6.5}


def wait_by_agent(generator, size):
    """Agent i waits i rounds; the fourth agent's rewards never come."""
    waits = np.broadcast_to(np.arange(size[1], dtype=float), size).copy()
    waits[:, 3:4] = np.inf
    return waits


def unequal_waits(generator, size):
    """Rewards that overtake each other, so that several come at once."""
    return np.floor(6 * np.asarray(generator.random(size)) ** 2)


ALGORITHMS = {
    "cycle": (networks.cycle(5), posse.Decentralized, {}),
    "star": (networks.star(5).weighted("metropolis"),
             posse.Decentralized, {"learning_rate": 0.37}),
    "complete": (networks.complete(5), posse.Decentralized, {}),
    "isolated": (networks.cycle(5), posse.Isolated, {}),
    "centralized": (networks.cycle(5), posse.Centralized, {}),
    "flooding": (networks.path(5), posse.Flooding, {}),
    "tree": (networks.path(5), posse.Tree, {}),
    "push-sum": (networks.star(5), posse.PushSum, {}),
    "push-sum, learnt": (networks.path(5), posse.PushSum, {"learning_rate": "learnt"}),
    "directed": (networks.random_directed(5, 2, seed=1), posse.PushSum, {"learning_rate": 2.0}),
}  # fmt: skip
COUNT = {"open": "count"}
UNKNOWN = {"family": GaussianUnknownVariance(prior_mean=0.2, prior_count=0.7, shape=1.3, rate=0.4)}
WORLDS = {
    "half-life": (SURE, HALF),
    "rotation": (EXACT.drifting(every=4), {"family": MODEL}),
    "walk, half-life": (EXACT.drifting(RandomWalk(0.5, 5.0)), {"family": MODEL, **HALF}),
    "delays, wait": (EXACT.delayed(mean=2.0), {"family": MODEL}),
    "delays, count": (SURE.delayed(unequal_waits), COUNT),
    "delays by agent, count, half-life": (SURE.delayed(wait_by_agent), {**COUNT, **HALF}),
    "lost rewards, sines, half-life": (
        EXACT.delayed(mean=1.0, never=0.3).drifting(Sines(0.4, 7.0)),
        {"family": MODEL, **HALF},
    ),
    "sites, rotation, delays": (
        SITES.drifting(every=2).delayed(unequal_waits), {"family": MODEL, **HALF},
    ),
    "top-two": (SURE, {"policy": posse.TopTwo()}),
    "top-two, delays, half-life": (
        SURE.delayed(mean=3.0), {"policy": posse.TopTwo(0.3), **COUNT, **HALF},
    ),
    "unknown variance": (EXACT, UNKNOWN),
    "unknown variance, delays, half-life, sites": (
        SITES.delayed(unequal_waits), {**UNKNOWN, **HALF},
    ),
}  # fmt: skip


class Oracle:
    """The algorithm itself, told the arms that were played; rewards are the means of the round."""

    def __init__(self, bandit, network, algorithm):
        self.bandit, self.algorithm = bandit, algorithm
        self.problem = Problem(
            network.n_agents, bandit.n_arms, HORIZON, bandit.family, network, RUNS
        )
        self.state = algorithm.init(self.problem)
        self.weights = network.sampler(RUNS)(Streams.for_runs(SEED, range(RUNS), "network"), 1)
        self.stream = Streams.for_runs(SEED, range(RUNS), "delay")
        self.under_way = []  # (due, run, agent, arm, reward, round of the pull)

    def play_round(self, t, arms, rewards):
        """Learn the rewards (R, N) of round t, or those that arrive in it."""
        if self.bandit.delay is None:
            self.state = self.algorithm.learn(self.state, arms, rewards, self.weights)
            return
        waits = draw_delays(self.bandit.delay, self.stream, arms.shape)
        for (run, agent), wait in np.ndenumerate(waits):
            if wait != NEVER:
                pull = (run, agent, arms[run, agent], rewards[run, agent], t)
                self.under_way.append((t + wait, *pull))
        due = [pull[1:] for pull in self.under_way if pull[0] == t]
        run, agent, arm, reward, pulled = np.array(due, dtype=float).reshape(-1, 5).T
        run, agent, arm, pulled = (x.astype(np.int64) for x in (run, agent, arm, pulled))
        arrivals = ArrivedRewards(t, run, agent, arm, reward, pulled)
        self.state = self.algorithm.learn_delayed(self.state, arms, arrivals, self.weights)


def simulate(bandit, network, algorithm, horizon, keep=("agents", "means", "beliefs"), **options):
    asked = {"runs": RUNS, "seed": SEED, "threads": 1, **options}
    return posse.simulate(bandit, network, algorithm, horizon=horizon, keep=keep, **asked)


def means_of_round(result, bandit, n_agents):
    """The true means of the last round, (R, N, K)."""
    means = result.means
    if bandit.drift is not None:
        means = means[:, -1]
    if not bandit.per_agent:
        means = means[:, None]
    return np.broadcast_to(means, (RUNS, n_agents, bandit.n_arms))


def replay(bandit, network, algorithm):
    """Check beliefs and regret of every round; return what the last run of all rounds gave."""
    oracle = Oracle(bandit, network, algorithm)
    shape = (RUNS, network.n_agents, bandit.n_arms)
    pulls, regret = np.zeros(shape), np.zeros(shape[:2])
    for t in range(1, HORIZON + 1):
        result = simulate(bandit, network, algorithm, t)
        played = result.pulls - pulls
        assert (played.sum(axis=2) == 1).all()
        assert (played >= 0).all()
        pulls = result.pulls
        arms = played.argmax(axis=2)
        means = means_of_round(result, bandit, network.n_agents)
        rewards = np.take_along_axis(means, arms[..., None], axis=2)[..., 0]
        oracle.play_round(t, arms, rewards)
        expected = np.swapaxes(oracle.state.belief, 0, 1)
        np.testing.assert_allclose(result.beliefs[:, -1], expected, rtol=1e-12, atol=1e-13)
        regret = regret + means.max(axis=2) - rewards
        np.testing.assert_allclose(result.agent_regret[:, :, -1], regret, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            result.regret[:, -1], regret.mean(axis=1), rtol=1e-12, atol=1e-13
        )
    return result


@all_combinations(setting=list(ALGORITHMS), world=list(WORLDS))
def test_beliefs_are_what_the_algorithm_makes_of_the_story(setting, world):
    network, make, fields = ALGORITHMS[setting]
    bandit, options = WORLDS[world]
    result = replay(bandit, network, make(**{"policy": TS, **fields, **options}))
    assert result.engine == "compiled"


@pytest.mark.parametrize("world", ["rotation", "walk, half-life", "sites, rotation, delays"])
def test_one_seed_is_one_world_on_both_engines(world):
    """Means drift in the same bits, and the same pulls have the same delays."""
    bandit, options = WORLDS[world]
    algorithm = posse.Decentralized(**{"policy": posse.Greedy(), **options})
    ours, theirs = (
        simulate(bandit, networks.cycle(5), algorithm, 30, engine=engine)
        for engine in ("auto", "reference")
    )
    np.testing.assert_array_equal(ours.means, theirs.means)
