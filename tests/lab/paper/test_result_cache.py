"""Stored results: nothing twice, nothing lost, nothing damaged goes unnoticed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import posse
from posse.lab import simulation as lab
from posse.lab.blocks import Simulation
from posse.lab.paper import result_cache as module
from posse.lab.paper.result_cache import ResultCache, digest

BANDIT, NETWORK = posse.Bandit.gaussian([0.5, 0.1]), posse.networks.cycle(4)
DEC_TS = posse.Decentralized(posse.ThompsonSampling())


def simulation(horizon=50, seed=3, algorithm=DEC_TS):
    return Simulation(BANDIT, NETWORK, algorithm, horizon, seed, np.array([10, horizon]))


@pytest.fixture
def parts_of_ten(monkeypatch):
    monkeypatch.setattr(module, "_MOST_RUNS", 10)


@pytest.fixture
def computed(monkeypatch):
    """The runs that were computed, not read."""
    runs, real = [], lab.simulate_some
    monkeypatch.setattr(
        lab, "simulate_some", lambda s, part, *rest: runs.extend(part) or real(s, part, *rest)
    )
    return runs


def nothing(runs):
    pass


@pytest.mark.usefixtures("parts_of_ten")
class TestResultCache:
    def test_parts_make_the_whole(self, tmp_path):
        told = []
        result = ResultCache(tmp_path, 1).result(simulation(), 25, told.append)
        expected = posse.simulate(
            BANDIT, NETWORK, DEC_TS, horizon=50, runs=25, seed=3, record=[10, 50]
        )
        np.testing.assert_array_equal(result.regret, expected.regret)
        np.testing.assert_array_equal(result.pulls, expected.pulls)
        assert told == [10, 10, 5]
        assert result.settings == expected.settings

    def test_nothing_is_computed_twice(self, tmp_path, computed):
        first = ResultCache(tmp_path, 1).result(simulation(), 20, nothing)
        assert computed == list(range(20))
        again = ResultCache(tmp_path, 2).result(simulation(), 20, nothing)
        np.testing.assert_array_equal(first.regret, again.regret)
        ResultCache(tmp_path, 1).result(simulation(), 40, nothing)
        assert computed == list(range(40))

    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another"])
    def test_damage_is_found_repaired_and_said(self, tmp_path, computed, damage):
        whole = ResultCache(tmp_path, 1).result(simulation(), 20, nothing)
        path = next(tmp_path.glob("*/000010-000019.nc"))
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"cut": content[:middle], "flipped": flipped, "empty": b"",
                          "another": content}[damage])  # fmt: skip
        if damage == "another":
            posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=50, runs=3).save(path)
        del computed[:]
        cache = ResultCache(tmp_path, 1)
        again = cache.result(simulation(), 20, nothing)
        assert computed == list(range(10, 20))
        assert len(cache.notes) == 1
        assert str(path) in cache.notes[0]
        assert "computed again" in cache.notes[0]
        np.testing.assert_array_equal(again.regret, whole.regret)
        assert path.read_bytes() == content


def test_whatever_changes_the_numbers_changes_the_name():
    names = {
        digest(simulation()),
        digest(simulation(horizon=60)),
        digest(simulation(seed=4)),
        digest(simulation(algorithm=posse.CoopUCB2())),
        digest(simulation(algorithm=posse.CoopUCB2(charge_initial=False))),
        digest(Simulation(BANDIT, posse.networks.cycle(5), DEC_TS, 50, 3, np.array([10, 50]))),
        digest(Simulation(BANDIT, NETWORK, DEC_TS, 50, 3, np.array([20, 50]))),
    }
    assert len(names) == 7
    assert digest(simulation()) in names


def test_another_source_has_another_name(monkeypatch):
    before = digest(simulation())
    monkeypatch.setattr(module, "source_hash", lambda: "of a changed kernel")
    assert digest(simulation()) != before


SLOW = """
import sys, json, numpy as np
from pathlib import Path
from posse.lab.paper import result_cache as module
from posse.lab.paper.panels import panel
from posse.lab.paper.runs import run_panel
module._MOST_RUNS = 4
outcome = run_panel(panel("fig4a"), module.ResultCache(Path(sys.argv[1]), 1), runs=24)
print(json.dumps({name: r.regret[:, -1].tolist() for name, r in outcome.results.items()}))
"""


def test_killed_in_the_middle_it_goes_on_with_the_same_numbers(tmp_path):
    """SIGKILL once some parts are stored, then again from the start: as if nothing had happened."""
    command = [sys.executable, "-c", SLOW]
    killed = subprocess.Popen([*command, tmp_path / "a"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300  # kernels may have to be compiled first
        while len(list(tmp_path.glob("a/*/0*.nc"))) < 3:
            assert killed.poll() is None, "it finished before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(10)
    stored = len(list(tmp_path.glob("a/*/0*.nc")))
    outputs = [
        subprocess.run([*command, tmp_path / name], capture_output=True, check=True, timeout=120)
        for name in ("a", "b")
    ]
    resumed, fresh = (json.loads(output.stdout) for output in outputs)
    assert resumed == fresh
    assert 3 <= stored < len(list(tmp_path.glob("a/*/0*.nc"))) == 5 * 6
