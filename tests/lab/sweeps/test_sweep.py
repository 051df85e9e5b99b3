"""Sweeps: every cell is what `posse.compare` gives, and every cell is checked first."""

import numpy as np

import posse
from posse.lab.sweeps import sweep as module

BANDIT, NETWORK = posse.Bandit.gaussian([0.5, 0.2, 0.1]), posse.networks.cycle(5)
ALGORITHMS = {
    "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    "alone": posse.Isolated(posse.ThompsonSampling()),
}
EXPERIMENT = posse.Experiment(BANDIT, NETWORK, ALGORITHMS, horizon=30, runs=4, seed=7)


def test_a_cell_is_what_compare_gives(tmp_path):
    grid = {"network.agents": [4, 6], "algorithms.dec-TS.learning_rate": [1, 2.5]}
    sweep = posse.sweep(EXPERIMENT, grid, folder=tmp_path)
    assert len(sweep) == 4
    for cell in sweep.cells:
        rate = cell["algorithms.dec-TS.learning_rate"]
        algorithms = ALGORITHMS | {
            "dec-TS": posse.Decentralized(posse.ThompsonSampling(), learning_rate=rate)
        }
        network = posse.networks.cycle(cell["network.agents"])
        expected = posse.compare(BANDIT, network, algorithms, horizon=30, runs=4, seed=7)
        for name, result in sweep[cell].items():
            np.testing.assert_array_equal(result.regret, expected[name].regret)
            np.testing.assert_array_equal(result.pulls, expected[name].pulls)
            assert result.settings == expected[name].settings


def test_what_cells_share_is_computed_once(tmp_path):
    """The learning rate of one algorithm is nothing to the other."""
    grid = {"algorithms.dec-TS.learning_rate": [1, 2, 3]}
    sweep = module.planned(EXPERIMENT, grid, folder=tmp_path)
    assert len(sweep.jobs) == 3 + 1
