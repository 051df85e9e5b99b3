"""The lock on a store's file, and the claim that the file must fit before it is opened."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path

from posse.live.store.records import validate_text

DEFAULT = "default"  # the name of an experiment without a name


@dataclass(frozen=True)
class StoreClaim:
    """The experiment that opens a store, its fingerprint, and the name of the agent if it has one.

    accepted_fingerprints: further fingerprints that a file may have; it stays with the one it has.
    An experiment that is not yet in a file fits every file.
    """

    experiment: str
    fingerprint: str
    accepted_fingerprints: tuple[str, ...] = ()
    owner: str | None = None

    def __post_init__(self) -> None:
        """Validate the names."""
        validate_text("experiment", self.experiment)
        if self.owner is not None:
            validate_text("owner", self.owner)

    def check_file(self, connection: sqlite3.Connection, path: str) -> None:
        """Refuse a file of another agent, or with other evidence under the experiment's name."""
        owner = read_owner(connection)
        if self.owner is not None and owner not in (None, self.owner):
            raise ValueError(
                f"{path} is the store of {owner}: set name back to it, or give {self.owner} a "
                "new store"
            )
        stored = _read_fingerprint(connection, self.experiment)
        if stored is not None and stored not in (self.fingerprint, *self.accepted_fingerprints):
            version = _fingerprint_version(self.fingerprint)
            if _fingerprint_version(stored) != version:
                raise ValueError(
                    f"{path} has fingerprints of version {_fingerprint_version(stored)}, but this "
                    f"Posse reads version {version}: start the agent with the Posse that wrote it, "
                    "or give it a new store"
                )
            where = "" if self.experiment == DEFAULT else f" in the experiment {self.experiment}"
            raise ValueError(
                f"{path} holds evidence of another network, exchange, family, prior, reward_range, "
                "half_life, context, holdout, control_arm, metrics or stop (and with stop "
                f"reward_window){where} ({stored!r}, and this agent is {self.fingerprint!r}): set "
                "them back in agent.toml, make another experiment, or give it a new store"
            )

    def register_experiment(self, connection: sqlite3.Connection) -> tuple[int, str]:
        """Return the experiment's number and fingerprint, inserted if new; within a transaction."""
        if self.owner is not None:
            connection.execute("UPDATE agent SET owner = ? WHERE owner IS NULL", (self.owner,))
        connection.execute(
            "INSERT INTO experiment (name, fingerprint) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (self.experiment, self.fingerprint),
        )
        query = "SELECT number, fingerprint FROM experiment WHERE name = ?"
        number, fingerprint = connection.execute(query, (self.experiment,)).fetchone()
        return int(number), str(fingerprint)


def _fingerprint_version(fingerprint: str) -> str:
    """Return the version at the head of a fingerprint, such as 1 of '1-9f86'."""
    version, dash, _ = fingerprint.partition("-")
    return version if dash else "none"


def read_owner(connection: sqlite3.Connection) -> str | None:
    """Return the name of the agent that first opened the file, if it had one."""
    (owner,) = connection.execute("SELECT owner FROM agent").fetchone()
    return None if owner is None else str(owner)


def _read_fingerprint(connection: sqlite3.Connection, experiment: str) -> str | None:
    query = "SELECT fingerprint FROM experiment WHERE name = ?"
    row = connection.execute(query, (experiment,)).fetchone()
    return None if row is None else str(row[0])


# --- the lock: one process, under one name, as long as the file is open
#
# A lock file beside the database keeps a second agent out. On Linux the database file is locked
# too, so that neither a removed lock file nor another path to the same file lets one in. Elsewhere
# such a lock would conflict with SQLite's own; everywhere, every commit checks that both files are
# still the ones that were opened.

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class StoreLocked(ValueError):
    """The file is locked by another process or store."""


class StoreMoved(RuntimeError):
    """The file or its lock is no longer where it was opened."""


class FileLock:
    """An exclusive lock on the database at `path` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Lock the lock file beside the database, which may not exist yet."""
        self.path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._names = str(self._lock_path), str(path)  # which every commit checks
        self._handles: list[int] = []
        self._inodes: dict[Path, tuple[int, int]] = {}
        self._lost = ""
        self._lock_descriptor(
            self._lock_path, os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        )
        _open_locks.add(self)

    def lock_database(self) -> None:
        """Lock the database file itself, which exists now and must have no second name."""
        status = self.path.stat()
        inode = status.st_dev, status.st_ino
        with _registry:
            # A further descriptor of a file that SQLite has open here must not even be closed:
            # POSIX would drop SQLite's own locks on that file with it.
            if any(inode == lock._inodes.get(lock.path) for lock in _open_locks):
                raise self._locked_error()
            if sys.platform == "linux":
                self._lock_descriptor(self.path, os.open(self.path, os.O_RDWR))
            self._inodes[self.path] = _read_inode(self.path)
        if status.st_nlink > 1:
            raise ValueError(
                f"{self.path} has {status.st_nlink} names (hard links), and an agent could be "
                "started on each: remove the others, or make them copies"
            )

    def check_location(self) -> None:
        """Raise if database or lock file was moved, removed, replaced or given a second name."""
        # Once lost, always lost: files that come back later may lack commits made meanwhile, so
        # only a restart, which reads them again, helps.
        if not self._lost:
            try:
                lock, database = (os.stat(name) for name in self._names)
            except OSError as error:
                self._lost = f"{error.filename} was removed"
            else:
                # A device and an inode identify a file, a path does not: after `mv` or a restore
                # from a copy the path may name a file that another agent can lock (split brain).
                if (database.st_dev, database.st_ino) != self._inodes[self.path]:
                    self._lost = f"{self.path} was replaced by another file"
                elif (lock.st_dev, lock.st_ino) != self._inodes[self._lock_path]:
                    self._lost = f"{self._lock_path} was replaced by another file"
                elif database.st_nlink > 1:
                    self._lost = f"{self.path} was given a second name (a hard link)"
        if self._lost:
            raise StoreMoved(
                f"{self._lost} while the agent was running; nothing more is stored: stop the "
                "agent, put the files back, start it again"
            )

    def release(self) -> None:
        """Release the locks; the lock file stays, else two processes could each lock one.

        Only after SQLite has closed the database: see `lock_database`.
        """
        with _registry:
            self._inodes.clear()
            handles = self._handles
            self._handles = []
            for handle in handles:
                os.close(handle)

    def _lock_descriptor(self, path: Path, handle: int) -> None:
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                # flock, not lockf: it also refuses a second opener within the same process
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # of a kind that depends on the system
            os.close(handle)
            raise self._locked_error() from error
        self._handles.append(handle)
        self._inodes[path] = _read_inode(path)

    def _locked_error(self) -> StoreLocked:
        return StoreLocked(
            f"{self.path} is locked by a running agent: stop it first or use another store"
        )


def _read_inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


_open_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()
_registry = threading.RLock()


def _release_after_fork() -> None:
    """Close inherited descriptors in a forked child, else the locks would outlive their process."""
    global _registry
    _registry = threading.RLock()  # a thread that the child does not have may have locked it
    for place in list(_open_locks):
        place.release()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_release_after_fork)
