"""Progress of work on jobs: one bar over all that is missing, with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from posse.lab.progress import Bars, RichBars, new_bars
from posse.lab.work.jobs import Job
from posse.lab.work.part_store import PartStore
from posse.lab.work.preparation import prepare

Advance = Callable[[Job, int], None]


@contextmanager
def watched(
    name: str, jobs: Sequence[Job], store: PartStore, *, show: bool, here: bool = True
) -> Iterator[Advance]:
    """What `complete` tells of the runs that are done.

    A run counts by the seconds it is thought to take, and those that are there already do not
    count: the time left is that of the rest.

    here: whether this process computes, so that kernels are compiled and announced first.
    """
    missing = {id(job): sum(map(len, store.missing(job))) for job in jobs}
    left = [job for job in jobs if missing[id(job)]]
    if left:
        store.check_writable()
    if not show:
        _compile(left if here else [], Bars())
        yield lambda job, runs: None
        return
    found = {id(job): len(job.runs) - missing[id(job)] for job in jobs}
    with new_bars() as bars:
        _compile(left if here else [], RichBars(bars, [], 0))
        total = sum(missing[id(job)] * job.seconds_a_run for job in left)
        task = bars.add_task(name, total=total or 1, completed=0 if left else 1)

        def advance(job: Job, runs: int) -> None:
            known = min(found[id(job)], runs)
            found[id(job)] -= known
            bars.advance(task, (runs - known) * job.seconds_a_run)

        yield advance


def _compile(jobs: Sequence[Job], bars: Bars) -> None:
    """Compile at once what all need, so that people are told once how long it takes."""
    prepare([job for job in jobs if job.engine == "compiled"], bars.compiling)
