"""A sweep that is killed goes on where it was, with the same numbers."""

import json
import os
import subprocess
import sys
import time

import numpy as np

import posse

# told how many parts to compute before it hangs in the middle of the next
CHILD = """
import json, sys
import posse
from posse.lab.work import jobs, workers
jobs._MOST_RUNS = 4
real, computed, most = workers.play, [], int(sys.argv[2])

def play(part):
    if len(computed) == most:
        sys.stdin.read()
    computed.append(len(part.runs))
    return real(part)

workers.play = play
sweep = posse.sweep(*posse.read_sweep("s.toml"), folder=sys.argv[1], threads=1)
print(json.dumps(sum(computed)))
"""
EXPERIMENT = posse.Experiment(
    posse.Bandit.gaussian([0.5, 0.1]),
    posse.networks.cycle(4),
    {"dec-TS": posse.Decentralized(posse.ThompsonSampling())},
    horizon=50,
    runs=10,
    seed=3,
)
GRID = {"network.agents": [4, 6], "algorithms.dec-TS.learning_rate": [1, 10]}


def test_killed_in_the_middle_it_computes_only_the_rest(tmp_path):
    """SIGKILL in the second cell: three parts of the first (4, 4, 2) and one more are there."""
    posse.write_sweep(EXPERIMENT, GRID, tmp_path / "s.toml")
    command = [sys.executable, "-c", CHILD, "kept"]
    killed = subprocess.Popen([*command, "4"], stdin=subprocess.PIPE, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 300  # kernels may have to be compiled first
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
    again = subprocess.run(
        [*command, "-1"], stdin=subprocess.DEVNULL, capture_output=True, check=True, cwd=tmp_path,
        timeout=120,
    )  # fmt: skip
    assert json.loads(again.stdout) == 4 * 10 - (4 + 4 + 2 + 4)
    assert not (torn / ".posse-half.nc").exists()

    sweep = posse.sweep(EXPERIMENT, GRID, folder=tmp_path / "kept")
    fresh = posse.sweep(EXPERIMENT, GRID, folder=tmp_path / "fresh")
    for one, other in zip(sweep, fresh, strict=True):
        np.testing.assert_array_equal(one["dec-TS"].regret, other["dec-TS"].regret)
        np.testing.assert_array_equal(one["dec-TS"].pulls, other["dec-TS"].pulls)
