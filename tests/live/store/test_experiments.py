"""Several experiments in one file: each its own, all in the same commits."""

from __future__ import annotations

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
    StoreError,
    Unknown,
    export_decisions,
)
from tests.live.store.participants import Sums


def test_each_has_its_decisions_and_evidence(reopen: Callable[[], Store]) -> None:
    with reopen() as store:
        views = {"default": store, "checkout": store.open_experiment("checkout", "f")}
        sums = {name: Sums() for name in views}
        for name, view in views.items():
            view.attach_participant(sums[name])
            view.add_decision(DecisionRecord("d", "A", 0.5, 1))
        assert store.add_reward("d", 1, 2) is RewardOutcome.NEW
        assert views["checkout"].add_reward("d", 3, 2) is RewardOutcome.NEW
        with pytest.raises(Conflict):
            store.add_reward("d", 3, 2)
        store.add_decision(DecisionRecord("e", "A", 0.5, 1))
        with pytest.raises(Unknown):
            views["checkout"].add_reward("e", 3, 2)
        assert [view.count_open_decisions() for view in views.values()] == [1, 0]
        assert views["checkout"].expire_decisions(10, 1, 0.0) == 0
        store.write_record("control", b"\x00")
        assert (store.read_record("control"), views["checkout"].read_record("control")) == (
            b"\x00",
            None,
        )
        store.write_record("control", None)
        assert store.read_record("control") is None
    with reopen() as store:
        assert store.experiment_names() == ["default", "checkout"]
        assert store.load_exchange() == {"sums": {"A": 1}}
        assert store.open_experiment("checkout", "f").load_exchange() == {"sums": {"A": 3}}
        with pytest.raises(ValueError, match="in the experiment checkout"):
            store.open_experiment("checkout", "g")
        assert (
            store.open_experiment("checkout", "g", accepted_fingerprints=["f"]).fingerprint == "f"
        )


def test_the_first_need_not_be_the_default(path: Path) -> None:
    with Store.open(path, fingerprint="f", experiment="checkout") as store:
        assert store.experiment_names() == ["checkout"]
    with pytest.raises(ValueError, match="in the experiment checkout"):
        Store.open(path, fingerprint="g", experiment="checkout")
    with pytest.raises(ValueError, match="experiment must be a non-empty text"):
        Store.open(path, fingerprint="f", experiment="")


def test_a_commit_that_fails_takes_all_of_them_back(store: Store) -> None:
    other = store.open_experiment("other", "f")
    third = store.open_experiment("third", "f")
    sums = [Sums(), Sums(), Sums()]
    for view, each in zip((store, other, third), sums, strict=True):
        view.attach_participant(each)
        view.add_decision(DecisionRecord("d", "A", 0.5, 1))

    def work() -> None:
        with store.transaction():
            other.add_reward("d", 1, 2)
            sums[0].add("B", 5)
            store.add_reward("d", 1e5, 2)
            sums[0].sums["B"] = float("nan")  # JSON does not hold it

    with pytest.raises(ValueError, match="JSON"):
        work()
    assert [each.sums for each in sums] == [{}, {}, {}]
    assert [each.rolled_back for each in sums] == [1, 1, 0]  # the third did nothing
    assert other.add_reward("d", 2, 2) is RewardOutcome.NEW
    assert third.add_reward("d", 3, 2) is RewardOutcome.NEW
    assert [each.sums for each in sums] == [{}, {"A": 2}, {"A": 3}]


def test_a_transaction_is_of_all_experiments_whichever_began_it(store: Store) -> None:
    other, sums = store.open_experiment("other", "f"), Sums()
    other.attach_participant(sums)
    with store.transaction():
        sums.add("A", 1)  # as when a message arrives
    assert other.load_exchange() == {"sums": {"A": 1}}

    def interrupted() -> None:
        with store.transaction():
            sums.add("A", 1)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert (sums.sums, sums.rolled_back) == ({"A": 1}, 1)
    with pytest.raises(KeyError), store.transaction():
        raise KeyError
    assert sums.rolled_back == 1  # it had not moved


def test_a_participant_that_fails_is_its_experiments_alone(store: Store) -> None:
    """A mistake in one experiment's evidence is an error of its callers only."""

    class Broken(Sums):
        def learn(self, decision: DecisionRecord) -> None:
            raise RuntimeError("a bug")

    other = store.open_experiment("other", "f")
    good = Sums()
    store.attach_participant(Broken())
    other.attach_participant(good)
    for view in (store, other):
        view.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with store.transaction():
        with pytest.raises(RuntimeError, match="a bug"):
            store.add_reward("d", 1, 2)
        assert other.add_reward("d", 1, 2) is RewardOutcome.NEW
    assert good.sums == {"A": 1}
    assert other.load_exchange() == {"sums": {"A": 1}}
    assert store.find_decision("d") == DecisionRecord("d", "A", 0.5, 1)


def test_one_entry_of_many_is_written_alone(store: Store, path: Path) -> None:
    """Seen in 0.1: with 500 origins of 17 arms one changed entry wrote 923 kB."""

    class Entries(Sums):
        entries = {f"entry {n}": ["o" * 20, n, 1, "e" * 1500] for n in range(500)}  # noqa: RUF012
        changed: set[str] = set()  # noqa: RUF012

        def state(self) -> dict[str, Any]:
            return dict(self.entries)

        def changes(self) -> dict[str, Any]:
            changed, self.changed = self.changed, set()
            return {part: self.entries[part] for part in changed}

    participant = Entries()
    store.attach_participant(participant)
    wal = path.with_name(path.name + "-wal")
    store.file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with store.transaction():
        participant.entries["entry 77"] = ["o" * 20, 77, 2, "f" * 1500]
        participant.changed = {"entry 77"}
    assert 0 < wal.stat().st_size < 10_000
    state = store.load_exchange()
    assert state is not None
    assert len(state) == 500
    assert state["entry 77"][2] == 2


def test_closing_closes_it_for_all(store: Store) -> None:
    other = store.open_experiment("other", "f")
    other.close()
    with pytest.raises(StoreError, match="is closed: open it again"):
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))


def test_an_owner_stays(path: Path) -> None:
    for owner in (None, "berlin", "berlin", None):
        Store.open(path, fingerprint="f", owner=owner).close()
    with pytest.raises(ValueError, match=r"is the store of berlin: set name back to it, or give"):
        Store.open(path, fingerprint="f", owner="paris")


def test_export_tells_experiments_apart(store: Store, path: Path) -> None:
    other = store.open_experiment("other", "f")
    for view, ids in ((other, "a"), (store, "bc"), (other, "d")):
        for id in ids:
            view.add_decision(DecisionRecord(id, "A", 0.5, ord(id)))

    def written(experiment: str | None) -> list[tuple[str, str]]:
        file = io.StringIO()
        export_decisions(path, file, experiment)
        lines = map(json.loads, file.getvalue().splitlines())
        return [(line["experiment"], line["id"]) for line in lines]

    others = [("other", "a"), ("other", "d")]
    assert written(None) == [("default", "b"), ("default", "c"), *others]
    assert written("other") == others
    with pytest.raises(ValueError, match="has no experiment 'x': it has default, other"):
        written("x")


def test_a_reward_takes_two_statements(store: Store) -> None:
    """And one more for all rewards of a commit that change the same part."""
    store.attach_participant(Sums())
    for index in range(8):
        store.add_decision(DecisionRecord(f"d{index}", "A", 0.5, 1))
    ran: list[str] = []
    store.file.connection.set_trace_callback(ran.append)
    with store.transaction():
        for index in range(8):
            store.add_reward(f"d{index}", 1, 2)
    kinds = [each.split()[0] for each in ran if not each.startswith("PRAGMA")]
    assert kinds == ["BEGIN", *["SELECT", "UPDATE"] * 8, "INSERT", "COMMIT"]
