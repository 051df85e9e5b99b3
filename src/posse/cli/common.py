"""What the user can put right: reported in one line, exit code 2, without a traceback."""

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


class Mistake(Exception):
    """One sentence for the user."""


@contextmanager
def mistakes() -> Iterator[None]:
    """Take a ValueError for the user's mistake, which it is at the library's doors, and there only.

    So is a file or folder that the system does not let us write.
    """
    try:
        yield
    except ValueError as error:
        raise Mistake(str(error)) from None
    except MemoryError:
        raise Mistake("this does not fit into the memory of this machine") from None
    except OSError as error:
        raise Mistake(
            f"{error.filename}: {error.strerror}" if error.filename else str(error)
        ) from None


@contextmanager
def live() -> Iterator[None]:
    """Say what to install where the libraries of live agents are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "posse":
            raise
        raise Mistake(
            f"live agents need {error.name}: install Posse with the extra live, "
            'as by pip install ".[live]" in a clone'
        ) from None


def token_in(file: Path) -> str:
    """The token in a file: it is never shown, and never an argument, which others could see."""
    try:
        return file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a token: it must be one line of ASCII") from None


@contextmanager
def goes_on() -> Iterator[None]:
    """Say, when somebody stops a command that keeps what is done, how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("posse: what is done is kept; the same command goes on from here", file=sys.stderr)
        raise


# What commands that run on share: how they are told to stop, and how they speak.

_ENDS = {signal.SIGTERM, signal.SIGINT}
_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def told(on_hangup: Callable[[], None] | None = None) -> Iterator[Callable[..., bool]]:
    """A wait, some seconds or without end, for SIGTERM or Ctrl-C; whether one has come by then.

    SIGHUP, where somebody wants to know of it, is handled while we wait; that of a terminal which
    was closed ends us as ever. A threading.Event would not do: whoever waits for one without end
    can miss a signal that comes just before, or that the system hands to another thread.
    """
    hears, says = socket.socketpair()
    ended = False
    terminal = os.isatty(0)

    def wait(seconds: float | None = None) -> bool:
        nonlocal ended
        deadline = None if seconds is None else time.monotonic() + seconds
        while not ended:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([hears], [], [], left)[0]:
                break
            came = set(hears.recv(1024))
            ended = bool(came & _ENDS)
            if not ended and on_hangup is not None and _HANGUP in came:
                ended = terminal and not os.isatty(0)
                if not ended:
                    on_hangup()
        return ended

    with hears, says:
        says.setblocking(False)
        signal.set_wakeup_fd(says.fileno(), warn_on_full_buffer=False)
        for number in _ENDS if on_hangup is None or _HANGUP is None else {*_ENDS, _HANGUP}:
            signal.signal(number, lambda *_: None)  # also afterwards: it ends by itself
        try:
            yield wait
        finally:
            signal.set_wakeup_fd(-1)


@contextmanager
def interruptible() -> Iterator[None]:
    """See to it that Ctrl-C is not lost where Python only prints it: in finalisers, in imports."""
    before = sys.unraisablehook
    coming: list[threading.Timer] = []

    def again(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            # a moment later: at once it would strike in here
            coming.append(threading.Timer(0.01, _thread.interrupt_main))
            coming[-1].start()
        else:
            before(unraisable)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in coming:  # or it would strike when all is said, and Python die of it
            timer.cancel()
            timer.join()


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that no process is left behind and nothing lost."""
    if threading.current_thread() is not threading.main_thread():  # who alone hears signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def say(line: str) -> None:
    """Print a line, if there is still anybody to read it."""
    try:
        typer.echo(line)
    except OSError:
        drop_output()


def drop_output() -> None:
    """Print nowhere from now on: what Python flushes at its end must not fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def raise_descriptors(wanted: int = 65_536) -> None:
    """Let this process open as many files as it may, so that idle connections do not use them up.

    Systems start processes with 1,024 and let them ask for more.
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


# Where a command computes: the options --workers and --cluster.

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
    from posse import validation
    from posse.lab.jobs import executors

    if workers is not None:
        count = validation.validate_integer("--workers", workers, at_least=1)
        return stack.enter_context(executors.processes(count))
    if cluster is not None:
        executor = stack.enter_context(executors.dask_cluster(cluster))
        if not executors.has_workers(executor):
            typer.echo("posse: no worker has joined the cluster yet, which we wait for", err=True)
        return executor
    return None
