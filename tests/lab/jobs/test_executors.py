"""Processes that are killed are replaced, and none is left behind, however the program ends."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from posse.lab.jobs import executors
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs
from tests.lab.jobs import working


@pytest.mark.long
def test_processes_of_which_one_is_killed_give_what_one_process_gives(tmp_path, monkeypatch):
    """An algorithm in a file beside, which waits until its process is killed, among the jobs."""
    patient = working.patient(tmp_path, monkeypatch)
    jobs = [*working.jobs(algorithms={"mine": patient}, runs=4), *working.jobs("reference")]
    there, here = PartStore(tmp_path / "there"), PartStore(tmp_path / "here")
    watch, begun = working.when_begun(tmp_path, working.kill)
    with executors.processes(2) as executor:
        complete_jobs(jobs, there, executor=executor)
    watch.join()
    assert begun  # and so killed
    complete_jobs(jobs, here, threads=1)
    for job in jobs:
        working.assert_equal(there.load_result(job), here.load_result(job))


SCRIPT = """
import sys
from pathlib import Path

import posse
from posse.lab.jobs import executors
from posse.lab.jobs.results_cache import PartStore
from posse.lab.simulator import plan_jobs
from posse.lab.jobs.scheduler import complete_jobs

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import mine

    algorithms = {"quick": posse.CoopUCB2(), "mine": mine.Patient(sys.argv[1])}
    jobs = plan_jobs(posse.Bandit.gaussian([0.5, 0.1]), posse.networks.cycle(4), algorithms,
        horizon=20, runs=4, engine="reference")
    store = PartStore(Path(sys.argv[1], "store"))
    complete_jobs([jobs["quick"]], store, threads=1)
    with executors.processes(2) as executor:
        complete_jobs(list(jobs.values()), store, executor=executor)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_interrupted_or_killed_leaves_its_parts_and_no_process(
    tmp_path, monkeypatch, number
):
    working.patient(tmp_path, monkeypatch)
    (tmp_path / "script.py").write_text(SCRIPT)
    program = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # a test runner in the background ignores SIGINT, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        watch, begun = working.when_begun(
            tmp_path, lambda _: program.send_signal(number), go_on=False
        )
        # its processes have its outputs, which end with the last of them
        _, said = program.communicate(timeout=300)
    finally:
        program.kill()
    watch.join()
    assert begun
    assert program.returncode != 0
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    assert working.files(tmp_path / "store") == ["000000-000003.nc"]


def test_the_capacity_of_executors_is_known_or_guessed():
    with executors.processes(3) as executor:
        assert executors.count_slots(executor) == 3
    with ThreadPoolExecutor(5) as executor:
        assert executors.count_slots(executor) == 5
    assert executors.count_slots(object()) == 32
    with pytest.raises(ValueError, match="processes must be"), executors.processes(0):
        pass


def test_without_dask_people_are_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ValueError, match=r"needs Dask, .*pip install 'posse\[cluster\]'"),
        executors.dask_cluster("tcp://127.0.0.1:8786"),
    ):
        pass
