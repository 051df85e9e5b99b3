"""One SQLite file owned by one process: its writer, its reader and its experiments."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from posse.live.store import schema
from posse.live.store.clock import DecisionAges
from posse.live.store.file_lock import FileLock, StoreClaim
from posse.live.store.group_commit import FLUSH, Disk, StoreError, Writer
from posse.live.store.transactions import ParticipantState, ParticipantStates

T = TypeVar("T")


class StoreFile:
    """The state shared by the stores of all experiments in one file."""

    def __init__(self, place: FileLock, connection: sqlite3.Connection, disk: Disk) -> None:
        self.path = place.path
        self.connection = connection
        self.participants = ParticipantStates()
        self.ages: dict[int, DecisionAges] = {}
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
