"""Atomic writes: a file is complete or absent, since it is renamed only once it is on disk."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

TEMPORARY = ".posse-"  # prefix of the names of files that are being written


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which is renamed to `path` on success."""
    # A symbolic link stays one: its target is replaced.
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"{path} is a folder, not a file to write")
    if not target.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {target.parent}")
    # Not mkstemp, whose files only the owner may read. The suffix stays, since some writers choose
    # the format by it.
    temporary = target.parent / f"{TEMPORARY}{secrets.token_hex(8)}{target.suffix}"
    try:
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere folders cannot be flushed
        _flush_to_disk(target.parent)


def _flush_to_disk(path: Path) -> None:
    """Wait until a file (or the names in a folder) is on the disk."""
    # Windows flushes only files opened for writing; POSIX opens folders only for reading.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def delay_interrupt() -> Iterator[None]:
    """Let a Ctrl-C wait until a short write is complete, then deliver it.

    SciPy's netCDF writer prints a traceback when it is interrupted in the middle of a file.
    """
    handler = signal.getsignal(signal.SIGINT)
    # only the main thread receives signals, and only a handler of Python can be called later
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])
