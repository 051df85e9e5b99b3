"""Playing the arena: all jobs of all players, kept in a folder, so that nothing is played twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from posse import checks
from posse.lab.arena.data import Refusal
from posse.lab.arena.line_up import Player, job_of
from posse.lab.arena.suite import Instance, suite
from posse.lab.jobs import Job
from posse.lab.part_store import PartStore
from posse.lab.results import Result
from posse.lab.simulation import simulate_some
from posse.lab.work import complete

QUICK_RUNS, QUICK_HORIZON = 20, 1000
Advance = Callable[[Job, int], None]


@dataclass(frozen=True)
class Form:
    """How much is played: runs, and at most so many rounds of each instance."""

    mode: str  # "quick", "full" or "custom"
    runs: int
    most_rounds: int | None
    seed: int

    def horizon(self, instance: Instance) -> int:
        """The rounds played of an instance."""
        return min(instance.horizon, self.most_rounds or instance.horizon)


def form(full: bool, runs: int | None, horizon: int | None, seed: int | None) -> Form:
    """The quick form or the full one, or what was asked for in its place."""
    fixed = suite()
    usual = (fixed.full_runs, None) if full else (QUICK_RUNS, QUICK_HORIZON)
    asked = (usual[0] if runs is None else runs, usual[1] if horizon is None else horizon)
    custom = asked != usual or seed not in (None, fixed.seed)
    return Form(
        mode="custom" if custom else "full" if full else "quick",
        runs=checks.whole("runs", asked[0], at_least=2),
        most_rounds=None if asked[1] is None else checks.whole("horizon", asked[1], at_least=1),
        seed=fixed.seed if seed is None else checks.whole("seed", seed, at_least=0),
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
        runs = [sum(map(len, self.store.missing(job))) for job in self.jobs.values()]
        return [(job, n) for job, n in zip(self.jobs.values(), runs, strict=True) if n]

    def compile(self, told: Callable[[int], None]) -> None:
        """Compile what all players need at once, so that people are told once how long it takes."""
        simulations = [job.simulation for job, _ in self.missing if job.engine == "compiled"]
        if simulations:
            from posse.lab.compiled import engine

            engine.prepare(simulations, told)

    def play(
        self,
        *,
        executor: Executor | None = None,
        threads: int | None = None,
        advance: Advance = lambda job, runs: None,
    ) -> None:
        """Play what is missing; strangers first, so that they know soon what fails.

        What a stranger's algorithm raises in the middle of a run is a refusal of that instance.
        """
        for key, job in list(self.jobs.items()):
            if not self.players[key[1]].is_yours:
                continue
            try:
                complete([job], self.store, executor=executor, threads=threads, advance=advance)
            except Exception as error:  # whatever it may raise
                del self.jobs[key]
                said = " ".join(f"{type(error).__name__}: {error}".split())
                self.refusals[key] = f"failed while it played: {said}"
        ours = [job for key, job in self.jobs.items() if not self.players[key[1]].is_yours]
        complete(ours, self.store, executor=executor, threads=threads, advance=advance)

    def results(self, instance: Instance) -> dict[str, Result]:
        """The results of an instance by player, the runs of this form only."""
        return {
            name: self.store.result(job)
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


def seconds_a_run(job: Job) -> float:
    """How long a run of a job takes on one core: some are played for a few rounds, here and now."""
    rounds, runs = min(_PILOT_ROUNDS, job.simulation.horizon), job.runs[:_PILOT_RUNS]
    short = replace(job.simulation, horizon=rounds, times=np.array([rounds]), keep=())
    start = time.perf_counter()
    simulate_some(short, runs, 1, lambda steps: None, engine=job.engine)
    return (time.perf_counter() - start) / len(runs) * job.simulation.horizon / rounds


_PILOT_ROUNDS, _PILOT_RUNS = 100, 10


def _sentence(name: str, why: str) -> str:
    """A refusal without the name of the refused."""
    for prefix in (f"algorithm {name!r}: ", f"algorithm {name!r} ", f"{name}: "):
        why = why.removeprefix(prefix)
    return " ".join(why.split())
