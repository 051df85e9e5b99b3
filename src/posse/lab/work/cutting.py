"""The runs that are missing, cut into parts of some seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from posse.lab.work.jobs import SECONDS, Job

_LEAST_SECONDS = 0.25  # of a part, however many workers there are


@dataclass
class Cut:
    """The missing runs of jobs as parts, whose size follows from what earlier parts took.

    So a part takes some seconds on either engine, and with an algorithm of whatever speed.
    """

    gaps: Sequence[tuple[Job, Sequence[range]]]  # the runs of each job that are missing
    seconds: float = SECONDS  # of a part
    threads: int = 1  # that play a part
    _measured: dict[int, float] = field(default_factory=dict)  # seconds a run, by id of job

    @classmethod
    def among(cls, gaps: Sequence[tuple[Job, Sequence[range]]], workers: int) -> Cut:
        """Cut so that all workers have something to do: four parts each, none waits for long."""
        seconds = sum(job.seconds_a_run * sum(map(len, runs)) for job, runs in gaps)
        return cls(gaps, min(SECONDS, max(_LEAST_SECONDS, seconds / (4 * workers))))

    def __iter__(self) -> Iterator[tuple[Job, range]]:
        for job, gaps in self.gaps:
            for gap in gaps:
                left = gap
                while left:
                    size = self._size(job)
                    yield job, left[:size]
                    left = left[size:]

    def learn(self, job: Job, runs: range, seconds: float) -> None:
        """Note what some runs took."""
        self._measured[id(job)] = max(seconds, 1e-6) / len(runs)

    def _size(self, job: Job) -> int:
        guess = job.seconds_a_run / self.threads
        return max(self.threads, job.runs_in(self.seconds, self._measured.get(id(job), guess)))
