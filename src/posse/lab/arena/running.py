"""Playing the arena: all jobs of all players, kept in a folder, so that nothing is played twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from posse.lab.arena.data import Refusal
from posse.lab.arena.line_up import REFERENCE, Player, job_of
from posse.lab.arena.suite import Instance
from posse.lab.jobs import Job
from posse.lab.part_store import PartStore
from posse.lab.results import Result
from posse.lab.simulation import simulate_some
from posse.lab.work import complete

QUICK_RUNS, QUICK_HORIZON = 20, 1000
Advance = Callable[[Job, int], None]
Told = Callable[[Instance, Player, str], None]


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
    def missing(self) -> list[Job]:
        """What is still to be played, as jobs of missing runs."""
        return [
            replace(job, runs=gap) for job in self.jobs.values() for gap in self.store.missing(job)
        ]

    def compile(self, told: Callable[[int], None]) -> None:
        """Compile what all players need at once, so that people are told once how long it takes."""
        simulations = [job.simulation for job in self.missing if job.engine == "compiled"]
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


def seconds_of(jobs: Sequence[Job], advance: Advance = lambda job, runs: None) -> dict[Job, float]:
    """How long jobs will take on one core: each is played for a few rounds of some runs here."""
    found = {}
    for job in jobs:
        rounds = min(_PILOT_ROUNDS, job.simulation.horizon)
        runs = job.runs[:_PILOT_RUNS]
        short = replace(job.simulation, horizon=rounds, times=np.array([rounds]), keep=())
        start = time.perf_counter()
        simulate_some(short, runs, 1, lambda steps: None, engine=job.engine)
        share = len(runs) * rounds / (len(job.runs) * job.simulation.horizon)
        found[job] = (time.perf_counter() - start) / share
        advance(job, len(job.runs))
    return found


_PILOT_ROUNDS, _PILOT_RUNS = 100, 10


def _sentence(name: str, why: str) -> str:
    """A refusal without the name of the refused."""
    for prefix in (f"algorithm {name!r}: ", f"algorithm {name!r} ", f"{name}: "):
        why = why.removeprefix(prefix)
    return " ".join(why.split())


def reference_of(players: Mapping[str, Player]) -> str:
    """The algorithm that differences are to."""
    return players[REFERENCE].name
