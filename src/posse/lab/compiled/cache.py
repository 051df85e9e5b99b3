"""The cache of compiled kernels on disk, so that each is compiled once on a machine.

Numba notices changes of the file a kernel is in, not of the files it imports from. So kernels are
stored in a folder named by a hash of all source here: other source never reads them. Processes that
start together on an empty cache only add to the same folder, and a file lock lets one of them
compile each kernel.
"""

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

# A blocking lock cannot time out, so waiting for a lock polls it.
_POLL_SECONDS = 0.05


@contextmanager
def hold_lock(path: Path, patience: float) -> Iterator[bool]:
    """Hold a file lock between processes; yields whether it was acquired.

    The operating system releases the lock of a process that dies. After `patience` seconds, or if
    files cannot be locked or written, the caller goes on without it: the lock saves work, it is not
    needed for correctness.
    """
    try:
        file = path.open("ab")
    except OSError:
        yield False
        return
    with file:  # closing it releases the lock
        yield _wait_for_lock(file, time.monotonic() + patience)


def _wait_for_lock(file: IO[bytes], deadline: float) -> bool:
    """Whether the lock was acquired before the deadline."""
    while True:
        try:
            _try_lock(file)
        except (BlockingIOError, PermissionError):  # held by another process
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _try_lock(file: IO[bytes]) -> None:
    """Acquire the lock, or raise an OSError."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# The folder of kernels

_PREFIX = "kernels-"
# Files without code that kernels are compiled from: editing them leaves the stored kernels valid.
FILES_WITHOUT_KERNELS = {
    "__main__.py",
    "cache.py",
    "engine.py",
    "network_arrays.py",
    "recorder.py",
    "registry.py",
}
# Seconds that another process may take to compile a kernel: ten times the longest seen.
_PATIENCE = 300
_thread_lock = threading.Lock()


def source_hash(kernels_only: bool = False) -> str:
    """Hash the source here: all files that results depend on, or only those of kernels."""
    folder = Path(__file__).parent
    source = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if not (kernels_only and path.name in FILES_WITHOUT_KERNELS):
            source.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return source.hexdigest()


@functools.cache
def kernel_folder() -> Path | None:
    """Return the folder of this source's kernels for this processor; None if none is writable.

    It is in NUMBA_CACHE_DIR if that is set, else beside the source, else in the user's cache.
    Beside the source, kernels of older source are removed.
    """
    from numba import config

    beside = Path(__file__).parent / "__pycache__"
    # numba checks the processor too; in the name it shows which kernels are still to be compiled
    name = f"{_PREFIX}{source_hash(kernels_only=True)[:16]}-{processor_target()}"
    for root in [Path(config.CACHE_DIR)] if config.CACHE_DIR else [beside, *_user_cache()]:
        try:
            (root / name).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(root / name, os.W_OK):
            if root == beside:
                _remove_older(root, name)
            return root / name
    return None


def processor_target() -> str:
    """Return a short name of the processor that kernels are compiled for.

    A processor with fused multiply-add rounds once where another rounds twice, so results of
    different targets differ in their last digits.
    """
    from llvmlite import binding
    from numba import __version__, config

    processor = config.CPU_NAME or binding.get_host_cpu_name()
    features = config.CPU_FEATURES or str(config.CPU_NAME or binding.get_host_cpu_features())
    return hashlib.sha256(f"{__version__} {processor} {features}".encode()).hexdigest()[:8]


def _user_cache() -> list[Path]:
    """List the folder in the user's cache; empty for users without a home, as in containers."""
    cache_home = os.environ.get("XDG_CACHE_HOME")
    try:
        return [(Path(cache_home) if cache_home else Path.home() / ".cache") / "posse"]
    except RuntimeError:
        return []


def _remove_older(root: Path, name: str) -> None:
    """Remove the kernels of other source."""
    source = name.rpartition("-")[0]
    for older in root.glob(f"{_PREFIX}*"):
        if not older.name.startswith(source):
            shutil.rmtree(older, ignore_errors=True)
    for file in [*root.glob("*.nb[ic]"), root / "kernels.sha256"]:
        file.unlink(missing_ok=True)


def is_stored(name: str) -> bool:
    """Whether the kernel of this name is on disk: its code, which numba writes after its index."""
    stored_in = kernel_folder()
    return stored_in is not None and any(stored_in.glob(f"*/*.{name}-*.nbc"))


@contextmanager
def use_kernel_folder(name: str) -> Iterator[bool]:
    """Make numba store kernels in our folder; yields whether there is one.

    No other process compiles the kernel of this name meanwhile: it waits and then reads the file.
    """
    from numba import config

    stored_in = kernel_folder()
    alone: AbstractContextManager[object] = nullcontext()
    if stored_in is not None and not is_stored(name):
        alone = hold_lock(stored_in / f"{name}.lock", _PATIENCE)
    with _thread_lock, alone:
        # numba reads the folder from a global setting, so one thread at a time
        before = config.CACHE_DIR
        if stored_in is not None:
            config.CACHE_DIR = str(stored_in)
        try:
            yield stored_in is not None
        finally:
            config.CACHE_DIR = before
