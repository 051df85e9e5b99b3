"""Playing the arena: all jobs of all players, kept in a folder, so that nothing is played twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from posse import validation
from posse.lab.arena.players import REFERENCE, Player, job_of
from posse.lab.arena.report_data import Refusal
from posse.lab.arena.suite import Instance, suite
from posse.lab.jobs.executors import WorkersLost
from posse.lab.jobs.results_cache import PartStore, StoreUnwritable
from posse.lab.jobs.scheduler import complete_jobs
from posse.lab.jobs.workers import WorkersDiffer
from posse.lab.results import Result
from posse.lab.simulation import Job
from posse.lab.simulator import simulate_runs

# The quick form, which takes minutes: runs, rounds of an instance, and agent-rounds of a run.
QUICK_RUNS = 20
QUICK_HORIZON = 1000
QUICK_STEPS = 120_000
Advance = Callable[[Job, int], None]


@dataclass(frozen=True)
class Form:
    """How much is played: runs, and at most so many rounds of each instance."""

    mode: str  # "quick", "full" or "custom"
    runs: int
    most_rounds: int | None
    seed: int
    most_steps: int | None = None  # agent-rounds of a run

    def horizon(self, instance: Instance) -> int:
        """The rounds played of an instance."""
        rounds = min(instance.horizon, self.most_rounds or instance.horizon)
        if self.most_steps is None:
            return rounds
        return max(1, min(rounds, self.most_steps // instance.network.n_agents))


def form(full: bool, runs: int | None, horizon: int | None, seed: int | None) -> Form:
    """The quick form or the full one, or what was asked for in its place."""
    fixed = suite()
    usual_runs, usual_rounds = (fixed.full_runs, None) if full else (QUICK_RUNS, QUICK_HORIZON)
    runs = usual_runs if runs is None else validation.validate_integer("runs", runs, at_least=2)
    rounds = (
        usual_rounds
        if horizon is None
        else validation.validate_integer("horizon", horizon, at_least=1)
    )
    seed = fixed.seed if seed is None else validation.validate_integer("seed", seed, at_least=0)
    usual = (runs, rounds, seed) == (usual_runs, usual_rounds, fixed.seed)
    return Form(
        mode=("full" if full else "quick") if usual else "custom",
        runs=runs,
        most_rounds=rounds,
        seed=seed,
        most_steps=None if full or horizon is not None else QUICK_STEPS,
    )


@dataclass
class Arena:
    """Players on instances in some form, and the folder of their results."""

    instances: Sequence[Instance]
    players: Mapping[str, Player]
    form: Form
    folder: Path
    jobs: dict[tuple[int, str], Job] = field(default_factory=dict, init=False)
    refusals: dict[tuple[int, str], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.store = PartStore(self.folder)
        form = self.form
        for instance in self.instances:
            for player in self.players.values():
                key = instance.number, player.name
                try:
                    job = job_of(player, instance, form.horizon(instance), form.runs, form.seed)
                except ValueError as error:
                    self.refusals[key] = _sentence(player.name, str(error))
                else:
                    self.jobs[key] = job
        for player in self.players.values():
            whys = {self.refusals.get((i.number, player.name)) for i in self.instances}
            if None not in whys:
                raise ValueError(f"{player.name} can play none of the instances: {whys.pop()}")

    @property
    def missing(self) -> list[tuple[Job, int]]:
        """The jobs that are still to be played, and how many of their runs."""
        runs = [sum(map(len, self.store.find_missing(job))) for job in self.jobs.values()]
        return [(job, n) for job, n in zip(self.jobs.values(), runs, strict=True) if n]

    def compile(self, told: Callable[[int], None]) -> None:
        """Compile what all players need at once, so that people are told once how long it takes."""
        simulations = [job.simulation for job, _ in self.missing if job.engine == "compiled"]
        if simulations:
            from posse.lab.compiled import engine

            engine.compile_kernels(simulations, told)

    def play(
        self,
        *,
        executor: Executor | None = None,
        threads: int | None = None,
        advance: Advance = lambda job, runs: None,
    ) -> None:
        """Play what is missing; strangers first, so that they know soon what fails.

        What an algorithm raises in the middle of a run is a refusal of that instance, and costs the
        others nothing; but without the reference there is nothing to compare with.
        """

        def finish(jobs: Sequence[Job]) -> None:
            complete_jobs(jobs, self.store, executor=executor, threads=threads, advance=advance)

        for yours in (True, False):
            some = {k: job for k, job in self.jobs.items() if self.players[k[1]].is_yours == yours}
            try:
                finish(list(some.values()))
            except (WorkersDiffer, WorkersLost, StoreUnwritable):  # which is no fault of theirs
                raise
            except Exception:  # whatever one of them raised: which, is found one by one
                for key, job in some.items():
                    self._finish_one(key, job, finish)

    def _finish_one(
        self, key: tuple[int, str], job: Job, finish: Callable[[Sequence[Job]], None]
    ) -> None:
        try:
            finish([job])
        except (WorkersDiffer, WorkersLost, StoreUnwritable):
            raise
        except Exception as error:
            if key[1] == REFERENCE:
                raise
            del self.jobs[key]
            self.refusals[key] = f"failed while it played: {_said(error)}"

    def results(self, instance: Instance) -> dict[str, Result]:
        """The results of an instance by player, the runs of this form only."""
        return {
            name: self.store.load_result(job)
            for (number, name), job in self.jobs.items()
            if number == instance.number
        }

    def refused(self, instance: Instance) -> list[Refusal]:
        """Who cannot play an instance, and why."""
        return [
            Refusal(name, why)
            for (number, name), why in self.refusals.items()
            if number == instance.number
        ]


def workers_for(missing: Sequence[tuple[Job, int]]) -> int | None:
    """As many processes as cores for much work in plain Python, which threads do not speed up."""
    plain = sum(job.seconds_per_run * runs for job, runs in missing if job.engine == "reference")
    cores = os.cpu_count() or 1
    return cores if cores > 1 and plain > _WORTH_STARTING else None


_WORTH_STARTING = 5.0  # seconds


def seconds_a_run(job: Job) -> float:
    """How long a run of a job takes on one core: some are played for a few rounds, here and now."""
    rounds = min(_PILOT_ROUNDS, job.simulation.horizon)
    runs = job.runs[:_PILOT_RUNS]
    short = replace(job.simulation, horizon=rounds, times=np.array([rounds]), keep=())
    start = time.perf_counter()
    simulate_runs(short, runs, 1, lambda steps: None, engine=job.engine)
    return (time.perf_counter() - start) / len(runs) * job.simulation.horizon / rounds


_PILOT_ROUNDS = 100
_PILOT_RUNS = 10


def _said(error: Exception) -> str:
    """What went wrong, without the part that it went wrong with."""
    cause = error.__cause__ or error
    return " ".join(f"{type(cause).__name__}: {cause}".split())


def _sentence(name: str, why: str) -> str:
    """A refusal without the name of the refused."""
    for prefix in (f"algorithm {name!r}: ", f"algorithm {name!r} ", f"{name}: "):
        why = why.removeprefix(prefix)
    return " ".join(why.split())
