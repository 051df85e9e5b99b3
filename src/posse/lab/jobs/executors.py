"""Executors: processes on this machine, or the workers of a Dask cluster.

Any other `concurrent.futures.Executor` works as well.
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

# Spawned, since a fork of a process with threads may hang, and since every system can spawn.
_SPAWN = multiprocessing.get_context("spawn")
CONNECT_SECONDS = 10  # the longest wait for a Dask scheduler
_ASSUMED_WORKERS = 32  # of an executor that does not declare its number of workers


class WorkersLost(OSError):
    """Workers died too often, or the cluster went away; finished parts are stored."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; finished parts are stored: repeat the call to go on from there")


class Processes(Executor):
    """Processes on this machine, started when needed, and restarted when one of them is killed.

    A killed process breaks a `ProcessPoolExecutor` for good; here a new pool replaces it. The
    processes end with this one, however it ends: they wait on a pipe, whose other end the operating
    system closes. They ignore Ctrl-C, so that this process can store what is finished.
    """

    def __init__(self, count: int) -> None:
        self._max_workers = count
        # This process alone has the sender: when it dies, the receivers see the end of the pipe.
        self._stop_receiver, self._stop_sender = _SPAWN.Pipe(duplex=False)
        self._pool = self._new_pool()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; calls that were submitted when a process died have failed."""
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown()
            self._pool = self._new_pool()
            return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after the submitted calls, or at once with cancel_futures."""
        if cancel_futures:  # their results are not wanted
            with suppress(OSError):
                self._stop_sender.send_bytes(b"stop")
        self._pool.shutdown(wait, cancel_futures=cancel_futures)
        if wait or cancel_futures:  # else they still work, and closing the pipe would end them
            self._stop_sender.close()
            self._stop_receiver.close()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._max_workers, _SPAWN, _start_process, (self._stop_receiver,)
        )


def _start_process(stop_receiver: Connection) -> None:
    """Set up a new process: it ignores Ctrl-C and ends when the pipe is closed or written to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_on_stop, args=(stop_receiver,), daemon=True).start()


def _exit_on_stop(stop_receiver: Connection) -> None:
    # The message is not read, so that it stays in the pipe for the other processes.
    multiprocessing.connection.wait([stop_receiver])
    # Not sys.exit, which would only end this thread.
    os._exit(1)


@contextmanager
def processes(count: int | None = None) -> Iterator[Executor]:
    """Open an executor of processes on this machine, one for every core unless given.

    A script that uses it needs `if __name__ == "__main__":`, since every process imports it.
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
    """Open an executor of a Dask cluster, by an address such as tcp://host:8786; it stays up."""
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise ValueError(
            "a cluster needs Dask, which is not installed: pip install 'posse[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        why = "" if "timed out" in str(error).lower() else f": {error}"
        raise ValueError(
            f"no Dask scheduler answers at {validation.format_value(address)} "
            f"within {CONNECT_SECONDS} s{why}"
        ) from None
    executor = client.get_executor()
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False)  # cancels
        raise
    finally:
        client.close()


def count_slots(executor: Executor) -> int:
    """Count the parts that an executor computes at a time; workers of Dask come and go."""
    client = _get_client(executor)
    if client is not None:
        try:
            threads: int = sum(client.nthreads().values())
        except OSError as error:
            raise WorkersLost(f"the scheduler of the cluster went away: {error}") from error
        return max(1, threads)
    declared: int | None = getattr(executor, "_max_workers", None)
    return declared or _ASSUMED_WORKERS


def has_workers(executor: Executor) -> bool:
    """Whether an executor has workers; a Dask cluster may still wait for its first."""
    client = _get_client(executor)
    return client is None or bool(client.nthreads())


def require_same_versions(executor: Executor, compiled: bool) -> dict[str, str]:
    """Collect the versions that every worker must have; workers of Dask are checked at once.

    compiled: whether the processor matters too: all workers must have the same, though not that of
    this machine
    """
    required = workers.list_versions()
    client = _get_client(executor)
    if client is None:
        return required
    # A cluster with different versions is refused before the first part is sent.
    for worker, reported in client.run(
        workers.describe_worker, compiled, on_error="return"
    ).items():
        if isinstance(reported, BaseException):
            raise workers.WorkersDiffer(
                f"worker {worker} cannot play: {type(reported).__name__}: {reported}; install the "
                "same version of Posse there"
            )
        required = {**reported, **required}  # the processor of the first worker
        if differing := workers.describe_differences(required, reported):
            raise workers.WorkersDiffer(f"worker {worker} would give other numbers: {differing}")
    return required


def is_local(executor: Executor) -> bool:
    """Whether workers are on this machine, as those of Python's executors are."""
    return isinstance(executor, Processes | ProcessPoolExecutor | ThreadPoolExecutor)


def _get_client(executor: Executor) -> Any:
    """Get the client of a Dask executor, which has no public name for it; None of others."""
    return getattr(executor, "_client", None)
