"""Networks of one's own in the lab: dynamics told the round, and a fresh graph in every run."""

import dataclasses

import numpy as np
import pytest

import posse
from posse import networks
from posse.lab.experiments import experiment_of
from tests.lab.stored import assert_same

BANDIT = posse.Bandit.gaussian([0.2, 0.6, 0.1])
DEC_TS = posse.Decentralized(posse.ThompsonSampling())
OPTIONS = {"horizon": 15, "runs": 4, "seed": 3}
FRESH = networks.erdos_renyi(8, 0.4, seed="run")


@dataclasses.dataclass(frozen=True)
class Every:
    """Links work in every n-th round only."""

    n: int

    def sampler(self, network, n_runs):
        weights, nothing = np.asarray(network.weights), np.eye(network.n_agents)
        return lambda randomness, t: weights if t % self.n == 0 else nothing


def test_dynamics_of_ones_own_are_told_the_round_and_rerun(tmp_path, recwarn):
    network = networks.cycle(5).varying(Every(3))
    result = posse.simulate(BANDIT, network, DEC_TS, keep="messages", **OPTIONS)
    # 10 directed links of 6 numbers in rounds 3, 6, ..., 15
    np.testing.assert_allclose(result.numbers_sent[0], np.arange(1, 16) // 3 * 10 * 6 / 5)
    assert result.engine == "reference"
    assert not recwarn.list
    result.save(tmp_path / "r.nc")
    assert_same(experiment_of(posse.load(tmp_path / "r.nc")).run(), result)


def test_dynamics_that_no_file_can_name_are_saved_all_the_same(tmp_path):
    class Local(Every):
        pass

    network = networks.cycle(5).varying(Local(2))
    with pytest.warns(UserWarning, match="can be saved but not rerun"):
        result = posse.simulate(BANDIT, network, DEC_TS, **OPTIONS)
    result.save(tmp_path / "r.nc")
    assert_same(posse.load(tmp_path / "r.nc"), result)
    with pytest.raises(ValueError, match=r"network\.dynamics cannot be rerun"):
        experiment_of(result)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize("network", [FRESH, FRESH.failing(0.3), FRESH.gossip()])
def test_every_run_has_its_own_graph(network, engine):
    result = posse.simulate(BANDIT, network, DEC_TS, engine=engine, threads=1, **OPTIONS)
    assert len({network.of_run(3, run) for run in range(4)}) == 4
    for run in range(4):
        alone = posse.simulate(
            BANDIT,
            network.of_run(3, run),
            DEC_TS,
            engine=engine,
            **OPTIONS | {"runs": range(run, run + 1)},
        )
        np.testing.assert_array_equal(result.regret[run], alone.regret[0])
        np.testing.assert_array_equal(result.pulls[run], alone.pulls[0])


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_fresh_graphs_thread_join_save_and_rerun(engine, tmp_path):
    def simulate(runs, threads):
        return posse.simulate(
            BANDIT, FRESH, DEC_TS, engine=engine, threads=threads, **OPTIONS | {"runs": runs}
        )

    whole = simulate(4, 1)
    assert_same(simulate(4, 2), whole)
    assert_same(posse.concat([simulate(range(1), 1), simulate(range(1, 4), 2)]), whole)
    whole.save(tmp_path / "r.nc")
    assert_same(experiment_of(posse.load(tmp_path / "r.nc")).run(), whole)


def test_algorithms_of_a_comparison_meet_the_same_graphs():
    both = posse.compare(BANDIT, FRESH, {"a": DEC_TS, "b": DEC_TS}, **OPTIONS)
    np.testing.assert_array_equal(both["a"].regret, both["b"].regret)
    # coop-UCB asks for the spectrum, of each run's graph
    coop = posse.simulate(BANDIT, FRESH, posse.CoopUCB(), **OPTIONS)
    assert (coop.pulls.sum(axis=2) == 15).all()


def test_graphs_that_are_never_connected_are_refused_before_the_first_round():
    sparse = networks.erdos_renyi(60, 0.001, seed="run")
    with pytest.raises(ValueError, match=r"must be connected, but 100 draws for run 0 were not"):
        posse.simulate(BANDIT, sparse, DEC_TS, **OPTIONS)
