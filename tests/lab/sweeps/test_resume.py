"""A sweep that is killed goes on where it was, with the same numbers."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import posse
from posse.lab.jobs import workers

# computes four parts and hangs in the middle of the next
CHILD = """
import sys
import posse
from posse.lab import simulation
from posse.lab.jobs import workers
simulation.MAX_RUNS_PER_PART = 4
real, computed = workers.play_part, []

def play(part):
    if len(computed) == 4:
        sys.stdin.read()
    computed.append(len(part.runs))
    return real(part)

workers.play_part = play
posse.sweep(*posse.read_sweep("s.toml"), folder="kept", threads=1)
"""
EXPERIMENT = posse.Experiment(
    posse.Bandit.gaussian([0.5, 0.1]),
    posse.networks.cycle(4),
    {"dec-TS": posse.Decentralized(posse.ThompsonSampling())},
    horizon=20,
    runs=10,
    seed=3,
    engine="reference",  # which a process has at once
)
GRID = {"network.agents": [4, 6], "algorithms.dec-TS.learning_rate": [1, 10]}


@pytest.mark.long
def test_killed_in_the_middle_it_computes_only_the_rest(tmp_path, monkeypatch):
    """SIGKILL in the second cell: three parts of the first (4, 4, 2) and one more are there."""
    posse.write_sweep(EXPERIMENT, GRID, tmp_path / "s.toml")
    command = [sys.executable, "-c", CHILD]
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 300
        while len(list(tmp_path.glob("kept/parts/*/0*.nc"))) < 4:
            assert killed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        killed.kill()
        killed.communicate(timeout=10)
    (torn,) = {path.parent for path in tmp_path.glob("kept/parts/*/000000-000003.nc")} - {
        path.parent for path in tmp_path.glob("kept/parts/*/000008-000009.nc")
    }
    (torn / ".posse-half.nc").write_bytes(b"half of a file, from long ago")
    os.utime(torn / ".posse-half.nc", (0, 0))
    computed, real = [], workers.play_part
    monkeypatch.setattr(workers, "play_part", lambda part: computed.extend(part.runs) or real(part))
    sweep = posse.sweep(EXPERIMENT, GRID, folder=tmp_path / "kept", threads=1)
    assert len(computed) == 4 * 10 - (4 + 4 + 2 + 4)
    assert not (torn / ".posse-half.nc").exists()

    fresh = posse.sweep(EXPERIMENT, GRID, folder=tmp_path / "fresh")
    for one, other in zip(sweep, fresh, strict=True):
        np.testing.assert_array_equal(one["dec-TS"].regret, other["dec-TS"].regret)
        np.testing.assert_array_equal(one["dec-TS"].pulls, other["dec-TS"].pulls)
