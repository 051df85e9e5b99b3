"""A store on a disk that is full or fails: nothing by halves, and on it goes afterwards."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from posse.live.store import DecisionRecord, Disk, RewardOutcome, Store, StoreError
from tests.live.store.participants import Heard, Sums


class Total(Heard):
    """A participant that adds up and counts the rewards."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0
        self._on_disk = self.state()

    def learn(self, decision: DecisionRecord) -> None:
        assert decision.reward is not None
        self.total += decision.reward
        self.count += 1

    def state(self) -> dict[str, Any]:
        return {"total": self.total, "count": self.count}

    changes = state

    def commit(self) -> None:
        self._on_disk = self.state()

    def rollback(self) -> None:
        self.restore(self._on_disk)

    def restore(self, state: dict[str, Any]) -> None:
        self.total, self.count = state["total"], state["count"]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Store]:
    """A store with a participant, decisions d0 to d499 and room for four pages more."""
    with Store.open(tmp_path / "agent.db", fingerprint="f") as store:
        store.attach_participant(Total())
        with store.transaction():
            for index in range(500):
                store.add_decision(DecisionRecord(f"d{index}", "A" * 50, 0.5, index))
        connection = store.file.writer.connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages + 4}")
        yield store


LONG = "B" * 100_000


def test_a_full_disk_fails_the_whole_batch_and_passes(full: Store) -> None:
    def batch(pool: ThreadPoolExecutor) -> list[Future[Any]]:
        with full.transaction():  # so that all four wait for one commit
            futures = [pool.submit(full.add_reward, f"d{index}", 1, 1) for index in range(3)]
            futures.append(pool.submit(full.add_decision, DecisionRecord("long", LONG, 0.5, 1)))
            end = time.monotonic() + 10
            while len(full.file.writer.queue) < 4:
                assert time.monotonic() < end
                time.sleep(0.001)
        return futures

    with ThreadPoolExecutor(4) as pool:
        for future in batch(pool):
            with pytest.raises(StoreError, match=r"is full\): free some space and retry"):
                future.result()
        assert full.load_exchange() == {"total": 0, "count": 0}
        assert full.find_decision("d0") == DecisionRecord("d0", "A" * 50, 0.5, 0.0)
        assert full.add_reward("d3", 1, 1) is RewardOutcome.NEW  # what has room goes on
        full.file.writer.connection.execute("PRAGMA max_page_count=1000000")
        results = [future.result() for future in batch(pool)]
    assert results[:3] == [RewardOutcome.NEW] * 3
    assert full.find_decision("long") == DecisionRecord("long", LONG, 0.5, 1.0)
    assert full.load_exchange() == {"total": 4, "count": 4}


def test_a_transaction_that_failed_stays_so(full: Store) -> None:
    def swallow() -> None:
        with full.transaction():
            full.add_reward("d0", 1, 1)
            with pytest.raises(StoreError, match="is full"):
                full.add_decision(DecisionRecord("long", LONG, 0.5, 1))
            with pytest.raises(StoreError, match="is full"):  # or SQLite would commit it alone
                full.add_reward("d1", 1, 1)

    with pytest.raises(StoreError, match="is full"):
        swallow()
    assert all(full.find_decision(f"d{index}").settled is None for index in range(500))
    assert full.add_reward("d0", 1, 1) is RewardOutcome.NEW
    assert full.load_exchange() == {"total": 1, "count": 1}


def test_evidence_without_room_is_taken_back(full: Store) -> None:
    """Memory must not hold what the disk refused: it would never be written again."""
    participant = Sums()
    other = full.open_experiment("other", "f")
    other.attach_participant(participant)
    with pytest.raises(StoreError, match="is full"), full.transaction():
        participant.add(LONG, 1.0)  # as when a message arrives
    assert participant.sums == {}
    full.file.writer.connection.execute("PRAGMA max_page_count=1000000")
    with full.transaction():
        participant.add(LONG, 1.0)
    assert other.load_exchange() == {"sums": {LONG: 1.0}}


def test_a_participant_that_cannot_be_saved_fails_the_batch(full: Store) -> None:
    participant = Total()
    full.attach_participant(participant)
    with pytest.raises(ValueError, match="JSON"), full.transaction():
        participant.total = float("nan")
    assert participant.total == 0
    full.add_reward("d0", 1e308, 1)
    with pytest.raises(StoreError, match="JSON"):
        full.add_reward("d1", 1e308, 1)
    assert participant.total == 1e308
    assert participant.count == 1


class Failing(Disk):
    """A disk whose syncs fail while `broken`; that is all that SQLite tells."""

    broken = False

    def commit(self, connection: sqlite3.Connection, durable: bool) -> None:
        if self.broken and durable:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        super().commit(connection, durable)


def test_a_failed_sync_is_mended_before_anything_is_added(tmp_path: Path) -> None:
    """What was in the log may be gone although the next sync succeeds: it is written again."""
    disk, path = Failing(), tmp_path / "agent.db"
    wal = path.with_name("agent.db-wal")
    with Store.open(path, fingerprint="f", disk=disk) as store:
        participant = Total()
        store.attach_participant(participant)
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))
        disk.broken = True
        with pytest.raises(StoreError, match="disk I/O error"):
            store.add_reward("d", 1, 1)
        assert (participant.count, store.load_exchange()) == (0, {"total": 0, "count": 0})
        disk.broken = False
        ran: list[str] = []
        store.file.connection.set_trace_callback(ran.append)
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("PRAGMA busy_timeout=0")
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM decision").fetchone()
            store.file.connection.execute("PRAGMA busy_timeout=0")
            with pytest.raises(StoreError, match="a reader is still active"):
                store.add_reward("d", 1, 1)
        assert "COMMIT" not in ran
        ran.clear()
        assert store.add_reward("d", 1, 1) is RewardOutcome.NEW
        assert ran[0] == "PRAGMA wal_checkpoint(TRUNCATE)"
        assert wal.stat().st_size < 30_000  # nothing of before is in it
        ran.clear()
        store.add_reward("d", 1, 1)
        assert ran[0] == "BEGIN IMMEDIATE"
