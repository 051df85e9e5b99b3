"""What commands that run on share: how they are told to stop, and how they speak."""

from __future__ import annotations

import os
import signal
import sys
import threading

import typer


def told() -> threading.Event:
    """Set when the process is told to stop, by SIGTERM or Ctrl-C."""
    event = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: event.set())
    return event


def say(line: str) -> None:
    """Print a line, if there is still anybody to read it."""
    try:
        typer.echo(line)
    except OSError:
        # what Python flushes at its end must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
