"""Work done and kept: what is missing of some jobs is computed, here or elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from posse.lab.blocks import Block, Simulation
from posse.lab.playing import of_run, result_of
from posse.lab.progress import Bars
from posse.lab.work import executors, workers
from posse.lab.work.cutting import Cut
from posse.lab.work.digests import digest
from posse.lab.work.flight import Flight, failed
from posse.lab.work.jobs import Job
from posse.lab.work.part_store import PartStore
from posse.lab.work.workers import Part

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
    first: dict[str, Job] = {}
    # those alike, as in some cells of a sweep, are found when the first of them is done
    again = [job for job in jobs if first.setdefault(digest(job), job) is not job]
    gaps = [(job, store.missing(job)) for job in first.values()]
    for job, missing in gaps:
        advance(job, len(job.runs) - sum(map(len, missing)))

    def keep(job: Job, runs: range, block: Block) -> None:
        store.keep(job, result_of(job.simulation, runs, job.engine, block))

    if executor is None:
        _here(gaps, threads or os.cpu_count() or 1, keep, advance)
    elif any(missing for _, missing in gaps):
        _elsewhere(gaps, executor, keep, advance)
    if again:
        complete(again, store, executor=executor, threads=threads, advance=advance)


_Gaps = Sequence[tuple[Job, Sequence[range]]]
_Keep = Callable[[Job, range, Block], None]


def _here(gaps: _Gaps, threads: int, keep: _Keep, advance: Advance) -> None:
    """Compute parts one after another."""
    cut = Cut(gaps, threads=threads)
    for job, runs in cut:
        try:
            block, seconds = workers.play(Part(job.simulation, runs, job.engine, threads=threads))
        except Exception as error:  # whatever a user's part may raise
            raise failed(job, runs, error) from error
        cut.learn(job, runs, seconds)
        keep(job, runs, block)
        advance(job, len(runs))


def _elsewhere(gaps: _Gaps, executor: Executor, keep: _Keep, advance: Advance) -> None:
    """Have parts computed by workers, a bounded number in flight, and keep them as they come."""
    compiled = [
        of_run(job.simulation, missing[0][0])
        for job, missing in gaps
        if missing and job.engine == "compiled"
    ]
    flight = Flight(executor, executors.agreed(executor, bool(compiled)))
    if compiled and executors.is_local(executor):
        _compile(compiled)
    cut = Cut.among(gaps, executors.capacity(executor))
    parts = iter(cut)
    try:
        while flight.fill(parts):
            for job, runs, block, seconds in flight.landed():
                cut.learn(job, runs, seconds)
                keep(job, runs, block)
                advance(job, len(runs))
    except BaseException:
        with contextlib.suppress(Exception):  # of a full disk we have heard, or hear next time
            for job, runs, block, _ in flight.cancelled():
                keep(job, runs, block)
        raise


def _compile(simulations: Sequence[Simulation]) -> None:
    """Compile here what is not kept yet, so that people are told once, not by each worker."""
    from posse.lab.compiled import engine

    kernels = (kernel for simulation in simulations for kernel in engine.kernels_of(simulation))
    if not all(kernel.is_cached for kernel in kernels):
        engine.prepare(simulations, Bars().compiling)
