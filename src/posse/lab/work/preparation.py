"""What is done with jobs before their first round: strangers' parts tried out, kernels compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from posse.lab.playing import of_run
from posse.lab.rehearsal import rehearse
from posse.lab.work.jobs import Job


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

        compiled.prepare(simulations, announce)
