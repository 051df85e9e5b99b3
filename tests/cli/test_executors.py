"""Where commands compute: --workers and --cluster."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from posse.cli.common import open_executor
from posse.lab import jobs
from tests.cli.calling import EXPERIMENT, said


@pytest.fixture
def asked(monkeypatch):
    """Threads in place of processes and clusters, and what was asked for."""
    asked = []

    @contextmanager
    def instead(what):
        asked.append(what)
        with ThreadPoolExecutor(2) as executor:
            yield executor

    monkeypatch.setattr(jobs, "processes", instead)
    monkeypatch.setattr(jobs, "dask_cluster", instead)
    return asked


@pytest.mark.parametrize(
    ("options", "wanted"),
    [(("--workers", 2), 2), (("--cluster", "tcp://host:8786"), "tcp://host:8786")],
)
def test_the_paper_is_computed_where_it_is_asked_to_be(
    asked, tmp_path, monkeypatch, capsys, options, wanted
):
    monkeypatch.chdir(tmp_path)
    code, out, err = said(capsys, "paper", "fig4a", "--runs", 2, "--quiet", *options)
    assert (code, out.strip()) == (0, "report/index.html"), err
    assert asked == [wanted]
    assert (
        "2 workers"
        in json.loads((tmp_path / "report/report.json").read_text())["summary"]["machine"]
    )
    assert "2 workers" in (tmp_path / "report/index.html").read_text()


@pytest.mark.parametrize(
    ("command", "more"),
    [("run", ""), ("sweep", "[sweep]\nnetwork.agents = [2, 3]\n")],
)
def test_runs_and_sweeps_are_computed_where_they_are_asked_to_be(
    asked, tmp_path, monkeypatch, capsys, command, more
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(f'engine = "reference"\n{EXPERIMENT}{more}')
    submitted = []
    # nothing is pickled for threads: they take a simulation as it is
    monkeypatch.setattr("posse.lab.jobs.scheduler.pack_simulation", None)
    monkeypatch.setattr(
        ThreadPoolExecutor,
        "submit",
        lambda self, *given, submit=ThreadPoolExecutor.submit: (
            submitted.append(given) or submit(self, *given)
        ),
    )
    code, _, err = said(capsys, command, "study.toml", "--quiet", "--workers", 2)
    assert code == 0, err
    assert asked == [2]
    assert sum(len(part.runs) for _, part in submitted) == (5 if command == "run" else 10)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--workers", 2, "--cluster", "tcp://host:1"), "give only one of --workers and --cluster"),
        (("--workers", 2, "--threads", 2), "give only one of --threads and --workers"),
        (("--workers", 0), "--workers must be a whole number at least 1, got 0"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, options, why):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, "paper", "fig4a", *options)[::2] == (2, f"posse: {why}\n")


def test_people_are_told_that_a_cluster_has_no_workers_yet(monkeypatch, capsys):
    client = SimpleNamespace(nthreads=dict)
    cluster = nullcontext(SimpleNamespace(_client=client))
    monkeypatch.setattr(jobs, "dask_cluster", lambda address: cluster)
    with open_executor(None, "tcp://host:8786"):
        assert "waiting for a worker to join the cluster" in capsys.readouterr().err
    client.nthreads = lambda: {"tcp://other:9000": 1}
    with open_executor(None, "tcp://host:8786"):
        assert capsys.readouterr().err == ""


def test_nothing_asked_for_is_our_own_threads():
    with open_executor(None, None, threads=3) as executor:
        assert executor is None


SLEEPER = """
from posse.cli.common import open_executor
import signal
with open_executor(None, None):
    print("ready", flush=True)
    signal.pause()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to send")
def test_sigterm_does_what_ctrl_c_does():
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert "KeyboardInterrupt" in process.communicate(timeout=300)[1]
