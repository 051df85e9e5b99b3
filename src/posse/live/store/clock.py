"""Ages of decisions by elapsed time, so that a clock that jumps makes no decision old.

A decision carries the wall-clock time, which may be wrong now or may have been wrong then. Row
numbers rise, and this process knows from its monotonic clock how long ago a number was the newest.
For decisions older than the process only their times are known, and that the newest of them was
made before the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MARKS_PER_WINDOW = 50  # resolution: a decision is recognised as old up to 1/50 of the window late


@dataclass(frozen=True)
class _Mark:
    """The newest row number at one moment of both clocks."""

    number: int
    monotonic: float
    now: float


class DecisionAges:
    """Finds the decisions of a store that are older than a number of seconds."""

    def __init__(self, newest: int, time: float | None, monotonic: Callable[[], float]) -> None:
        """Start with the newest number in the file and the latest time of any decision in it."""
        self._monotonic = monotonic
        self._at_start = None if time is None else _Mark(newest, monotonic(), time)
        self._marks: deque[_Mark] = deque()

    def find_older_than(self, seconds: float, now: float, newest: int) -> tuple[int, float]:
        """Return the number and time up to which decisions are older than so many seconds.

        A decision must satisfy both. `now` is the wall clock, `newest` the newest number in the
        file.
        """
        steady = self._monotonic()
        marks = self._marks
        if not marks or steady - marks[-1].monotonic >= seconds / MARKS_PER_WINDOW:
            marks.append(_Mark(newest, steady, now))
        # The first mark is the newest one that is old enough: older marks tell nothing more.
        while len(marks) > 1 and steady - marks[1].monotonic >= seconds:
            marks.popleft()
        if steady - marks[0].monotonic >= seconds:
            self._at_start = None  # everything it describes is older than the mark
            # the number alone would do; the time keeps the search in the index to the oldest
            return marks[0].number, min(now - seconds, marks[0].now)
        if self._at_start is not None:
            # By elapsed time since the start, so that a wall clock that jumps ahead makes nothing
            # older.
            latest = min(now, self._at_start.now + steady - self._at_start.monotonic)
            return self._at_start.number, latest - seconds
        return 0, now - seconds

    def forget_numbers(self) -> None:
        """Forget all marks: the newest row was deleted, and its number will be used again."""
        self._at_start = None
        self._marks.clear()
