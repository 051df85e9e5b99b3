"""An exclusive file lock of the operating system, released when its process ends."""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Lock:
    """An exclusive lock on `path` until `release` or the end of the process, and a note in it.

    If another has it, BlockingIOError.
    """

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._handle, msvcrt.LK_NBLCK, 1)
            else:
                # flock, not lockf: it also refuses a second opener within the same process
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # each system has its own kind
            self.release()
            raise BlockingIOError(f"{path} is locked") from error
        _held.add(self)

    def read(self) -> bytes:
        """The note in the file, empty if there is none."""
        assert self._handle is not None
        os.lseek(self._handle, 0, os.SEEK_SET)
        return os.read(self._handle, 1000)

    def write(self, note: bytes) -> None:
        """Put a note into the file, on disk when this returns."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, note)
            os.fsync(self._handle)

    def release(self) -> None:
        """Let go; the file stays, since deleting it would let two processes lock two files."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go() -> None:
    """Close the locks that a forked child inherits, or they would outlive their process in it."""
    for lock in list(_held):
        lock.release()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go)
