"""Sweeps in files: the table [sweep], and the way back."""

from pathlib import Path

import pytest

import posse
from posse.lab.sweeps.files import sweep_from_toml, sweep_to_toml
from posse.lab.sweeps.grid import SweepGrid

FILE = """
horizon = 30
runs = 4

[bandit]
family = "gaussian"
means = [0.5, 0.1]

[network]
graph = "cycle"
agents = 5

[algorithms."TS 0.5"]
name = "decentralized"
policy = "thompson-sampling"
"""
EXPERIMENT = posse.Experiment(
    posse.Bandit.gaussian([0.5, 0.1]),
    posse.networks.cycle(5),
    {"TS 0.5": posse.Decentralized(posse.ThompsonSampling())},
    horizon=30,
    runs=4,
)
SHIPPED = Path(__file__).parents[3] / "experiments" / "sweep.toml"


def read(table):
    return sweep_from_toml(f"{FILE}\n{table}")


def test_keys_in_quotes_or_not():
    for table in (
        '[sweep]\n"network.agents" = [4, 6]\n"algorithms.\'TS 0.5\'.learning_rate" = [1]',
        '[sweep]\nnetwork.agents = [4, 6]\nalgorithms."TS 0.5".learning_rate = [1]',
    ):
        experiment, grid = read(table)
        assert experiment == EXPERIMENT
        made = SweepGrid.from_mapping(grid)
        assert made.shape == (2, 1)
        cell = (
            posse.lab.sweeps.sweep.plan_sweep(experiment, grid, folder="unused").plan[0].experiment
        )
        assert cell.algorithms["TS 0.5"].learning_rate == 1
        assert cell.network.n_agents == 4


def test_paired_lists_are_tables_of_lists():
    _, grid = read('[[sweep.paired]]\nnetwork.graph = ["cycle", "star"]\nhorizon = [10, 20]')
    assert grid == {("network.graph", "horizon"): [("cycle", 10), ("star", 20)]}


@pytest.mark.parametrize(
    "grid",
    [
        {"network.agents": [4, 6], "bandit.means": [[0.5, 0.1], [0.9, 0.2]]},
        {("network.graph", "horizon"): [("cycle", 10), ("star", 20)], "seed": [1, 2]},
        {"algorithms.*.policy": [posse.BayesUCB(1.5), "thompson-sampling"]},
        {"network": [posse.networks.grid(2, 3).failing(0.1), posse.networks.cycle(3)]},
        {'algorithms."TS 0.5"': [posse.Isolated(posse.TopTwo()), posse.CoopUCB2()]},
        {"bandit": [posse.Bandit.bernoulli([0.5, 0.2]), posse.Bandit.gaussian([1.0, 0.0])]},
    ],
)
def test_there_and_back(grid, tmp_path):
    posse.write_sweep(EXPERIMENT, grid, tmp_path / "s.toml")
    experiment, again = posse.read_sweep(tmp_path / "s.toml")
    assert experiment == EXPERIMENT
    assert SweepGrid.from_mapping(again) == SweepGrid.from_mapping(grid)


def test_what_toml_has_no_word_for_is_refused():
    with pytest.raises(ValueError, match="has the value None"):
        sweep_to_toml(EXPERIMENT, {"algorithms.*.learning_rate": [None, 1]})


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("", r"there is no table \[sweep\]"),
        ("[sweep]", "grid must be a dict such as"),
        ("[sweep]\nnetwork.agents = 5", r"sweep: network\.agents must be a list of values, got 5"),
        ("[sweep]\npaired = 3", r"sweep\.paired must be tables"),
        ("[[sweep.paired]]\nseed = [1]\nhorizon = [2, 3]", "of one length: seed has 1, horizon"),
        ('[sweep]\nnetwork.agents = [4]\n"network.agents" = [6]', "network.agents is there twice"),
    ],
)
def test_mistakes_get_a_sentence(table, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(table)


def test_a_sweep_is_no_experiment(tmp_path):
    (tmp_path / "s.toml").write_text(f"{FILE}\n[sweep]\nseed = [1, 2]\n")
    with pytest.raises(
        ValueError, match=r"s\.toml: the table \[sweep\] makes it a sweep: posse sw"
    ):
        posse.read_experiment(tmp_path / "s.toml")


def test_the_one_that_comes_with_the_library():
    experiment, grid = posse.read_sweep(SHIPPED)
    assert SweepGrid.from_mapping(grid).shape == (4, 4, 2, 4)
    assert (experiment.runs, experiment.horizon) == (50, 1000)
    assert f"posse sweep experiments/{SHIPPED.name}" in SHIPPED.read_text()
