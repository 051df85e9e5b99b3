"""What tests of workers share: jobs, and an algorithm in a file beside that waits to be killed."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import posse
from posse.lab.simulator import plan_jobs

PATIENT = '''
import os
import time
from dataclasses import dataclass
from pathlib import Path

import helper
import posse

ALONE = posse.Isolated(posse.ThompsonSampling())


@dataclass(frozen=True)
class Patient:
    """Says in its first round which process it is in, and waits until it may go on."""

    folder: str

    def init(self, problem):
        return ALONE.init(problem)

    def choose(self, state, t, generator):
        folder = Path(self.folder)
        if t == helper.FIRST and not (folder / "go").exists():
            (folder / f"process-{os.getpid()}").touch()
            until = time.monotonic() + 300
            while not (folder / "go").exists() and time.monotonic() < until:
                time.sleep(0.01)
        return ALONE.choose(state, t, generator)

    def learn(self, state, arms, rewards, weights):
        return ALONE.learn(state, arms, rewards, weights)
'''

BANDIT, NETWORK = posse.Bandit.gaussian([0.5, 0.1, 0.2]), posse.networks.cycle(4)
ALGORITHMS = {
    "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    "dec-Bayes-UCB": posse.Decentralized(posse.BayesUCB()),
}


def jobs(engine="auto", algorithms=ALGORITHMS, runs=40):
    return list(
        plan_jobs(
            BANDIT, NETWORK, algorithms, horizon=50, runs=runs, seed=7, engine=engine, keep="agents"
        ).values()
    )


def patient(folder, monkeypatch):
    """The algorithm above, from a module that only this process finds."""
    (folder / "mine.py").write_text(PATIENT)
    (folder / "helper.py").write_text("FIRST = 1\n")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("mine", "helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import mine

    return mine.Patient(str(folder))


def when_begun(folder, then, count=1, go_on=True):
    """Once some processes wait in `Patient`, do something with their ids, then let them go on."""
    done = []

    def watch():
        until = time.monotonic() + 300
        while len(begun := list(folder.glob("process-*"))) < count and time.monotonic() < until:
            time.sleep(0.01)
        done.extend(int(path.name.partition("-")[2]) for path in begun)
        then(done)
        if go_on:
            (folder / "go").touch()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread, done


def kill(processes):
    os.kill(processes[0], signal.SIGKILL)


def assert_equal(one, other):
    for name in ("regret", "pulls", "times", "agent_regret"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.settings == other.settings


def files(folder):
    return sorted(path.name for path in Path(folder).rglob("*.nc"))
