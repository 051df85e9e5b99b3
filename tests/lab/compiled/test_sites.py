"""Means of each agent on the compiled engine: every agent meets its own arms, and only those."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.lab.compiled import engine as engine_module

NETWORK = networks.cycle(5)
RUNS, N_ARMS = 3, 4
MEANS = np.random.default_rng(0).uniform(0.2, 0.8, (RUNS, 5, N_ARMS))
MAKERS = {
    "bernoulli": posse.Bandit.bernoulli,
    "bounded": posse.Bandit.bounded,
    "gaussian": posse.Bandit.gaussian,
    "poisson": posse.Bandit.poisson,
    "exponential": posse.Bandit.exponential,
}


def simulated(bandit, algorithm, **options):
    asked = {"horizon": 40, "runs": RUNS, "seed": 3, "engine": "compiled"} | options
    return posse.simulate(bandit, NETWORK, algorithm, keep=("agents", "means"), **asked)


@pytest.mark.parametrize("name", MAKERS)
def test_an_agent_alone_plays_as_if_its_means_were_everybodys(name):
    """Bit for bit: variates are keyed by run, agent and round, whatever the means."""
    make, alone = MAKERS[name], posse.Isolated(posse.BayesUCB())
    result = simulated(make(MEANS), alone)
    assert result.engine == "compiled"
    np.testing.assert_array_equal(result.means, MEANS)
    for agent in range(5):
        theirs = simulated(make(MEANS[:, agent]), alone)
        np.testing.assert_array_equal(result.pulls[:, agent], theirs.pulls[:, agent])
        np.testing.assert_allclose(
            result.agent_regret[:, agent], theirs.agent_regret[:, agent], rtol=1e-13
        )
    gaps = MEANS.max(axis=-1, keepdims=True) - MEANS
    last = (gaps * result.pulls).sum(axis=-1)
    np.testing.assert_allclose(result.agent_regret[:, :, -1], last, rtol=1e-13)
    np.testing.assert_allclose(result.regret[:, -1], last.mean(axis=1), rtol=1e-13)


@pytest.mark.parametrize(
    "algorithm",
    [
        posse.Decentralized(posse.ThompsonSampling()),
        posse.Centralized(posse.ThompsonSampling()),
        posse.CoopUCB2(charge_initial=False),
    ],
    ids=["dec-TS", "centralized", "coop-UCB2"],
)
def test_agents_with_equal_means_are_the_constant_world(algorithm):
    constant = simulated(posse.Bandit.gaussian(MEANS[:, 0]), algorithm)
    each = np.repeat(MEANS[:, :1], 5, axis=1)
    result = simulated(posse.Bandit.gaussian(each), algorithm)
    np.testing.assert_array_equal(result.pulls, constant.pulls)
    np.testing.assert_allclose(result.regret, constant.regret, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.agent_regret, constant.agent_regret, rtol=1e-12, atol=1e-12)


def test_a_big_network_in_tiles_meets_the_same_world(monkeypatch):
    bandit = posse.Bandit.gaussian([0.5, 0.3, 0.1], site_sd=0.3)
    algorithm = posse.Decentralized(posse.ThompsonSampling())
    whole = simulated(bandit, algorithm, threads=1)
    monkeypatch.setattr(engine_module, "BIG_NETWORK", 1)
    tiled = simulated(bandit, algorithm, threads=2)
    np.testing.assert_array_equal(tiled.pulls, whole.pulls)
    np.testing.assert_array_equal(tiled.regret, whole.regret)


def test_both_engines_meet_the_same_sites_to_the_same_regret():
    """Means equal in bits, mean regret in law: error rate 1e-4 (two-sided, 4 standard errors)."""
    bandit = posse.Bandit.bernoulli([0.3, 0.2, 0.1], site_sd=0.5)
    results = [
        simulated(bandit, posse.Decentralized(posse.ThompsonSampling()), engine=name, runs=150)
        for name in ("compiled", "reference")
    ]
    np.testing.assert_array_equal(results[0].means, results[1].means)
    paired = results[0].regret[:, -1] - results[1].regret[:, -1]
    assert abs(paired.mean()) < 4 * paired.std() / np.sqrt(len(paired))
