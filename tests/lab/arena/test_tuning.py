"""Tuned rivals: their constants are entries of the grids, and no instance of the arena was used."""

import sys
from pathlib import Path

import pytest

from posse.lab.arena.players import TUNED_RIVALS
from posse.lab.arena.suite import load_suite

STUDIES = Path(__file__).parents[3] / "studies"


@pytest.fixture
def studies(monkeypatch):
    """The two files of the study, forgotten afterwards."""
    monkeypatch.syspath_prepend(STUDIES)
    import lab_tuned_rivals
    import tuning_instances

    yield lab_tuned_rivals, tuning_instances
    for name in ("lab_tuned_rivals", "tuning_instances"):
        sys.modules.pop(name, None)


def test_tuned_constants_are_entries_of_the_grids(studies):
    grids = studies[0].GRIDS
    assert set(grids) == set(TUNED_RIVALS)
    for rival, algorithm in TUNED_RIVALS.items():
        assert algorithm in grids[rival].values()


def test_no_instance_of_the_arena_was_used_for_tuning(studies):
    instances = studies[1].draw_instances()
    assert len(instances) == 16
    ranked = load_suite().instances
    for drawn in instances:
        assert not any(drawn.bandit == each.bandit for each in ranked)
    # drawn from a seed: the same instances every time
    assert studies[1].draw_instances() == instances
