"""A progress bar for anything slow; silent and free when not asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


def _ignore(steps: int) -> None:
    """Advance nothing."""


@contextmanager
def progress_bar(
    names: Iterable[str], total: int, show: bool
) -> Iterator[Callable[[str], Advance]]:
    """One bar per name; yields a function from a name to what advances its bar."""
    if not show:
        yield lambda name: _ignore
        return
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
    # on standard error, so that tables on standard output can be piped
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {
            name: bars.add_task(name or "simulating", total=total, start=False) for name in names
        }

        def advance_of(name: str) -> Advance:
            bars.start_task(tasks[name])
            return _in_steps(lambda steps: bars.advance(tasks[name], steps), total)

        yield advance_of


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
            flushed, pending = pending, 0
        advance(flushed)

    return add
