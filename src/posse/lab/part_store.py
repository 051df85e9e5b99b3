"""A folder of results, some runs a file, so that nothing is computed twice.

A job's folder is named by a hash of all that its numbers depend on, the source that makes them
among it, but the number of runs: more runs only add files. A file is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posse.lab import storage
from posse.lab.jobs import Job
from posse.lab.joining import concat
from posse.lab.results import Result
from posse.lab.settings import to_data
from posse.lab.source import source_hash


@dataclass
class PartStore:
    """Results of jobs on disk; `notes` collects what went wrong with stored ones."""

    folder: Path
    notes: list[str] = field(default_factory=list)

    def missing(self, job: Job) -> list[range]:
        """The runs of a job that no file holds, as ranges in order."""
        held = {run for path in self._files(job) for run in _runs_of(path)}
        gaps: list[range] = []
        for run in job.runs:
            if run in held:
                continue
            if gaps and gaps[-1].stop == run:
                gaps[-1] = range(gaps[-1].start, run + 1)
            else:
                gaps.append(range(run, run + 1))
        return gaps

    def keep(self, job: Job, result: Result) -> None:
        """Write some runs of a job."""
        runs = result.run_numbers
        path = self._place(job) / f"{runs.start:06d}-{runs.stop - 1:06d}.nc"
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path)

    def result(self, job: Job) -> Result:
        """All runs of a job, which must be there."""
        parts = [storage.load(path) for path in self._files(job)]
        return concat([part for part in parts if isinstance(part, Result)])

    def _place(self, job: Job) -> Path:
        return self.folder / digest(job)

    def _files(self, job: Job) -> list[Path]:
        return sorted(self._place(job).glob("*.nc"))


def _runs_of(path: Path) -> range:
    first, last = path.stem.split("-")
    return range(int(first), int(last) + 1)


def digest(job: Job) -> str:
    """A name for all that the numbers of a job depend on."""
    s = job.simulation
    data: dict[str, Any] = {
        "bandit": to_data(s.bandit),
        "network": to_data(s.network),
        "algorithm": to_data(s.algorithm),
        "horizon": s.horizon,
        "seed": s.seed,
        "times": s.times.tolist(),
        "keep": s.keep,
        "engine": job.engine,
        "source": source_hash(),
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:20]
