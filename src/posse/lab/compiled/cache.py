"""A lock between the processes of a machine, which the system takes from those that die."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


# Where compiled kernels are kept on disk, so that each is compiled once on a machine.
#
# Numba notices changes of the file a kernel is in, not of files it imports from, so kernels are
# kept in a folder named by a hash of all source here: another source never sees them, and
# processes that start together on an empty cache only ever add to the same folder, each kernel by
# one of them.

_PREFIX = "kernels-"
# What is never compiled, nor imported by what is.
_WITHOUT_KERNELS = {
    *("__main__.py", "cache.py", "engine.py", "network_arrays.py", "recorder.py", "registry.py")
}
_PATIENCE = 300  # seconds that another process may take to compile a kernel: ten times the longest
_thread_lock = threading.Lock()


def source_hash(kernels_only: bool = False) -> str:
    """A hash of the source here: of all that results depend on, or of all that kernels do."""
    folder = Path(__file__).parent
    source = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if not (kernels_only and path.name in _WITHOUT_KERNELS):
            source.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return source.hexdigest()


@functools.cache
def folder() -> Path | None:
    """The folder of this source's kernels for this processor; None where nothing can be written.

    In NUMBA_CACHE_DIR if that is set, beside the source if that can be written to, else among the
    user's caches.  Beside the source, kernels of older source are removed.
    """
    from numba import config

    beside = Path(__file__).parent / "__pycache__"
    # numba looks at the processor too; here it tells what is yet to be compiled
    name = f"{_PREFIX}{source_hash(kernels_only=True)[:16]}-{target()}"
    for root in [Path(config.CACHE_DIR)] if config.CACHE_DIR else [beside, *_users()]:
        try:
            (root / name).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(root / name, os.W_OK):
            if root == beside:
                _remove_older(root, name)
            return root / name
    return None


def target() -> str:
    """A name for the processor that kernels are compiled for.

    One that multiplies and adds in a single step rounds once, where another rounds twice: numbers
    of different targets differ in their last digits.
    """
    from llvmlite import binding
    from numba import __version__, config

    processor = config.CPU_NAME or binding.get_host_cpu_name()
    features = config.CPU_FEATURES or str(config.CPU_NAME or binding.get_host_cpu_features())
    return hashlib.sha256(f"{__version__} {processor} {features}".encode()).hexdigest()[:8]


def _users() -> list[Path]:
    """The folder among the user's caches; none for users without a home, as in containers."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return [(Path(given) if given else Path.home() / ".cache") / "posse"]
    except RuntimeError:
        return []


def _remove_older(root: Path, name: str) -> None:
    """Remove kernels of other source, and those of the time when they lay here side by side."""
    source = name.rpartition("-")[0]
    for older in root.glob(f"{_PREFIX}*"):
        if not older.name.startswith(source):
            shutil.rmtree(older, ignore_errors=True)
    for file in [*root.glob("*.nb[ic]"), root / "kernels.sha256"]:
        file.unlink(missing_ok=True)


def holds(name: str) -> bool:
    """Whether the kernel of this name is on disk: its code, which numba writes after its index."""
    kept = folder()
    return kept is not None and any(kept.glob(f"*/*.{name}-*.nbc"))


@contextmanager
def in_use(name: str) -> Iterator[bool]:
    """While numba is told to keep what it compiles in our folder; whether it can.

    No other process compiles the kernel of this name meanwhile: it waits, and finds it kept.
    """
    from numba import config

    kept = folder()
    alone: AbstractContextManager[object] = nullcontext()
    if kept is not None and not holds(name):
        alone = locked(kept / f"{name}.lock", _PATIENCE)
    with _thread_lock, alone:
        before = config.CACHE_DIR
        if kept is not None:
            config.CACHE_DIR = str(kept)
        try:
            yield kept is not None
        finally:
            config.CACHE_DIR = before
