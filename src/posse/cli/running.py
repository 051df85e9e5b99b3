"""What commands that run on share: how they are told to stop, and how they speak."""

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
from contextlib import contextmanager

import typer

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
