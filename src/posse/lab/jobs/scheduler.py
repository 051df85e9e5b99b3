"""The scheduler: computes the missing runs of jobs, here or on the workers of an executor.

Missing runs are cut into parts of some seconds. Parts are idempotent: a part that was lost with its
worker is computed again, and finished parts are stored as they come, so that an interrupted call
can be repeated.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field

from posse.lab.jobs import executors, workers
from posse.lab.jobs.executors import WorkersLost, count_slots
from posse.lab.jobs.results_cache import PartStore, digest
from posse.lab.jobs.workers import Part, PartFailed, WorkersDiffer, pack_simulation
from posse.lab.progress import Bars, RichBars, create_progress
from posse.lab.simulation import PART_SECONDS, Block, Job, Simulation
from posse.lab.simulator import build_result
from posse.lab.validation import dry_run


def dry_run_jobs(jobs: Mapping[str, Job]) -> None:
    """Play a dry run of user-defined parts, as `compare` does, so that mistakes show at once."""
    for name, job in jobs.items():
        dry_run(f"algorithm {name!r}", job)


def compile_kernels(jobs: Iterable[Job], announce: Callable[[int], None]) -> None:
    """Compile the kernels of some jobs on the compiled engine.

    announce: called once with the estimated seconds, unless there is nothing to compile
    """
    simulations = [job.simulation.with_graph_of(job.runs[0]) for job in jobs]
    if simulations:
        from posse.lab.compiled import engine as compiled

        compiled.compile_kernels(simulations, announce)


_LEAST_SECONDS = 0.25  # of a part, however many workers there are


@dataclass
class PartCutter:
    """Cuts the missing runs of jobs into parts, whose size follows from the time of earlier parts.

    So a part takes some seconds on either engine, however slow the algorithm.
    """

    gaps: Sequence[tuple[Job, Sequence[range]]]  # the missing runs of every job
    seconds: float = PART_SECONDS  # of a part
    threads: int = 1  # that play a part
    _measured: dict[int, float] = field(default_factory=dict)  # seconds a run, by id of job

    @classmethod
    def for_workers(cls, gaps: Sequence[tuple[Job, Sequence[range]]], workers: int) -> PartCutter:
        """Cut into at least four parts a worker, so that no worker idles for long at the end."""
        seconds = sum(job.seconds_per_run * sum(map(len, runs)) for job, runs in gaps)
        return cls(gaps, min(PART_SECONDS, max(_LEAST_SECONDS, seconds / (4 * workers))))

    def __iter__(self) -> Iterator[tuple[Job, range]]:
        # A generator: the size of a part is decided only when it is taken, by then with better
        # estimates.
        for job, gaps in self.gaps:
            for gap in gaps:
                remaining = gap
                while remaining:
                    size = self._part_size(job)
                    yield job, remaining[:size]
                    remaining = remaining[size:]

    def note_duration(self, job: Job, runs: range, seconds: float) -> None:
        """Note the seconds that some runs took."""
        # The latest part replaces the estimate, and the initial guess.
        self._measured[id(job)] = max(seconds, 1e-6) / len(runs)

    def _part_size(self, job: Job) -> int:
        guess = job.seconds_per_run / self.threads
        return max(
            self.threads, job.count_runs_within(self.seconds, self._measured.get(id(job), guess))
        )


# A part is submitted again after the death of a worker, at most so often.
_MAX_DEATHS = 3

FinishedPart = tuple[Job, range, Block, float]


@dataclass
class PartsInFlight:
    """The parts submitted to an executor: a bounded number, so that memory does not grow."""

    executor: Executor
    versions: Mapping[str, str]  # that every worker must have
    _work: str = field(default_factory=lambda: secrets.token_hex(8))
    _submitted: dict[Future[tuple[Block, float]], tuple[Job, range]] = field(default_factory=dict)
    _to_retry: list[tuple[Job, range]] = field(default_factory=list)
    _deaths: dict[tuple[int, range], int] = field(default_factory=dict)
    _packed: tuple[Job, bytes] | None = None

    def submit_parts(self, parts: Iterator[tuple[Job, range]]) -> bool:
        """Submit parts until every worker has one waiting; return whether any are in flight."""
        # Back-pressure: a part in work and one waiting for every worker, and no more in memory.
        room = 2 * count_slots(self.executor) - len(self._submitted)
        while room > 0:
            part = self._to_retry.pop(0) if self._to_retry else next(parts, None)
            if part is None:
                break
            self._submit(*part)
            room -= 1
        return bool(self._submitted)

    def collect_finished(self) -> Iterator[FinishedPart]:
        """Wait for at least one part, and yield those that are finished."""
        for future in wait(self._submitted, return_when=FIRST_COMPLETED).done:
            job, runs = self._submitted[future]
            try:
                block, seconds = future.result()
            except BrokenExecutor as error:
                self._retry(job, runs, error)
            except CancelledError as error:
                raise WorkersLost(
                    f"{job.describe_runs(runs)}: cancelled, perhaps because the scheduler of the "
                    "cluster went away"
                ) from error
            except WorkersDiffer:  # no fault of this part
                raise
            except Exception as error:  # whatever a user's part may raise
                raise describe_failure(job, runs, error) from error
            else:
                yield job, runs, block, seconds
            del self._submitted[future]

    def cancel_all(self) -> Iterator[FinishedPart]:
        """Cancel the parts in flight, and yield those that had finished by then."""
        workers.stop_work(self._work)
        for future in self._submitted:
            future.cancel()
        for future, (job, runs) in self._submitted.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield job, runs, *future.result()

    def _submit(self, job: Job, runs: range) -> None:
        simulation: Simulation | bytes = job.simulation
        if not isinstance(self.executor, ThreadPoolExecutor):
            # Parts of one job come one after another, so that the last pickle is enough.
            if self._packed is None or self._packed[0] is not job:
                self._packed = job, pack_simulation(job.simulation)
            simulation = self._packed[1]
        part = Part(simulation, runs, job.engine, self._work, versions=self.versions)
        try:
            future = self.executor.submit(workers.play_part, part)
        except BrokenExecutor as error:
            raise WorkersLost(
                f"a worker died and broke its executor: {error}; posse.lab.processes would "
                "restart it"
            ) from error
        self._submitted[future] = job, runs

    def _retry(self, job: Job, runs: range, error: BrokenExecutor) -> None:
        """Submit a part again, as a worker died that perhaps had it; give up after some deaths."""
        deaths = self._deaths[id(job), runs] = self._deaths.get((id(job), runs), 0) + 1
        if deaths > _MAX_DEATHS:
            raise WorkersLost(
                f"{job.describe_runs(runs)}: workers died {deaths} times while they computed this "
                "part: check that memory suffices, and that the script starts processes under "
                '`if __name__ == "__main__":`'
            ) from error
        self._to_retry.append((job, runs))


def describe_failure(job: Job, runs: range, error: Exception) -> Exception:
    """Describe the failure of a part, with the part's name."""
    if isinstance(error, ValueError):  # its message is for users already
        return ValueError(f"{job.describe_runs(runs)}: {error}")
    cause = str(error) if isinstance(error, PartFailed) else f"{type(error).__name__}: {error}"
    return RuntimeError(f"{job.describe_runs(runs)}: {cause}")


Advance = Callable[[Job, int], None]


def complete_jobs(
    jobs: Sequence[Job],
    store: PartStore,
    *,
    executor: Executor | None = None,
    threads: int | None = None,
    advance: Advance = lambda job, runs: None,
) -> None:
    """Compute the runs of all jobs that the store does not hold yet.

    executor: computes parts, each on one thread; None computes here, on some threads
    advance:  called with a job and a number of its runs, as they are computed or found in the store

    Whatever ends it, such as Ctrl-C, finished parts are in the store, and another call goes on.
    """
    first: dict[str, Job] = {}
    # Deduplication: jobs with one digest, as in some cells of a sweep, are computed once. The
    # others find their runs in the store afterwards.
    duplicates = [job for job in jobs if first.setdefault(digest(job), job) is not job]
    gaps = [(job, store.find_missing(job)) for job in first.values()]
    for job, missing in gaps:
        advance(job, len(job.runs) - sum(map(len, missing)))

    def save_block(job: Job, runs: range, block: Block) -> None:
        store.save_part(job, build_result(job, runs, block))

    if executor is None:
        _compute_here(gaps, threads or os.cpu_count() or 1, save_block, advance)
    elif any(missing for _, missing in gaps):
        _compute_on_workers(gaps, executor, save_block, advance)
    if duplicates:
        complete_jobs(duplicates, store, executor=executor, threads=threads, advance=advance)


_Gaps = Sequence[tuple[Job, Sequence[range]]]
_SaveBlock = Callable[[Job, range, Block], None]


def _compute_here(gaps: _Gaps, threads: int, save_block: _SaveBlock, advance: Advance) -> None:
    """Compute parts in this process, one after another."""
    cutter = PartCutter(gaps, threads=threads)
    for job, runs in cutter:
        try:
            block, seconds = workers.play_part(
                Part(job.simulation, runs, job.engine, threads=threads)
            )
        except Exception as error:  # whatever a user's part may raise
            raise describe_failure(job, runs, error) from error
        cutter.note_duration(job, runs, seconds)
        save_block(job, runs, block)
        advance(job, len(runs))


def _compute_on_workers(
    gaps: _Gaps, executor: Executor, save_block: _SaveBlock, advance: Advance
) -> None:
    """Compute parts on workers, a bounded number in flight, and store them as they come."""
    compiled = [
        job.simulation.with_graph_of(missing[0][0])
        for job, missing in gaps
        if missing and job.engine == "compiled"
    ]
    flight = PartsInFlight(executor, executors.require_same_versions(executor, bool(compiled)))
    if compiled and executors.is_local(executor):
        _compile_for_workers(compiled)
    cutter = PartCutter.for_workers(gaps, executors.count_slots(executor))
    parts = iter(cutter)
    try:
        while flight.submit_parts(parts):
            for job, runs, block, seconds in flight.collect_finished():
                cutter.note_duration(job, runs, seconds)
                save_block(job, runs, block)
                advance(job, len(runs))
    except BaseException:
        # Ctrl-C too: what has finished meanwhile is stored before the error goes on.
        with contextlib.suppress(Exception):  # the first error is the one to report
            for job, runs, block, _ in flight.cancel_all():
                save_block(job, runs, block)
        raise


def _compile_for_workers(simulations: Sequence[Simulation]) -> None:
    """Compile missing kernels here, so that one process announces it and not every worker."""
    from posse.lab.compiled import engine

    kernels = (kernel for simulation in simulations for kernel in engine.list_kernels(simulation))
    if not all(kernel.is_cached for kernel in kernels):
        engine.compile_kernels(simulations, Bars().announce_compilation)


@contextmanager
def track_progress(
    name: str, jobs: Sequence[Job], store: PartStore, *, show: bool, here: bool = True
) -> Iterator[Advance]:
    """Show one bar for the missing runs of all jobs; yield the `advance` of `complete_jobs`.

    A run counts by its estimated seconds, and stored runs do not count, so that the time left is
    that of the missing runs.

    here: whether this process computes, so that it compiles and announces kernels first
    """
    missing = {id(job): sum(map(len, store.find_missing(job))) for job in jobs}
    unfinished = [job for job in jobs if missing[id(job)]]
    if unfinished:
        store.check_writable()
    if not show:
        _announce_and_compile(unfinished if here else [], Bars())
        yield lambda job, runs: None
        return
    stored_runs = {id(job): len(job.runs) - missing[id(job)] for job in jobs}
    with create_progress() as bars:
        _announce_and_compile(unfinished if here else [], RichBars(bars, [], 0))
        total = sum(missing[id(job)] * job.seconds_per_run for job in unfinished)
        task = bars.add_task(name, total=total or 1, completed=0 if unfinished else 1)

        def advance(job: Job, runs: int) -> None:
            already_stored = min(stored_runs[id(job)], runs)
            stored_runs[id(job)] -= already_stored
            bars.advance(task, (runs - already_stored) * job.seconds_per_run)

        yield advance


def _announce_and_compile(jobs: Sequence[Job], bars: Bars) -> None:
    """Compile the kernels of all jobs at once, with one announcement."""
    compile_kernels([job for job in jobs if job.engine == "compiled"], bars.announce_compilation)
