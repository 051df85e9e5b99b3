"""A store of two experiments against plain dictionaries: the same answers to any calls."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from posse.live.store import Conflict, DecisionRecord, Disk, Outcome, Store, StoreError, Unknown

EXPERIMENTS = st.sampled_from(["default", "other"])
NAMES = st.sampled_from("abcdef")
ARMS = st.sampled_from("xy")
TIMES = st.integers(0, 20)
REWARDS = st.sampled_from([0.0, 0.1, 1.0]) | st.floats(-1e9, 1e9)
REMEMBER = 1e6
MEMORY = Path("/dev/shm")  # it is not the disk that is tested


class History:
    """A participant that remembers all that it was given, in order, a part an arm."""

    def __init__(self) -> None:
        self.all: dict[str, list[Any]] = {}
        self.changed: set[str] = set()

    def settle(self, decision: DecisionRecord) -> None:
        self.all.setdefault(decision.arm, []).append([decision.id, decision.reward])
        self.changed.add(decision.arm)

    def state(self) -> dict[str, Any]:
        self.changed.clear()
        return dict(self.all)

    def changes(self) -> dict[str, Any]:
        changed, self.changed = self.changed, set()
        return {arm: self.all.get(arm) for arm in changed}

    def restore(self, state: dict[str, Any]) -> None:
        self.all = dict(state)
        self.changed.clear()

    def drop(self, arm: str) -> None:
        self.all.pop(arm, None)
        self.changed.add(arm)


class Faulty(Disk):
    """A disk that fails when told to."""

    failing = ""

    def begin(self, connection: sqlite3.Connection) -> None:
        self.fail_at("begin")
        super().begin(connection)

    def commit(self, connection: sqlite3.Connection, durable: bool) -> None:
        self.fail_at("commit")
        super().commit(connection, durable)

    def fail_at(self, step: str) -> None:
        if self.failing == step:
            raise sqlite3.OperationalError("disk I/O error")


class Model(RuleBasedStateMachine):
    """Every call is made on the store and on a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.kept: dict[str, dict[str, DecisionRecord]] = {"default": {}, "other": {}}
        self.evidence: dict[str, dict[str, list[Any]]] = {"default": {}, "other": {}}
        self.disk, self.steady = Faulty(), 0.0
        self.open()

    def open(self) -> None:
        store = Store.open(
            Path(self.folder.name) / "agent.db",
            fingerprint="f",
            disk=self.disk,
            monotonic=lambda: self.steady,
        )
        self.stores = {"default": store, "other": store.beside("other", "g")}
        self.participants = {name: History() for name in self.stores}
        for name, each in self.stores.items():
            each.attach(self.participants[name])

    def teardown(self) -> None:
        self.stores["default"].close()
        self.folder.cleanup()

    def settle(self, which: str, decision: DecisionRecord) -> None:
        self.kept[which][decision.id] = decision
        if decision.reward is not None:
            given = self.evidence[which].setdefault(decision.arm, [])
            given.append([decision.id, decision.reward])

    @rule(which=EXPERIMENTS, name=NAMES, arm=ARMS, probability=st.floats(0, 1), time=TIMES)
    def decide(self, which: str, name: str, arm: str, probability: float, time: int) -> None:
        made = DecisionRecord(name, arm, probability, time)
        expected = self.kept[which].setdefault(name, made)
        assert self.stores[which].decide(made) == expected

    @rule(which=EXPERIMENTS, name=NAMES, reward=REWARDS, time=TIMES)
    def reward(self, which: str, name: str, reward: float, time: int) -> None:
        decision, store = self.kept[which].get(name), self.stores[which]
        if decision is None:
            with pytest.raises(Unknown):
                store.reward(name, reward, time)
        elif decision.settled is None:
            assert store.reward(name, reward, time) is Outcome.NEW
            self.settle(which, replace(decision, reward=reward, settled=time))
        elif decision.reward == reward:
            assert store.reward(name, reward, time) is Outcome.REPEATED
        else:
            with pytest.raises(Conflict):
                store.reward(name, reward, time)

    @rule(which=EXPERIMENTS, arm=ARMS)
    def drop(self, which: str, arm: str) -> None:
        """A part that is gone, in a transaction of the other experiment."""
        with self.stores["default"].transaction(durable=False):
            self.participants[which].drop(arm)
        self.evidence[which].pop(arm, None)

    @rule(which=EXPERIMENTS, arm=ARMS)
    def drop_in_vain(self, which: str, arm: str) -> None:
        with suppress(ZeroDivisionError), self.stores["default"].transaction():
            self.participants[which].drop(arm)
            raise ZeroDivisionError

    def undone(self, name: str, reward: float) -> None:
        """Much, in both."""
        for which, store in self.stores.items():
            store.decide(DecisionRecord(name, "x", 0.5, 1))
            store.expire(100, 1, reward)
            self.participants[which].drop("y")

    @rule(which=EXPERIMENTS, name=NAMES, reward=REWARDS)
    def interrupted(self, which: str, name: str, reward: float) -> None:
        with suppress(ZeroDivisionError), self.stores[which].transaction():
            self.undone(name, reward)
            raise ZeroDivisionError

    @rule(which=EXPERIMENTS, name=NAMES, reward=REWARDS, durable=st.booleans())
    def disk_fails(self, which: str, name: str, reward: float, durable: bool) -> None:
        for step, work in {
            "begin": lambda: None,
            "commit": lambda: self.undone(name, reward),
        }.items():
            self.fail(step, self.stores[which], durable, work)

    def fail(self, step: str, store: Store, durable: bool, work: Callable[[], None]) -> None:
        self.disk.failing = step
        try:
            with pytest.raises(StoreError), store.transaction(durable):
                work()
        finally:
            self.disk.failing = ""

    @rule(which=EXPERIMENTS, now=TIMES, window=TIMES, default=st.none() | REWARDS)
    def expire(self, which: str, now: int, window: int, default: float | None) -> None:
        kept = self.kept[which].values()
        late = [d for d in kept if d.settled is None and d.time + window <= now]
        for decision in sorted(late, key=lambda d: d.time):  # of equal times, in the order made
            self.settle(which, replace(decision, reward=default, settled=now, silent=True))
        assert self.stores[which].expire(now, window, default) == len(late)

    @rule(which=EXPERIMENTS, before=TIMES)
    def forget(self, which: str, before: int) -> None:
        kept = self.kept[which]
        old = [d.id for d in kept.values() if d.settled is not None and d.time < before]
        for name in old:
            del kept[name]
        count = 0
        for _ in range(3):  # until all are old by the time that went by, whatever was deleted
            self.steady += REMEMBER
            count += self.stores[which].forget(before + REMEMBER, REMEMBER)
        assert count == len(old)

    @rule(which=EXPERIMENTS, key=NAMES, value=st.none() | st.binary(max_size=3))
    def keep(self, which: str, key: str, value: bytes | None) -> None:
        self.stores[which].keep(key, value)
        assert self.stores[which].kept(key) == value

    @rule()
    def reopen(self) -> None:
        self.stores["default"].close()
        self.open()

    @invariant()
    def same(self) -> None:
        for which, store in self.stores.items():
            kept, evidence = self.kept[which], self.evidence[which]
            assert {name: store.decision(name) for name in kept} == kept
            assert all(store.decision(name) is None for name in set("abcdef") - set(kept))
            assert store.open_decisions() == sum(d.settled is None for d in kept.values())
            assert self.participants[which].all == evidence
            assert (store.load_exchange() or {}) == evidence


def test_like_a_dictionary() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Model, settings=settings(max_examples=30, stateful_step_count=25, deadline=None)
    )
