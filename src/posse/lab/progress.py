"""Progress bars on standard error, shown only on request."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]


class Bars:
    """Receiver of a simulation's progress; this base class shows nothing."""

    def start_bar(self, name: str) -> Advance:
        """Start the clock of a bar and return the function that advances it."""
        return lambda steps: None

    def announce_compilation(self, seconds: int) -> None:
        """Announce that kernels are compiled before the first round, and for how long."""
        print(_compilation_notice(seconds), file=sys.stderr, flush=True)


class RichBars(Bars):
    """One bar of `rich` for every name."""

    def __init__(self, bars: Progress, names: Iterable[str], total: int) -> None:
        self._bars = bars
        self._total = total
        self._tasks = {
            name: bars.add_task(name or "simulating", total=total, start=False) for name in names
        }

    def start_bar(self, name: str) -> Advance:
        """Start the clock of a bar and return the function that advances it."""
        task = self._tasks[name]
        self._bars.start_task(task)
        return _throttle(lambda steps: self._bars.advance(task, steps), self._total)

    def announce_compilation(self, seconds: int) -> None:
        """Print the same line above the bars."""
        self._bars.console.print(_compilation_notice(seconds), markup=False, highlight=False)


def _compilation_notice(seconds: int) -> str:
    return f"compiling kernels (once, about {seconds} s)"


@contextmanager
def progress_bar(names: Iterable[str], total: int, show: bool) -> Iterator[Bars]:
    """Show one bar for every name, if requested."""
    if not show:
        yield Bars()
        return
    with create_progress() as bars:
        yield RichBars(bars, names, total)


def create_progress() -> Progress:
    """Create bars on standard error, so that tables on standard output can be piped."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),  # a label such as "[x]" is no style
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    return Progress(*columns, console=Console(stderr=True))


def _throttle(advance: Advance, total: int) -> Advance:
    """Pass progress on in hundredths of the total, so that the bar costs no measurable time."""
    # Threads advance one bar: counts are added under a lock, the bar is drawn outside it.
    lock = threading.Lock()
    pending = finished = 0

    def add(steps: int) -> None:
        nonlocal pending, finished
        with lock:
            pending += steps
            finished += steps
            if pending * 100 < total and finished < total:
                return
            flushed = pending
            pending = 0
        advance(flushed)

    return add
