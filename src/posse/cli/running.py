"""What commands that run on share: how they are told to stop, and how they speak."""

from __future__ import annotations

import _thread
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


@contextmanager
def told() -> Iterator[Callable[..., bool]]:
    """A wait, some seconds or without end, for SIGTERM or Ctrl-C; whether one has come by then.

    A threading.Event would not do: whoever waits for one without end can miss a signal that comes
    just before, or that the system hands to another thread.
    """
    hears, says = socket.socketpair()
    with hears, says:
        says.setblocking(False)
        signal.set_wakeup_fd(says.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # also afterwards: it ends by itself
        try:
            yield lambda seconds=None: bool(select.select([hears], [], [], seconds)[0])
        finally:
            signal.set_wakeup_fd(-1)


@contextmanager
def interruptible() -> Iterator[None]:
    """See to it that Ctrl-C is not lost where Python only prints it: in finalisers, in imports."""
    before = sys.unraisablehook

    def again(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            # a moment later: at once it would strike in here
            threading.Timer(0.01, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def say(line: str) -> None:
    """Print a line, if there is still anybody to read it."""
    try:
        typer.echo(line)
    except OSError:
        drop_output()


def drop_output() -> None:
    """Print nowhere from now on: what Python flushes at its end must not fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
