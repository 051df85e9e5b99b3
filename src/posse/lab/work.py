"""Work done and kept: what is missing of some jobs is computed, here or elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from posse.lab.blocks import in_parts
from posse.lab.jobs import Job
from posse.lab.part_store import PartStore
from posse.lab.simulation import simulate_some


def complete(
    jobs: Sequence[Job],
    store: PartStore,
    *,
    executor: Executor | None = None,
    threads: int | None = None,
    advance: Callable[[Job, int], None] = lambda job, runs: None,
) -> None:
    """See to it that the store holds all runs of all jobs; only what is missing is computed.

    executor: where parts are computed, a part a task; None: here, on some threads.
    advance: told of the runs of a job as they are done, or found.
    """
    threads = threads or os.cpu_count() or 1
    for job in jobs:
        gaps = store.missing(job)
        advance(job, len(job.runs) - sum(map(len, gaps)))
        for gap in gaps:
            for part in in_parts(gap, job.part_size):
                result = simulate_some(
                    job.simulation, part, threads, lambda steps: None, engine=job.engine
                )
                store.keep(job, result)
                advance(job, len(part))
