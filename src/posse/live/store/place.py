"""The place of a database file: held by one process, under one name, as long as it is open.

A lock file beside it keeps a second agent out. Linux locks the database file itself, too, so that
neither a lock file that was removed nor another path to the same file lets one in. (Elsewhere such
a lock would stand in the way of SQLite's own: there, as on Linux, every commit looks whether both
files are still the ones that were opened.)
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Held(ValueError):
    """Another one holds the file."""


class Displaced(RuntimeError):
    """The file, or its lock, is not any more where it was opened."""


class Place:
    """An exclusive hold on the database at `path` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock beside it; the database may not be there yet."""
        self.path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._names = str(self._lock_path), str(path)  # of which every commit asks
        self._handles: list[int] = []
        self._inodes: dict[Path, tuple[int, int]] = {}
        self._lost = ""
        self._take(self._lock_path, os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600))
        _held.add(self)

    def hold(self) -> None:
        """Hold the database file itself, which is there now and has no second name."""
        seen = self.path.stat()
        inode = seen.st_dev, seen.st_ino
        with _registry:
            # a descriptor more of a file that SQLite has open here may not even be closed: with
            # it, the locks of SQLite on that file would go
            if any(inode == each._inodes.get(each.path) for each in _held):
                raise self._refusal()
            if sys.platform == "linux":
                self._take(self.path, os.open(self.path, os.O_RDWR))
            self._inodes[self.path] = _inode(self.path)
        if seen.st_nlink > 1:
            raise ValueError(
                f"{self.path} has {seen.st_nlink} names (hard links), and an agent could be "
                "started on each: remove the others, or make them copies"
            )

    def check(self) -> None:
        """Raise if the database or its lock was moved, removed, replaced or given a second name."""
        if not self._lost:
            try:
                lock, database = (os.stat(name) for name in self._names)
            except OSError as error:
                self._lost = f"{error.filename} cannot be found any more"
            else:
                if (database.st_dev, database.st_ino) != self._inodes[self.path]:
                    self._lost = f"{self.path} was replaced by another file"
                elif (lock.st_dev, lock.st_ino) != self._inodes[self._lock_path]:
                    self._lost = f"{self._lock_path} was replaced by another file"
                elif database.st_nlink > 1:
                    self._lost = f"{self.path} was given a second name (a hard link)"
        if self._lost:
            raise Displaced(
                f"{self._lost} while the agent was running, and nothing more is kept: stop the "
                "agent, put the files in order, start it again"
            )

    def release(self) -> None:
        """Let go; the lock file stays, or two processes could lock two files of its name.

        Only once SQLite has closed the database: see `hold`.
        """
        with _registry:
            self._inodes.clear()
            handles, self._handles = self._handles, []
            for handle in handles:
                os.close(handle)

    def _take(self, path: Path, handle: int) -> None:
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                # flock, not lockf: it also refuses a second opener within the same process
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # each system has its own kind
            os.close(handle)
            raise self._refusal() from error
        self._handles.append(handle)
        self._inodes[path] = _inode(path)

    def _refusal(self) -> Held:
        return Held(f"{self.path} is held by a running agent: stop it first or name another store")


def _inode(path: Path) -> tuple[int, int]:
    seen = path.stat()
    return seen.st_dev, seen.st_ino


_held: weakref.WeakSet[Place] = weakref.WeakSet()
_registry = threading.RLock()


def _let_go() -> None:
    """Close what a forked child inherits, or the locks would outlive their process in it."""
    global _registry
    _registry = threading.RLock()  # a thread that is not in the child may have held it
    for place in list(_held):
        place.release()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go)
