"""What is done with jobs before their first round: strangers' parts tried out, kernels compiled."""

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
    """Rehearse parts that are not ours, as `compare` does: what they do wrong is said at once."""
    for name, job in jobs.items():
        dry_run(f"algorithm {name!r}", job)


def compile_kernels(jobs: Iterable[Job], announce: Callable[[int], None]) -> None:
    """Compile the kernels that some jobs on the compiled engine need; say first how long it takes.

    announce: told about how many seconds, once, unless there is nothing to compile.
    """
    simulations = [job.simulation.with_graph_of(job.runs[0]) for job in jobs]
    if simulations:
        from posse.lab.compiled import engine as compiled

        compiled.prepare(simulations, announce)


# The runs that are missing, cut into parts of some seconds.

_LEAST_SECONDS = 0.25  # of a part, however many workers there are


@dataclass
class PartCutter:
    """The missing runs of jobs as parts, whose size follows from what earlier parts took.

    So a part takes some seconds on either engine, and with an algorithm of whatever speed.
    """

    gaps: Sequence[tuple[Job, Sequence[range]]]  # the runs of each job that are missing
    seconds: float = PART_SECONDS  # of a part
    threads: int = 1  # that play a part
    _measured: dict[int, float] = field(default_factory=dict)  # seconds a run, by id of job

    @classmethod
    def for_workers(cls, gaps: Sequence[tuple[Job, Sequence[range]]], workers: int) -> PartCutter:
        """Cut so that all workers have something to do: four parts each, none waits for long."""
        seconds = sum(job.seconds_per_run * sum(map(len, runs)) for job, runs in gaps)
        return cls(gaps, min(PART_SECONDS, max(_LEAST_SECONDS, seconds / (4 * workers))))

    def __iter__(self) -> Iterator[tuple[Job, range]]:
        for job, gaps in self.gaps:
            for gap in gaps:
                remaining = gap
                while remaining:
                    size = self._part_size(job)
                    yield job, remaining[:size]
                    remaining = remaining[size:]

    def note_duration(self, job: Job, runs: range, seconds: float) -> None:
        """Note what some runs took."""
        self._measured[id(job)] = max(seconds, 1e-6) / len(runs)

    def _part_size(self, job: Job) -> int:
        guess = job.seconds_per_run / self.threads
        return max(
            self.threads, job.count_runs_within(self.seconds, self._measured.get(id(job), guess))
        )


# Parts on their way to workers and back.

_MAX_DEATHS = 3  # of workers while they had a part, and it is submitted again

FinishedPart = tuple[Job, range, Block, float]


@dataclass
class PartsInFlight:
    """A bounded number of parts at the workers of an executor: back-pressure."""

    executor: Executor
    versions: Mapping[str, str]  # that every worker must have
    _work: str = field(default_factory=lambda: secrets.token_hex(8))
    _submitted: dict[Future[tuple[Block, float]], tuple[Job, range]] = field(default_factory=dict)
    _to_retry: list[tuple[Job, range]] = field(default_factory=list)
    _deaths: dict[tuple[int, range], int] = field(default_factory=dict)
    _packed: tuple[Job, bytes] | None = None

    def submit_parts(self, parts: Iterator[tuple[Job, range]]) -> bool:
        """Submit parts until each worker has one waiting; whether any are in flight."""
        room = 2 * count_slots(self.executor) - len(self._submitted)
        while room > 0:
            part = self._to_retry.pop(0) if self._to_retry else next(parts, None)
            if part is None:
                break
            self._submit(*part)
            room -= 1
        return bool(self._submitted)

    def collect_finished(self) -> Iterator[FinishedPart]:
        """Wait for a part at least, and give what came back."""
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
            except WorkersDiffer:  # whatever the part
                raise
            except Exception as error:  # whatever a user's part may raise
                raise describe_failure(job, runs, error) from error
            else:
                yield job, runs, block, seconds
            del self._submitted[future]

    def cancel_all(self) -> Iterator[FinishedPart]:
        """Cancel what is in flight, and give what had come back by then."""
        workers.stop_work(self._work)
        for future in self._submitted:
            future.cancel()
        for future, (job, runs) in self._submitted.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield job, runs, *future.result()

    def _submit(self, job: Job, runs: range) -> None:
        simulation: Simulation | bytes = job.simulation
        if not isinstance(self.executor, ThreadPoolExecutor):
            if self._packed is None or self._packed[0] is not job:  # those of a job come together
                self._packed = job, pack_simulation(job.simulation)
            simulation = self._packed[1]
        part = Part(simulation, runs, job.engine, self._work, versions=self.versions)
        try:
            future = self.executor.submit(workers.play_part, part)
        except BrokenExecutor as error:
            raise WorkersLost(
                f"a worker died, and with it its executor, as posse.lab.processes does not: {error}"
            ) from error
        self._submitted[future] = job, runs

    def _retry(self, job: Job, runs: range, error: BrokenExecutor) -> None:
        """Have a part computed once more, as a worker died that perhaps had it; not for ever."""
        deaths = self._deaths[id(job), runs] = self._deaths.get((id(job), runs), 0) + 1
        if deaths > _MAX_DEATHS:
            raise WorkersLost(
                f"{job.describe_runs(runs)}: workers died {deaths} times while they computed this "
                "part: check that memory suffices, and that the script starts processes under "
                '`if __name__ == "__main__":`'
            ) from error
        self._to_retry.append((job, runs))


def describe_failure(job: Job, runs: range, error: Exception) -> Exception:
    """What went wrong with a part, and with which."""
    if isinstance(error, ValueError):  # a sentence already
        return ValueError(f"{job.describe_runs(runs)}: {error}")
    cause = str(error) if isinstance(error, PartFailed) else f"{type(error).__name__}: {error}"
    return RuntimeError(f"{job.describe_runs(runs)}: {cause}")


# Work done and kept: what is missing of some jobs is computed, here or elsewhere.

Advance = Callable[[Job, int], None]


def complete_jobs(
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
    """Compute parts one after another."""
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
    """Have parts computed by workers, a bounded number in flight, and keep them as they come."""
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
        with contextlib.suppress(Exception):  # of a full disk we have heard, or hear next time
            for job, runs, block, _ in flight.cancel_all():
                save_block(job, runs, block)
        raise


def _compile_for_workers(simulations: Sequence[Simulation]) -> None:
    """Compile here what is not kept yet, so that people are told once, not by each worker."""
    from posse.lab.compiled import engine

    kernels = (kernel for simulation in simulations for kernel in engine.kernels_of(simulation))
    if not all(kernel.is_cached for kernel in kernels):
        engine.prepare(simulations, Bars().announce_compilation)


# Progress of work on jobs: one bar over all that is missing, with the time left.


@contextmanager
def track_progress(
    name: str, jobs: Sequence[Job], store: PartStore, *, show: bool, here: bool = True
) -> Iterator[Advance]:
    """What `complete` tells of the runs that are done.

    A run counts by the seconds it is thought to take, and those that are there already do not
    count: the time left is that of the rest.

    here: whether this process computes, so that kernels are compiled and announced first.
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
    """Compile at once what all need, so that people are told once how long it takes."""
    compile_kernels([job for job in jobs if job.engine == "compiled"], bars.announce_compilation)
