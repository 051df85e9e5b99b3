"""A folder of results, some runs a file, so that nothing is computed twice.

A job's folder is named by a hash of all that its numbers depend on, the source that makes them
among it, but the number of runs: more runs only add files. A file is written whole or not at all,
under a name that tells its runs; files may overlap, as two processes at work on one folder leave
them. Every file is read before it counts: what is damaged, or holds something else, is set aside.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from posse.lab import storage
from posse.lab.files import TEMPORARY
from posse.lab.joining import concat, some_runs
from posse.lab.playing import settings_of
from posse.lab.ranges import words
from posse.lab.results import Result
from posse.lab.work.digests import digest
from posse.lab.work.jobs import Job

_NAME = re.compile(r"(\d{6,})-(\d{6,})\.nc")
DAMAGED = ".damaged"
# Nobody takes an hour to write a file of some runs: whoever began it was killed.
_ABANDONED = 3600.0


class NotKept(ValueError):
    """A folder that cannot be written to, as on a full disk: no fault of what was computed."""


@dataclass
class PartStore:
    """Results of jobs on disk; `notes` collects what went wrong with stored ones."""

    folder: Path
    notes: list[str] = field(default_factory=list)
    _read: dict[Path, tuple[int, int]] = field(default_factory=dict, repr=False)

    def missing(self, job: Job) -> list[range]:
        """The runs of a job that no sound file holds, as ranges in order."""
        self._clean(job)
        gaps, first = [], job.runs.start
        for held in [*self._held(job), range(job.runs.stop, job.runs.stop)]:
            if first < held.start:
                gaps.append(range(first, min(held.start, job.runs.stop)))
            first = max(first, min(held.stop, job.runs.stop))
        return gaps

    def keep(self, job: Job, result: Result) -> None:
        """Write some runs of a job."""
        path = self._place(job) / _name(result.run_numbers)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            result.save(path)
        except OSError as error:
            raise self._refusal(error) from error

    def result(self, job: Job) -> Result:
        """All runs of a job, which must be there."""
        parts, first = [], job.runs.start
        for held in self._held(job):
            wanted = range(max(first, held.start), min(held.stop, job.runs.stop))
            if wanted.start != first or not wanted:
                continue  # a gap before it, or nothing new in it
            path = self._place(job) / _name(held)
            try:
                part = _sound(job, path, held)
            except ValueError:  # damaged since it was read
                self._read.pop(path, None)
                return self.result(job)
            parts.append(some_runs(part, wanted))
            first = wanted.stop
        if first < job.runs.stop:
            lacking = words(self.missing(job)[0])
            raise ValueError(f"{self._place(job)} lacks {lacking}, which are to be computed first")
        return concat(parts)

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written to: before hours of work, not after them."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f"{TEMPORARY}{secrets.token_hex(8)}"
            try:
                probe.touch()
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise self._refusal(error) from error

    def _held(self, job: Job) -> list[range]:
        """The runs of each sound file, by their first, the longest first."""
        found = []
        for path in self._place(job).glob("*.nc"):
            runs = _runs_of(path)
            if runs and self._is_sound(job, path, runs):
                found.append(runs)
        return sorted(found, key=lambda runs: (runs.start, -runs.stop))

    def _is_sound(self, job: Job, path: Path, runs: range) -> bool:
        """Whether a file holds these runs of a job; it is read once unless it changes."""
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_size)
            if self._read.get(path) != mark:
                _sound(job, path, runs)
                self._read[path] = mark
        except FileNotFoundError:  # another process has set it aside
            return False
        except ValueError as error:
            if not path.exists():
                return False
            self.notes.append(f"{error}; computed again")
            with contextlib.suppress(OSError):  # it is not used, wherever it stays
                path.replace(path.with_name(path.name + DAMAGED))
            return False
        return True

    def _clean(self, job: Job) -> None:
        """Remove what killed writers left behind."""
        for path in self._place(job).glob(f"{TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED:
                    path.unlink()

    def _place(self, job: Job) -> Path:
        return self.folder / digest(job)

    def _refusal(self, error: OSError) -> NotKept:
        return NotKept(
            f"{self.folder} cannot be written to: {error.strerror or error}; "
            "parts that are there already are kept"
        )


def _sound(job: Job, path: Path, runs: range) -> Result:
    """What a file holds, if it is these runs of the job."""
    result = storage.load(path)
    if not isinstance(result, Result) or not _is_of(job, result) or result.run_numbers != runs:
        raise ValueError(f"{path} does not hold {words(runs)} of this simulation")
    return result


def _is_of(job: Job, result: Result) -> bool:
    """Whether a result is of a job's simulation, which its settings tell."""
    told = json.dumps(result.settings, sort_keys=True)
    expected = settings_of(job.simulation, result.run_numbers, job.engine)
    return told == json.dumps(expected, sort_keys=True) and np.array_equal(
        result.times, job.simulation.times
    )


def _name(runs: range) -> str:
    return f"{runs.start:06d}-{runs.stop - 1:06d}.nc"


def _runs_of(path: Path) -> range | None:
    """The runs that a file's name tells, if it is one of ours."""
    found = _NAME.fullmatch(path.name)
    runs = range(int(found[1]), int(found[2]) + 1) if found else range(0)
    return runs if runs and _name(runs) == path.name else None
