"""The durable state of one live agent in one SQLite file: decisions, rewards, exchange.

A reward is acknowledged only when it is on disk, together with the exchange state it changed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO, TypeVar

from posse.live.store import schema
from posse.live.store.keeper import Keeper, Participant, dump
from posse.live.store.lock import Lock
from posse.live.store.records import Conflict, DecisionRecord, Outcome, Unknown, number, text
from posse.live.store.writer import StoreError, Writer

COLUMNS = "id, arm, probability, time, reward, settled, silent"
RESTART = 3600.0  # seconds; after a longer stop a whole volume may have been rolled back
CHUNK = 1000  # decisions that one commit expires or forgets, so that rewards need not wait long

T = TypeVar("T")


class Store:
    """One agent's durable state; any number of threads may use it, one process at a time."""

    def __init__(
        self,
        path: Path,
        lock: Lock,
        connection: sqlite3.Connection,
        *,
        clean: bool,
        fingerprint: str,
    ) -> None:
        self._path = path
        self.fingerprint = fingerprint
        self._lock = lock
        self._process = os.getpid()
        self._reading = threading.Lock()
        self._keeper = Keeper(connection)
        self._writer = Writer(connection, str(path), self._keeper)
        self.clean = clean
        lock.write(b"")  # until `close` notes how the file was left, no stop was clean
        self._reader = schema.connect(path, readonly=True)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, fingerprint: str, equal: Sequence[str] = ()
    ) -> Store:
        """Open the store of an agent, made if it is not there, and hold it until `close`.

        One with an equal fingerprint is as good, and keeps it.
        """
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise ValueError(f"{path} cannot be opened: there is no folder {target.parent}")
        if target.is_dir():
            raise ValueError(f"{path} is a folder: name a file in it")
        try:
            lock = Lock(target.with_name(target.name + ".lock"))
        except BlockingIOError as error:
            raise ValueError(
                f"{path} is held by a running agent: stop it first or name another store"
            ) from error
        except OSError as error:
            raise ValueError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            clean = not target.exists() or _is_as_left(target, lock.read())
            if not target.exists():
                schema.create(target, fingerprint)
            kept = schema.check(target, fingerprint, equal)
            connection = schema.connect(target)
            try:
                schema.migrate(connection)
                return cls(target, lock, connection, clean=clean, fingerprint=kept)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            lock.release()
            raise StoreError(f"{path} cannot be opened: {error}") from error
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Stop cleanly: wait for those who write, note how the file was left, let go of it."""
        self._check()
        # a full disk must not keep it open: then nothing says that this stop was clean
        with suppress(sqlite3.Error, OSError):
            self._writer.close(self._close_reader)
            if not self._path.with_name(self._path.name + "-wal").exists():
                self._lock.write(_seen(self._path))
        self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def decide(self, decision: DecisionRecord) -> DecisionRecord:
        """Keep a new decision; one that is kept already under its id is returned in its place.

        It survives this process at once, and a power failure with the next reward or `flush`.
        """
        row = (
            text("id", decision.id),
            text("arm", decision.arm),
            number("probability", decision.probability),
            number("time", decision.time),
        )
        if not 0 <= row[2] <= 1:
            raise ValueError(f"probability must be between 0 and 1, got {decision.probability}")

        def work() -> DecisionRecord:
            made = self._writer.connection.execute(
                "INSERT INTO decision (id, arm, probability, time) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (id) DO NOTHING",
                row,
            )
            kept = None if made.rowcount else self._find(decision.id)
            return kept or decision

        # who asks should not wait for the disk: its reward will, and then both are there
        return self._run(work, durable=False)

    def reward(self, decision_id: str, reward: float, time: float) -> Outcome:
        """Settle a decision; the same reward again changes nothing, another one is a Conflict."""
        decision_id, time = text("decision_id", decision_id), number("time", time)
        reward = number("reward", reward)

        def work() -> Outcome:
            kept = self._find(decision_id)
            if kept is None:
                raise Unknown(f"there is no decision {decision_id!r}: check the id, or its age")
            if kept.settled is None:
                self._settle(replace(kept, reward=reward, settled=time))
                return Outcome.NEW
            if kept.reward == reward:
                return Outcome.REPEATED
            if kept.reward is None:
                raise Conflict(
                    f"decision {decision_id!r} was discarded when its window closed: the reward "
                    f"{reward} comes too late"
                )
            silence = " by default, when its window closed" if kept.silent else ""
            raise Conflict(
                f"decision {decision_id!r} has the reward {kept.reward}{silence}: "
                f"the reward {reward} is refused"
            )

        return self._run(work)

    def flush(self) -> None:
        """Wait until all decisions are on disk."""
        if self._writer.ahead:
            # SQLite syncs nothing for a commit that changes no byte
            new = "UPDATE agent SET flushed = flushed + 1"
            self._run(lambda: self._writer.connection.execute(new))

    def decision(self, id: str) -> DecisionRecord | None:
        """Look up a decision."""
        rows = self._read(f"SELECT {COLUMNS} FROM decision WHERE id = ?", (text("id", id),))
        return _decision(rows[0]) if rows else None

    def expire(self, now: float, window: float, default_reward: float | None) -> int:
        """Settle all expired decisions with the default reward; if there is none, discard them."""
        last = number("now", now) - number("window", window)
        if default_reward is not None:
            default_reward = number("default_reward", default_reward)

        def work() -> int:
            rows = self._writer.connection.execute(
                f"SELECT {COLUMNS} FROM decision WHERE settled IS NULL AND time <= ? "
                "ORDER BY time, number LIMIT ?",
                (last, CHUNK),
            ).fetchall()
            for row in rows:
                kept = _decision(row)
                self._settle(replace(kept, reward=default_reward, settled=now, silent=True))
            return len(rows)

        return self._repeat(work)

    def forget(self, before: float) -> int:
        """Delete settled decisions from before a time; their evidence is in the exchange state."""
        number("before", before)

        def work() -> int:
            return self._writer.connection.execute(
                "DELETE FROM decision WHERE number IN (SELECT number FROM decision "
                "WHERE time < ? AND settled IS NOT NULL ORDER BY time LIMIT ?)",
                (before, CHUNK),
            ).rowcount

        return self._repeat(work)

    def save_exchange(self, state: Mapping[str, Any]) -> None:
        """Keep the exchange state; within `transaction`, together with the rewards in it."""
        written = dump(state)
        self._run(lambda: self._keeper.write(written))

    def load_exchange(self) -> dict[str, Any] | None:
        """Read the exchange state, None before the first."""
        rows = self._read("SELECT part, value FROM exchange", ())
        return {part: json.loads(value) for part, value in rows} if rows else None

    def attach(self, participant: Participant) -> None:
        """Restore a participant, then feed it every reward and save its state in the same commit.

        From here on, change it only within `transaction`; if a commit fails, it goes back.
        """
        state = self.load_exchange()
        if state is not None:
            participant.restore(state)
        self.save_exchange(participant.state())
        self._keeper.attach(participant)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Put on disk as one what this thread does within (no `await` in it), or nothing of it."""
        self._check()
        with self._writer.transaction():
            self._keeper.expect()
            yield

    @property
    def commits(self) -> int:
        """How many commits the rewards and all else took."""
        return self._writer.commits

    def _settle(self, decision: DecisionRecord) -> None:
        """Give a settled decision to the participant, which may refuse it, then write it."""
        self._keeper.settle(decision)
        self._writer.connection.execute(
            "UPDATE decision SET reward = ?, settled = ?, silent = ? WHERE id = ?",
            (decision.reward, decision.settled, decision.silent, decision.id),
        )

    def _find(self, id: str) -> DecisionRecord | None:
        """Look up a decision within the open transaction."""
        row = self._writer.connection.execute(
            f"SELECT {COLUMNS} FROM decision WHERE id = ?", (id,)
        ).fetchone()
        return None if row is None else _decision(row)

    def _read(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        """Read what is on disk, or what this thread's transaction wrote."""
        if self._writer.mine:
            return self._run(lambda: self._writer.connection.execute(query, values).fetchall())
        self._check()
        with self._reading:
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise StoreError(f"{self._path} could not be read: {error}") from error

    def _run(self, work: Callable[[], T], durable: bool = True) -> T:
        """Do some work in a commit, shared with those who write at the same time."""
        self._check()
        return self._writer.run(work, durable)

    def _repeat(self, work: Callable[[], int]) -> int:
        """Do chunks of work, each in a transaction of its own, until one is not full."""
        total, done = 0, CHUNK
        while done == CHUNK:
            # not in a shared commit: if one decision is refused, all of a chunk stay open
            with nullcontext() if self._writer.mine else self.transaction():
                done = self._run(work)
            total += done
        return total

    def _close_reader(self) -> None:
        with self._reading:
            self._reader.close()

    def _check(self) -> None:
        """Refuse a store that a forked child inherited: SQLite would damage it."""
        if os.getpid() != self._process:
            raise StoreError(f"{self._path} was opened by another process: open it after forking")


def export(path: str | os.PathLike[str], file: TextIO) -> int:
    """Write all decisions as JSON lines in the order of their times; the agent may be running."""
    target = Path(path).resolve()
    if not target.is_file():
        raise ValueError(f"there is no store {path}")
    schema.check(target)
    count = 0
    # a connection of its own: one moment of the store, however long it takes
    with closing(schema.connect(target, readonly=True)) as connection:
        for row in connection.execute(f"SELECT {COLUMNS} FROM decision ORDER BY time, number"):
            file.write(json.dumps(asdict(_decision(row)), ensure_ascii=False) + "\n")
            count += 1
    return count


def _seen(path: Path) -> bytes:
    """What tells a file from any copy of it, even one put back in its place with its times."""
    seen = path.stat()
    return f"{seen.st_ino} {seen.st_mtime_ns} {seen.st_ctime_ns}".encode()


def _is_as_left(path: Path, note: bytes) -> bool:
    """Whether a file is the one that was left a moment ago, and not an older one put back."""
    return note == _seen(path) and 0 <= time.time() - path.stat().st_mtime < RESTART


def _decision(row: tuple[Any, ...]) -> DecisionRecord:
    """Make a decision of a row with the COLUMNS."""
    id, arm, probability, time, reward, settled, silent = row
    return DecisionRecord(id, arm, probability, time, reward, settled, bool(silent))
