"""A simulated disk under a real SQLite file: it fails, is killed under, set back or lost.

Every statement that the store writes passes here, before and after it is done, and so does every
message that the node sends: these are the points at which a process can be killed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from posse.live.agent import action_selection, evidence
from posse.live.messaging import wire
from posse.live.store import schema

_open_real_connection = schema.open_connection

FAILURES = {
    "full": ("database or disk is full", sqlite3.SQLITE_FULL),
    "io": ("disk I/O error", sqlite3.SQLITE_IOERR),
}
SUFFIXES = ("", "-wal", ".lock")  # of the files of a store that last
READING = ("SELECT", "PRAGMA", "ROLLBACK", "BEGIN")


class Killed(BaseException):
    """The process ends here; what it had not written is gone."""


@dataclass(frozen=True)
class Volume:
    """A copy of all files of one store."""

    database: bytes | None = None
    log: bytes | None = None
    lock: bytes | None = None


@dataclass
class Disk:
    """The disk of one agent, and the fault that waits on it."""

    path: Path
    dead: bool = False  # whether the process that used it was killed
    fault: str = ""  # what happens when `countdown` reaches 0
    countdown: int = 0
    failing: int = 0  # writes that still fail
    failed: int = 0  # writes that failed
    left: Volume | None = None  # what a killed process left behind
    synced: int = 0  # bytes of the log that a power failure leaves
    full_sync: bool = True
    connections: list[sqlite3.Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._log = f"{self.path}-wal"

    def log_size(self) -> int:
        """How long SQLite's write-ahead log is."""
        try:
            return os.stat(self._log).st_size
        except FileNotFoundError:
            return 0

    def copy_files(self) -> Volume:
        """The files as they are at this moment."""
        files = (self.path.with_name(self.path.name + suffix) for suffix in SUFFIXES)
        return Volume(*(file.read_bytes() if file.exists() else None for file in files))

    def restore_files(self, volume: Volume, synced: int | None = None) -> None:
        """Restore the files of a volume, of whose log `synced` bytes are on disk."""
        for suffix in (*SUFFIXES, "-shm", "-journal", ".new", ".new-journal"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        contents = volume.database, volume.log, volume.lock
        for suffix, content in zip(SUFFIXES, contents, strict=True):
            if content is not None:
                self.path.with_name(self.path.name + suffix).write_bytes(content)
        length = len(volume.log or b"")
        self.synced = length if synced is None else min(synced, length)

    def schedule_fault(self, fault: str, events: int) -> None:
        """Let a fault happen after so many more events."""
        self.fault = fault
        self.countdown = events

    def note_event(self, statement: str, before: bool) -> None:
        """Note that a statement is about to run or has run: a fault may happen here."""
        if self.dead:
            raise Killed
        if self.fault:
            self.countdown -= 1
            if self.countdown < 0:
                self._trigger_fault()
        if before and self.failing and not statement.startswith(READING) and statement != "send":
            self.failing -= 1
            self.failed += 1
            sentence, code = FAILURES["io" if self.failing % 2 else "full"]
            error = sqlite3.OperationalError(sentence)
            error.sqlite_errorcode = code
            raise error

    def end_process(self, power: bool = False, torn: int | None = None) -> None:
        """End the process, and note the files that it leaves on the disk."""
        volume = self.copy_files()
        if volume.log is not None:
            length = self.synced if power else torn
            volume = replace(volume, log=volume.log[:length])
        self.left = volume
        self.dead = True
        self.fault = ""
        self.failing = 0

    def release_files(self) -> None:
        """Close what the dead process had open, and leave the files as it left them."""
        if not self.dead:
            self.end_process()
        for connection in self.connections:
            sqlite3.Connection.close(connection)
        self.connections.clear()
        if self.left is not None:
            self.restore_files(self.left, self.synced)
        self.left = None
        self.dead = False
        self.full_sync = True

    def _trigger_fault(self) -> None:
        fault = self.fault
        self.fault = ""
        if fault in ("kill", "power"):
            self.end_process(power=fault == "power")
            raise Killed
        if fault == "torn":
            self.fault = "torn"  # waits for the next commit: see Connection
        else:
            self.failing = int(fault)


class Connection(sqlite3.Connection):
    """SQLite on a simulated disk."""

    disk: Disk
    writes = False
    changes_before = 0  # the last commit

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Do a statement, if the disk lets it."""
        return self._run_statement(sql, lambda: sqlite3.Connection.execute(self, sql, *values))

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Do a statement many times, if the disk lets it."""
        return self._run_statement(sql, lambda: sqlite3.Connection.executemany(self, sql, *values))

    def close(self) -> None:
        """Close, unless the process is dead: then the disk does."""
        if self.disk.dead:
            raise Killed
        self.disk.connections.remove(self)
        sqlite3.Connection.close(self)
        self.disk.synced = min(self.disk.synced, self.disk.log_size())

    def _run_statement(self, sql: str, work: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        disk = self.disk
        if not self.writes:
            if disk.dead:
                raise Killed
            return work()
        disk.note_event(sql, before=True)
        size = disk.log_size() if sql == "COMMIT" else 0
        changed = self.total_changes != self.changes_before
        cursor = work()
        if sql.startswith("PRAGMA synchronous="):
            disk.full_sync = sql.endswith("FULL")
        if sql.startswith("PRAGMA wal_checkpoint"):
            disk.synced = min(disk.synced, disk.log_size())
        if sql == "COMMIT":
            grown = disk.log_size()
            if disk.fault == "torn" and disk.countdown < 0 and grown > size:
                # cut in the log's last pages, or whole and not synced yet
                disk.end_process(torn=size + (grown - size) * (1 + disk.countdown % 4) // 4)
                raise Killed
            self.changes_before = self.total_changes
            if disk.full_sync and changed:  # SQLite syncs nothing for a commit without a change
                disk.synced = grown
        disk.note_event(sql, before=False)
        return cursor


_disks: dict[Path, Disk] = {}


def attach_disk(disk: Disk) -> None:
    """Let stores on this path use this disk."""
    _disks[disk.path] = disk


def detach_disk(disk: Disk) -> None:
    """Forget a disk."""
    _disks.pop(disk.path, None)


def open_connection(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """In place of the store's own: the same connection, on the simulated disk of its path."""
    disk = _disks.get(path)
    if disk is None:
        return _open_real_connection(path, readonly=readonly)
    mode = "ro" if readonly else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, factory=Connection
    )
    connection.disk = disk
    connection.writes = not readonly
    disk.connections.append(connection)
    connection.execute("PRAGMA synchronous=FULL")
    return connection


@contextlib.contextmanager
def simulate_disks() -> Iterator[None]:
    """Put the simulated disks under every store of this process, until the end of the block."""
    replacements = _list_replacements()
    before = [getattr(owner, name) for owner, name, _ in replacements]
    for owner, name, replacement in replacements:
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(replacements, before, strict=True):
            setattr(owner, name, original)


@functools.cache  # once for a whole campaign
def _list_replacements() -> list[tuple[Any, str, Any]]:
    """List what simulations replace: the owner of each name, the name, and what stands for it."""
    return [
        (schema, "open_connection", open_connection),
        # They take thirty milliseconds at every start; policies and families here are honest.
        (action_selection.Chooser, "check_honesty", lambda self: None),
        (evidence.PowerSums, "_check_statistic", lambda self: None),
        # An agent makes one codec and one policy, a simulation some for every process.
        (wire, "get_type_hints", functools.cache(typing.get_type_hints)),
        (wire, "_may_hold_floats", functools.cache(wire._may_hold_floats)),
        (action_selection, "_takes_race", functools.cache(action_selection._takes_race)),
    ]
