"""A real Dask cluster: a scheduler and two workers as processes, one of them killed at work."""

import json
import os
import subprocess
import sys
import time

import pytest

from posse.lab.jobs import executors, workers
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs
from tests.lab.jobs import working


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler, and the processes of its workers."""
    place, started = tmp_path / "scheduler.json", []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1"],
            # not beside the user's modules
            cwd=tmp_path.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"DASK_TEMPORARY_DIRECTORY": str(tmp_path / "dask")},
        )  # fmt: skip
        started.append(process)

    start("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0",
        "--scheduler-file", str(place))  # fmt: skip
    for _ in range(2):
        start("worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--death-timeout", "60")  # fmt: skip
    try:
        until = time.monotonic() + 300
        while not (told := place.read_text() if place.exists() else ""):
            assert time.monotonic() < until
            time.sleep(0.01)
        yield json.loads(told)["address"], started[1:]
    finally:
        for process in started[::-1]:
            process.kill()
            process.wait()


@pytest.mark.long
def test_a_cluster_of_which_a_worker_is_killed_gives_what_one_process_gives(
    cluster, tmp_path, monkeypatch
):
    """An algorithm in a file that no worker has, and which waits until its worker is killed."""
    address, processes = cluster
    patient = working.patient(tmp_path, monkeypatch)
    jobs = [
        *working.jobs(algorithms={"mine": patient}, runs=4),
        *working.jobs("compiled")[:1],
        *working.jobs("reference")[1:],
    ]
    there, here = PartStore(tmp_path / "there"), PartStore(tmp_path / "here")
    with executors.dask_cluster(address) as executor:
        with pytest.importorskip("distributed").Client(address) as client:
            client.wait_for_workers(2, timeout=300)
        assert executors.count_slots(executor) == 2

        with monkeypatch.context() as patch:
            other = workers.list_versions() | {"numpy": "0.9"}
            patch.setattr(workers, "list_versions", lambda: other)
            with pytest.raises(
                ValueError, match=r"worker tcp://.* would give other numbers: numpy is .*, not 0.9$"
            ):
                complete_jobs(jobs, there, executor=executor)
        assert working.files(tmp_path) == []

        watch, begun = working.when_begun(tmp_path, working.kill)
        complete_jobs(jobs, there, executor=executor)
        watch.join()
        assert begun[0] in [process.pid for process in processes]
        assert executors.count_slots(executor) == 1
    complete_jobs(jobs, here, threads=1)
    for job in jobs:
        working.assert_equal(there.load_result(job), here.load_result(job))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    with (
        pytest.raises(ValueError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:1' within"),
        executors.dask_cluster("tcp://127.0.0.1:1"),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"no Dask scheduler answers at 'nonsense' within 1 s"),
        executors.dask_cluster("nonsense"),
    ):
        pass
