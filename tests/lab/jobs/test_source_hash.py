"""The hash of the source that makes numbers: any change of it is seen, and only of it."""

import shutil
from pathlib import Path

import pytest

import posse
from posse.lab.jobs.results_cache import hash_source

SOURCE = Path(posse.__file__).parent


@pytest.fixture
def copied(tmp_path):
    """A copy of the package that may be changed."""
    folder = tmp_path / "posse"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_equal_sources_have_equal_hashes(copied):
    assert hash_source(copied) == hash_source() == hash_source(SOURCE)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("lab/compiled/driver.py", True),
        ("lab/compiled/kernels/thompson.py", True),
        ("lab/reference/engine.py", True),
        ("beliefs.py", True),
        ("networks/weights.py", True),
        ("lab/plots.py", False),
        ("lab/report/pages/paper.py", False),
        ("lab/report/document.py", False),
        ("cli/run.py", False),
        ("live/agent/agent.py", False),
    ],
)
def test_one_changed_byte_counts_where_numbers_are_made(copied, name, counts):
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / name).write_bytes(content)
    assert (hash_source(copied) != hash_source(SOURCE)) == counts


def test_a_new_name_counts(copied):
    (copied / "beliefs.py").rename(copied / "believes.py")
    assert hash_source(copied) != hash_source(SOURCE)
