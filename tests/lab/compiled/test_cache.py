"""Kernels on disk: each is compiled once, when needed, and never taken from another source.

Numba looks at the file a kernel is in and not at those it imports from, so the folder of the
kernels is named by a hash of all source.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import posse
from posse.lab.compiled import cache, engine, jit
from posse.lab.simulation import Simulation


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A copy of the source without its cache, which `cache` takes for its own."""
    copy = tmp_path / "compiled"
    shutil.copytree(Path(cache.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(copy / "cache.py"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    cache.kernel_folder.cache_clear()
    yield copy
    cache.kernel_folder.cache_clear()


def store(name):
    """Pretend that numba has stored a kernel."""
    folder = cache.kernel_folder() / "compiled_0123"
    folder.mkdir(exist_ok=True)
    (folder / f"module.{name}-70.py311.nbi").write_bytes(b"index")
    (folder / f"module.{name}-70.py311.1.nbc").write_bytes(b"code")


def test_kernels_are_held_one_by_one(source):
    assert not cache.is_stored("merge_static")
    store("merge_static")
    assert cache.is_stored("merge_static")
    assert not cache.is_stored("merge")
    assert not cache.is_stored("static")


@pytest.mark.parametrize(
    "name", ["numerics/special.py", "jit.py", "driver.py", "posteriors/beta.py"]
)
def test_an_edit_of_any_file_is_another_folder_and_removes_the_old_one(source, name):
    store("merge_static")
    before = cache.kernel_folder()
    (source / name).write_text((source / name).read_text() + "\n# an edit\n")
    cache.kernel_folder.cache_clear()
    assert not cache.is_stored("merge_static")
    assert not before.exists()


def test_a_file_more_is_an_edit_too(source):
    before = cache.source_hash(), cache.source_hash(kernels_only=True)
    (source / "another.py").write_text("x = 1\n")
    assert cache.source_hash() != before[0]
    assert cache.source_hash(kernels_only=True) != before[1]


def test_results_depend_on_more_than_kernels_do(source):
    before = cache.source_hash(), cache.source_hash(kernels_only=True)
    (source / "registry.py").write_text("x = 1\n")
    assert cache.source_hash() != before[0]
    assert cache.source_hash(kernels_only=True) == before[1]
    kernels = {Path(kernel.function.__code__.co_filename).name for kernel in jit.KERNELS.values()}
    assert not kernels & cache.FILES_WITHOUT_KERNELS
    assert all((source / name).exists() for name in cache.FILES_WITHOUT_KERNELS)


def test_processes_that_start_together_share_one_folder(source):
    """The second one leaves alone what the first one wrote."""
    store("merge_static")
    cache.kernel_folder.cache_clear()
    assert cache.is_stored("merge_static")


def test_another_processor_has_its_own_folder_and_leaves_this_one_alone(source, monkeypatch):
    store("merge_static")
    before = cache.kernel_folder()
    monkeypatch.setattr("numba.config.CPU_NAME", "another")  # whatever this one is, or plays
    cache.kernel_folder.cache_clear()
    assert cache.kernel_folder() != before
    assert not cache.is_stored("merge_static")
    assert any(before.rglob("*.nbi"))


def test_a_folder_of_ones_own_is_never_cleaned(source, tmp_path, monkeypatch):
    """Several versions may share NUMBA_CACHE_DIR."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "shared"))
    store("merge_static")
    before = cache.kernel_folder()
    (source / "driver.py").write_text("x = 1\n")
    cache.kernel_folder.cache_clear()
    assert cache.kernel_folder().parent == tmp_path / "shared"
    assert cache.kernel_folder() != before
    assert any(before.rglob("*.nbi"))


def test_where_the_source_cannot_be_written_to_the_users_cache_is_used(
    source, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (source / "__pycache__").write_text("in the way")
    assert cache.kernel_folder().parent == tmp_path / "home" / "posse"


def test_where_nothing_can_be_written_kernels_are_compiled_all_the_same(
    source, tmp_path, monkeypatch
):
    (tmp_path / "home").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (source / "__pycache__").write_text("in the way")
    assert cache.kernel_folder() is None
    kernel = jit.Kernel("double", lambda x: 2 * x, "float64(float64)", {}, 1.0)
    assert not kernel.is_cached
    assert kernel(4.0) == 8.0
    assert kernel.is_cached


FIRST = """
import sys
import numpy as np
import posse
from posse.lab.compiled import cache
def play(policy, progress):
    posse.simulate(posse.Bandit.gaussian([0.5, 0.1]), posse.networks.cycle(4),
        posse.Isolated(policy), horizon=2, runs=1, threads=1, progress=progress)
play(posse.Greedy(), False)
play(posse.Greedy(), False)
play(posse.BayesUCB(), True)
play(posse.BayesUCB(), True)
names = {path.name.split(".")[1].split("-")[0] for path in cache.kernel_folder().rglob("*.nbi")}
print(*sorted(names))
"""


@pytest.mark.long
def test_only_what_is_needed_is_compiled_and_people_are_told_once(tmp_path):
    """Two simulations that need kernels, whatever `progress` is; and a process that needs none."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    shown = [
        subprocess.run(
            [sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True,
            check=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    first, second = (process.stderr.count("compiling kernels (once, about") for process in shown)
    assert (first, second) == (2, 0)
    kept = "choose_bayes_ucb_GAUSSIAN choose_greedy_GAUSSIAN choose_nothing draw_gaussian"
    assert [process.stdout.strip() for process in shown] == [f"{kept} merge_nothing play"] * 2


TOGETHER = """
import sys
from posse.lab.compiled import cache, jit
import doubling
kernel = jit.Kernel("double", doubling.double, "float64(float64)", {}, 1.0)
print("ready", flush=True)
sys.stdin.readline()
assert kernel(4.0) == 8.0
stats = kernel.dispatcher.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.long
def test_processes_that_start_together_compile_once(tmp_path):
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2 * x\n")
    path = os.pathsep.join([".", *sys.path])  # this source, wherever the tests run
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER], cwd=tmp_path, text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=300)[0].split() for process in processes]
    assert sorted(told) == [["0", "1"], ["1", "0"]]


def test_a_kernel_of_which_the_code_is_not_written_yet_is_not_held(source):
    store("merge_static")
    (code,) = cache.kernel_folder().rglob("*.nbc")
    code.unlink()
    assert not cache.is_stored("merge_static")


def test_a_user_without_a_home_compiles_all_the_same(source, monkeypatch):
    """As in a container whose user has no entry in /etc/passwd."""
    (source / "__pycache__").write_text("in the way")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def home(cls):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(home))
    assert cache.kernel_folder() is None


def test_all_the_kernels_of_a_comparison_are_announced_together(monkeypatch):
    bandit, network = posse.Bandit.bernoulli([0.5, 0.1]), posse.networks.cycle(4)
    policies = (posse.ThompsonSampling(), posse.BayesUCB())
    simulations = [
        Simulation(bandit, network, posse.Decentralized(policy), 2, 0, [2]) for policy in policies
    ]
    told = []
    engine.compile_kernels(simulations, told.append)  # compiled from here on
    assert len(told) <= 1
    told.clear()
    engine.compile_kernels(simulations, told.append)
    assert told == []
    monkeypatch.setattr(jit.Kernel, "is_cached", False)
    engine.compile_kernels(simulations, told.append)
    (seconds,) = told
    assert seconds > sum(
        jit.KERNELS[f"choose_{name}_BETA"].seconds for name in ("thompson", "bayes_ucb")
    )
