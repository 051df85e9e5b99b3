"""Work is done wherever it is sent, equal bit for bit, and nothing is done twice."""

import concurrent.futures
import dataclasses
import pickle
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

import posse
from posse.lab.jobs import workers
from posse.lab.jobs import workers as packing
from posse.lab.jobs.executors import WorkersLost
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import PartCutter, complete_jobs
from tests.lab.jobs import working


class Inline(Executor):
    """Computes a part when somebody waits for it, and remembers how many were in flight."""

    def __init__(self, count=2, failing=lambda number: None):
        self._max_workers, self._failing = count, failing
        self.waiting, self.most, self.submitted = [], 0, []

    def submit(self, function, part):
        self.submitted.append(part)
        future = Future()
        self.waiting.append((future, function, part))
        self.most = max(self.most, len(self.waiting))
        return future

    def step(self):
        future, function, part = self.waiting.pop(0)
        number = len(self.submitted) - len(self.waiting)
        if (error := self._failing(number)) is not None:
            future.set_exception(error)
            return
        try:
            future.set_result(function(part))
        except Exception as error:
            future.set_exception(error)


@pytest.fixture
def inline(monkeypatch):
    """Executors that work when they are waited for."""

    def made(*arguments, **options):
        executor = Inline(*arguments, **options)

        def wait(futures, return_when):
            executor.step()
            return concurrent.futures.wait(futures, return_when=return_when)

        monkeypatch.setattr("posse.lab.jobs.scheduler.wait", wait)
        return executor

    return made


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of five runs, whatever they take."""
    monkeypatch.setattr(PartCutter, "_part_size", lambda self, job: 5)


def expected(tmp_path, jobs):
    store = PartStore(tmp_path / "here")
    complete_jobs(jobs, store, threads=1)
    return [store.load_result(job) for job in jobs]


def test_threads_give_what_one_process_gives(tmp_path, small_parts):
    jobs = working.jobs()
    store, told = PartStore(tmp_path / "threads"), []
    with ThreadPoolExecutor(3) as executor:
        complete_jobs(
            jobs, store, executor=executor, advance=lambda job, runs: told.append((job, runs))
        )
    assert [sum(runs for job, runs in told if job is each) for each in jobs] == [40, 40]
    for job, result in zip(jobs, expected(tmp_path, jobs), strict=True):
        working.assert_equal(store.load_result(job), result)


def test_a_bounded_number_is_in_flight_and_parts_that_are_kept_are_not_sent(
    tmp_path, inline, small_parts
):
    jobs, store, executor = working.jobs("reference"), PartStore(tmp_path), inline(2)
    complete_jobs(jobs[:1], store)
    complete_jobs(jobs, store, executor=executor)
    assert executor.most == 4
    assert [part.runs for part in executor.submitted] == [range(k, k + 5) for k in range(0, 40, 5)]
    assert all(part.threads == 1 for part in executor.submitted)


def test_jobs_alike_are_computed_once(tmp_path, inline):
    executor, told = inline(), []
    twice = [*working.jobs("reference")[:1], *working.jobs("reference")[:1]]
    complete_jobs(
        twice, PartStore(tmp_path), executor=executor, advance=lambda job, runs: told.append(runs)
    )
    assert sum(told) == 80
    assert sum(len(part.runs) for part in executor.submitted) == 40


def test_parts_are_of_some_seconds_once_it_is_known_what_runs_take():
    (job,) = working.jobs("reference", runs=1000)[:1]
    cut = PartCutter([(job, [range(10), range(500, 1000)])], seconds=5.0)
    parts = iter(cut)
    assert next(parts)[1] == range(10)  # a gap
    cut.note_duration(job, range(10), seconds=5.0)
    assert next(parts)[1] == range(500, 510)
    cut.note_duration(job, range(10), seconds=50.0)
    assert next(parts)[1] == range(510, 511)
    cut.note_duration(job, range(1), seconds=0.0)
    assert next(parts)[1] == range(511, 761)


def test_parts_of_much_that_is_kept_are_small():
    (job,) = working.jobs("reference")[:1]
    simulation = dataclasses.replace(job.simulation, network=posse.networks.cycle(100_000))
    large = dataclasses.replace(job, simulation=simulation)
    assert large.bytes_per_run == 8 * (50 + 50 * 100_000) + 4 * 100_000 * 3
    assert large.part_size == 1
    assert job.part_size == 250


def test_few_runs_are_shared_out_among_many_workers():
    (job,) = working.jobs("reference", runs=100)[:1]
    long = dataclasses.replace(
        job, simulation=dataclasses.replace(job.simulation, horizon=100_000)
    )  # 0.4 s a run, by guess
    assert len(list(PartCutter.for_workers([(long, [range(100)])], workers=10))) == 50
    assert len(list(PartCutter.for_workers([(long, [range(100)])], workers=1))) == 9


def test_an_error_in_a_part_names_the_job_and_the_runs(tmp_path, inline, small_parts):
    jobs, store = working.jobs("reference"), PartStore(tmp_path)
    executor = inline(failing=lambda number: KeyError("x") if number == 3 else None)
    with pytest.raises(
        RuntimeError, match=r"Decentralized\(.*\) on .*, runs 10 to 14: KeyError: 'x'"
    ):
        complete_jobs(jobs[:1], store, executor=executor)
    assert len(working.files(tmp_path)) == 2
    executor = inline(failing=lambda number: ValueError("no such arm"))
    with pytest.raises(ValueError, match="runs 10 to 14: no such arm"):
        complete_jobs(jobs[:1], store, executor=executor)
    complete_jobs(jobs[:1], store)
    assert store.find_missing(jobs[0]) == []


class Awkward(Exception):
    """Cannot be made of its message alone, which is how exceptions are sent."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@dataclasses.dataclass(frozen=True)
class Failing:
    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        raise Awkward("this", "that")

    def learn(self, state, arms, rewards, weights):
        return state


def test_errors_that_cannot_be_sent_are_told_in_words(tmp_path, inline):
    (job,) = working.jobs(algorithms={"failing": Failing()}, runs=2)
    with pytest.raises(Awkward):
        workers.play_part(workers.Part(job.simulation, job.runs, job.engine))
    with pytest.raises(workers.PartFailed, match="Awkward: this and that") as caught:
        workers.play_part(
            workers.Part(packing.pack_simulation(job.simulation), job.runs, job.engine)
        )
    pickle.loads(pickle.dumps(caught.value))
    with pytest.raises(
        RuntimeError, match=r"Failing\(\) on .*, runs 0 to 1: Awkward: this and that"
    ):
        complete_jobs([job], PartStore(tmp_path), executor=inline())


def test_parts_of_a_worker_that_died_are_sent_again_but_not_for_ever(tmp_path, inline, small_parts):
    jobs, store = working.jobs("reference")[:1], PartStore(tmp_path / "some")
    dead = BrokenProcessPool("a process died")
    executor = inline(failing=lambda number: dead if number in (2, 3) else None)
    complete_jobs(jobs, store, executor=executor)
    assert len(executor.submitted) == 10
    (result,) = expected(tmp_path, jobs)
    working.assert_equal(store.load_result(jobs[0]), result)
    with pytest.raises(WorkersLost, match="runs 0 to 4: workers died 4 times"):
        complete_jobs(jobs, PartStore(tmp_path / "none"), executor=inline(1, lambda number: dead))


def test_an_executor_that_stays_broken_is_said_so(tmp_path, inline, small_parts, monkeypatch):
    jobs, store = working.jobs("reference")[:1], PartStore(tmp_path)
    executor = inline(failing=lambda number: BrokenProcessPool("x") if number == 2 else None)
    submit = executor.submit

    def submit_until(function, part):
        if len(executor.submitted) == 4:
            raise BrokenProcessPool("a child process terminated abruptly")
        return submit(function, part)

    monkeypatch.setattr(executor, "submit", submit_until)
    with pytest.raises(WorkersLost, match=r"a worker died .*processes .*repeat the call"):
        complete_jobs(jobs, store, executor=executor)
    assert working.files(tmp_path) == ["000000-000004.nc"]


def test_what_is_cancelled_by_others_is_said_so(tmp_path, inline, small_parts):
    error = concurrent.futures.CancelledError()
    with pytest.raises(WorkersLost, match=r"runs 0 to 4: cancelled, .*repeat the call"):
        complete_jobs(
            working.jobs("reference"), PartStore(tmp_path), executor=inline(failing=lambda k: error)
        )


def test_when_interrupted_what_is_done_is_kept_and_the_rest_cancelled(
    tmp_path, inline, small_parts
):
    jobs, store, executor = working.jobs("reference")[:1], PartStore(tmp_path), inline()

    def advance(job, runs):
        if runs:
            if executor.waiting:
                executor.step()  # one more comes back meanwhile
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete_jobs(jobs, store, executor=executor, advance=advance)
    assert working.files(tmp_path) == ["000000-000004.nc", "000005-000009.nc"]
    assert [future.cancelled() for future, _, _ in executor.waiting] == [True, True]


def test_threads_leave_a_part_that_nobody_waits_for(tmp_path):
    (job,) = working.jobs("reference")[:1]
    workers.stop_work("some work")
    with pytest.raises(KeyboardInterrupt):
        workers.play_part(workers.Part(job.simulation, job.runs, job.engine, work="some work"))


def test_a_worker_refuses_what_it_would_compute_otherwise():
    """Such as one that came when others were at work."""
    (job,) = working.jobs()[:1]
    wanted = workers.describe_worker(compiled=True)
    part = workers.Part(job.simulation, range(2), job.engine, versions=wanted)
    assert len(workers.play_part(part)[0].regret) == 2
    other = dataclasses.replace(part, versions=wanted | {"numpy": "0.9", workers.PROCESSOR: "z80"})
    with pytest.raises(
        ValueError, match=r"worker .*, process \d+ would give other numbers: numpy is .*, not 0.9, "
        r"processor \(NUMBA_CPU_NAME=generic makes all alike\) is .*, not z80",
    ):  # fmt: skip
        workers.play_part(other)


def test_what_cannot_be_sent_is_refused_in_a_sentence():
    class Unsendable:
        def __reduce__(self):
            raise TypeError("cannot pickle 'lock'")

        def __repr__(self):
            return "Unsendable()"

    (job,) = working.jobs()[:1]
    simulation = dataclasses.replace(job.simulation, algorithm=Unsendable())
    with pytest.raises(
        ValueError, match=r"Unsendable\(\) on .* cannot be sent to another process \(TypeError: "
    ):
        packing.pack_simulation(simulation)


def test_without_cloudpickle_parts_are_sent_by_name(monkeypatch):
    (job,) = working.jobs(algorithms={"failing": Failing()}, runs=2)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    packed = packing.pack_simulation(job.simulation)
    assert pickle.loads(packed).algorithm == Failing()
    assert b"choose" not in packed


def test_modules_of_ones_own_are_sent_and_libraries_are_not():
    names = {module.__name__ for module in packing.find_user_modules()}
    assert working.__name__ in names
    libraries = ("posse", "numpy", "scipy", "pytest", "json", "concurrent")
    assert not [name for name in names if name.partition(".")[0] in libraries]
