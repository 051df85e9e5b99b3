"""A lock between processes, which nobody holds for longer than he lives."""

import subprocess
import sys

from posse.lab.compiled.cache import hold_lock

HOLDER = """
import sys
from pathlib import Path
from posse.lab.compiled.cache import hold_lock
with hold_lock(Path(sys.argv[1]), 0) as held:
    print(held, flush=True)
    sys.stdin.readline()
"""


def test_one_at_a_time(tmp_path):
    with (
        hold_lock(tmp_path / "lock", patience=0) as first,
        hold_lock(tmp_path / "lock", 0) as second,
    ):
        assert first
        assert not second
    with hold_lock(tmp_path / "lock", patience=0) as third:
        assert third


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "True\n"
        with hold_lock(tmp_path / "lock", patience=0) as ours:
            assert not ours
        holder.kill()
        holder.wait()
        with hold_lock(tmp_path / "lock", patience=60) as ours:
            assert ours


def test_where_no_file_can_be_written_we_go_on_without(tmp_path):
    with hold_lock(tmp_path / "no such folder" / "lock", patience=0) as held:
        assert not held
