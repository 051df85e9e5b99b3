"""What happened to one experiment, an event log in the store: the newest, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posse.live.store.file import StoreFile

MOST = 500  # events of an experiment
LONGEST = 1000  # characters of a sentence
NAMED = 5  # arms in one

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


class Events:
    """The events of one experiment in a file, in the order in which they came."""

    def __init__(self, file: StoreFile, experiment: int) -> None:
        self._file, self._experiment = file, experiment

    def add(self, events: Sequence[Event]) -> None:
        """Keep some more; in this thread's transaction, or in a commit that need not be durable."""
        if not events:
            return
        rows = [(self._experiment, e.time, e.kind, _kept(e.text)) for e in events]

        def work() -> None:
            self._file.connection.executemany(INSERT, rows)
            self._file.connection.execute(OLDEST, (self._experiment, self._experiment, MOST))

        self._file.run(work, durable=False)

    def newest(self) -> int:
        """The number of the last one, which rises with each; 0 before the first."""
        return int(self._file.read(NEWEST, (self._experiment,))[0][0])

    def between(self, after: float, until: float) -> list[Event]:
        """The events later than one time, up to another, oldest first."""
        return [Event(*row) for row in self._file.read(BETWEEN, (self._experiment, after, until))]

    def of(self, kind: str) -> list[Event]:
        """The events of a kind, in the order in which they came."""
        return [Event(*row) for row in self._file.read(LAST, (self._experiment, kind))]


def _kept(text: str) -> str:
    """A sentence that a file can hold."""
    whole = text.encode(errors="replace").decode()
    return whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "…"


def listed(names: Sequence[str]) -> str:
    """Some names in a sentence, as they are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
