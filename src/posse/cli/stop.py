"""How a command that runs on is told to stop."""

from __future__ import annotations

import signal
import threading


def told() -> threading.Event:
    """Set when the process is told to stop, by SIGTERM or Ctrl-C."""
    event = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: event.set())
    return event
