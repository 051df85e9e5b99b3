"""The kernels' cache on disk: emptied when any source file of the folder has changed.

Numba looks at the file a kernel is in and not at those it imports from, so it needs the stamp.
"""

import shutil
from pathlib import Path

import pytest

from posse.lab.compiled import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the source without its cache, which `is_compiled` takes for its own."""
    source = Path(cache.__file__).parent
    copy = tmp_path / "compiled"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(copy / "cache.py"))
    return copy


def compile_in(folder, *names):
    """Pretend that numba has stored kernels."""
    cache = folder / "__pycache__"
    cache.mkdir(exist_ok=True)
    for name in names:
        (cache / f"{name}.py311.nbi").write_bytes(b"index")
        (cache / f"{name}.py311.1.nbc").write_bytes(b"code")


def kernels_in(folder):
    return sorted(path.name for path in (folder / "__pycache__").glob("*.nb[ic]"))


ALL = ("driver.play-61", "merge.merge_static-70", "thompson.choose_thompson-300")


def test_a_fresh_copy_is_not_compiled_and_stays_so_until_the_driver_is(folder):
    assert not cache.is_compiled()
    assert not cache.is_compiled()
    compile_in(folder, "merge.merge_static-70")
    assert not cache.is_compiled()  # the last kernel to be compiled is the driver
    compile_in(folder, *ALL)
    assert cache.is_compiled()
    assert cache.is_compiled()
    assert len(kernels_in(folder)) == 6


@pytest.mark.parametrize("name", ["special.py", "random.py", "cache.py", "driver.py"])
def test_an_edit_of_any_file_empties_the_cache(folder, name):
    cache.is_compiled()
    compile_in(folder, *ALL)
    assert cache.is_compiled()
    (folder / name).write_text((folder / name).read_text() + "\n# an edit\n")
    assert not cache.is_compiled()
    assert kernels_in(folder) == []
    compile_in(folder, *ALL)
    assert cache.is_compiled()


def test_a_file_more_or_less_is_an_edit_too(folder):
    cache.is_compiled()
    compile_in(folder, *ALL)
    (folder / "another.py").write_text("x = 1\n")
    assert not cache.is_compiled()
    compile_in(folder, *ALL)
    (folder / "another.py").unlink()
    assert not cache.is_compiled()
    assert kernels_in(folder) == []


def test_kernels_of_unknown_origin_are_not_trusted(folder):
    compile_in(folder, *ALL)  # and no stamp
    assert not cache.is_compiled()
    assert kernels_in(folder) == []


def test_only_kernels_are_removed(folder):
    compile_in(folder, *ALL)
    other = folder / "__pycache__" / "cache.cpython-311.pyc"
    other.write_bytes(b"bytecode")
    cache.is_compiled()
    assert other.read_bytes() == b"bytecode"


def test_a_folder_that_cannot_be_written_to_is_left_as_it_is(folder, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError("read-only")

    compile_in(folder, *ALL)
    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert not cache.is_compiled()
    assert len(kernels_in(folder)) == 6
