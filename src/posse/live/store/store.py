"""The durable state of one experiment of a live agent: decisions, rewards, exchange.

A reward is acknowledged only when it is on disk, together with the exchange state it changed.
"""

from __future__ import annotations

import json
import os
import time as times
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from posse.live.store.decisions import COLUMNS, DecisionTable, ErasedRow, decode_row
from posse.live.store.file import DecisionAges, StoreFile
from posse.live.store.file_lock import DEFAULT, StoreClaim
from posse.live.store.group_commit import Disk
from posse.live.store.records import (
    DecisionRecord,
    RewardOutcome,
    Transition,
    validate_number,
    validate_text,
)
from posse.live.store.timeline import EventLog, HistoryPoints
from posse.live.store.transactions import EncodedParts, Participant, encode_parts

NEWEST = "SELECT coalesce(max(number), 0) FROM decision"
# each is answered by an index of its own
UNCLOSED = "SELECT count(*) FROM decision WHERE experiment = ? AND closed IS NULL"
UNSHOWN = f"{UNCLOSED} AND inactive = 1"
OLD_UNSHOWN = (
    "SELECT number FROM decision WHERE experiment = ? AND closed IS NULL AND inactive = 1 "
    "AND time <= ? AND id GLOB ? LIMIT ?"
)
OPEN_INCARNATIONS = (
    "SELECT incarnation FROM decision WHERE experiment = ?1 AND closed IS NULL "
    "UNION SELECT incarnation FROM decision WHERE experiment = ?1 AND time >= ?2"
)
CHUNK_DECISIONS = 1000  # that one commit expires or deletes, so that rewards need not wait long


class Store:
    """The durable state of one experiment, for any number of threads of one process at a time.

    Several experiments share a file (`open_experiment`), and then its commits, lock and `close`.
    """

    def __init__(
        self, file: StoreFile, claim: StoreClaim, monotonic: Callable[[], float] = times.monotonic
    ) -> None:
        self.file = file
        self.experiment = claim.experiment
        self._number, self.fingerprint = file.enter_experiment(claim)
        self.participant_state = file.participants.by_experiment[self._number]
        # for work in a transaction that is open; the methods below begin one, or join it
        self.decisions = DecisionTable(file.connection, self._number, self.participant_state)
        self.points = HistoryPoints(file, self._number)
        self.events = EventLog(file, self._number)
        self._monotonic = monotonic
        latest = "SELECT max(time) FROM decision WHERE experiment = ?"
        newest = self.read_rows(NEWEST)[0][0]
        time = self.read_rows(latest, (self._number,))[0][0]
        self._ages = file.ages.setdefault(self._number, DecisionAges(newest, time, monotonic))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        fingerprint: str,
        accepted_fingerprints: Sequence[str] = (),
        experiment: str = DEFAULT,
        owner: str | None = None,
        disk: Disk | None = None,
        monotonic: Callable[[], float] = times.monotonic,
    ) -> Store:
        """Open and lock the store of an agent until `close`; it is created if it does not exist.

        accepted_fingerprints: further fingerprints that the file may have, and then keeps. owner:
        the name of the agent; the first that opens a file stays in it, and any other is refused.
        disk, monotonic: a disk that fails and another clock, for simulations.
        """
        claim = StoreClaim(experiment, fingerprint, tuple(accepted_fingerprints), owner)
        file = StoreFile.open(path, claim, disk or Disk())
        try:
            store = cls(file, claim, monotonic)
            # repeated requests are acknowledged from the file, which must be on disk then
            store.flush()
            return store
        except BaseException:
            file.close()
            raise

    def check_experiment(
        self, experiment: str, fingerprint: str, accepted_fingerprints: Sequence[str] = ()
    ) -> None:
        """Refuse what `open_experiment` would refuse, and change nothing."""
        claim = StoreClaim(experiment, fingerprint, tuple(accepted_fingerprints))
        place = str(self.file.path)
        self.file.run_in_commit(lambda: claim.check_file(self.file.connection, place), False)

    def open_experiment(
        self, experiment: str, fingerprint: str, accepted_fingerprints: Sequence[str] = ()
    ) -> Store:
        """Open another experiment in the same file, created if it is not in it."""
        claim = StoreClaim(experiment, fingerprint, tuple(accepted_fingerprints))
        return Store(self.file, claim, self._monotonic)

    def experiment_names(self) -> list[str]:
        """The names of all experiments in the file, in the order of their creation."""
        return [
            str(row[0]) for row in self.read_rows("SELECT name FROM experiment ORDER BY number")
        ]

    def close(self) -> None:
        """Wait for concurrent writers and release the file, for all experiments in it."""
        self.file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add_decision(self, decision: DecisionRecord) -> DecisionRecord:
        """Store a new decision; if its id exists, the stored decision is returned instead.

        It survives this process at once, and a power failure with the next reward or `flush`.
        """
        return self.add_decisions([decision])[0]

    def add_decisions(self, decisions: Sequence[DecisionRecord]) -> list[DecisionRecord]:
        """Store new decisions, some of which may have the same id; see `add_decision`."""
        return [stored for stored, _ in self.insert_decisions(decisions)]

    def insert_decisions(
        self, decisions: Sequence[DecisionRecord]
    ) -> list[tuple[DecisionRecord, bool]]:
        """Store new decisions as `add_decisions`, each with whether it is new."""
        # a decision does not wait for the disk: its reward will, and then both are on disk
        return self.file.run_in_commit(
            lambda: self.decisions.insert_decisions(decisions), durable=False
        )

    def add_reward(self, decision_id: str, reward: float, time: float) -> RewardOutcome:
        """Settle a decision; the same reward again changes nothing, another one is a Conflict."""
        (outcome,) = self.add_rewards([(decision_id, reward)], time)
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    def add_rewards(
        self, rewards: Sequence[tuple[str, float]], time: float
    ) -> list[RewardOutcome | ValueError]:
        """Settle decisions one by one: the outcome of each, or its error; see `add_reward`."""
        return self.file.run_in_commit(lambda: self.decisions.settle_rewards(rewards, time))

    def change_decisions(
        self, transitions: Sequence[tuple[Transition, str]], time: float
    ) -> list[tuple[DecisionRecord, bool] | ValueError]:
        """Activate or cancel decisions one by one: each, and whether it changed, or its error.

        An activation survives this process at once, and a power failure with the next reward or
        `flush`, as decisions do; a cancellation is on disk when this returns.
        """
        durable = any(transition == "cancel" for transition, _ in transitions)
        return self.file.run_in_commit(
            lambda: self.decisions.change_decisions(transitions, time), durable
        )

    def add_metrics(
        self, metrics: Sequence[tuple[str, Mapping[str, float]]], time: float
    ) -> list[bool | ValueError]:
        """Add metrics to decisions one by one: whether some were new, or the error of each."""
        return self.file.run_in_commit(lambda: self.decisions.measure_decisions(metrics, time))

    def erase_decision(self, id: str) -> bool:
        """Delete a decision; its closed evidence stays, and that of an open one is taken back.

        Returns whether no byte of it is left in the file and its log: another process that reads
        the file prevents that, and then `retry_removal` does it later.
        """
        name = validate_text("decision_id", id)
        self._erase_rows(lambda: self.decisions.erase_decision(name))
        return self.remove_traces()

    def erase_visitor(self, visitor: str) -> tuple[int, bool]:
        """Delete all decisions for a visitor, as `erase_decision` does; also returns how many."""
        name = validate_text("visitor", visitor)
        erased = 0
        while ids := self._erase_rows(lambda: self.decisions.erase_visitor(name, CHUNK_DECISIONS)):
            erased += len(ids)
        return erased, self.remove_traces([name] if erased else [])

    def _erase_rows(self, erase: Callable[[], list[ErasedRow]]) -> list[ErasedRow]:
        """Delete rows in a commit, and note what may be left of them."""

        def work() -> tuple[list[ErasedRow], list[str]]:
            execute = self.file.connection.execute
            (newest,) = execute(NEWEST).fetchone()
            rows = erase()
            self._forget_deleted_numbers(newest)
            # a context that other visitors have, too, is not a trace of this one
            contexts = {row.context for row in rows if row.context is not None}
            query = "SELECT 1 FROM decision WHERE context = ? LIMIT 1"
            alone = [text for text in contexts if execute(query, (text,)).fetchone() is None]
            return rows, alone

        rows, contexts = self.file.run_in_commit(work)
        self.file.traces.update(text.encode() for text in (*(row.id for row in rows), *contexts))
        return rows

    def remove_traces(self, texts: Iterable[str] = ()) -> bool:
        """Remove what is left of erased decisions; False if another reader prevents that."""
        return self.file.remove_traces(texts)

    def retry_removal(self) -> None:
        """Remove what is left of erased decisions, if a reader prevented that before."""
        self.file.retry_removal()

    def flush(self) -> None:
        """Wait until all decisions are on disk."""
        self.file.flush()

    def check_location(self) -> None:
        """Raise a StoreError if the file was moved, replaced or linked since it was opened."""
        self.file.check_location()

    def find_decision(self, id: str) -> DecisionRecord | None:
        """Find a decision by its id."""
        query = f"SELECT {COLUMNS} FROM decision WHERE experiment = ? AND id = ?"
        rows = self.read_rows(query, (self._number, validate_text("id", id)))
        return decode_row(rows[0]) if rows else None

    def find_newest_decision(self, visitor: str) -> DecisionRecord | None:
        """Find the newest decision of a visitor."""
        query = (
            f"SELECT {COLUMNS} FROM decision WHERE experiment = ? AND visitor = ? "
            "ORDER BY time DESC, number DESC LIMIT 1"
        )
        rows = self.read_rows(query, (self._number, validate_text("visitor", visitor)))
        return decode_row(rows[0]) if rows else None

    def find_open_incarnations(self, since: float | None = None) -> set[int]:
        """Return the incarnations of decisions that are not final, or were made since a time."""
        return {int(row[0]) for row in self.read_rows(OPEN_INCARNATIONS, (self._number, since))}

    def count_open_decisions(self) -> int:
        """Count active decisions that are not final: window open, or no reward yet."""
        return self._count_rows(UNCLOSED) - self._count_rows(UNSHOWN)

    def count_inactive_decisions(self) -> int:
        """Count decisions that may still be activated."""
        return self._count_rows(UNSHOWN)

    def _count_rows(self, query: str) -> int:
        return int(self.read_rows(query, (self._number,))[0][0])

    def expire_decisions(
        self, now: float, window: float | None, default_reward: float | None
    ) -> int:
        """Close the decisions whose reward window (attribution window) ended, in order of time.

        Those without a reward are settled with the reward assumed for them, else with the default
        reward; if there is none, they are discarded. window: None closes the decisions that have a
        reward.
        """
        now = validate_number("now", now)
        last = None if window is None else now - validate_number("window", window)
        if default_reward is not None:
            default_reward = validate_number("default_reward", default_reward)

        return self._repeat_chunks(
            lambda: self.decisions.close_decisions(last, default_reward, now, CHUNK_DECISIONS)
        )

    def delete_unshown_decisions(self, last: float, prefix: str) -> int:
        """Delete inactive decisions up to a time whose ids begin with this; they never counted."""
        which = (self._number, validate_number("last", last), f"{prefix}*")
        if not self.read_rows(OLD_UNSHOWN, (*which, 1)):  # nearly always
            return 0

        def work() -> int:
            execute = self.file.connection.execute
            (newest,) = execute(NEWEST).fetchone()
            deleted = execute(
                f"DELETE FROM decision WHERE number IN ({OLD_UNSHOWN})", (*which, CHUNK_DECISIONS)
            ).rowcount
            if deleted:
                self._forget_deleted_numbers(newest)
            return deleted

        return self._repeat_chunks(work)

    def delete_old_decisions(self, now: float, remember: float) -> int:
        """Delete decisions that are final and older than `remember` seconds; their evidence stays.

        `now` is the wall clock. If it jumps, ahead or back, no decision is deleted early.
        """
        now = validate_number("now", now)
        remember = validate_number("remember", remember)

        def work() -> int:
            execute = self.file.connection.execute
            (newest,) = execute(NEWEST).fetchone()
            last, before = self._ages.find_older_than(remember, now, newest)
            deleted = execute(
                "DELETE FROM decision WHERE number IN (SELECT number FROM decision WHERE "
                "experiment = ? AND time < ? AND number <= ? AND closed IS NOT NULL "
                "ORDER BY time LIMIT ?)",
                (self._number, before, last, CHUNK_DECISIONS),
            ).rowcount
            if deleted:
                self._forget_deleted_numbers(newest)
            return deleted

        return self._repeat_chunks(work)

    def _forget_deleted_numbers(self, newest: int) -> None:
        """Forget the ages of numbers if the newest row was deleted, within the transaction."""
        # SQLite gives the number of a deleted newest row to the next row: marks of ages, which
        # rely on rising numbers, would then call a new decision old.
        if self.file.connection.execute(NEWEST).fetchone() != (newest,):
            self.file.forget_numbers()

    def write_record(self, key: str, value: bytes | None) -> None:
        """Write a small record under a key, replacing an earlier one; None deletes it."""
        place = self._number, validate_text("key", key)
        if value is None:
            self._execute("DELETE FROM kept WHERE experiment = ? AND key = ?", place)
        else:
            self._execute("REPLACE INTO kept (experiment, key, value) VALUES (?, ?, ?)",
                        (*place, value))  # fmt: skip

    def read_record(self, key: str) -> bytes | None:
        """Read the record under a key."""
        query = "SELECT value FROM kept WHERE experiment = ? AND key = ?"
        rows = self.read_rows(query, (self._number, key))
        return bytes(rows[0][0]) if rows else None

    def save_exchange(self, state: Mapping[str, Any]) -> None:
        """Write the exchange state; within `transaction`, together with the rewards in it."""
        encoded = encode_parts(state)
        self.file.run_in_commit(lambda: self.participant_state.write_parts(encoded))

    def load_exchange(self) -> dict[str, Any] | None:
        """Read the exchange state, None before the first."""
        query = "SELECT part, value FROM exchange WHERE experiment = ?"
        rows = self.read_rows(query, (self._number,))
        return {part: json.loads(value) for part, value in rows} if rows else None

    def attach_participant(self, participant: Participant) -> None:
        """Restore a participant, then pass it every reward and save its state in the same commit.

        From here on, change it only within `transaction`; if a commit fails, it is restored.
        """
        query = "SELECT part, value FROM exchange WHERE experiment = ?"
        # Read within the transaction: the participant of a removed experiment that is added back
        # takes the rewards of requests in flight until this one is attached.
        with self.transaction():
            # decoded one by one as they are read: there may be ten thousands of parts
            parts = EncodedParts(self.read_rows(query, (self._number,)))
            if parts:
                participant.restore(parts)
            self.participant_state.attach_participant(participant, bool(parts))

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[None]:
        """Commit all that this thread does within (no `await` in it), or nothing of it.

        All experiments of the file may be used within. If not `durable`, it survives this process
        at once, and a power failure with a later durable commit, or `flush`.
        """
        self.file.check_process()
        with self.file.writer.transaction(durable):
            self.participant_state.expect_changes()
            yield

    def reward_transaction(self, durable: bool = True) -> AbstractContextManager[None]:
        """Open a `transaction` in which participants change by decisions and rewards alone."""
        self.file.check_process()
        return self.file.writer.transaction(durable, mark_dirty=False)

    @property
    def commits(self) -> int:
        """The number of commits of the file so far."""
        return self.file.writer.commits

    def _execute(self, statement: str, values: tuple[Any, ...]) -> None:
        self.file.run_in_commit(lambda: self.file.connection.execute(statement, values))

    def read_rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Run a query on the committed state, or within this thread's transaction."""
        return self.file.read_rows(query, values)

    def _repeat_chunks(self, work: Callable[[], int]) -> int:
        """Run chunks of work, each in its own transaction, until one is not full."""
        total = 0
        count = CHUNK_DECISIONS
        while count == CHUNK_DECISIONS:
            # not in a shared commit: if one decision is refused, the whole chunk stays open
            with nullcontext() if self.file.writer.in_transaction else self.transaction():
                count = self.file.run_in_commit(work)
            total += count
        return total
