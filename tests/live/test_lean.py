"""What only the start of an agent needed is given back, and nothing that was changed."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from posse.live.lean import code, give_back, import_special


def test_special_functions_are_imported_and_numpy_is_whole() -> None:
    before = set(vars(np))
    import_special()
    from scipy.special import betainc

    assert betainc(1.0, 1.0, 0.25) == 0.25
    assert {name for name in set(vars(np)) ^ before if vars(np).get(name) is None} == set()
    assert np.ma.masked is not None


def test_libraries_work_after_their_code_was_given_back() -> None:
    loaded = code()
    give_back(loaded)
    give_back(loaded)
    assert np.linalg.inv(np.eye(3) * 2)[0, 0] == 0.5
    assert loaded or sys.platform != "linux"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is given back")
def test_what_was_changed_stays_as_it_is(tmp_path: Path) -> None:
    """A library's relocated data is read-only like its code, but no file has it."""
    file = tmp_path / "library"
    file.write_bytes(b"a" * mmap.PAGESIZE)
    with file.open("r+b") as handle:
        mapped = mmap.mmap(handle.fileno(), mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
    mapped[0] = ord("b")
    buffer = ctypes.c_char.from_buffer(mapped)
    start = ctypes.addressof(buffer)
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, mmap.PROT_READ) == 0
    assert str(file) in Path("/proc/self/maps").read_text()
    give_back(code())
    assert mapped[0] == ord("b")
    del buffer
    mapped.close()
