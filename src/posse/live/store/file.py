"""One SQLite file owned by one process, and the ages of its decisions by elapsed time.

A clock that jumps makes no decision old: a decision carries the wall-clock time, which may be wrong
now or may have been wrong then. Row numbers rise, and this process knows from its monotonic clock
how long ago a number was the newest. For decisions older than the process only their times are
known, and that the newest of them was made before the start.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeVar

from posse.live.store import schema
from posse.live.store.file_lock import FileLock, StoreClaim
from posse.live.store.group_commit import FLUSH, Disk, StoreError, Writer
from posse.live.store.transactions import ParticipantState, ParticipantStates

REMOVAL_ATTEMPTS = 20  # to empty the log while others read
REMOVAL_PAUSE = 0.05  # seconds between them
MOST_SEARCHED = 50  # texts; for more the file is written anew at once
MARKS_PER_WINDOW = 50  # resolution: a decision is recognised as old up to 1/50 of the window late


@dataclass(frozen=True)
class _Mark:
    """The newest row number at one moment of both clocks."""

    number: int
    monotonic: float
    now: float


class DecisionAges:
    """Finds the decisions of a store that are older than a number of seconds."""

    def __init__(self, newest: int, time: float | None, monotonic: Callable[[], float]) -> None:
        """Start with the newest number in the file and the latest time of any decision in it."""
        self._monotonic = monotonic
        self._at_start = None if time is None else _Mark(newest, monotonic(), time)
        self._marks: deque[_Mark] = deque()

    def find_older_than(self, seconds: float, now: float, newest: int) -> tuple[int, float]:
        """Return the number and time up to which decisions are older than so many seconds.

        A decision must satisfy both. `now` is the wall clock, `newest` the newest number in the
        file.
        """
        steady = self._monotonic()
        marks = self._marks
        if not marks or steady - marks[-1].monotonic >= seconds / MARKS_PER_WINDOW:
            marks.append(_Mark(newest, steady, now))
        # The first mark is the newest one that is old enough: older marks tell nothing more.
        while len(marks) > 1 and steady - marks[1].monotonic >= seconds:
            marks.popleft()
        if steady - marks[0].monotonic >= seconds:
            self._at_start = None  # everything it describes is older than the mark
            # the number alone would do; the time keeps the search in the index to the oldest
            return marks[0].number, min(now - seconds, marks[0].now)
        if self._at_start is not None:
            # By elapsed time since the start, so that a wall clock that jumps ahead makes nothing
            # older.
            latest = min(now, self._at_start.now + steady - self._at_start.monotonic)
            return self._at_start.number, latest - seconds
        return 0, now - seconds

    def forget_numbers(self) -> None:
        """Forget all marks: the newest row was deleted, and its number will be used again."""
        self._at_start = None
        self._marks.clear()


# One SQLite file owned by one process: its writer, its reader and its experiments.

T = TypeVar("T")


class StoreFile:
    """The state shared by the stores of all experiments in one file."""

    def __init__(self, place: FileLock, connection: sqlite3.Connection, disk: Disk) -> None:
        self.path = place.path
        self.connection = connection
        self.participants = ParticipantStates()
        self.ages: dict[int, DecisionAges] = {}
        self.traces: set[bytes] = set()  # texts of deleted rows that the file or log may still have
        self.writer = Writer(
            connection, str(place.path), self.participants, disk, place.check_location
        )
        self._place = place
        self._process = os.getpid()
        self._reading = threading.Lock()
        self._reader = schema.open_connection(place.path, readonly=True)

    @classmethod
    def open(cls, path: str | os.PathLike[str], claim: StoreClaim, disk: Disk) -> StoreFile:
        """Open and lock a file that fits the claim, created if it does not exist."""
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise ValueError(f"{path} cannot be opened: there is no folder {target.parent}")
        if target.is_dir():
            raise ValueError(f"{path} is a folder: name a file in it")
        try:
            place = FileLock(target)
        except OSError as error:
            raise ValueError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            # The order matters. The lock file comes first, so that two processes cannot create the
            # database at once; then the database is locked; only then it is read and checked.
            if not target.exists():
                schema.create_file(target)
            place.lock_database()
            schema.check_file(target, claim)
            connection = schema.open_connection(target)
            try:
                schema.raise_version(connection)
                return cls(place, connection, disk)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            place.release()
            raise StoreError(f"{path} cannot be opened: {error}") from error
        except BaseException:
            place.release()
            raise

    def enter_experiment(self, claim: StoreClaim) -> tuple[int, str]:
        """Return number and fingerprint of an experiment, registered if it is new in the file."""

        def work() -> tuple[int, str]:
            claim.check_file(self.connection, str(self.path))
            return claim.register_experiment(self.connection)

        number, fingerprint = self.run_in_commit(work)
        self.participants.by_experiment.setdefault(
            number, ParticipantState(self.connection, number)
        )
        return number, fingerprint

    def run_in_commit(self, work: Callable[[], T], durable: bool = True) -> T:
        """Run some work in a commit, shared with concurrent writers (group commit)."""
        self.check_process()
        return self.writer.run_in_commit(work, durable)

    def read_rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Read the committed state, or within this thread's transaction its own writes."""
        if self.writer.in_transaction:
            return self.run_in_commit(
                lambda: self.connection.execute(query, values).fetchall(), False
            )
        self.check_process()
        # A connection of its own: views read the last commit (WAL) and never wait for a writer's
        # sync.
        with self._reading:
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise StoreError(f"{self.path} could not be read: {error}") from error

    def flush(self) -> None:
        """Wait until all commits have reached the disk."""
        if self.writer.ahead_of_disk:
            self.run_in_commit(lambda: self.connection.execute(FLUSH))

    def remove_traces(self, texts: Iterable[str]) -> bool:
        """Remove what is left of deleted rows in file and log; False if a reader prevents that.

        Readers of this process are done in moments; another one, such as an export, may take long:
        then `retry_removal` goes on. texts: such as the ids of the rows.
        """
        self.check_process()
        self.traces.update(text.encode() for text in texts)
        for _ in range(REMOVAL_ATTEMPTS):
            self.retry_removal()
            if not self.traces:
                return True
            time.sleep(REMOVAL_PAUSE)
        return False

    def retry_removal(self) -> None:
        """Remove traces that could not be removed before, if that can be done now."""
        if not self.traces:
            return
        # The rows are deleted, whatever a failing disk says: what is left is tried again.
        with suppress(StoreError):
            self._remove_now()

    def _remove_now(self) -> None:
        if not self.writer.truncate_log():
            return
        # Deleted rows were overwritten with zeros. But SQLite moves rows between pages as these
        # fill, and leaves copies in unused parts of pages: only writing all pages anew clears them.
        searched = len(self.traces) <= MOST_SEARCHED and not self._has_traces()
        if searched or self.writer.rewrite_file():
            self.traces.clear()

    def _has_traces(self) -> bool:
        """Whether the file contains one of the texts that should be gone."""
        with self.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return any(content.find(trace) >= 0 for trace in self.traces)

    def close(self) -> None:
        """Wait for concurrent writers, close the database and release its lock."""
        self.check_process()
        with suppress(sqlite3.Error):  # a full disk must not prevent closing
            self.writer.close(self._close_reader)
        self._place.release()

    def forget_numbers(self) -> None:
        """Note that the newest decision was deleted: the next of any experiment gets its number."""
        for ages in self.ages.values():
            ages.forget_numbers()

    def check_location(self) -> None:
        """Raise if the file is no longer where it was opened."""
        self.check_process()
        self.writer.check_location()

    def check_process(self) -> None:
        """Refuse a store that a forked child inherited: SQLite would damage it."""
        if os.getpid() != self._process:
            raise StoreError(f"{self.path} was opened by another process: open it after forking")

    def _close_reader(self) -> None:
        with self._reading:
            self._reader.close()
