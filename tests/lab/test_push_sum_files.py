"""The experiments behind the tables of PushSum in docs/push-sum.md."""

from pathlib import Path

import pytest

import posse
from posse.lab.arena.suite import load_suite

FILES = sorted((Path(__file__).parents[2] / "experiments" / "push-sum").glob("*.toml"))
TAILS = [path for path in FILES if path.stem.startswith("tail-")]
BY_NUMBER = {instance.number: instance for instance in load_suite().instances}


def test_there_are_as_many_as_the_page_says():
    assert len(TAILS) == 6
    assert len(FILES) == 16


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_can_be_read_and_compares_push_sum(path):
    experiment = posse.read_experiment(path)
    assert experiment.runs == 2000
    assert f"posse run experiments/push-sum/{path.name}" in path.read_text()
    assert any(isinstance(each, posse.PushSum) for each in experiment.algorithms.values())
    if path.stem.startswith("price-"):
        assert isinstance(experiment.algorithms["centralized TS"], posse.Centralized)


@pytest.mark.parametrize("path", TAILS, ids=lambda path: path.stem)
def test_tails_are_those_of_instances_of_the_suite(path):
    """So that nothing was tuned on them."""
    experiment = posse.read_experiment(path)
    instance = BY_NUMBER[int(path.stem.split("-")[1])]
    assert experiment.bandit == instance.bandit
    assert experiment.network == instance.network
    assert experiment.horizon <= instance.horizon
    assert experiment.seed != load_suite().seed
