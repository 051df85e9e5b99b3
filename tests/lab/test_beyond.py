"""The experiments behind docs/beyond-the-paper.md: instances of the arena as they stand there."""

from pathlib import Path

import pytest

import posse
from posse.lab.arena.suite import load_suite

FOLDER = Path(__file__).parents[2] / "experiments" / "beyond"
FILES = sorted(FOLDER.glob("*.toml"))
BY_NUMBER = {instance.number: instance for instance in load_suite().instances}


def test_there_are_enough_of_them_for_a_claim():
    assert len(FILES) >= 7


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_an_instance_of_the_suite(path):
    """So that nothing was tuned on it; with runs enough for tails."""
    experiment = posse.read_experiment(path)
    instance = BY_NUMBER[int(path.stem[:2])]
    assert experiment.bandit == instance.bandit
    assert experiment.network == instance.network
    assert experiment.horizon <= instance.horizon
    assert experiment.runs == 2000
    assert experiment.seed != load_suite().seed
    assert f"posse run experiments/beyond/{path.name}" in path.read_text()
    policies = {type(each.policy) for each in experiment.algorithms.values()}
    assert {posse.ThompsonSampling, posse.RandUCB} <= policies
