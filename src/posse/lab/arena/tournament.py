"""The arena's tournament: all jobs of all players; results are stored and never computed twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from posse import validation
from posse.lab.arena.players import REFERENCE, Player, build_job
from posse.lab.arena.report_data import InstanceRefusal
from posse.lab.arena.suite import Instance, load_suite
from posse.lab.jobs import PartStore, StoreUnwritable, WorkersDiffer, WorkersLost, complete_jobs
from posse.lab.results import Agents, Result, select_agents
from posse.lab.simulation import Job
from posse.lab.simulator import simulate_runs

# The quick form, which takes minutes: runs, rounds of an instance, and agent-rounds of a run.
QUICK_RUNS = 20
QUICK_HORIZON = 1000
QUICK_STEPS = 120_000
Advance = Callable[[Job, int], None]


@dataclass(frozen=True)
class Form:
    """The size of a tournament: runs, and the most rounds of each instance."""

    mode: str  # "quick", "full" or "custom"
    runs: int
    most_rounds: int | None
    seed: int
    most_steps: int | None = None  # agent-rounds of a run

    def horizon(self, instance: Instance) -> int:
        """Give the rounds to play of an instance."""
        rounds = min(instance.horizon, self.most_rounds or instance.horizon)
        if self.most_steps is None:
            return rounds
        return max(1, min(rounds, self.most_steps // instance.network.n_agents))


def choose_form(full: bool, runs: int | None, horizon: int | None, seed: int | None) -> Form:
    """Choose the quick or the full form, with other runs, rounds or seed where they are given."""
    defaults = load_suite()
    usual_runs, usual_rounds = (defaults.full_runs, None) if full else (QUICK_RUNS, QUICK_HORIZON)
    runs = usual_runs if runs is None else validation.validate_integer("runs", runs, at_least=2)
    rounds = (
        usual_rounds
        if horizon is None
        else validation.validate_integer("horizon", horizon, at_least=1)
    )
    seed = defaults.seed if seed is None else validation.validate_integer("seed", seed, at_least=0)
    usual = (runs, rounds, seed) == (usual_runs, usual_rounds, defaults.seed)
    return Form(
        mode=("full" if full else "quick") if usual else "custom",
        runs=runs,
        most_rounds=rounds,
        seed=seed,
        most_steps=None if full or horizon is not None else QUICK_STEPS,
    )


@dataclass
class Arena:
    """A tournament: players, instances, its form, and the folder of its results."""

    instances: Sequence[Instance]
    players: Mapping[str, Player]
    form: Form
    folder: Path
    agents: Agents = None  # whose regret is ranked; None: all agents
    jobs: dict[tuple[int, str], Job] = field(default_factory=dict, init=False)
    refusals: dict[tuple[int, str], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # Parts of results are stored as they come, so an interrupted arena loses little.
        self.store = PartStore(self.folder)
        form = self.form
        self._check_agents()
        for instance in self.instances:
            for player in self.players.values():
                key = instance.number, player.name
                # Every job is built before the first is played: a mistake shows at once.
                try:
                    job = build_job(
                        player,
                        instance,
                        form.horizon(instance),
                        form.runs,
                        form.seed,
                        keep_agents=self.agents is not None,
                    )
                except ValueError as error:
                    self.refusals[key] = _strip_name(player.name, str(error))
                else:
                    self.jobs[key] = job
        for player in self.players.values():
            reasons = {self.refusals.get((i.number, player.name)) for i in self.instances}
            if None not in reasons:
                raise ValueError(f"{player.name} can play none of the instances: {reasons.pop()}")

    def _check_agents(self) -> None:
        """Refuse instances that do not have these agents, such as hubs of a cycle."""
        for instance in self.instances:
            settings = {"network": instance.network.to_data()}
            try:
                select_agents(self.agents, instance.network.n_agents, settings)
            except ValueError as error:
                raise ValueError(
                    f"{error}; leave instance {instance.number} out with --instances"
                ) from None

    @property
    def missing_jobs(self) -> list[tuple[Job, int]]:
        """The jobs that are not complete, and the number of their missing runs."""
        runs = [sum(map(len, self.store.find_missing(job))) for job in self.jobs.values()]
        return [(job, n) for job, n in zip(self.jobs.values(), runs, strict=True) if n]

    def compile_kernels(self, announce: Callable[[int], None]) -> None:
        """Compile the kernels of all players at once, and announce once how long that takes."""
        simulations = [job.simulation for job, _ in self.missing_jobs if job.engine == "compiled"]
        if simulations:
            from posse.lab.compiled import engine

            engine.compile_kernels(simulations, announce)

    def play_missing(
        self,
        *,
        executor: Executor | None = None,
        threads: int | None = None,
        advance: Advance = lambda job, runs: None,
    ) -> None:
        """Play the missing jobs; user-defined algorithms first, so that their mistakes show early.

        An exception of an algorithm is a refusal of that instance and does not disturb the others;
        but without the reference there is nothing to compare with, so its exceptions are raised.
        """

        def finish(jobs: Sequence[Job]) -> None:
            complete_jobs(jobs, self.store, executor=executor, threads=threads, advance=advance)

        for yours in (True, False):
            group = {k: job for k, job in self.jobs.items() if self.players[k[1]].is_yours == yours}
            try:
                finish(list(group.values()))
            except (WorkersDiffer, WorkersLost, StoreUnwritable):  # not a mistake of the players
                raise
            except Exception:
                # One of them raised something. Play them one by one, to learn which.
                for key, job in group.items():
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
            self.refusals[key] = f"failed while it played: {_describe_error(error)}"

    def load_results(self, instance: Instance) -> dict[str, Result]:
        """Load the results of an instance by player, the runs of this form only."""
        return {
            name: self.store.load_result(job).of_agents(self.agents)
            for (number, name), job in self.jobs.items()
            if number == instance.number
        }

    def refusals_of(self, instance: Instance) -> list[InstanceRefusal]:
        """List the algorithms that cannot play an instance, and the reasons."""
        return [
            InstanceRefusal(name, why)
            for (number, name), why in self.refusals.items()
            if number == instance.number
        ]


def choose_workers(missing: Sequence[tuple[Job, int]]) -> int | None:
    """Choose a process for each core for much work in plain Python, which threads cannot share."""
    # Compiled kernels run in threads without the interpreter's lock; plain Python does not.
    plain = sum(job.seconds_per_run * runs for job, runs in missing if job.engine == "reference")
    cores = os.cpu_count() or 1
    return cores if cores > 1 and plain > _WORTH_STARTING else None


_WORTH_STARTING = 5.0  # seconds


def measure_seconds_per_run(job: Job) -> float:
    """Measure the seconds of a run on one core, by a few short runs."""
    # The first rounds are enough: kernels are compiled by now, and nothing else warms up.
    rounds = min(_PILOT_ROUNDS, job.simulation.horizon)
    runs = job.runs[:_PILOT_RUNS]
    # Rounds cost about the same early and late, so a short pilot is scaled to the horizon.
    short = replace(job.simulation, horizon=rounds, times=np.array([rounds]), keep=())
    start = time.perf_counter()
    simulate_runs(short, runs, 1, lambda steps: None, engine=job.engine)
    return (time.perf_counter() - start) / len(runs) * job.simulation.horizon / rounds


_PILOT_ROUNDS = 100
_PILOT_RUNS = 10


def _describe_error(error: Exception) -> str:
    """Describe an error in one line, by its cause where a worker wrapped it."""
    # A worker wraps the exception of the algorithm: its own message says more.
    cause = error.__cause__ or error
    return " ".join(f"{type(cause).__name__}: {cause}".split())


def _strip_name(name: str, why: str) -> str:
    """Strip the algorithm's name from the front of a refusal, and its line breaks."""
    for prefix in (f"algorithm {name!r}: ", f"algorithm {name!r} ", f"{name}: "):
        why = why.removeprefix(prefix)
    return " ".join(why.split())
