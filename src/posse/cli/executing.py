"""Where a command computes: the options --workers and --cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.errors import Mistake, mistakes
from posse.cli.running import sigterm_interrupts

if TYPE_CHECKING:
    from concurrent.futures import Executor

Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="Compute on N processes; on threads of this one by default."),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster, such as tcp://host:8786."),
]


@contextmanager
def executing(
    workers: int | None, cluster: str | None, threads: int | None = None
) -> Iterator[Executor | None]:
    """The executor that was asked for, None for threads of this process.

    threads: those of a command that has an option --threads, which then is for these alone.

    SIGTERM does what Ctrl-C does: what was submitted is cancelled, what is finished is kept.
    """
    given = {"--threads": threads, "--workers": workers, "--cluster": cluster}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise Mistake(f"give {' or '.join(names)}, not both")
    with ExitStack() as stack:
        stack.enter_context(sigterm_interrupts())
        with mistakes():
            executor = _executor(stack, workers, cluster)
        yield executor


def _executor(stack: ExitStack, workers: int | None, cluster: str | None) -> Executor | None:
    from posse import checks
    from posse.lab.work import executors

    if workers is not None:
        count = checks.whole("--workers", workers, at_least=1)
        return stack.enter_context(executors.processes(count))
    if cluster is not None:
        executor = stack.enter_context(executors.dask_cluster(cluster))
        if not executors.has_workers(executor):
            typer.echo("posse: no worker has joined the cluster yet, which we wait for", err=True)
        return executor
    return None
