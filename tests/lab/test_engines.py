"""The engine is chosen for each algorithm, remembered, and the same in a rerun."""

import dataclasses
import warnings

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms.bayesian import BayesianAlgorithm
from posse.lab.experiments import experiment_of
from tests.lab.stored import assert_same

BANDIT = posse.Bandit.gaussian([0.2, 0.6, 0.1])
NETWORK = networks.cycle(5)
TS = posse.ThompsonSampling()
DEC_TS = posse.Decentralized(TS)
OPTIONS = {"horizon": 30, "runs": 4, "seed": 3}


@dataclasses.dataclass(frozen=True)
class Patient(posse.Greedy):
    """A policy of one's own in a module: no kernel, but a name."""

    rounds: int = 3


@dataclasses.dataclass(frozen=True)
class Alone(BayesianAlgorithm):
    """An algorithm of one's own in a module."""

    def learn(self, state, arms, rewards, weights):
        return posse.Isolated(self.policy).learn(state, arms, rewards, weights)


OWN = {"own policy": posse.Decentralized(Patient()), "own algorithm": Alone(TS)}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_nobodys_numbers_depend_on_who_stands_beside(own):
    alone = posse.simulate(BANDIT, NETWORK, DEC_TS, **OPTIONS)
    beside = posse.compare(BANDIT, NETWORK, {"dec-TS": DEC_TS, "own": own}, **OPTIONS)
    assert_same(alone, beside["dec-TS"])
    assert_same(posse.simulate(BANDIT, NETWORK, own, **OPTIONS), beside["own"])
    assert [beside[name].engine for name in beside] == ["compiled", "reference"]
    assert list(beside.table()["engine"]) == ["compiled", "reference"]


def test_one_engine_for_all_restores_common_random_numbers():
    both = {"dec-TS": DEC_TS, "own": OWN["own algorithm"]}
    mixed = posse.compare(BANDIT, NETWORK, both, **OPTIONS)
    with pytest.warns(UserWarning, match="share means and graphs but not rewards"):
        posse.paired_difference(mixed["dec-TS"], mixed["own"])
    same = posse.compare(BANDIT, NETWORK, both, engine="reference", **OPTIONS)
    assert same.engine == "reference"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posse.paired_difference(same["dec-TS"], same["own"])
    # greedy agents that have seen nothing play alike where they draw alike
    greedy = {"greedy": posse.Isolated(posse.Greedy()), "own": Alone(posse.Greedy())}
    alike = posse.compare(BANDIT, NETWORK, greedy, engine="reference", **OPTIONS)
    np.testing.assert_array_equal(alike["greedy"].regret, alike["own"].regret)


def test_engines_may_be_given_by_name():
    both = {"a": DEC_TS, "b": DEC_TS}
    mixed = posse.compare(BANDIT, NETWORK, both, engine={"a": "reference"}, **OPTIONS)
    assert [mixed[name].engine for name in mixed] == ["reference", "compiled"]
    reference = posse.simulate(BANDIT, NETWORK, DEC_TS, engine="reference", **OPTIONS)
    assert_same(mixed["a"], reference)
    with pytest.raises(ValueError, match="engine: algorithm 'c' is unknown"):
        posse.compare(BANDIT, NETWORK, both, engine={"c": "reference"}, **OPTIONS)
    with pytest.raises(ValueError, match="engine: a 'fast' is unknown"):
        posse.compare(BANDIT, NETWORK, both, engine={"a": "fast"}, **OPTIONS)


def test_settings_remember_the_engine():
    for engine in ("compiled", "reference"):
        result = posse.simulate(BANDIT, NETWORK, DEC_TS, engine=engine, **OPTIONS)
        assert result.settings["engine"] == result.engine == engine


@pytest.mark.parametrize("engine", ["compiled", "reference", {"dec-TS": "reference"}, "auto"])
@pytest.mark.parametrize("runs", [4, range(3, 6)])
def test_a_rerun_of_a_file_is_the_file(tmp_path, engine, runs):
    own = {} if engine == "compiled" else {"own": OWN["own policy"]}
    comparison = posse.compare(
        BANDIT,
        NETWORK.failing(0.2),
        {"dec-TS": DEC_TS, "alone": posse.Isolated(TS), **own},
        **OPTIONS | {"runs": runs, "record": 7},
        engine=engine,
    )
    comparison.save(tmp_path / "c.nc")
    assert_same(experiment_of(posse.load(tmp_path / "c.nc")).run(), comparison)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_rerun_of_a_result_is_a_result(tmp_path, engine):
    result = posse.simulate(BANDIT, NETWORK, DEC_TS, engine=engine, **OPTIONS)
    result.save(tmp_path / "r.nc")
    loaded = posse.load(tmp_path / "r.nc")
    assert_same(loaded, result)
    experiment = experiment_of(loaded)
    assert_same(experiment.run(), result)
    assert experiment.compare()["algorithm"].engine == engine
    other = {"compiled": "reference", "reference": "compiled"}[engine]
    assert experiment.run(engine=other).engine == other


def test_a_problem_that_an_algorithm_refuses_is_refused_before_the_first_round():
    played = []

    class Counting(BayesianAlgorithm):
        def learn(self, state, arms, rewards, weights):
            played.append(1)
            return state

    with pytest.raises(ValueError, match="CoopUCB needs a static network"):
        posse.compare(
            BANDIT,
            NETWORK.gossip(),
            {"first": Counting(TS), "second": posse.CoopUCB()},
            **OPTIONS,
        )
    assert not played
