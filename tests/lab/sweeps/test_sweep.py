"""Sweeps: every cell is what `posse.compare` gives, is checked first, and is computed once."""

import importlib
import re
import sys

import numpy as np
import pytest

import posse
from posse.lab.jobs import workers
from posse.lab.sweeps import sweep as module

BANDIT, NETWORK = posse.Bandit.gaussian([0.5, 0.2, 0.1]), posse.networks.cycle(5)
ALGORITHMS = {
    "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    "alone": posse.Isolated(posse.ThompsonSampling()),
}
EXPERIMENT = posse.Experiment(BANDIT, NETWORK, ALGORITHMS, horizon=30, runs=4, seed=7)
RATE = "algorithms.dec-TS.learning_rate"


@pytest.fixture
def computed(monkeypatch):
    """The runs that were computed, not read."""
    runs, real = [], workers.play_part
    monkeypatch.setattr(workers, "play_part", lambda part: runs.extend(part.runs) or real(part))
    return runs


def test_a_cell_is_what_compare_gives(tmp_path):
    grid = {"network.agents": [4, 6], RATE: [1, 2.5]}
    sweep = posse.sweep(EXPERIMENT, grid, folder=tmp_path)
    assert len(sweep) == 4
    for cell in sweep.cells:
        algorithms = ALGORITHMS | {
            "dec-TS": posse.Decentralized(posse.ThompsonSampling(), learning_rate=cell[RATE])
        }
        network = posse.networks.cycle(cell["network.agents"])
        expected = posse.compare(BANDIT, network, algorithms, horizon=30, runs=4, seed=7)
        for name, result in sweep[cell].items():
            np.testing.assert_array_equal(result.regret, expected[name].regret)
            np.testing.assert_array_equal(result.pulls, expected[name].pulls)
            assert result.settings == expected[name].settings


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (
            {"network": [posse.networks.cycle(9)], "network.agents": [9, 25]},
            "grid: network and network.agents set the same thing: keep network.agents alone, or "
            "write its values into those of network",
        ),
        (
            {("bandit.means.1", "seed"): [(0.1, 1)], "bandit.means": [[0.5, 0.2]]},
            "grid: bandit.means and bandit.means.1 set the same thing: keep bandit.means.1 alone, "
            "or write its values into those of bandit.means",
        ),
        (
            {"algorithms.dec-TS.policy": ["bayes-ucb"], "algorithms.*.policy": ["greedy"]},
            "grid: algorithms.dec-TS.policy and algorithms.*.policy set the same thing: name the "
            "algorithms one by one instead of *, each key once",
        ),
        (
            {"algorithms.*.policy.log_power": [1.0], "algorithms.dec-TS": ["flooding"]},
            "grid: algorithms.dec-TS and algorithms.*.policy.log_power set the same thing: name "
            "the algorithms one by one instead of *, each key once",
        ),
        (
            {"algorithms.new": ["flooding"], "algorithms.*.policy": ["bayes-ucb"]},
            "grid: algorithms.new and algorithms.*.policy set the same thing",
        ),
    ],
)
def test_keys_that_set_the_same_thing_are_refused(grid, sentence, tmp_path):
    """The table would label a cell with values that were not played."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        module.plan_sweep(EXPERIMENT, grid, folder=tmp_path)


def test_neighbouring_keys_are_set_in_whatever_order(tmp_path):
    grid = {
        "network.agents": [4],
        "algorithms.dec-TS.learning_rate": [2],
        "network.graph": ["star"],
        "algorithms.*.policy": ["bayes-ucb"],
    }
    cell = module.plan_sweep(EXPERIMENT, grid, folder=tmp_path).plan[0].experiment
    assert cell.network == posse.networks.star(4)
    assert cell.algorithms["dec-TS"] == posse.Decentralized(posse.BayesUCB(), learning_rate=2)
    assert cell.algorithms["alone"].policy == posse.BayesUCB()


def test_what_cells_share_is_computed_once(tmp_path, computed):
    """The learning rate of one algorithm is nothing to the other; the default is N."""
    sweep = posse.sweep(EXPERIMENT, {RATE: [1, 2, 3, 3]}, folder=tmp_path)
    assert len(sweep) == 3
    assert len(computed) == 4 * (3 + 1)
    alone = [comparison["alone"].regret for comparison in sweep]
    np.testing.assert_array_equal(alone[0], alone[2])


def test_repeated_and_extended_it_computes_what_is_missing(tmp_path, computed):
    def count(grid, **options):
        del computed[:]
        posse.sweep(EXPERIMENT, grid, folder=tmp_path, **options)
        return len(computed)

    assert count({"network.agents": [4, 6]}) == 2 * 2 * 4
    assert count({"network.agents": [4, 6]}) == 0
    assert count({"network.agents": [6, 8]}) == 2 * 4  # one more cell
    assert count({"network.agents": [4, 6]}, runs=9) == 2 * 2 * 5
    assert count({"network.agents": [4, 6]}, runs=range(2, 8)) == 0
    assert count({"network.agents": [4], RATE: [1, 2]}, runs=9) == 2 * 9  # alone is there
    assert count({"network.agents": [4], "seed": [8]}) == 2 * 4


def test_the_table_is_tidy(tmp_path):
    grid = {"network.agents": [4, 6], ("network.graph", "horizon"): [("cycle", 10), ("star", 20)]}
    sweep = posse.sweep(EXPERIMENT, grid, folder=tmp_path)
    table = sweep.table()
    assert len(table) == 2 * 2 * 2
    keys = ["network.agents", "network.graph", "horizon", "algorithm"]
    assert list(table.columns[:4]) == keys
    assert not table.duplicated(keys).any()
    row = table.iloc[5]
    result = sweep[{key: row[key] for key in keys[:3]}][row["algorithm"]]
    s = result.summary()
    assert (row["regret"], row["standard_error"]) == (s.mean, s.standard_error)
    assert (row["low"], row["high"], row["runs"]) == (s.low, s.high, 4)


def test_the_grid_as_dimensions(tmp_path):
    grid = {
        "network.agents": [4, 6],
        RATE: [1.0, 2.0, 3.0],
        ("network.graph", "bandit.means.0"): [("cycle", 0.5), ("star", 0.6)],
    }
    sweep = posse.sweep(EXPERIMENT, grid, folder=tmp_path)
    data = sweep.to_xarray()
    pair = "network.graph & bandit.means.0"
    assert dict(data.sizes) == {
        "network.agents": 2, RATE: 3, pair: 2, "algorithm": 2, "run": 4, "time": 30,
    }  # fmt: skip
    assert data["bandit.means.0"].dims == (pair,)
    for cell, comparison in zip(sweep.cells, sweep, strict=True):
        place = {"network.agents": cell["network.agents"], RATE: cell[RATE]}
        here = data.sel(place).isel({pair: ["cycle", "star"].index(cell["network.graph"])})
        for name, result in comparison.items():
            there = here.sel(algorithm=name)
            np.testing.assert_array_equal(there["regret"], result.regret[:, -1])
            np.testing.assert_array_equal(there["curve"], result.regret.mean(axis=0))
            assert float(there["mean"]) == result.summary().mean


def test_cells_of_different_lengths_have_no_common_curves(tmp_path):
    sweep = posse.sweep(EXPERIMENT, {"horizon": [5, 9], "runs": [2, 3]}, folder=tmp_path)
    data = sweep.to_xarray()
    assert "curve" not in data
    short = data["regret"].sel(horizon=9, runs=2, algorithm="alone")
    assert np.isnan(short).sum() == 1
    np.testing.assert_array_equal(short[:2], sweep[2]["alone"].regret[:, -1])


def test_what_is_saved(tmp_path):
    import pandas as pd
    import xarray as xr

    sweep = posse.sweep(EXPERIMENT, {"network.agents": [4, 6]}, folder=tmp_path / "s")
    written = sweep.save()
    assert [path.name for path in written] == ["table.csv", "sweep.nc", "sweep.toml"]
    pd.testing.assert_frame_equal(pd.read_csv(written[0]), sweep.table())
    stored = xr.load_dataset(written[1], engine="scipy")
    np.testing.assert_array_equal(stored["regret"], sweep.to_xarray()["regret"])
    again = posse.sweep(*posse.read_sweep(written[2]), folder=tmp_path / "s")
    assert again.cells == sweep.cells


def test_large_numbers_and_slashes_are_saved_too(tmp_path):
    import xarray as xr

    small = posse.Experiment(BANDIT, NETWORK, {"a/b": ALGORITHMS["alone"]}, horizon=2, runs=2)
    grid = {"seed": [1, 2**40], "algorithms.a/b.policy": ["thompson-sampling"]}
    written = posse.sweep(small, grid, folder=tmp_path).save()
    stored = xr.load_dataset(written[1], engine="scipy")
    assert list(stored["seed"].values) == ["1", str(2**40)]
    assert "algorithms.a|b.policy" in stored.coords


def test_cells_by_number_or_by_what_tells_them(tmp_path):
    networks = [posse.networks.cycle(4), posse.networks.star(4)]
    sweep = posse.sweep(EXPERIMENT, {"network": networks, "seed": [1, 2]}, folder=tmp_path)
    regret = sweep[3]["alone"].regret
    for cell in ({"network": networks[1], "seed": 2}, sweep.cells[3]):
        np.testing.assert_array_equal(sweep[cell]["alone"].regret, regret)
    with pytest.raises(KeyError, match="seed = 1 is 2 cells"):
        sweep[{"seed": 1}]
    with pytest.raises(KeyError, match="seed = 3 is no cell"):
        sweep[{"seed": 3}]
    with pytest.raises(ValueError, match="key 'sed' is unknown: did you mean 'seed'"):
        sweep[{"sed": 1}]
    with pytest.raises(IndexError):
        sweep[4]


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({"network.agents": [4, 0]}, "the cell network.agents = 0: network.agents: must be"),
        ({"horizon": [5, 5.5]}, "the cell horizon = 5.5: horizon: must be a whole number"),
        ({"seed": [1, 2], "engine": ["auto", "fast"]}, "the cell seed = 1, engine = fast: engine"),
        ({"algorithms.*.family": ["poisson"]}, "family 'poisson' learns from rewards in"),
    ],
)
def test_every_cell_is_checked_before_the_first_is_computed(tmp_path, computed, grid, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        posse.sweep(EXPERIMENT, grid, folder=tmp_path / "s")
    assert computed == []
    assert not (tmp_path / "s").exists()


def test_the_door(tmp_path):
    with pytest.raises(ValueError, match="experiment must be an experiment such as"):
        posse.sweep({"horizon": 3}, {"seed": [1]}, folder=tmp_path)
    with pytest.raises(ValueError, match="folder must be the path of a folder, got None"):
        posse.sweep(EXPERIMENT, {"seed": [1]}, folder=None)
    (tmp_path / "taken").write_text("")
    with pytest.raises(ValueError, match=r"taken.* cannot be written to"):
        posse.sweep(EXPERIMENT, {"seed": [1]}, folder=tmp_path / "taken")


OWN = """
from dataclasses import dataclass
import numpy as np

@dataclass(frozen=True)
class Always:
    arm: int = 0

    def init(self, problem):
        if self.arm >= problem.n_arms:
            raise ValueError(f"arm must be below {problem.n_arms}, got {self.arm}")
        return np.full((problem.n_runs, problem.n_agents), self.arm)

    def choose(self, state, t, generators):
        return state

    def learn(self, state, arms, rewards, weights):
        return state
"""


def test_an_algorithm_of_one_s_own_counts_with_its_source(tmp_path, monkeypatch, computed):
    """Tried out in every cell first; another source is another algorithm."""
    (tmp_path / "own_x.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        always = importlib.import_module("own_x").Always()
        experiment = posse.Experiment(BANDIT, NETWORK, {"own": always}, horizon=5, runs=2)
        posse.sweep(experiment, {"algorithms.own.arm": [0, 2]}, folder=tmp_path / "s")
        assert len(computed) == 4
        with pytest.raises(
            ValueError, match=r"cell algorithms\.own\.arm = 3: .*arm must be below 3"
        ):
            posse.sweep(experiment, {"algorithms.own.arm": [0, 3]}, folder=tmp_path / "s")
        (tmp_path / "own_x.py").write_text(OWN + "# changed\n")
        posse.sweep(experiment, {"algorithms.own.arm": [0, 2]}, folder=tmp_path / "s")
        assert len(computed) == 8
    finally:
        sys.modules.pop("own_x", None)


def test_the_plan_alone_computes_nothing(tmp_path, computed):
    sweep = module.plan_sweep(EXPERIMENT, {"seed": [1, 2]}, folder=tmp_path / "s")
    assert len(sweep) == 2
    assert computed == []
    with pytest.raises(ValueError, match="lacks runs 0 to 3"):
        sweep[0]
