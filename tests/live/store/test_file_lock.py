"""Where a store is: one process, one name, one file, or nothing more is acknowledged."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from posse.live.store import DecisionRecord, Store, StoreError
from tests.live.store.conftest import FINGERPRINT
from tests.live.store.participants import Sums

TRY = """
import sys
from posse.live.store import Store
try:
    Store.open(sys.argv[1], fingerprint=sys.argv[2])
except ValueError as error:
    print(error)
"""

READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT * FROM agent").fetchall()
connection.close()
"""


def from_another_process(path: Path) -> str:
    command = [sys.executable, "-c", TRY, str(path), FINGERPRINT]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def linked(path: Path) -> None:
    os.link(path, path.with_name("second.db"))


def lock_removed(path: Path) -> None:
    path.with_name("agent.db.lock").unlink()


def lock_made_anew(path: Path) -> None:
    lock_removed(path)
    path.with_name("agent.db.lock").touch()


def moved_away(path: Path) -> None:
    for each in list(path.parent.glob("agent.db*")):
        each.rename(each.with_name("old-" + each.name))


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


CHANGES = [linked, lock_removed, lock_made_anew, moved_away, replaced]


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps open files where they are")
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_moved_under_a_running_agent(
    reopen: Callable[[], Store], path: Path, change: Callable[[Path], None]
) -> None:
    """Seen in 0.1: a second agent started on the same file, both acknowledged, one was lost."""
    with reopen() as store:
        participant = Sums()
        store.attach_participant(participant)
        for id in "de":
            store.add_decision(DecisionRecord(id, "A", 0.5, 1))
        store.add_reward("d", 1, 2)
        store.check_location()
        change(path)
        with pytest.raises(StoreError, match=r"while the agent was running; nothing more"):
            store.add_reward("e", 1, 2)
        with pytest.raises(StoreError, match="put the files back, start it again"):
            store.check_location()
        with pytest.raises(StoreError, match="while the agent was running"):
            store.add_decision(DecisionRecord("f", "A", 0.5, 1))
        assert participant.sums == {"A": 1}


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps open files where they are")
def test_files_put_back_are_not_trusted(reopen: Callable[[], Store], path: Path) -> None:
    """Another agent may have written meanwhile."""
    with reopen() as store:
        path.rename(path.with_name("away"))
        with pytest.raises(StoreError, match="was removed"):
            store.check_location()
        path.with_name("away").rename(path)
        with pytest.raises(StoreError, match="was removed"):
            store.add_decision(DecisionRecord("d", "A", 0.5, 1))
    reopen().close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the commits notice it")
def test_a_second_process_finds_the_file_itself_locked(
    reopen: Callable[[], Store], path: Path
) -> None:
    with reopen() as store:
        store.add_decision(DecisionRecord("d", "A", 0.5, 1))
        path.with_name("agent.db.lock").unlink()
        assert "agent.db is locked by a running agent" in from_another_process(path)
        path.with_name("agent.db.lock").unlink()
        with pytest.raises(ValueError, match="is locked by a running agent"):
            reopen()  # in this process: it does not even look, or SQLite would lose its locks
        subprocess.run([sys.executable, "-c", READ, str(path)], check=True, timeout=60)
        # who believes to be the last to close the file deletes its log
        assert path.with_name("agent.db-wal").exists()


def test_a_hard_link_is_refused(reopen: Callable[[], Store], path: Path) -> None:
    reopen().close()
    linked(path)
    for each in (path, path.with_name("second.db")):
        with pytest.raises(ValueError, match=r"has 2 names \(hard links\)"):
            Store.open(each, fingerprint=FINGERPRINT)
    path.with_name("second.db").unlink()
    reopen().close()


def test_a_symbolic_link_is_the_same_file(reopen: Callable[[], Store], path: Path) -> None:
    with reopen():
        path.with_name("second.db").symlink_to(path)
        with pytest.raises(ValueError, match="is locked by a running agent"):
            Store.open(path.with_name("second.db"), fingerprint=FINGERPRINT)


@pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")
def test_new_files_are_nobody_elses(reopen: Callable[[], Store], path: Path) -> None:
    before = os.umask(0o022)
    try:
        with reopen() as store:
            store.add_decision(DecisionRecord("d", "A", 0.5, 1))
            made = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert len(made) == 4
    assert set(made.values()) == {0o600}
