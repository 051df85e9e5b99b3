"""Ages of decisions by the time that went by, so that a clock that jumps makes none of them old.

A decision carries the time of a clock that may be wrong, now or then. Its number rises, and this
process knows from its monotonic clock how long ago a number was the newest. Of decisions from
before it started it knows their times only, and that the newest was made before the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MARKS_PER_WINDOW = (
    50  # in the time asked for: decisions may be so much older before they are seen to be
)


@dataclass(frozen=True)
class _Mark:
    """Which number was the newest, at a time of both clocks."""

    number: int
    monotonic: float
    now: float


class DecisionAges:
    """Which decisions of a store are older than a number of seconds."""

    def __init__(self, newest: int, time: float | None, monotonic: Callable[[], float]) -> None:
        """At a start: the newest number on disk, and the latest time of any decision."""
        self._monotonic = monotonic
        self._at_start = None if time is None else _Mark(newest, monotonic(), time)
        self._marks: deque[_Mark] = deque()

    def find_older_than(self, seconds: float, now: float, newest: int) -> tuple[int, float]:
        """The last number and the time before which decisions are older than so many seconds.

        Both must hold of a decision. `now` is the clock's, `newest` the newest number on disk.
        """
        steady = self._monotonic()
        marks = self._marks
        if not marks or steady - marks[-1].monotonic >= seconds / MARKS_PER_WINDOW:
            marks.append(_Mark(newest, steady, now))
        while len(marks) > 1 and steady - marks[1].monotonic >= seconds:
            marks.popleft()
        if steady - marks[0].monotonic >= seconds:
            self._at_start = None  # all that it stands for is older than the mark
            # the number alone would do; the time keeps who looks for them to the oldest
            return marks[0].number, min(now - seconds, marks[0].now)
        if self._at_start is not None:
            latest = min(now, self._at_start.now + steady - self._at_start.monotonic)
            return self._at_start.number, latest - seconds
        return 0, now - seconds

    def forget_numbers(self) -> None:
        """Know nothing: the newest number was deleted, and will be given again."""
        self._at_start = None
        self._marks.clear()
