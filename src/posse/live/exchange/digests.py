"""Digests: what a neighbour holds, shown in turns, each complete for its range of keys."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from posse.live.exchange.messages import END, FIRST, Entry, Key, OriginsMessage, wire_size

Holding = tuple[str, int, int]  # origin, incarnation, seq


@dataclass(frozen=True)
class Page:
    """All that is held from one key up to, but without, another."""

    holds: tuple[Holding, ...] = ()
    first: Key = FIRST
    last: Key = END

    @property
    def size(self) -> int:
        """The most bytes it takes on the wire."""
        return sum(map(holding_bytes, self.holds))


class Pages:
    """A digest page by page: as much as fits into a message, then what comes after it."""

    def __init__(self) -> None:
        self._next: Key | None = None  # where the next page begins; None: at the start

    @property
    def open(self) -> bool:
        """Whether there are more pages of the digest that was begun."""
        return self._next is not None

    def turn(self, order: Sequence[Key], entries: Mapping[Key, Entry], room: int) -> Page:
        """The next page."""
        first = self._next or FIRST
        holds: list[Holding] = []
        for key in order[bisect.bisect_left(order, first) :]:
            holding = (*key, entries[key].seq)
            room -= holding_bytes(holding)
            if room < 0:
                self._next = key
                return Page(tuple(holds), first, key)
            holds.append(holding)
        self._next = None
        return Page(tuple(holds), first, END)


def holding_bytes(holding: Holding) -> int:
    """The most bytes it takes on the wire."""
    return 30 + wire_size(holding[0])


def within(key: Key, first: Key, last: Key) -> bool:
    """Whether a key is in a range."""
    return first <= key and (last == END or key < last)


@dataclass
class Neighbour:
    """What one neighbour is known to hold; all volatile."""

    holds: dict[Key, int] = field(default_factory=dict)  # -> seq
    last_heard: float | None = None
    shown_up_to: Key = FIRST  # its digest, without a gap since the process began
    shown_all: bool = False  # whether all of it was shown

    def note(self, key: Key, seq: int) -> None:
        """It holds at least this."""
        self.holds[key] = max(seq, self.holds.get(key, 0))

    def lacking(self, entries: Mapping[Key, Entry]) -> list[Entry]:
        """The entries that it is not known to hold."""
        return [entry for key, entry in entries.items() if entry.seq > self.holds.get(key, 0)]

    def hear(self, message: OriginsMessage, most: int) -> None:
        """What it says that it holds."""
        if message.complete:
            first = message.first
            last = message.last
            # replaced, not merged: after a rolled-back disk it holds less than it acknowledged
            if (first, last) == (FIRST, END):
                self.holds = {}
            else:
                kept = self.holds.items()
                self.holds = {key: seq for key, seq in kept if not within(key, first, last)}
            if first <= self.shown_up_to:
                self.shown_all = self.shown_all or last == END
                self.shown_up_to = FIRST if last == END else max(last, self.shown_up_to)
        for origin, incarnation, seq in message.holds:
            key = origin, incarnation
            if key in self.holds or len(self.holds) < most:
                self.note(key, seq)
