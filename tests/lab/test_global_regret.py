"""Regret against the best arm of the average over agents: `regret="global"`."""

import numpy as np
import pytest

import posse

DEC = posse.Decentralized(posse.ThompsonSampling())
NETWORK = posse.networks.cycle(5)
BANDIT = posse.Bandit.gaussian([0.5, 0.3, 0.1], site_sd=0.4)
OPTIONS = {"horizon": 40, "runs": 3, "seed": 2, "keep": ("agents", "means")}


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_gaps_are_those_of_the_average_over_agents(engine):
    result = posse.simulate(BANDIT, NETWORK, DEC, **OPTIONS, engine=engine, regret="global")
    average = result.means.mean(axis=1)  # (runs, arms)
    gaps = average.max(axis=1, keepdims=True) - average
    regret = np.einsum("rnk,rk->rn", result.pulls, gaps)
    np.testing.assert_allclose(result.agent_regret[:, :, -1], regret, rtol=1e-12)
    np.testing.assert_allclose(result.regret[:, -1], regret.mean(axis=1), rtol=1e-12)
    own = posse.simulate(BANDIT, NETWORK, DEC, **OPTIONS, engine=engine)
    np.testing.assert_array_equal(own.pulls, result.pulls)  # only the account differs
    assert not np.allclose(own.regret[:, -1], result.regret[:, -1])


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_where_agents_are_alike_it_is_the_own_regret_bit_for_bit(engine):
    bandit = posse.Bandit.bernoulli([0.6, 0.4]).drifting(every=10)
    results = [
        posse.simulate(
            bandit, NETWORK, DEC, horizon=30, runs=2, engine=engine, regret=regret
        ).regret
        for regret in ("own", "global")
    ]
    np.testing.assert_array_equal(*results)


def test_settings_and_files():
    own = posse.simulate(BANDIT, NETWORK, DEC, **OPTIONS)
    assert "regret" not in own.settings
    result = posse.simulate(BANDIT, NETWORK, DEC, **OPTIONS, regret="global")
    assert result.settings["regret"] == "global"
    experiment = posse.experiment_of(result)
    assert experiment.regret == "global"
    np.testing.assert_array_equal(experiment.run().regret, result.regret)


def test_a_toml_file(tmp_path):
    experiment = posse.experiment_of(
        posse.simulate(BANDIT, NETWORK, DEC, **OPTIONS, regret="global")
    )
    posse.write_experiment(experiment, tmp_path / "e.toml")
    assert 'regret = "global"' in (tmp_path / "e.toml").read_text()
    assert posse.read_experiment(tmp_path / "e.toml") == experiment


def test_refusals():
    with pytest.raises(ValueError, match="regret 'globl' is unknown: did you mean 'global'"):
        posse.simulate(BANDIT, NETWORK, DEC, horizon=2, regret="globl")
    contexts = posse.Contexts({"site": ["a", "b"]})
    contextual = posse.ContextualBandit(
        posse.families.Linear(), contexts, posse.NormalWeights(2, 1.0)
    )
    with pytest.raises(ValueError, match="regret 'global' is for a"):
        posse.simulate(contextual, NETWORK, DEC, horizon=2, regret="global")
