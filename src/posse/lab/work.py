"""Work done and kept: what is missing of some jobs is computed, here or elsewhere."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from posse.lab import workers
from posse.lab.blocks import Block, Simulation
from posse.lab.digests import digest
from posse.lab.jobs import SECONDS, Job
from posse.lab.packing import pack
from posse.lab.part_store import PartStore
from posse.lab.simulation import result_of
from posse.lab.workers import Part

_LEAST_SECONDS = 0.25  # of a part, however many workers there are
_UNKNOWN = 32  # workers that an executor may have that does not say

Advance = Callable[[Job, int], None]


def complete(
    jobs: Sequence[Job],
    store: PartStore,
    *,
    executor: Executor | None = None,
    threads: int | None = None,
    advance: Advance = lambda job, runs: None,
) -> None:
    """See to it that the store holds all runs of all jobs; only what is missing is computed.

    executor: where parts are computed, a part a task on one thread; None: here, on some threads.
    advance: told of the runs of a job as they are done, or found.

    Whatever ends it, Ctrl-C among it, finished parts are in the store, and another call goes on.
    """
    names = [digest(job) for job in jobs]
    # alike in some cells of a sweep: found when the first of them is done
    again = [job for k, job in enumerate(jobs) if names[k] in names[:k]]
    first = [job for k, job in enumerate(jobs) if names[k] not in names[:k]]
    if executor is None:
        threads = threads or os.cpu_count() or 1
        _here(_Cut.of(first, store, advance, 1, threads), store, threads, advance)
    else:
        _elsewhere(_Cut.of(first, store, advance, capacity(executor)), store, executor, advance)
    if again:
        complete(again, store, executor=executor, threads=threads, advance=advance)


@dataclass
class _Cut:
    """The missing runs of jobs, cut into parts of some seconds as it is learnt what runs take."""

    gaps: list[tuple[Job, list[range]]]
    seconds: float  # of a part
    threads: int = 1
    _measured: dict[int, float] = field(default_factory=dict)  # seconds a run, by id of job

    @classmethod
    def of(
        cls, jobs: Sequence[Job], store: PartStore, advance: Advance, hands: int, threads: int = 1
    ) -> _Cut:
        """What a store misses, cut so that some workers all have something to do."""
        gaps, seconds = [], 0.0
        for job in jobs:
            missing = store.missing(job)
            runs = sum(map(len, missing))
            gaps.append((job, missing))
            seconds += runs * job.seconds_a_run
            advance(job, len(job.runs) - runs)
        # four parts a worker, so that none waits long for the last
        most = SECONDS if hands == 1 else seconds / (4 * hands)
        return cls(gaps, min(SECONDS, max(_LEAST_SECONDS, most)), threads)

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
        size = job.runs_in(self.seconds, self._measured.get(id(job), guess))
        return max(size, self.threads)


def _here(cut: _Cut, store: PartStore, threads: int, advance: Advance) -> None:
    """Compute parts one after another."""
    for job, runs in cut:
        try:
            block, seconds = workers.play(Part(job.simulation, runs, job.engine, threads=threads))
        except Exception as error:  # whatever a user's part may raise
            raise _failed(job, runs, error) from error
        cut.learn(job, runs, seconds)
        _keep(store, job, runs, block, advance)


def _elsewhere(cut: _Cut, store: PartStore, executor: Executor, advance: Advance) -> None:
    """Have parts computed by workers, a bounded number in flight, and store them as they come."""
    work, parts = secrets.token_hex(8), iter(cut)
    packed: dict[int, bytes] = {}
    flying: dict[Future[tuple[Block, float]], tuple[Job, range]] = {}

    def submit(job: Job, runs: range) -> None:
        simulation: Simulation | bytes = job.simulation
        if not isinstance(executor, ThreadPoolExecutor):
            if id(job) not in packed:
                packed.clear()  # those of a job come together
                packed[id(job)] = pack(job.simulation)
            simulation = packed[id(job)]
        part = Part(simulation, runs, job.engine, work, versions=workers.versions())
        flying[executor.submit(workers.play, part)] = job, runs

    try:
        while True:
            for job, runs in parts:
                submit(job, runs)
                if len(flying) >= 2 * capacity(executor):
                    break
            if not flying:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                job, runs = flying.pop(future)
                try:
                    block, seconds = future.result()
                except Exception as error:
                    raise _failed(job, runs, error) from error
                cut.learn(job, runs, seconds)
                _keep(store, job, runs, block, advance)
    finally:
        for future in flying:
            future.cancel()
        workers.stop(work)


def _keep(store: PartStore, job: Job, runs: range, block: Block, advance: Advance) -> None:
    store.keep(job, result_of(job.simulation, runs, job.engine, block))
    advance(job, len(runs))


def _failed(job: Job, runs: range, error: Exception) -> Exception:
    """What went wrong with a part, and with which."""
    if isinstance(error, ValueError):  # a sentence already
        return ValueError(f"{job.called(runs)}: {error}")
    return RuntimeError(f"{job.called(runs)}: {type(error).__name__}: {error}")


def capacity(executor: Executor) -> int:
    """How many parts an executor computes at a time, as far as it says."""
    client = getattr(executor, "_client", None)  # of Dask; workers may come and go
    if client is not None:
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or _UNKNOWN)
