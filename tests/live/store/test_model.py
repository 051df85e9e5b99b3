"""A store against a plain dictionary: the same answers to any sequence of calls."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from posse.live.store import Conflict, DecisionRecord, Outcome, Store, Unknown

NAMES = st.sampled_from("abcdef")
TIMES = st.integers(0, 20)
REWARDS = st.sampled_from([0.0, 0.1, 1.0]) | st.floats(-1e9, 1e9)


class History:
    """A participant that remembers all that it was given, in order."""

    def __init__(self) -> None:
        self.all: list[list[Any]] = []

    def settle(self, decision: DecisionRecord) -> None:
        self.all.append([decision.id, decision.arm, decision.reward])

    def state(self) -> dict[str, Any]:
        return {"all": list(self.all)}

    def restore(self, state: dict[str, Any]) -> None:
        self.all = list(state["all"])


class Model(RuleBasedStateMachine):
    """Every call is made on the store and on a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.kept: dict[str, DecisionRecord] = {}
        self.evidence: list[list[Any]] = []
        self.open()

    def open(self) -> None:
        self.store = Store.open(Path(self.folder.name) / "agent.db", fingerprint="f")
        self.participant = History()
        self.store.attach(self.participant)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def settle(self, decision: DecisionRecord) -> None:
        self.kept[decision.id] = decision
        if decision.reward is not None:
            self.evidence.append([decision.id, decision.arm, decision.reward])

    @rule(name=NAMES, arm=NAMES, probability=st.floats(0, 1), time=TIMES)
    def decide(self, name: str, arm: str, probability: float, time: int) -> None:
        expected = self.kept.setdefault(name, DecisionRecord(name, arm, probability, time))
        assert self.store.decide(DecisionRecord(name, arm, probability, time)) == expected

    @rule(name=NAMES, reward=REWARDS, time=TIMES)
    def reward(self, name: str, reward: float, time: int) -> None:
        decision = self.kept.get(name)
        if decision is None:
            with pytest.raises(Unknown):
                self.store.reward(name, reward, time)
        elif decision.settled is None:
            assert self.store.reward(name, reward, time) is Outcome.NEW
            self.settle(replace(decision, reward=reward, settled=time))
        elif decision.reward == reward:
            assert self.store.reward(name, reward, time) is Outcome.REPEATED
        else:
            with pytest.raises(Conflict):
                self.store.reward(name, reward, time)

    @rule(name=NAMES, reward=REWARDS)
    def interrupted(self, name: str, reward: float) -> None:
        try:
            with self.store.transaction():
                self.store.decide(DecisionRecord(name, "A", 0.5, 1))
                self.store.expire(100, 1, reward)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    @rule(now=TIMES, window=TIMES, default=st.none() | REWARDS)
    def expire(self, now: int, window: int, default: float | None) -> None:
        late = [d for d in self.kept.values() if d.settled is None and d.time + window <= now]
        for decision in sorted(late, key=lambda d: d.time):  # of equal times, in the order made
            self.settle(replace(decision, reward=default, settled=now, silent=True))
        assert self.store.expire(now, window, default) == len(late)

    @rule(before=TIMES)
    def forget(self, before: int) -> None:
        old = [d.id for d in self.kept.values() if d.settled is not None and d.time < before]
        for name in old:
            del self.kept[name]
        assert self.store.forget(before) == len(old)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @invariant()
    def same(self) -> None:
        assert {name: self.store.decision(name) for name in self.kept} == self.kept
        assert all(self.store.decision(name) is None for name in set("abcdef") - set(self.kept))
        assert self.participant.all == self.evidence
        assert self.store.load_exchange() == {"all": self.evidence}


def test_like_a_dictionary() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Model, settings=settings(max_examples=30, stateful_step_count=25, deadline=None)
    )
