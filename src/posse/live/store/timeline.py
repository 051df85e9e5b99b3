"""The past of one experiment: an event log and a time series of several scales, both bounded.

A scale is its step in seconds; a step has at most one point. The past is bounded by the number of
points, never by their age: a clock that jumps ahead for a moment makes nothing old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posse.live.store.file import StoreFile

MAX_EVENTS = 500  # of one experiment; older ones are deleted
MAX_TEXT_LENGTH = 1000  # characters
MAX_LISTED_NAMES = 5  # names in one sentence

INSERT = "INSERT INTO event (experiment, time, kind, text) VALUES (?, ?, ?, ?)"
OLDEST = (
    "DELETE FROM event WHERE experiment = ? AND number <= (SELECT number FROM event "
    "WHERE experiment = ? ORDER BY number DESC LIMIT 1 OFFSET ?)"
)
BETWEEN = (
    "SELECT time, kind, text FROM event WHERE experiment = ? AND time > ? AND time <= ? "
    "ORDER BY time, number"
)
NEWEST = "SELECT coalesce(max(number), 0) FROM event WHERE experiment = ?"
LAST = "SELECT time, kind, text FROM event WHERE experiment = ? AND kind = ? ORDER BY number"


@dataclass(frozen=True)
class Event:
    """Something that happened, in one sentence."""

    time: float
    kind: str
    text: str


class EventLog:
    """The newest events of one experiment in a file, in order of arrival."""

    def __init__(self, file: StoreFile, experiment: int) -> None:
        self._file = file
        self._experiment = experiment

    def add_events(self, events: Sequence[Event]) -> None:
        """Append events, in this thread's transaction or in a commit that need not be durable."""
        if not events:
            return
        rows = [(self._experiment, e.time, e.kind, _shorten_text(e.text)) for e in events]

        def work() -> None:
            self._file.connection.executemany(INSERT, rows)
            self._file.connection.execute(OLDEST, (self._experiment, self._experiment, MAX_EVENTS))

        self._file.run_in_commit(work, durable=False)

    def newest_number(self) -> int:
        """Return the number of the last event, which rises with each; 0 before the first."""
        return int(self._file.read_rows(NEWEST, (self._experiment,))[0][0])

    def read_between(self, after: float, until: float) -> list[Event]:
        """Read the events later than one time, up to another, oldest first."""
        return [
            Event(*row) for row in self._file.read_rows(BETWEEN, (self._experiment, after, until))
        ]

    def read_kind(self, kind: str) -> list[Event]:
        """Read the events of a kind, in order of arrival."""
        return [Event(*row) for row in self._file.read_rows(LAST, (self._experiment, kind))]


def _shorten_text(text: str) -> str:
    """Return a text that a file can store, cut to the maximal length."""
    whole = text.encode(errors="replace").decode()
    return whole if len(whole) <= MAX_TEXT_LENGTH else whole[: MAX_TEXT_LENGTH - 1] + "…"


def list_names(names: Sequence[str]) -> str:
    """List some names in a sentence."""
    n_more = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {n_more} more" if n_more > 0 else "")


# --- the time series

LATER = "DELETE FROM history WHERE experiment = ? AND scale = ? AND time > ?"
NEWEST_POINTS = "SELECT max(time) FROM history WHERE experiment = ? AND scale = ?"
COUNT = "SELECT count(*) FROM history WHERE experiment = ? AND scale = ?"
INSERT_POINT = "INSERT INTO history (time, arms, point, experiment, scale) VALUES (?, ?, ?, ?, ?)"
# the oldest row becomes the newest in its place, so that the file does not grow
REPLACE = (
    "UPDATE history SET time = ?, arms = ?, point = ? WHERE number = (SELECT number FROM history "
    "WHERE experiment = ? AND scale = ? ORDER BY time LIMIT 1)"
)
POINTS_BETWEEN = (
    "SELECT time, arms, point FROM history WHERE experiment = ? AND scale = ? "
    "AND time > ? AND time <= ? AND time / scale % ? = 0 ORDER BY time"
)


@dataclass(frozen=True)
class HistoryPoint:
    """The state at a time, in Unix seconds; arms: the number of the list of arms it refers to."""

    time: int
    arms: int
    data: bytes


class HistoryPoints:
    """The time series of one experiment in a file."""

    def __init__(self, file: StoreFile, experiment: int) -> None:
        self._file = file
        self._experiment = experiment

    def add_point(self, point: HistoryPoint, scales: Sequence[tuple[int, int]]) -> None:
        """Add a point to each scale (its step, its maximal number) that has none in this step yet.

        Later points come from a clock that was ahead, and are deleted. The point survives this
        process at once, and a power failure with a later commit.
        """

        def work() -> None:
            execute = self._file.connection.execute
            for step, most in scales:
                place = self._experiment, step
                execute(LATER, (*place, point.time))
                (newest,) = execute(NEWEST_POINTS, place).fetchone()
                if newest is None or newest // step < point.time // step:
                    (count,) = execute(COUNT, place).fetchone()
                    statement = INSERT_POINT if count < most else REPLACE
                    execute(statement, (point.time, point.arms, point.data, *place))

        self._file.run_in_commit(work, durable=False)

    def read_between(
        self, step: int, after: float, until: float, every: int = 1
    ) -> list[HistoryPoint]:
        """Read the points of a scale later than one time, up to another, in order of time.

        every: only one of so many steps, always the same.
        """
        rows = self._file.read_rows(POINTS_BETWEEN, (self._experiment, step, after, until, every))
        return [HistoryPoint(*row) for row in rows]

    def newest_point(self, step: int) -> HistoryPoint | None:
        """Return the last point of a scale."""
        return self._read_point("ORDER BY time DESC LIMIT 1", step)

    def oldest_point(self, step: int) -> HistoryPoint | None:
        """Return the first point of a scale that is stored."""
        return self._read_point("ORDER BY time LIMIT 1", step)

    def _read_point(self, order: str, step: int) -> HistoryPoint | None:
        query = "SELECT time, arms, point FROM history WHERE experiment = ? AND scale = ? "
        rows = self._file.read_rows(query + order, (self._experiment, step))
        return HistoryPoint(*rows[0]) if rows else None
