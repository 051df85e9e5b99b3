"""Parts on their way to workers and back."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, field

from posse.lab.blocks import Block, Simulation
from posse.lab.work import workers
from posse.lab.work.executors import WorkersLost, capacity
from posse.lab.work.jobs import Job
from posse.lab.work.packing import pack
from posse.lab.work.workers import Part, PartFailed, WorkersDiffer

_DEATHS = 3  # of workers while they had a part, and it is submitted again

Landed = tuple[Job, range, Block, float]


@dataclass
class Flight:
    """A bounded number of parts at the workers of an executor: back-pressure."""

    executor: Executor
    versions: Mapping[str, str]  # that every worker must have
    _work: str = field(default_factory=lambda: secrets.token_hex(8))
    _flying: dict[Future[tuple[Block, float]], tuple[Job, range]] = field(default_factory=dict)
    _again: list[tuple[Job, range]] = field(default_factory=list)
    _deaths: dict[tuple[int, range], int] = field(default_factory=dict)
    _packed: tuple[Job, bytes] | None = None

    def fill(self, parts: Iterator[tuple[Job, range]]) -> bool:
        """Submit parts until each worker has one waiting; whether any are in flight."""
        room = 2 * capacity(self.executor) - len(self._flying)
        while room > 0:
            part = self._again.pop(0) if self._again else next(parts, None)
            if part is None:
                break
            self._submit(*part)
            room -= 1
        return bool(self._flying)

    def landed(self) -> Iterator[Landed]:
        """Wait for a part at least, and give what came back."""
        for future in wait(self._flying, return_when=FIRST_COMPLETED).done:
            job, runs = self._flying[future]
            try:
                block, seconds = future.result()
            except BrokenExecutor as error:
                self._fly_again(job, runs, error)
            except CancelledError as error:
                raise WorkersLost(
                    f"{job.called(runs)}: cancelled, as when the scheduler of a cluster went away"
                ) from error
            except WorkersDiffer:  # whatever the part
                raise
            except Exception as error:  # whatever a user's part may raise
                raise failed(job, runs, error) from error
            else:
                yield job, runs, block, seconds
            del self._flying[future]

    def cancelled(self) -> Iterator[Landed]:
        """Cancel what is in flight, and give what had come back by then."""
        workers.stop(self._work)
        for future in self._flying:
            future.cancel()
        for future, (job, runs) in self._flying.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield job, runs, *future.result()

    def _submit(self, job: Job, runs: range) -> None:
        simulation: Simulation | bytes = job.simulation
        if not isinstance(self.executor, ThreadPoolExecutor):
            if self._packed is None or self._packed[0] is not job:  # those of a job come together
                self._packed = job, pack(job.simulation)
            simulation = self._packed[1]
        part = Part(simulation, runs, job.engine, self._work, versions=self.versions)
        try:
            future = self.executor.submit(workers.play, part)
        except BrokenExecutor as error:
            raise WorkersLost(
                f"a worker died, and with it its executor, as posse.lab.processes does not: {error}"
            ) from error
        self._flying[future] = job, runs

    def _fly_again(self, job: Job, runs: range, error: BrokenExecutor) -> None:
        """Have a part computed once more, as a worker died that perhaps had it; not for ever."""
        deaths = self._deaths[id(job), runs] = self._deaths.get((id(job), runs), 0) + 1
        if deaths > _DEATHS:
            raise WorkersLost(
                f"{job.called(runs)}: workers died {deaths} times while this part or one beside it "
                "was computed, as they do where memory runs out, or where a script starts "
                'processes without `if __name__ == "__main__":`'
            ) from error
        self._again.append((job, runs))


def failed(job: Job, runs: range, error: Exception) -> Exception:
    """What went wrong with a part, and with which."""
    if isinstance(error, ValueError):  # a sentence already
        return ValueError(f"{job.called(runs)}: {error}")
    what = str(error) if isinstance(error, PartFailed) else f"{type(error).__name__}: {error}"
    return RuntimeError(f"{job.called(runs)}: {what}")
