"""What is committed together, who commits, who waits, and what is on disk then."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from posse.live.store import DecisionRecord, RewardOutcome, Store, StoreError, Unknown
from tests.live.store.participants import Sums


def test_a_transaction_is_whole_or_not_there(store: Store) -> None:
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with store.transaction():
        store.add_reward("d", 1, 2)
        store.save_exchange({"n": 1})
        assert store.load_exchange() == {"n": 1}  # its own writes

    def interrupted() -> None:
        with store.transaction():
            store.add_decision(DecisionRecord("e", "A", 0.5, 1))
            store.save_exchange({"n": 2})
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert store.load_exchange() == {"n": 1}
    assert store.find_decision("e") is None
    with (
        pytest.raises(StoreError, match="end it first"),
        store.transaction(),
        store.transaction(),
    ):
        pass
    assert store.add_reward("d", 1, 3) is RewardOutcome.REPEATED


def test_a_participant_follows_the_commits(store: Store) -> None:
    participant = Sums()
    store.attach_participant(participant)
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    store.add_decision(DecisionRecord("e", "B", 0.5, 1))
    store.add_reward("d", 2, 2)
    store.add_reward("d", 2, 3)
    assert store.load_exchange() == participant.state() == {"sums": {"A": 2}}
    with pytest.raises(ValueError, match="out of range"):
        store.add_reward("e", 1e7, 3)
    assert store.find_decision("e") == DecisionRecord("e", "B", 0.5, 1.0)
    with store.transaction():
        participant.sums["C"] = 5  # as when a message arrives
    assert store.load_exchange() == {"sums": {"A": 2, "C": 5}}

    def interrupted() -> None:
        with store.transaction():
            store.add_reward("e", 1, 4)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert participant.sums == {"A": 2, "C": 5}
    assert participant.rolled_back == 1
    again = Sums()
    store.attach_participant(again)
    assert again.sums == participant.sums


def test_threads_share_commits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # a disk that is not too fast, wherever the tests run
    monkeypatch.setattr(
        store.file.writer.participants,
        "after_commit",
        slowly(store.file.writer.participants.after_commit),
    )
    participant = Sums()
    store.attach_participant(participant)
    each, threads = 100, 8
    with store.transaction():
        for index in range(each * threads):
            store.add_decision(DecisionRecord(f"d{index}", "A", 0.5, index))
    before = store.commits

    def rewards(first: int) -> None:
        for index in range(first, each * threads, threads):
            assert store.add_reward(f"d{index}", 1, index) is RewardOutcome.NEW
            kept = store.find_decision(f"d{index}")
            assert kept is not None
            assert kept.reward == 1

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(rewards, range(threads)))
    assert store.load_exchange() == participant.state() == {"sums": {"A": each * threads}}
    assert store.commits - before < each * threads / 2


def slowly(then: Callable[[bool], None]) -> Callable[[bool], None]:
    """Wait a moment at the end of every commit."""

    def after(committed: bool) -> None:
        time.sleep(0.001)
        then(committed)

    return after


def wait_for(store: Store, waiting: int) -> None:
    """Return when so many callers are in the queue."""
    end = time.monotonic() + 10
    while len(store.file.writer.queue) < waiting:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_those_who_wait_are_committed_at_once(store: Store) -> None:
    for index in range(9):
        store.add_decision(DecisionRecord(f"d{index}", "A", 0.5, index))
    before = store.commits
    with ThreadPoolExecutor(8) as pool:
        with store.transaction():
            futures = [pool.submit(store.add_reward, f"d{index}", 1, 1) for index in range(8)]
            wait_for(store, 8)
        assert [future.result() for future in futures] == [RewardOutcome.NEW] * 8
    assert store.commits - before == 2  # the empty one, and one for eight


def test_those_who_wait_come_before_the_next_chunk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a reward would wait until all that has expired is settled, however much it is."""
    monkeypatch.setattr("posse.live.store.store.CHUNK_DECISIONS", 1)
    order: list[str] = []
    futures: list[Future[Any]] = []

    class Order(Sums):
        def learn(self, decision: DecisionRecord) -> None:
            order.append(decision.id)
            if decision.id == "old0":
                futures.append(pool.submit(store.add_reward, "new", 1, 100))
                wait_for(store, 1)

    store.attach_participant(Order())
    for index in range(20):
        store.add_decision(DecisionRecord(f"old{index}", "A", 0.5, index))
    store.add_decision(DecisionRecord("new", "A", 0.5, 100))
    with ThreadPoolExecutor(1) as pool:
        assert store.expire_decisions(100, 50, 0.0) == 20
    assert futures[0].result() is RewardOutcome.NEW
    assert order[:3] == ["old0", "new", "old1"]


def test_those_who_wait_are_told_that_it_is_closed(store: Store) -> None:
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    with ThreadPoolExecutor(3) as pool:
        with store.transaction():
            closing = pool.submit(store.close)
            end = time.monotonic() + 10
            while not store.file.writer.waiting:
                assert time.monotonic() < end
                time.sleep(0.001)
            late = [pool.submit(store.add_reward, "d", 1, 1) for _ in range(2)]
            wait_for(store, 2)
        closing.result(60)
        for each in late:
            with pytest.raises(StoreError, match="is closed"):
                each.result(60)


def test_a_mistake_in_a_batch_is_its_callers_alone(store: Store) -> None:
    store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    before = store.commits
    with ThreadPoolExecutor(2) as pool:
        with store.transaction():
            good = pool.submit(store.add_reward, "d", 1, 1)
            bad = pool.submit(store.add_reward, "e", 1, 1)
            wait_for(store, 2)
        assert good.result() is RewardOutcome.NEW
        with pytest.raises(Unknown):
            bad.result()
    assert store.commits - before == 2


def test_only_parts_that_changed_are_written(store: Store) -> None:
    class Parts(Sums):
        still = ("never", "changes")

        def parts(self) -> dict[str, Any]:
            return {**super().parts(), "still": self.still}

    written: list[str] = []
    store.attach_participant(Parts())
    store.file.writer.connection.set_trace_callback(written.append)
    store.add_decision(DecisionRecord("d", "A", 1.0, 0.0))
    store.add_reward("d", 1.0, 1.0)
    replaced = [each for each in written if each.startswith("INSERT INTO exchange")]
    assert len(replaced) == 1
    assert "sums" in replaced[0]
    assert store.load_exchange() == {"sums": {"A": 1}, "still": ["never", "changes"]}


def test_a_part_that_becomes_nothing_after_a_failure(store: Store) -> None:
    class Part(Sums):
        part: int | None = 1

        def parts(self) -> dict[str, Any]:
            return {"other": 1} if self.part is None else {"other": 1, "part": self.part}

        def restore(self, state: dict[str, Any]) -> None:
            self.part = state.get("part")
            self._on_disk = self.state()

    participant = Part()
    store.attach_participant(participant)
    with suppress(RuntimeError), store.transaction():
        participant.part = 2
        raise RuntimeError
    assert participant.part == 1
    with store.transaction():
        participant.part = None
    assert store.load_exchange() == {"other": 1}
    with suppress(RuntimeError), store.transaction():
        participant.part = 2
        raise RuntimeError
    assert participant.part is None


def test_a_decision_waits_for_the_disk_with_its_reward(store: Store) -> None:
    """SQLite in WAL mode syncs a commit if and only if `synchronous` is FULL."""
    written: list[str] = []
    store.file.writer.connection.set_trace_callback(written.append)

    def commits() -> list[str]:
        kinds = [w for w in written if w == "COMMIT" or w.startswith("PRAGMA synchronous")]
        written.clear()
        return kinds

    store.add_decision(DecisionRecord("d", "A", 1.0, 0.0))
    store.add_decision(DecisionRecord("e", "A", 1.0, 0.0))
    assert commits() == ["PRAGMA synchronous=NORMAL", "COMMIT", "COMMIT"]
    store.add_reward("d", 1.0, 1.0)
    store.flush()
    assert commits() == ["PRAGMA synchronous=FULL", "COMMIT"]
    store.add_decision(DecisionRecord("f", "A", 1.0, 0.0))
    store.flush()
    assert commits() == [
        "PRAGMA synchronous=NORMAL", "COMMIT", "PRAGMA synchronous=FULL", "COMMIT"
    ]  # fmt: skip
    store.add_decision(DecisionRecord("g", "A", 1.0, 0.0))
    with store.transaction():
        store.add_decision(DecisionRecord("h", "A", 1.0, 0.0))
    assert commits()[-2:] == ["PRAGMA synchronous=FULL", "COMMIT"]
    with store.transaction(durable=False):
        store.add_decision(DecisionRecord("i", "A", 1.0, 0.0))
        assert store.find_decision("i") is not None
    assert commits() == ["PRAGMA synchronous=NORMAL", "COMMIT"]
    with store.transaction(durable=False):
        store.add_reward("i", 1.0, 1.0)  # whatever was asked for: it is acknowledged
    assert commits() == ["COMMIT", "PRAGMA synchronous=FULL", "COMMIT"]
    store.add_decision(DecisionRecord("j", "A", 1.0, 0.0))
    written.clear()
    store.close()
    assert commits() == ["PRAGMA synchronous=FULL"]


def test_flushing_reaches_the_disk(store: Store, path: Path) -> None:
    """SQLite syncs what it appends to the WAL, and nothing if there is nothing to append."""
    wal = path.with_name(path.name + "-wal")
    for name in "ab":
        store.add_decision(DecisionRecord(name, "A", 1.0, 0.0))
        with store.transaction():  # it writes nothing, and so syncs nothing
            pass
        before = wal.stat().st_size
        store.flush()
        assert wal.stat().st_size > before
        before = wal.stat().st_size
        store.flush()
        assert wal.stat().st_size == before
