"""A lock between the processes of a machine, which the system takes from those that die."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_LOOK_EVERY = 0.05  # seconds: a wait for a lock that gives up can only be done by looking


@contextmanager
def locked(path: Path, patience: float) -> Iterator[bool]:
    """While no other process is in here with this file; whether we have it.

    We go on without it after some seconds, and where files cannot be locked or written: it is to
    save work, not to make it right.
    """
    try:
        file = path.open("ab")
    except OSError:
        yield False
        return
    with file:  # whose end lets go of the lock
        yield _wait(file, time.monotonic() + patience)


def _wait(file: IO[bytes], deadline: float) -> bool:
    """Whether we got the lock by then."""
    while True:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):  # another's
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_EVERY)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _lock(file: IO[bytes]) -> None:
    """Take the lock, or raise an OSError."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
