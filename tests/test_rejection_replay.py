"""Rejection replay is unbiased on simulated logs whose truth is known, and is what a loop does."""

import numpy as np
import pandas as pd
import pytest

import posse
from posse.families import Bernoulli, Gaussian, Linear
from posse.rejection_replay import NONE

MEANS = np.array([[0.8, 0.4, 0.2], [0.3, 0.7, 0.1]])  # of two sites
UNIFORM = np.full((2, 3), 1 / 3)
SKEWED = np.array([[0.2, 0.2, 0.6], [0.25, 0.15, 0.6]])
TS = posse.ThompsonSampling()


def make_log(propensities, n_rows, generator, means=MEANS):
    """A log of both sites, in which each arm is played with its propensity."""
    site = generator.integers(len(means), size=n_rows)
    uniforms = generator.random(n_rows)
    arm = (uniforms[:, None] > np.cumsum(propensities, axis=1)[site]).sum(axis=1)
    return {
        "site": site,
        "arm": arm,
        "probability": propensities[site, arm],
        "reward": (generator.random(n_rows) < means[site, arm]).astype(float),
    }


@pytest.mark.parametrize("propensities", [UNIFORM, SKEWED], ids=["uniform", "skewed"])
@pytest.mark.parametrize(
    "algorithm",
    [
        posse.Decentralized(TS),
        pytest.param(posse.Isolated(TS), marks=pytest.mark.long),
        pytest.param(posse.PartialPooling(TS), marks=pytest.mark.long),
    ],
    ids=["decentralized", "isolated", "partial-pooling"],
)
def test_a_replayed_algorithm_earns_what_it_earns_in_the_world_of_the_log(propensities, algorithm):
    """150 logs against 1000 simulated runs: z below 3.9, exceeded with probability 1e-4."""
    horizon = 12
    earned = []
    for number in range(150):
        log = make_log(propensities, 400, np.random.default_rng(number))
        replayed = posse.replay(log, algorithm, Bernoulli(), horizon=horizon, seed=number)
        assert (replayed.decisions == horizon).all()  # the log is long enough
        earned.append(replayed.rewards[0].sum(axis=1))  # (N,)
    earned = np.array(earned)
    bandit = posse.Bandit.bernoulli(np.broadcast_to(MEANS, (1000, 2, 3)))
    truth = posse.simulate(
        bandit,
        posse.networks.complete(2),
        algorithm,
        horizon=horizon,
        runs=1000,
        keep="agents",
        record=1,
        engine="reference",
    )
    expected = horizon * MEANS.max(axis=1) - truth.agent_regret[:, :, -1]  # (runs, N)
    difference = earned.mean(axis=0) - expected.mean(axis=0)
    error = np.sqrt(earned.var(axis=0) / len(earned) + expected.var(axis=0) / len(expected))
    assert (np.abs(difference / error) < 3.9).all(), difference / error


def test_without_thinning_a_skewed_log_would_be_biased():
    """The oracle can tell: a log where arm 2 is frequent, taken for a uniform one."""
    earned = []
    for number in range(60):
        log = make_log(SKEWED, 400, np.random.default_rng(number))
        log["probability"] = np.full(400, 1 / 3)
        replayed = posse.replay(log, posse.Uniform(), Bernoulli(), horizon=12, seed=number)
        earned.append(np.nanmean(replayed.rewards))
    assert abs(np.mean(earned) - MEANS.mean()) > 0.05


class Record:
    """An algorithm that plays arm (round + site) mod K and stores what it is given."""

    name = "record"

    def __init__(self):
        self.given = []

    def init(self, problem):
        return problem

    def choose(self, state, t, generator, contexts=None):
        arms = (t + np.arange(state.n_agents)) % state.n_arms
        return np.tile(arms, (state.n_runs, 1))

    def learn(self, state, arms, rewards, weights, contexts=None):
        raise AssertionError("only learn_delayed can skip a site")

    def learn_delayed(self, state, arms, arrivals, weights):
        self.given.append((arms.copy(), arrivals))
        return state


def test_a_uniform_log_is_read_as_a_plain_loop_reads_it():
    log = make_log(UNIFORM, 60, np.random.default_rng(4))
    log["site"] = np.array(["rome", "berlin"])[log["site"]]
    log["context"] = np.column_stack([np.ones(60), np.arange(60)])
    player = Record()
    replayed = posse.replay(pd.DataFrame(log | {"context": list(log["context"])}), player, Linear())
    assert replayed.sites == ("berlin", "rome")
    for agent, name in enumerate(replayed.sites):
        rows = [i for i in range(60) if log["site"][i] == name]
        taken = []
        for row in rows:  # of a uniform log every row with the arm of the policy is accepted
            if log["arm"][row] == (len(taken) + 1 + agent) % 3:
                taken.append(row)
        n = len(taken)
        assert replayed.decisions[0, agent] == n
        assert replayed.played[0, agent, :n].tolist() == log["arm"][taken].tolist()
        assert replayed.rewards[0, agent, :n].tolist() == log["reward"][taken].tolist()
        assert (replayed.played[0, agent, n:] == NONE).all()
        assert np.isnan(replayed.rewards[0, agent, n:]).all()
        given = [
            x[1]
            for _, arrivals in player.given
            for who, x in zip(arrivals.agent, arrivals.contexts, strict=True)
            if who == agent
        ]
        assert given == taken  # the second feature is the number of the row
    estimate = replayed.estimate()
    paid = replayed.rewards[np.isfinite(replayed.rewards)]
    assert estimate.value == pytest.approx(paid.mean())
    assert estimate.error == pytest.approx(paid.std(ddof=1) / np.sqrt(len(paid)))
    assert "sites=2" in repr(replayed)


def test_acceptance_is_the_floor_whatever_the_policy():
    """Binomial with 4000 rows: within 4 standard deviations, missed with probability 6e-5."""
    log = make_log(SKEWED, 4000, np.random.default_rng(9))
    for policy in (TS, posse.Greedy(), posse.Uniform()):
        replayed = posse.replay(log, policy, Bernoulli(), seed=2)
        for site, floor in ((0, 0.2), (1, 0.15)):
            rows = (log["site"] == site).sum()
            sd = np.sqrt(rows * floor * (1 - floor))
            assert abs(replayed.decisions[0, site] - rows * floor) < 4 * sd


def test_runs_are_reproducible_and_a_shuffle_reads_other_rows_first():
    log = make_log(UNIFORM, 200, np.random.default_rng(3))
    once = posse.replay(log, TS, Bernoulli(), runs=2, seed=5)
    again = posse.replay(log, TS, Bernoulli(), runs=2, seed=5)
    assert (once.played == again.played).all()
    assert (once.played[0] != once.played[1]).any()
    shuffled = posse.replay(log, posse.Greedy(), Bernoulli(), runs=2, seed=5, shuffle=True)
    assert (shuffled.played[0] != shuffled.played[1]).any()


GOOD = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("log", "options", "sentence"),
    [
        ([1, 2], {}, "log must be a table with columns context, arm"),
        ({"arm": [0, 1]}, {}, "log must have a column 'probability'"),
        (GOOD | {"probability": [0.5, 0.0]}, {}, "probability must be a column of numbers above 0"),
        (GOOD | {"probability": [0.5, 1.5]}, {}, "probability must be finite numbers"),
        (GOOD | {"reward": [0.0, np.nan]}, {}, "reward must be finite"),
        (GOOD | {"reward": [0.0]}, {}, "reward must be a column of 2 numbers"),
        (GOOD | {"reward": [0.0, 3.0]}, {}, r"reward must lie in \[0, 1\]"),
        (GOOD | {"arm": [0, 0]}, {}, "arm must take at least two values"),
        (GOOD | {"arm": [0, 1, 1]}, {}, "arm must be a column of 2"),
        (GOOD | {"context": [1.0, 2.0]}, {}, "context must have shape"),
        (GOOD, {"family": None}, "family must be given"),
        (GOOD, {"family": Linear()}, "needs contexts"),
        (GOOD, {"floor": 0.7}, "floor must be a finite number above 0 and at most 0.5"),
        (GOOD, {"network": posse.networks.cycle(3)}, "the log has 1 sites"),
        (GOOD, {"policy": posse.CoopUCB2()}, "cannot skip a site"),
        (GOOD, {"runs": 0}, "runs must be a whole number"),
        (GOOD, {"horizon": 0}, "horizon must be a whole number"),
    ],
)
def test_a_wrong_log_is_refused_in_a_sentence(log, options, sentence):
    arguments = {"policy": TS, "family": Bernoulli()} | options
    with pytest.raises(ValueError, match=sentence):
        posse.replay(log, **arguments)


def test_partial_pooling_learns_the_same_from_arrivals_as_from_a_full_round():
    network = posse.networks.complete(2)
    problem = posse.algorithms.Problem(2, 3, 10, Gaussian(sigma=0.5), network, n_runs=1)
    algorithm = posse.PartialPooling(TS)
    arms = np.array([[2, 0]])
    rewards = np.array([[0.3, -0.4]])
    arrivals = posse.algorithms.ArrivedRewards(
        1, np.zeros(2, int), np.arange(2), arms[0], rewards[0], np.ones(2, int)
    )
    start = algorithm.init(problem)
    full = algorithm.learn(start, arms, rewards, None)
    arrived = algorithm.learn_arrived(start, arms, arrivals, None)
    np.testing.assert_allclose(arrived.belief, full.belief, rtol=1e-12)
