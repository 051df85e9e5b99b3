"""A progress bar for anything slow; silent and free when not asked for."""

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
    """What a simulation tells of its progress; this one keeps it to itself."""

    def advance_of(self, name: str) -> Advance:
        """What advances the bar of a name, which starts now."""
        return lambda steps: None

    def compiling(self, seconds: int) -> None:
        """Kernels are compiled before the first round, which somebody waits for."""
        print(_compiling(seconds), file=sys.stderr, flush=True)


class RichBars(Bars):
    """One bar a name."""

    def __init__(self, bars: Progress, names: Iterable[str], total: int) -> None:
        self._bars = bars
        self._total = total
        self._tasks = {
            name: bars.add_task(name or "simulating", total=total, start=False) for name in names
        }

    def advance_of(self, name: str) -> Advance:
        """What advances the bar of a name, which starts now."""
        task = self._tasks[name]
        self._bars.start_task(task)
        return _in_steps(lambda steps: self._bars.advance(task, steps), self._total)

    def compiling(self, seconds: int) -> None:
        """The same line, above the bars."""
        self._bars.console.print(_compiling(seconds), markup=False, highlight=False)


def _compiling(seconds: int) -> str:
    return f"compiling kernels (once, about {seconds} s)"


@contextmanager
def progress_bar(names: Iterable[str], total: int, show: bool) -> Iterator[Bars]:
    """One bar per name, where they are to be shown."""
    if not show:
        yield Bars()
        return
    with new_bars() as bars:
        yield RichBars(bars, names, total)


def new_bars() -> Progress:
    """Bars on standard error, so that tables on standard output can be piped."""
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


def _in_steps(advance: Advance, total: int) -> Advance:
    """Pass progress on in hundredths of the whole, so that the bar costs nothing measurable."""
    lock = threading.Lock()
    pending = done = 0

    def add(steps: int) -> None:
        nonlocal pending, done
        with lock:
            pending += steps
            done += steps
            if pending * 100 < total and done < total:
                return
            flushed = pending
            pending = 0
        advance(flushed)

    return add
