"""Where parts are computed: processes on this machine, or the workers of a Dask cluster.

Any other `concurrent.futures.Executor` will do as well.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from posse import validation
from posse.lab.jobs import workers

# Spawned, as a fork of a process with threads may hang; and alike on every system.
_SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 10  # seconds to reach a scheduler
_UNKNOWN = 32  # workers that an executor may have that does not say


class WorkersLost(OSError):
    """Workers that died too often, or a cluster that went away; what came back is stored."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; finished parts are stored, so that the same call goes on there")


class Processes(Executor):
    """Processes on this machine, started when first needed, and anew when one of them is killed.

    They end with this process, however it ends; Ctrl-C is left to it, so that it can keep what is
    finished.
    """

    def __init__(self, count: int) -> None:
        self._max_workers = count
        self._told, self._tell = _SPAWN.Pipe(duplex=False)
        self._pool = self._new_pool()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have something computed; what was submitted when a process died has failed."""
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown()
            self._pool = self._new_pool()
            return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done what was submitted, or at once."""
        if cancel_futures:  # nobody waits for what they are at
            with suppress(OSError):
                self._tell.send_bytes(b"stop")
        self._pool.shutdown(wait, cancel_futures=cancel_futures)
        if wait or cancel_futures:  # else they are still at work, and the end of the pipe is theirs
            self._tell.close()
            self._told.close()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._max_workers, _SPAWN, _begin, (self._told,))


def _begin(told: Connection) -> None:
    """Make a new process heed us alone: not Ctrl-C, but the end of a pipe, as when we die."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end, args=(told,), daemon=True).start()


def _end(told: Connection) -> None:
    # not read, so that the others are told by the same bytes
    multiprocessing.connection.wait([told])
    os._exit(1)


@contextmanager
def processes(count: int | None = None) -> Iterator[Executor]:
    """Some processes on this machine, as many as it has cores unless given.

    A script that uses them needs `if __name__ == "__main__":`, as each of them imports it.
    """
    count = (
        os.cpu_count() or 1
        if count is None
        else validation.validate_integer("processes", count, at_least=1)
    )
    executor = Processes(count)
    try:
        yield executor
    except BaseException:
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


@contextmanager
def dask_cluster(address: str) -> Iterator[Executor]:
    """The workers of a Dask scheduler at an address such as tcp://host:8786; they stay."""
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise ValueError(
            "a cluster needs Dask, which is not installed: pip install 'posse[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        why = "" if "timed out" in str(error).lower() else f": {error}"
        raise ValueError(
            f"no Dask scheduler answers at {validation.format_value(address)} "
            f"within {PATIENCE} s{why}"
        ) from None
    executor = client.get_executor()
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False)  # cancels
        raise
    finally:
        client.close()


def capacity(executor: Executor) -> int:
    """How many parts an executor computes at a time, as far as it says; Dask's come and go."""
    client = _client_of(executor)
    if client is not None:
        try:
            threads: int = sum(client.nthreads().values())
        except OSError as error:
            raise WorkersLost(f"the scheduler of the cluster went away: {error}") from error
        return max(1, threads)
    known: int | None = getattr(executor, "_max_workers", None)
    return known or _UNKNOWN


def has_workers(executor: Executor) -> bool:
    """Whether there is anybody to compute; a Dask cluster may still wait for its workers."""
    client = _client_of(executor)
    return client is None or bool(client.nthreads())


def agreed(executor: Executor, compiled: bool) -> dict[str, str]:
    """What each worker must have alike, which those of a Dask cluster are asked for at once.

    compiled: whether the processor matters too; the workers' is to be one, not ours.
    """
    wanted = workers.versions()
    client = _client_of(executor)
    if client is None:
        return wanted
    for worker, told in client.run(workers.about, compiled, on_error="return").items():
        if isinstance(told, BaseException):
            raise workers.WorkersDiffer(
                f"worker {worker} cannot play: {type(told).__name__}: {told}; it needs the same "
                "Posse as we have"
            )
        wanted = {**told, **wanted}  # the first one's processor
        if differing := workers.differences(wanted, told):
            raise workers.WorkersDiffer(f"worker {worker} would give other numbers: {differing}")
    return wanted


def is_local(executor: Executor) -> bool:
    """Whether workers are on this machine, as those of Python's own executors are."""
    return isinstance(executor, Processes | ProcessPoolExecutor | ThreadPoolExecutor)


def _client_of(executor: Executor) -> Any:
    """The client of a Dask executor, which has no public name for it."""
    return getattr(executor, "_client", None)
