"""Many rewards in one go: each with an outcome of its own, none counted twice."""

from __future__ import annotations

from typing import Any

import pytest

from posse.live.store import Conflict, DecisionRecord, RewardOutcome, Store, Unknown
from tests.live.store.participants import Sums


class Choosy(Sums):
    """Refuses negative rewards, and has a bug at 13; counts how often it is asked."""

    asked = 0

    def learn(self, decision: DecisionRecord) -> None:
        assert decision.reward is not None
        if decision.reward < 0:
            raise ValueError("reward must be at least 0")
        if decision.reward == 13:
            raise RuntimeError("a bug")
        super().learn(decision)

    def changes(self) -> dict[str, Any]:
        self.asked += 1
        return super().changes()


@pytest.fixture
def choosy(store: Store) -> Choosy:
    participant = Choosy()
    store.attach_participant(participant)
    store.add_decisions([DecisionRecord(f"d{k}", "A", 0.5, 1) for k in range(1200)])
    return participant


def test_each_of_a_batch_has_its_outcome(store: Store, choosy: Choosy) -> None:
    bad: Any = "no number"
    given = [("d0", 1.0), ("e", 1.0), ("d0", 1.0), ("d1", -1.0), ("d0", 2.0), ("d1", bad)]
    new, unknown, twin, refused, conflict, wrong = store.add_rewards([*given], 2)
    assert (new, twin) == (RewardOutcome.NEW, RewardOutcome.REPEATED)
    assert isinstance(unknown, Unknown)
    assert isinstance(conflict, Conflict)
    assert str(refused) == "reward must be at least 0"
    assert "must be a finite number" in str(wrong)
    assert choosy.sums == {"A": 1.0}
    assert store.find_decision("d0") == DecisionRecord("d0", "A", 0.5, 1.0, 1.0, 2.0, closed=2.0)
    assert store.find_decision("d1") == DecisionRecord("d1", "A", 0.5, 1.0)


def test_a_batch_may_be_larger_than_a_query(store: Store, choosy: Choosy) -> None:
    outcomes = store.add_rewards([(f"d{k}", 1.0) for k in range(1100)], 2)
    assert outcomes == [RewardOutcome.NEW] * 1100
    assert store.count_open_decisions() == 100
    assert choosy.sums == {"A": 1100.0}


def test_a_bug_amid_a_batch_leaves_memory_and_disk_alike(store: Store, choosy: Choosy) -> None:
    with pytest.raises(RuntimeError):
        store.add_rewards([("d0", 1.0), ("d1", 13.0), ("d2", 1.0)], 2)
    assert choosy.sums == {"A": 1.0}
    assert [store.add_reward(f"d{k}", 1.0, 3) for k in range(3)] == [
        RewardOutcome.REPEATED,
        RewardOutcome.NEW,
        RewardOutcome.NEW,
    ]
    assert choosy.sums == {"A": 3.0}


def test_a_decision_under_a_taken_id_is_the_one_that_has_it(store: Store) -> None:
    first, twin = DecisionRecord("x", "A", 0.5, 1.0), DecisionRecord("x", "B", 0.25, 1.0)
    other = DecisionRecord("y", "B", 0.25, 1.0)
    kept = store.add_decisions([first, twin, other])
    assert kept == [first, first, other]
    assert kept[1] is not twin


def test_only_decisions_and_rewards_ask_for_changes_of_evidence(
    store: Store, choosy: Choosy
) -> None:
    before = choosy.asked
    with store.reward_transaction(durable=False):
        store.write_record("x", b"not evidence")
    assert choosy.asked == before
    with store.reward_transaction(durable=False):  # it may be the first of an incarnation
        store.add_decision(DecisionRecord("x", "A", 0.5, 1))
    assert choosy.asked == before + 1
    with store.reward_transaction():
        store.add_reward("x", 1.0, 2)
    assert choosy.asked == before + 2
    assert store.load_exchange() == choosy.state()
