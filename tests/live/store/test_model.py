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

from posse.live.store import (
    Conflict,
    DecisionRecord,
    Disk,
    LateReward,
    RewardOutcome,
    Store,
    StoreError,
    SupersededReward,
    Unknown,
)
from tests.live.store.participants import Rules

EXPERIMENTS = st.sampled_from(["default", "other"])
NAMES = st.sampled_from("abcdef")
ARMS = st.sampled_from("xy")
TIMES = st.integers(0, 20)
REWARDS = st.sampled_from([0.0, 0.1, 1.0]) | st.floats(-1e9, 1e9)
REMEMBER = 1e6
MEMORY = Path("/dev/shm")  # it is not the disk that is tested


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
        self.evidence: dict[str, dict[str, list[list[Any]]]] = {"default": {}, "other": {}}
        self.disk, self.steady = Faulty(), 0.0
        self.participants: dict[str, Rules] = {}
        self.open()

    def open(self) -> None:
        store = Store.open(
            Path(self.folder.name) / "agent.db",
            fingerprint="f",
            disk=self.disk,
            monotonic=lambda: self.steady,
        )
        self.stores = {"default": store, "other": store.open_experiment("other", "g")}
        before, self.participants = self.participants, {name: Rules() for name in self.stores}
        for name, each in self.stores.items():
            rules = self.participants[name]
            rules.assumed = 0.0 if name == "other" else None
            if before:  # as settings say at the next start
                rules.assumed, rules.waits = before[name].assumed, before[name].waits
                rules.incarnation = before[name].incarnation + 1
                rules.superseded_through = before[name].superseded_through
            each.attach_participant(rules)

    def teardown(self) -> None:
        self.stores["default"].close()
        self.folder.cleanup()

    def note(self, which: str, decision: DecisionRecord, what: str, reward: float | None) -> None:
        given = self.evidence[which].setdefault(decision.arm, [])
        given.append([decision.id, what, reward])

    def is_superseded(self, which: str, decision: DecisionRecord) -> bool:
        return decision.incarnation <= self.participants[which].superseded_through

    @rule(
        which=EXPERIMENTS,
        assumed=st.sampled_from([None, 0.0, 0.1]),
        waits=st.booleans(),
        set_back=st.integers(0, 4),
    )
    def other_rules(self, which: str, assumed: float | None, waits: bool, set_back: int) -> None:
        """Other settings, and perhaps a disk that was set back."""
        rules = self.participants[which]
        rules.assumed, rules.waits = assumed, waits
        if set_back == 0:
            rules.superseded_through = rules.incarnation
            rules.incarnation += 1

    @rule(which=EXPERIMENTS, name=NAMES, arm=ARMS, probability=st.floats(0, 1), time=TIMES)
    def decide(self, which: str, name: str, arm: str, probability: float, time: int) -> None:
        made, rules = DecisionRecord(name, arm, probability, time), self.participants[which]
        new = name not in self.kept[which]
        if new:
            kept = replace(made, assumed=rules.assumed, incarnation=rules.incarnation)
            self.kept[which][name] = kept
            if rules.assumed is not None:
                self.note(which, kept, "begin", rules.assumed)
        twins = [made, replace(made, arm="z")]
        both = [(self.kept[which][name], new), (self.kept[which][name], False)]
        assert self.stores[which].insert_decisions(twins) == both

    @rule(which=EXPERIMENTS, name=NAMES, arm=ARMS, time=TIMES)
    def ask(self, which: str, name: str, arm: str, time: int) -> None:
        """A decision that is not shown yet."""
        made, rules = DecisionRecord(name, arm, 0.5, time, inactive=True), self.participants[which]
        new = name not in self.kept[which]
        if new:
            self.kept[which][name] = replace(made, incarnation=rules.incarnation)
        assert self.stores[which].insert_decisions([made]) == [(self.kept[which][name], new)]

    def activated(self, which: str, decision: DecisionRecord) -> DecisionRecord:
        """As it is when its arm was shown."""
        assumed = self.participants[which].assumed
        if assumed is not None:
            self.note(which, decision, "begin", assumed)
        return replace(decision, inactive=False, assumed=assumed)

    @rule(which=EXPERIMENTS, name=NAMES, time=TIMES)
    def activate(self, which: str, name: str, time: int) -> None:
        d = self.kept[which].get(name)
        (outcome,) = self.stores[which].change_decisions([("activate", name)], time)
        if d is None:
            assert isinstance(outcome, Unknown)
        elif d.superseded or (d.closed is None and self.is_superseded(which, d)):
            assert isinstance(outcome, Conflict)
        elif not d.cancelled and not (d.inactive and d.closed is not None):
            new = d.inactive
            self.kept[which][name] = self.activated(which, d) if new else d
            assert outcome == (self.kept[which][name], new)
        else:
            assert isinstance(outcome, Conflict)

    @rule(which=EXPERIMENTS, name=NAMES, time=TIMES)
    def cancel(self, which: str, name: str, time: int) -> None:
        d = self.kept[which].get(name)
        (outcome,) = self.stores[which].change_decisions([("cancel", name)], time)
        if d is None:
            assert isinstance(outcome, Unknown)
        elif d.superseded or (d.closed is None and self.is_superseded(which, d)):
            assert isinstance(outcome, Conflict)
        elif d.cancelled:
            assert outcome == (d, False)
        elif d.settled is not None:
            assert isinstance(outcome, Conflict)
        else:
            if d.assumed is not None:
                self.note(which, d, "cancel", d.assumed)
            gone = replace(d, assumed=None, settled=time, silent=True, closed=time, cancelled=True)
            self.kept[which][name] = gone
            assert outcome == (gone, True)

    @rule(which=EXPERIMENTS, name=NAMES)
    def erase(self, which: str, name: str) -> None:
        d = self.kept[which].pop(name, None)
        if d is None:
            with pytest.raises(Unknown):
                self.stores[which].erase_decision(name)
            return
        self.stores[which].erase_decision(name)
        if d.closed is None and self.is_superseded(which, d):
            self.note(which, d, "discard", d.reward)
        elif d.closed is None and d.settled is not None:
            self.note(which, d, "learn" if d.assumed is None else "close", d.reward)
        elif d.closed is None and d.assumed is not None:
            self.note(which, d, "cancel", d.assumed)

    @rule(which=EXPERIMENTS, name=NAMES, reward=REWARDS, time=TIMES)
    def reward(self, which: str, name: str, reward: float, time: int) -> None:
        decision, store = self.kept[which].get(name), self.stores[which]
        if decision is None:
            with pytest.raises(Unknown):
                store.add_reward(name, reward, time)
        elif decision.settled is not None and decision.reward == reward:
            assert store.add_reward(name, reward, time) is RewardOutcome.REPEATED
        elif decision.settled is not None:
            with pytest.raises(Conflict) as refused:
                store.add_reward(name, reward, time)
            kind = (
                (SupersededReward if decision.superseded else LateReward)
                if decision.silent and not decision.cancelled
                else Conflict
            )
            assert type(refused.value) is kind
        elif self.is_superseded(which, decision):
            with pytest.raises(SupersededReward, match="open when the store was restored"):
                store.add_reward(name, reward, time)
        else:
            assert store.add_reward(name, reward, time) is RewardOutcome.NEW
            if decision.inactive:
                decision = self.activated(which, decision)
            heard = decision.assumed is None and not self.participants[which].waits
            settled = replace(decision, reward=reward, settled=time, closed=time if heard else None)
            self.kept[which][name] = settled
            if heard:
                self.note(which, decision, "learn", reward)
            elif decision.assumed is not None:
                self.note(which, decision, "correct", reward)

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
            store.add_decision(DecisionRecord(name, "x", 0.5, 1))
            store.expire_decisions(100, 1, reward)
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

    @rule(which=EXPERIMENTS, now=TIMES, window=st.none() | TIMES, default=st.none() | REWARDS)
    def expire(self, which: str, now: int, window: int | None, default: float | None) -> None:
        """All windows that ended are closed; without a window, what has its reward."""
        kept = self.kept[which]
        over = [
            d
            for d in kept.values()
            if d.closed is None
            and (d.settled is not None if window is None else d.time + window <= now)
        ]
        for d in sorted(over, key=lambda d: d.time):  # of equal times, in the order made
            superseded = self.is_superseded(which, d)
            reward = default if d.assumed is None else d.assumed
            if d.settled is None:
                reward = None if superseded or d.inactive else reward
                d = replace(d, reward=reward, settled=now, silent=True)
            kept[d.id] = replace(d, closed=now, superseded=superseded)
            if superseded:
                self.note(which, d, "discard", d.reward)
            elif d.reward is not None:
                self.note(which, d, "learn" if d.assumed is None else "close", d.reward)
        assert self.stores[which].expire_decisions(now, window, default) == len(over)

    @rule(which=EXPERIMENTS, before=TIMES)
    def forget(self, which: str, before: int) -> None:
        kept = self.kept[which]
        old = [d.id for d in kept.values() if d.closed is not None and d.time < before]
        for name in old:
            del kept[name]
        count = 0
        for _ in range(3):  # until all are old by the time that went by, whatever was deleted
            self.steady += REMEMBER
            count += self.stores[which].delete_old_decisions(before + REMEMBER, REMEMBER)
        assert count == len(old)

    @rule(which=EXPERIMENTS, key=NAMES, value=st.none() | st.binary(max_size=3))
    def keep(self, which: str, key: str, value: bytes | None) -> None:
        self.stores[which].write_record(key, value)
        assert self.stores[which].read_record(key) == value

    @rule()
    def reopen(self) -> None:
        self.stores["default"].close()
        self.open()

    @invariant()
    def same(self) -> None:
        for which, store in self.stores.items():
            kept, evidence = self.kept[which], self.evidence[which]
            assert {name: store.find_decision(name) for name in kept} == kept
            assert all(store.find_decision(name) is None for name in set("abcdef") - set(kept))
            waiting = [d for d in kept.values() if d.closed is None]
            assert store.count_open_decisions() == sum(not d.inactive for d in waiting)
            assert store.count_inactive_decisions() == sum(d.inactive for d in waiting)
            assert self.participants[which].all == evidence
            assert (store.load_exchange() or {}) == evidence


def test_like_a_dictionary() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Model, settings=settings(max_examples=30, stateful_step_count=25, deadline=None)
    )
