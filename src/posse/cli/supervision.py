"""Some agents under one command: whichever dies is started again, and the others go on."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

FIRST, LONGEST = 1.0, 60.0  # seconds before one is started again, twice as many each time
STEADY = 60.0  # seconds after which one that ran is taken for sound again


class Process(Protocol):
    """What is needed of subprocess.Popen."""

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""

    def wait(self) -> int:
        """Wait for its end."""


def start(file: Path) -> Process:
    """Run the agent of a file in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "posse", "agent", str(file)])


@dataclass
class _Child:
    file: Path
    process: Process | None = None
    since: float = 0.0  # when it was started
    again: float = 0.0  # when it is to be started, unless it runs
    delay: float = FIRST
    done: bool = False  # it ended well, by itself: somebody told it to


@dataclass
class Supervisor:
    """Agent processes, restarted with exponential back-off when they die."""

    files: Sequence[Path]
    start: Callable[[Path], Process] = start
    clock: Callable[[], float] = time.monotonic
    _children: list[_Child] = field(init=False)

    def __post_init__(self) -> None:
        self._children = [_Child(file) for file in self.files]

    def look(self) -> bool:
        """Start what is due, and name what died; whether any is left to look after."""
        for child in self._children:
            now = self.clock()
            if child.process is not None and (code := child.process.poll()) is not None:
                self._ended(child, code, now)
            if child.process is None and not child.done and now >= child.again:
                self._start(child, now)
        return not all(child.done for child in self._children)

    def pass_on(self, number: int) -> None:
        """Send a signal to those that run."""
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def stop(self) -> None:
        """End all of them, and wait until they have."""
        self.pass_on(signal.SIGTERM)
        for child in self._children:
            if child.process is not None:
                child.process.wait()

    def _start(self, child: _Child, now: float) -> None:
        try:
            child.process, child.since = self.start(child.file), now
        except OSError as error:  # such as no more processes
            self._put_off(child, now, f"{child.file} could not be started ({error})")

    def _ended(self, child: _Child, code: int, now: float) -> None:
        child.process = None
        if code == 0:
            child.done = True
            log.warning("%s was stopped, and is not started again", child.file)
            return
        if now - child.since >= STEADY:
            child.delay = FIRST
        how = f"exit code {code}" if code > 0 else f"killed by {_name(-code)}"
        self._put_off(child, now, f"{child.file} died ({how})")

    def _put_off(self, child: _Child, now: float, what: str) -> None:
        log.error("%s: it is started again in %g s", what, child.delay)
        child.again = now + child.delay
        child.delay = min(LONGEST, 2 * child.delay)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
