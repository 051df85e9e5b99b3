"""Stored parts: nothing twice, nothing lost, nothing damaged goes unnoticed."""

import dataclasses
import errno
import importlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import posse
from posse.lab import atomic_files as files
from posse.lab import simulation as jobs
from posse.lab import storage
from posse.lab.jobs import results_cache as digests
from posse.lab.jobs import workers
from posse.lab.jobs.results_cache import PartStore, digest
from posse.lab.jobs.scheduler import complete_jobs
from posse.lab.simulation import Job, Simulation
from posse.lab.simulator import simulate_runs
from posse.serialization import encode

BANDIT, NETWORK = posse.Bandit.gaussian([0.5, 0.1]), posse.networks.cycle(4)
DEC_TS = posse.Decentralized(posse.ThompsonSampling())


def simulation(horizon=50, seed=3, algorithm=DEC_TS, bandit=BANDIT):
    return Simulation(bandit, NETWORK, algorithm, horizon, seed, np.array([10, horizon]))


def job(runs=20, **settings):
    return Job(simulation(**settings), range(runs) if isinstance(runs, int) else runs, "compiled")


def whole(runs=20):
    return posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=50, runs=runs, seed=3, record=[10, 50])


def keep(store, some, runs):
    store.save_part(some, simulate_runs(some.simulation, runs, 1, lambda steps: None))


@pytest.fixture(autouse=True)
def parts_of_ten(monkeypatch):
    monkeypatch.setattr(jobs, "MAX_RUNS_PER_PART", 10)


@pytest.fixture
def computed(monkeypatch):
    """The runs that were computed, not read."""
    runs, real = [], workers.play_part
    monkeypatch.setattr(workers, "play_part", lambda part: runs.extend(part.runs) or real(part))
    return runs


def done(folder, some):
    """A job completed in a folder by a store that knows nothing yet."""
    store = PartStore(folder)
    complete_jobs([some], store, threads=1)
    return store.load_result(some), store.notes


class TestParts:
    def test_settings_are_computed_once_a_job(self, tmp_path, monkeypatch):
        """Neither every part nor every file of a job encodes its bandit and network again."""
        encoded = []
        encode_bandit = encode.encode_bandit
        monkeypatch.setattr(
            encode, "encode_bandit", lambda bandit: encoded.append(bandit) or encode_bandit(bandit)
        )
        some = job(25)
        done(tmp_path, some)
        done(tmp_path, some)
        assert len(encoded) == 1

    def test_they_make_the_whole(self, tmp_path):
        told = []
        store = PartStore(tmp_path)
        complete_jobs([job(25)], store, threads=1, advance=lambda job, runs: told.append(runs))
        expected = whole(25)
        result = store.load_result(job(25))
        np.testing.assert_array_equal(result.regret, expected.regret)
        np.testing.assert_array_equal(result.pulls, expected.pulls)
        assert result.settings == expected.settings
        assert told == [0, 10, 10, 5]

    def test_nothing_is_computed_twice(self, tmp_path, computed):
        first, _ = done(tmp_path, job(20))
        assert computed == list(range(20))
        again, _ = done(tmp_path, job(20))
        np.testing.assert_array_equal(first.regret, again.regret)
        done(tmp_path, job(45))
        assert computed == list(range(45))

    def test_files_of_any_cut_are_used(self, tmp_path, computed):
        """Also for fewer runs than are there, and for runs from the middle."""
        done(tmp_path, job(7))
        done(tmp_path, job(range(12, 15)))
        done(tmp_path, job(30))
        assert computed == [*range(7), *range(12, 15), *range(7, 12), *range(15, 30)]
        del computed[:]
        some, _ = done(tmp_path, job(range(5, 26)))
        assert computed == []
        np.testing.assert_array_equal(some.regret, whole(30).regret[5:26])
        assert some.run_numbers == range(5, 26)

    def test_overlapping_files_count_once(self, tmp_path, computed):
        store = PartStore(tmp_path)
        for runs in (range(8), range(5, 12), range(6, 10), range(3)):
            keep(store, job(), runs)
        assert store.find_missing(job(20)) == [range(12, 20)]
        result, _ = done(tmp_path, job(20))
        assert computed == list(range(12, 20))
        np.testing.assert_array_equal(result.regret, whole().regret)

    def test_what_is_not_there_is_not_made_up(self, tmp_path):
        store = PartStore(tmp_path)
        keep(store, job(), range(8))
        keep(store, job(), range(10, 20))
        with pytest.raises(ValueError, match="lacks runs 8 to 9"):
            store.load_result(job(20))


class TestDamage:
    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another", "renamed", "other"])
    def test_it_is_found_repaired_and_said(self, tmp_path, computed, damage):
        expected, _ = done(tmp_path, job(20))
        path = next(tmp_path.glob("*/000010-000019.nc"))
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        if damage == "another":
            posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=50, runs=3).save(path)
        elif damage == "renamed":  # another's runs
            path.write_bytes((path.parent / "000000-000009.nc").read_bytes())
        elif damage == "other":  # these runs of a simulation with another seed
            runs = range(10, 20)
            simulate_runs(simulation(seed=4), runs, 1, lambda steps: None).save(path)
        else:
            path.write_bytes({"cut": content[:middle], "flipped": flipped, "empty": b""}[damage])
        del computed[:]
        again, notes = done(tmp_path, job(20))
        assert [run for run in computed if run >= 10] == list(range(10, 20))
        assert not any(run < 10 for run in computed)
        assert len(notes) == 1
        assert str(path) in notes[0]
        assert "computed again" in notes[0]
        np.testing.assert_array_equal(again.regret, expected.regret)
        assert path.read_bytes() == content
        assert path.with_name(f"{path.name}.damaged").exists()
        assert done(tmp_path, job(20))[1] == []

    def test_a_part_of_another_format_is_computed_again(self, tmp_path, computed, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(storage, "FORMAT", 2)
            expected, _ = done(tmp_path, job(10))
        del computed[:]
        again, notes = done(tmp_path, job(10))
        assert computed == list(range(10))
        (note,) = notes
        assert "has format 2 and this Posse reads format 1" in note
        np.testing.assert_array_equal(again.regret, expected.regret)

    def test_parts_of_another_version_are_left_alone(self, tmp_path, computed, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(digests, "VERSION", 2)
            done(tmp_path, job(10))
        (other,) = tmp_path.glob("*/*.nc")
        before = other.read_bytes()
        del computed[:]
        assert done(tmp_path, job(10))[1] == []
        assert computed == list(range(10))
        assert other.read_bytes() == before

    def test_between_looking_and_reading(self, tmp_path):
        store = PartStore(tmp_path)
        complete_jobs([job()], store, threads=1)
        path = next(tmp_path.glob("*/000010-000019.nc"))
        stat, content = path.stat(), bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        with pytest.raises(ValueError, match="lacks runs 10 to 19"):
            store.load_result(job())
        assert store.find_missing(job()) == [range(10, 20)]

    def test_files_that_are_not_ours_are_left_alone(self, tmp_path):
        done(tmp_path, job())
        place = next(tmp_path.iterdir())
        for name in ("notes.nc", "000019-000010.nc", "0-9.nc"):
            (place / name).write_text("mine")
        _, notes = done(tmp_path, job())
        assert notes == []
        assert (place / "notes.nc").read_text() == "mine"

    def test_what_killed_writers_left_is_removed_and_nobody_else_s(self, tmp_path):
        done(tmp_path, job())
        place = next(tmp_path.iterdir())
        old, new = (place / f"{files.TEMPORARY}{name}.nc" for name in ("old", "new"))
        for path in (old, new):
            path.write_bytes(b"half")
        os.utime(old, (time.time() - 7200,) * 2)
        PartStore(tmp_path).find_missing(job())
        assert not old.exists()
        assert new.exists()


class TestFolder:
    def test_a_file_in_its_place_is_refused(self, tmp_path):
        (tmp_path / "taken").write_text("")
        store = PartStore(tmp_path / "taken")
        with pytest.raises(ValueError, match=r"taken cannot be written to: .*exists"):
            store.check_writable()

    def test_a_full_disk_is_one_sentence(self, tmp_path, monkeypatch):
        def full(*given):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(storage, "save", full)
        with pytest.raises(
            ValueError, match="cannot be written to: No space left on device; parts"
        ):
            done(tmp_path, job())

    def test_it_is_left_as_it_was(self, tmp_path):
        PartStore(tmp_path / "a" / "b").check_writable()
        assert list((tmp_path / "a" / "b").iterdir()) == []


class TestDigest:
    def test_whatever_changes_the_numbers_changes_the_name(self):
        other = Simulation(BANDIT, posse.networks.cycle(5), DEC_TS, 50, 3, np.array([10, 50]))
        rounds = Simulation(BANDIT, NETWORK, DEC_TS, 50, 3, np.array([20, 50]))
        names = {
            digest(job()),
            digest(job(horizon=60)),
            digest(job(seed=4)),
            digest(job(algorithm=posse.CoopUCB2())),
            digest(job(algorithm=posse.CoopUCB2(charge_initial=False))),
            digest(Job(other, range(20), "compiled")),
            digest(Job(rounds, range(20), "compiled")),
            digest(Job(simulation(), range(20), "reference")),
            digest(Job(dataclasses.replace(simulation(), keep=("agents",)), range(9), "compiled")),
        }
        assert len(names) == 9
        assert digest(job(99)) in names

    def test_another_source_has_another_name(self, monkeypatch):
        before = digest(job())
        monkeypatch.setattr(digests, "hash_source", lambda: "of a changed kernel")
        assert digest(job()) != before

    def test_so_have_other_versions(self, monkeypatch):
        """Parts that different versions made could not be joined."""
        before = digest(job())
        monkeypatch.setattr(encode, "collect_versions", lambda: {"numpy": "3.0"})
        assert digest(job()) != before

    @pytest.mark.parametrize("changed", ["mine_x", "helper_x", "late_x"])
    def test_the_source_of_others_counts(self, tmp_path, monkeypatch, changed):
        """A part of the user's, what that imports from beside it, also late."""
        sources = {
            "mine_x": "import helper_x\ndef means(generator):\n    return helper_x.LOW, 0.9\n"
            "def rarely():\n    import late_x\n",
            "helper_x": "LOW = 0.1\n",
            "late_x": "",
        }
        for name, text in sources.items():
            (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        mine = importlib.import_module("mine_x")
        try:
            bandit = posse.Bandit(posse.families.Gaussian(), mine.means)
            before = digest(job(bandit=bandit))
            mine.rarely()
            assert digest(job(bandit=bandit)) == before  # though late_x is imported by now
            path = tmp_path / f"{changed}.py"
            path.write_text(path.read_text() + "# another comment\n")
            assert digest(job(bandit=bandit)) != before
        finally:
            for name in sources:
                sys.modules.pop(name, None)

    def test_what_no_file_can_name_is_refused(self):
        bandit = posse.Bandit(posse.families.Gaussian(), lambda generator: generator.random(2))
        with pytest.raises(ValueError, match=r"bandit\.means: .*lambda.* cannot be imported"):
            digest(job(bandit=bandit))


SMALL = """
import sys
from pathlib import Path
import posse
from posse.lab import simulation, simulator
from posse.lab.jobs.scheduler import complete_jobs
from posse.lab.jobs.results_cache import PartStore
simulation.MAX_RUNS_PER_PART = 2
made = simulator.plan_jobs(
    posse.Bandit.gaussian([0.5, 0.1]), posse.networks.cycle(4),
    {"dec-TS": posse.Decentralized(posse.ThompsonSampling())}, horizon=20, runs=16, seed=3,
    engine="reference",
)
store = PartStore(Path(sys.argv[1]))
complete_jobs(list(made.values()), store, threads=1)
print(store.load_result(made["dec-TS"]).regret.sum(), store.notes)
"""


@pytest.mark.long
def test_two_processes_in_one_folder_agree(tmp_path):
    """Both do the same work at the same time: files overlap or are written twice, none is torn."""
    command = [sys.executable, "-c", SMALL, tmp_path]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        outputs = [each.communicate(timeout=120)[0] for each in both]
    finally:
        for each in both:
            each.kill()
            each.wait(10)
    assert [each.returncode for each in both] == [0, 0]
    expected = posse.simulate(
        BANDIT, NETWORK, DEC_TS, horizon=20, runs=16, seed=3, engine="reference"
    )
    assert outputs == [f"{expected.regret.sum()} []\n"] * 2
