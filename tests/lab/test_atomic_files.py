"""Files are whole or not there, whatever fails while they are written."""

import os
import signal
import stat

import pytest
from scipy.io import netcdf_file

from posse.lab import atomic_files as files
from posse.lab import storage
from posse.lab.atomic_files import atomic_write, delay_interrupt
from tests.lab.stored import assert_same, make


def test_atomic_write_replaces_the_file_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [RuntimeError, OSError, KeyboardInterrupt])
@pytest.mark.parametrize("exists", [True, False])
def test_a_failed_write_leaves_all_as_it_was(tmp_path, error, exists):
    path = tmp_path / "a.txt"
    if exists:
        path.write_text("old")

    def fail():
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert [each.read_text() for each in tmp_path.iterdir()] == (["old"] if exists else [])


def test_a_full_disk_does_not_cost_the_old_result(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    make(1).save(path)
    written = []

    def disk_full(file, variable, size):
        written.append(size)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(netcdf_file, "_write_var_padding", disk_full)
    with pytest.raises(OSError, match="No space left"):
        make(2).save(path)
    assert written
    assert list(tmp_path.iterdir()) == [path]
    assert_same(make(1), storage.load(path))


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failure_at_the_last_step_leaves_all_as_it_was(tmp_path, monkeypatch, name):
    path = tmp_path / "a.nc"
    make(1).save(path)

    def fail(*_):
        raise OSError(5, "Input/output error")

    owner = os if name == "fsync" else files.Path
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(OSError, match="Input/output"):
        make(2).save(path)
    assert list(tmp_path.iterdir()) == [path]
    assert_same(make(1), storage.load(path))


def test_the_content_is_on_disk_before_the_name(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, files.Path.replace

    def logged_fsync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        fsync(handle)

    def logged_replace(path, target):
        steps.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(files.Path, "replace", logged_replace)
    make().save(tmp_path / "a.nc")
    assert steps == (["content", "name", "folder"] if os.name == "posix" else ["content", "name"])


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_files_have_ordinary_permissions_and_links_stay_links(tmp_path):
    (tmp_path / "plain").write_text("")
    link, target = tmp_path / "link.nc", tmp_path / "target.nc"
    link.symlink_to(target)
    make().save(link)
    assert link.is_symlink()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert_same(make(), storage.load(target))


def test_an_interrupt_waits_until_a_write_is_complete():
    steps = []

    def write():
        with delay_interrupt():
            signal.raise_signal(signal.SIGINT)
            steps.append("written")

    # a test runner in the background ignores SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["written"]
