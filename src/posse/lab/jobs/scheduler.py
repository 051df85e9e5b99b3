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
from posse.lab.jobs.executors import WorkersLost, capacity
from posse.lab.jobs.results_cache import PartStore, digest
from posse.lab.jobs.workers import Part, PartFailed, WorkersDiffer, pack
from posse.lab.progress import Bars, RichBars, new_bars
from posse.lab.simulation import SECONDS, Block, Job, Simulation
from posse.lab.simulator import of_run, result_of
from posse.lab.validation import rehearse


def try_out(jobs: Mapping[str, Job]) -> None:
    """Rehearse parts that are not ours, as `compare` does: what they do wrong is said at once."""
    for name, job in jobs.items():
        if job.engine == "reference":
            two = job.runs[: 1 if job.simulation.network.is_recipe else 2]
            rehearse(f"algorithm {name!r}", of_run(job.simulation, two[0]), two)


def prepare(jobs: Iterable[Job], announce: Callable[[int], None]) -> None:
    """Compile the kernels that some jobs on the compiled engine need; say first how long it takes.

    announce: told about how many seconds, once, unless there is nothing to compile.
    """
    simulations = [of_run(job.simulation, job.runs[0]) for job in jobs]
    if simulations:
        from posse.lab.compiled import engine as compiled

        compiled.compile_kernels(simulations, announce)


# The runs that are missing, cut into parts of some seconds.

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


# Parts on their way to workers and back.

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


# Work done and kept: what is missing of some jobs is computed, here or elsewhere.

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

    kernels = (kernel for simulation in simulations for kernel in engine.list_kernels(simulation))
    if not all(kernel.is_cached for kernel in kernels):
        engine.compile_kernels(simulations, Bars().compiling)


# Progress of work on jobs: one bar over all that is missing, with the time left.


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
        _compile_kernels(left if here else [], Bars())
        yield lambda job, runs: None
        return
    found = {id(job): len(job.runs) - missing[id(job)] for job in jobs}
    with new_bars() as bars:
        _compile_kernels(left if here else [], RichBars(bars, [], 0))
        total = sum(missing[id(job)] * job.seconds_a_run for job in left)
        task = bars.add_task(name, total=total or 1, completed=0 if left else 1)

        def advance(job: Job, runs: int) -> None:
            known = min(found[id(job)], runs)
            found[id(job)] -= known
            bars.advance(task, (runs - known) * job.seconds_a_run)

        yield advance


def _compile_kernels(jobs: Sequence[Job], bars: Bars) -> None:
    """Compile at once what all need, so that people are told once how long it takes."""
    prepare([job for job in jobs if job.engine == "compiled"], bars.compiling)
