"""The memory of an agent's process: what it need not load, and what only its start needed."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

import numpy as np

# submodules that NumPy loads when first asked for, and SciPy asks for all there are
UNUSED = ("char", "core", "ctypeslib", "f2py", "ma", "matlib", "rec", "strings", "testing")
LINUX = sys.platform == "linux"
DONT_NEED = 4  # of madvise, there
Place = tuple[int, int]  # addresses, from and to


def import_special() -> None:
    """Import scipy.special without the parts of NumPy that it copies from and never uses.

    `scipy._lib.array_api_compat` takes over every name of NumPy and so loads its Fortran compiler,
    test tools and masked arrays: 8 of 16 MB. Meanwhile these names are taken; afterwards NumPy is
    as before. To be called before there are threads.
    """
    taken = [name for name in UNUSED if name not in vars(np)]
    for name in taken:
        setattr(np, name, None)
    try:
        import scipy.special  # noqa: F401
    except (AttributeError, ImportError, TypeError):
        pass  # another SciPy may need them after all: it is imported again, when first used
    finally:
        for name in taken:
            delattr(np, name)


def give_back(loaded: set[Place]) -> None:
    """Give the system back what only the start needed: freed memory, and the code of libraries.

    Of code much runs once, or was read ahead; what is needed again comes from the page cache.
    `loaded` is what `code()` said before there were threads: what one of them loads now is in the
    making. Elsewhere than on Linux nothing happens.
    """
    gc.collect()
    try:
        library = ctypes.CDLL(None)
        for start, end in code() & loaded:
            library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), DONT_NEED)
        library.malloc_trim(0)  # of glibc alone
    except (OSError, TypeError, AttributeError):
        pass  # it is no more than thrift


def code() -> set[Place]:
    """Where parts of files lie in memory that nobody may write to, and nobody has."""
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines() if LINUX else []
    except OSError:
        return set()
    found: dict[Place, bool] = {}
    place = 0, 0
    for name, *rest in map(str.split, lines):
        if "-" in name:  # 7f00-7f01 r-xp 00001000 08:01 1234 /usr/lib/...
            start, _, end = name.partition("-")
            place = int(start, 16), int(end, 16)
            found[place] = rest[0] in ("r-xp", "r--p") and rest[-1].startswith("/")
        elif name in ("Anonymous:", "Swap:") and rest[0] != "0":  # such as what was relocated
            found[place] = False
    return {place for place, unchanged in found.items() if unchanged}
