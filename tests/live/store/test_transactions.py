"""What a store keeps: decisions, rewards, exchange state, each once and exactly."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posse.live.store import (
    Conflict,
    DecisionRecord,
    RewardOutcome,
    Store,
    Unknown,
    export_decisions,
)
from tests.live.store.participants import Sums


def test_decisions_and_state_outlive_the_store(reopen: Callable[[], Store], path: Path) -> None:
    with reopen() as store:
        assert store.load_exchange() is None
        store.add_decision(DecisionRecord("d", "A", 0.1, 5))
        store.save_exchange({"big": 2**200, "name": "é"})
    with reopen() as store:
        assert store.find_decision("d") == DecisionRecord("d", "A", 0.1, 5.0)
        assert store.load_exchange() == {"big": 2**200, "name": "é"}
    assert not path.with_name("agent.db-wal").exists()


def test_a_decision_is_made_once(store: Store) -> None:
    assert store.add_decision(DecisionRecord("d", "A", 0.25, 1)) == store.add_decision(
        DecisionRecord("d", "B", 0.75, 2)
    )
    assert store.find_decision("d") == DecisionRecord("d", "A", 0.25, 1.0)
    assert store.find_decision("e") is None


def test_a_reward_is_new_repeated_or_a_conflict(store: Store) -> None:
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    assert store.add_reward("d", 0.1, 2) is RewardOutcome.NEW
    assert store.add_reward("d", 0.1, 3) is RewardOutcome.REPEATED
    with pytest.raises(Conflict, match=r"'d' has the reward 0\.1: the reward 0\.2 is refused"):
        store.add_reward("d", 0.2, 4)
    with pytest.raises(Unknown, match="no decision 'e'"):
        store.add_reward("e", 1, 4)
    assert store.find_decision("d") == DecisionRecord("d", "A", 0.5, 1.0, 0.1, 2.0, closed=2.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "1", None, 10**400])
def test_what_is_no_number_is_refused(store: Store, bad: Any) -> None:
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with pytest.raises(ValueError, match="reward must be a finite number"):
        store.add_reward("d", bad, 2)
    with pytest.raises(ValueError, match="probability must be a finite number"):
        store.add_decision(DecisionRecord("e", "A", bad, 1))


@pytest.mark.parametrize("bad", ["", "\ud800", 7])
def test_what_is_no_name_is_refused(store: Store, bad: Any) -> None:
    with pytest.raises(ValueError, match="id must be"):
        store.add_decision(DecisionRecord(bad, "A", 0.5, 1))
    with pytest.raises(ValueError, match="between 0 and 1"):
        store.add_decision(DecisionRecord("d", "A", 1.5, 1))


def test_silence_means_the_default_reward(store: Store) -> None:
    for index in range(4):
        store.add_decision(DecisionRecord(f"d{index}", "A", 0.5, index))
    store.add_reward("d0", 1, 1)
    assert store.expire_decisions(12, 10, 0) == 2
    assert store.expire_decisions(12, 10, 0) == 0
    assert [store.find_decision(f"d{index}").silent for index in range(4)] == [
        False,
        True,
        True,
        False,
    ]
    made = DecisionRecord("d1", "A", 0.5, 1.0, 0.0, 12.0, silent=True, closed=12.0)
    assert store.find_decision("d1") == made
    assert store.add_reward("d1", 0, 13) is RewardOutcome.REPEATED
    with pytest.raises(
        Conflict, match=r"got the default reward 0\.0 when its reward window closed"
    ):
        store.add_reward("d1", 1, 13)


def test_silence_may_mean_nothing(store: Store) -> None:
    participant = Sums()
    store.attach_participant(participant)
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    assert store.expire_decisions(12, 10, None) == 1
    made = DecisionRecord("d", "A", 0.5, 1.0, None, 12.0, silent=True, closed=12.0)
    assert store.find_decision("d") == made
    assert participant.sums == {}
    with pytest.raises(Conflict, match="discarded when its reward window closed"):
        store.add_reward("d", 1, 13)


def test_forgetting_keeps_the_numbers_and_what_is_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posse.live.store.store.CHUNK_DECISIONS", 3)
    participant, steady = Sums(), [0.0]
    with Store.open(path, fingerprint="f", monotonic=lambda: steady[0]) as store:
        store.attach_participant(participant)
        for index in range(10):
            store.add_decision(DecisionRecord(f"d{index}", "A", 0.5, index))
            if index:
                store.add_reward(f"d{index}", 1, index)
        assert store.delete_old_decisions(10, 2) == 0
        steady[0] += 2
        assert store.delete_old_decisions(10, 2) == 7
        assert participant.sums == {"A": 9}
        assert store.load_exchange() == {"sums": {"A": 9}}
        assert store.find_decision("d0") is not None
        assert store.find_decision("d8") is not None
        with pytest.raises(Unknown):
            store.add_reward("d1", 1, 20)  # nothing that was counted counts again
        assert store.expire_decisions(100, 10, 0.0) == 1


def test_export_is_every_decision_in_the_order_of_time(store: Store, path: Path) -> None:
    made = [("é\n", 3.5), ("b", 1.0), ("c", 2.0), ("a", 1.0)]
    for id, when in made:
        store.add_decision(DecisionRecord(id, "arm", 1 / 3, when))
    store.add_reward("c", 0.1 + 0.2, 9)
    store.expire_decisions(4, 3, None)
    file = io.StringIO()
    assert export_decisions(path, file) == 4
    lines = file.getvalue().splitlines()
    fields = [json.loads(line) for line in lines]
    assert {each.pop("experiment") for each in fields} == {"default"}
    assert {each.pop("site") for each in fields} == {None}
    known = [each.name for each in dataclasses.fields(DecisionRecord)]
    read = [DecisionRecord(**{key: each[key] for key in known if key in each}) for each in fields]
    assert [decision.id for decision in read] == ["b", "a", "c", "é\n"]
    assert read == [store.find_decision(decision.id) for decision in read]
