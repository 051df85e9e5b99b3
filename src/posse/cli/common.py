"""Shared parts of the commands: user errors, stop signals, output, executors.

A user error is reported in one line with exit code 2 and without a traceback.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from concurrent.futures import Executor


class UserError(Exception):
    """An error that the user can fix, described in one sentence."""


@contextmanager
def catch_user_errors() -> Iterator[None]:
    """Turn ValueError, MemoryError and OSError into a UserError.

    A ValueError is a user error where the library validates its arguments, and only there; so wrap
    those calls alone. A file or folder that the system does not let us write is one, too.
    """
    try:
        yield
    except ValueError as error:
        raise UserError(str(error)) from None
    except MemoryError:
        raise UserError("not enough memory on this machine: choose a smaller problem") from None
    except OSError as error:
        raise UserError(
            f"{error.filename}: {error.strerror}" if error.filename else str(error)
        ) from None


@contextmanager
def require_live_extra() -> Iterator[None]:
    """Explain what to install if a library of the extra `live` is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        # A missing module of Posse itself is a bug, not a missing extra.
        if (error.name or "").partition(".")[0] == "posse":
            raise
        raise UserError(
            f"live agents need {error.name}: install Posse with the extra live, "
            'for example pip install ".[live]" in a clone'
        ) from None


def read_token(file: Path) -> str:
    """Read a token from a file; as an argument, other users of the machine could see it."""
    try:
        return file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a token file: it must be one line of ASCII") from None


@contextmanager
def announce_resume() -> Iterator[None]:
    """Tell the user on Ctrl-C that the same command resumes from the stored results."""
    try:
        yield
    except KeyboardInterrupt:
        print("posse: results so far are stored; run the same command to resume", file=sys.stderr)
        raise


# Long-running commands: stop signals and output.

_ENDS = {signal.SIGTERM, signal.SIGINT}
_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def listen_for_stop(on_hangup: Callable[[], None] | None = None) -> Iterator[Callable[..., bool]]:
    """Yield a function that waits (some seconds, or forever) for SIGTERM or Ctrl-C.

    It returns whether a stop signal has arrived. During the wait SIGHUP calls `on_hangup`, if
    given; the SIGHUP of a closed terminal stops the command as usual.
    """
    # A threading.Event would not do: an endless wait can miss a signal that arrives just before it,
    # or one that the system delivers to another thread. The wakeup descriptor misses none.
    receiver, sender = socket.socketpair()
    ended = False
    terminal = os.isatty(0)

    def wait_for_stop(seconds: float | None = None) -> bool:
        nonlocal ended
        deadline = None if seconds is None else time.monotonic() + seconds
        while not ended:
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([receiver], [], [], remaining)[0]:
                break
            # Every byte is the number of a signal; several may have arrived since the last wait.
            numbers = set(receiver.recv(1024))
            ended = bool(numbers & _ENDS)
            if not ended and on_hangup is not None and _HANGUP in numbers:
                # If the terminal is gone, SIGHUP means the end of the session, not a reload.
                ended = terminal and not os.isatty(0)
                if not ended:
                    on_hangup()
        return ended

    with receiver, sender:
        # A signal handler must never block; if the buffer is full, a wakeup is pending anyway.
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        for number in _ENDS if on_hangup is None or _HANGUP is None else {*_ENDS, _HANGUP}:
            signal.signal(number, lambda *_: None)  # stays installed: the command is ending anyway
        try:
            yield wait_for_stop
        finally:
            signal.set_wakeup_fd(-1)


@contextmanager
def repeat_lost_interrupts() -> Iterator[None]:
    """Raise Ctrl-C again where Python only prints it: in finalisers and in imports."""
    before = sys.unraisablehook
    timers: list[threading.Timer] = []

    def repeat_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            # a moment later: at once, it would be raised inside this hook
            timers.append(threading.Timer(0.01, _thread.interrupt_main))
            timers[-1].start()
        else:
            before(unraisable)

    sys.unraisablehook = repeat_interrupt
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in timers:  # a late one would be raised while Python shuts down
            timer.cancel()
            timer.join()


@contextmanager
def treat_sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that no child process is left behind and no result is lost."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread receives signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_line(line: str) -> None:
    """Print a line unless the reader has closed the pipe."""
    try:
        typer.echo(line)
    except OSError:
        discard_output()


def discard_output() -> None:
    """Discard all further output, so that the flush at Python's exit does not fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def raise_file_limit(target: int = 65_536) -> None:
    """Raise the limit of open files, so that idle connections do not exhaust it.

    Systems start processes with 1,024 and let them request more.
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Never beyond the hard limit, which only root may raise.
    most = target if hard == resource.RLIM_INFINITY else min(target, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


# The options --workers and --cluster: where a command computes.

Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="Compute in N processes (default: threads of this process)."),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster, for example tcp://host:8786."),
]


@contextmanager
def open_executor(
    workers: int | None, cluster: str | None, threads: int | None = None
) -> Iterator[Executor | None]:
    """Yield the executor of the options; None for threads of this process.

    threads: the value of a command's option --threads, which excludes the other two.

    SIGTERM acts as Ctrl-C: submitted work is cancelled, finished work stays stored.
    """
    options = {"--threads": threads, "--workers": workers, "--cluster": cluster}
    names = [name for name, value in options.items() if value is not None]
    if len(names) > 1:
        raise UserError(f"give only one of {' and '.join(names)}")
    with ExitStack() as stack:
        # Before the executor exists: SIGTERM during the start of workers would leave them behind.
        stack.enter_context(treat_sigterm_as_interrupt())
        with catch_user_errors():
            executor = _create_executor(stack, workers, cluster)
        yield executor


def _create_executor(stack: ExitStack, workers: int | None, cluster: str | None) -> Executor | None:
    from posse import validation
    from posse.lab.jobs import dask_cluster, has_workers, processes

    if workers is not None:
        count = validation.validate_integer("--workers", workers, at_least=1)
        return stack.enter_context(processes(count))
    if cluster is not None:
        executor = stack.enter_context(dask_cluster(cluster))
        if not has_workers(executor):
            typer.echo("posse: waiting for a worker to join the cluster", err=True)
        return executor
    return None
