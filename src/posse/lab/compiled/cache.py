"""Kernels are compiled once and kept on disk; here is what keeps that cache honest."""

from __future__ import annotations

import hashlib
from pathlib import Path


def is_compiled() -> bool:
    """Whether the kernels of exactly this source are in the cache on disk.

    Numba notices changes of the file a kernel is in, not of files it imports from, so the cache is
    emptied when any file of this folder has changed.
    """
    folder = Path(__file__).parent
    source = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    digest = hashlib.sha256(source).hexdigest()
    cache = folder / "__pycache__"
    stamp = cache / "kernels.sha256"
    kernels = [*cache.glob("*.nbi"), *cache.glob("*.nbc")]
    if stamp.exists() and stamp.read_text() == digest:
        return any(kernel.name.startswith("driver") for kernel in kernels)
    try:
        for kernel in kernels:
            kernel.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        stamp.write_text(digest)
    except OSError:  # an installation that cannot be written to does not change either
        pass
    return False
