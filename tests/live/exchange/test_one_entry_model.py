"""The model of the origins exchange keeps its promises, and its checks find each missing rule."""

from dataclasses import replace

import pytest

from tests.live.exchange.one_entry_model import KINDS, play_runs

RUNS = 50


@pytest.mark.parametrize("name", KINDS)
def test_promises_hold_in_random_schedules(name: str) -> None:
    kind = KINDS[name]
    total = play_runs(kind, range(RUNS))
    assert total["violations"] == 0, total
    assert total["acknowledged"] > 3 * RUNS
    if kind.is_strict:
        assert total["refused"] == total["on no disk"] == total["superseded"] == 0
    else:  # the schedules contain the faults that lose rewards
        assert total["on no disk"] > 0
        assert total["superseded"] > 0
    if name != "few names":
        assert total["double counts of dropped names"] == 0


@pytest.mark.parametrize(
    ("rule", "name", "seeds"),
    [
        ("rest", "copies", range(100030, 100034)),
        ("freeze", "copies", range(100013, 100017)),
        ("covers", "copies", range(100013, 100017)),
        ("compare_entry", "copies", range(5, 9)),
        ("nonce", "memories", range(3, 7)),
        ("nonce", "clones", range(5, 9)),
    ],
)
def test_the_checks_find_a_missing_rule(rule: str, name: str, seeds: range) -> None:
    kind = KINDS[name]
    broken = replace(kind, rules=replace(kind.rules, **{rule: False}))
    assert play_runs(kind, seeds)["violations"] == 0
    assert play_runs(broken, seeds)["violations"] > 0
