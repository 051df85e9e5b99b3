"""Compaction: an origin folds the entries of its old incarnations into one base.

A base has the closed sums of the incarnations that it covers, and their names. Whoever takes it
drops their entries, so that a decision counts in its entry or in the base, never in both. An entry
may be folded only when nobody will write it again: no decision of it is open on this disk, or, if
it came back from neighbours, it has not changed for long. Neighbours must hold no larger versions:
then no other copy of this disk has written anything that is not here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from posse.live.exchange.digests import Neighbour
from posse.live.exchange.messages import (
    BASE,
    LARGEST_ENTRY,
    MOST_NAMES,
    NO_VERSION,
    Entry,
    row_size,
)
from posse.live.exchange.own_incarnations import NONCE_BITS, OwnIncarnations
from posse.live.ledger import (
    LARGEST_SUM,
    MOST_ARMS,
    Ledger,
    is_side_row,
    plus,
    shift_ledger,
    total,
)

DAY = 86_400.0  # seconds
ABANDONED_WINDOWS = 2  # a living twin closes its decisions after one, and tells it a tick later
MANY = 4  # times `fold_above`, beyond which an agent that starts again and again compacts at once
MOST_AT_ONCE = 64  # entries: neighbours must learn the names of a base before it drops the oldest
LARGEST_ROWS = LARGEST_ENTRY * 9 // 10  # bytes of the sums of a base, beside its names
RISES_OF_A_TWIN = 2  # new versions of incarnations that no process of this disk writes


@dataclass
class Compaction:
    """Decides which own entries are folded, and folds them."""

    own: OwnIncarnations
    fold_above: int = 8  # own entries
    most_unfolded: int = 256  # own entries, where it is never certain that a decision is closed
    every: int = 60  # ticks
    quiet: float = DAY  # seconds for which an entry that came back must not have changed
    longest_rest: float = 300.0  # seconds for which a living twin may rest, and tell nothing
    full: bool = False  # whether entries could not be folded, because no message can carry the base
    twin_seen: float | None = None  # when a second agent of this name was last noticed
    _changed_at: dict[int, float] = field(default_factory=dict)  # of entries that came back
    _rises: int = 0
    _stuck: int = 0  # entries of which the last fold took none: the next one waits for its turn

    def note_change(self, entry: Entry, now: float, rested_alone: bool) -> None:
        """Note that a neighbour showed an own entry that this disk may not write.

        After the rest neighbours have shown all that a process that is gone had told them. What
        changes then is written by another agent of the same name.
        """
        self._changed_at[entry.incarnation] = now
        known = entry.key in self.own.replica.entries
        if not self.own.resting and (known or not rested_alone):
            self._rises += 1
            if self._rises >= RISES_OF_A_TWIN:
                self.twin_seen = now

    def is_due(self, tick: int, now: float, window: float | None) -> bool:
        """Whether there may be something to fold; cheap, because every tick asks."""
        # Where another agent of this name is at work, both would write a base, and one be lost.
        if self.own.resting or self._changed_lately(now, window):
            return False
        entries = self._unfolded()
        if tick % self.every and len(entries) <= max(MANY * self.fold_above, self._stuck):
            return False
        names = len(self.own.writable) if window is not None else 0  # also without evidence
        return (
            len(entries) > self.fold_above
            or names > MANY * self.fold_above
            or any(self._is_abandoned(entry, now, window) for entry in entries)
        )

    def fold(
        self,
        open_incarnations: Collection[int],
        neighbours: Mapping[str, Neighbour],
        now: float,
        window: float | None,
    ) -> None:
        """Fold the entries that nobody will write again into the base."""
        own = self.own
        unfolded = self._unfolded()
        finished = [
            entry
            for entry in unfolded
            if self._is_finished(entry, open_incarnations, now, window)
            or self._is_abandoned(entry, now, window)
        ]
        if window is None:
            finished += [entry for entry in self._oldest_writable() if entry not in finished]
        else:
            self._forget_empty(open_incarnations)
        # Numbers of a later epoch would be doubled, not halved: the clock was ahead.
        finished = [entry for entry in finished if entry.epoch <= own.epochs.epoch]
        if neighbours:
            finished = [entry for entry in finished if _is_largest(entry, neighbours, now)]
        else:  # nobody confirms an entry that came back
            finished = [entry for entry in finished if entry.incarnation in own.writable]
        key = own.identity, BASE
        base = own.replica.entries.get(key) or Entry.from_ledger(key, NO_VERSION, {})
        confirmed = not neighbours or _is_largest(base, neighbours, now)
        if finished and confirmed and base.epoch <= own.epochs.epoch:
            self._write_base(base, finished)
        self._stuck = len(unfolded) if len(self._unfolded()) == len(unfolded) else 0

    def _unfolded(self) -> list[Entry]:
        """Return the own entries beside the base and the present incarnation."""
        entries = self.own.replica.of_origin(self.own.identity)
        return [e for e in entries if e.incarnation not in (BASE, self.own.present)]

    def _is_finished(
        self, entry: Entry, open_incarnations: Collection[int], now: float, window: float | None
    ) -> bool:
        number = entry.incarnation
        if number in self.own.writable:
            return window is not None and number not in open_incarnations
        least = self.quiet + ABANDONED_WINDOWS * (window or 0.0)
        return now - self._changed_at.setdefault(number, now) >= least

    def _is_abandoned(self, entry: Entry, now: float, window: float | None) -> bool:
        """Whether decisions are open in an entry that came back, whose windows ended long ago.

        Their process or its disk is gone: they leave the belief, or they would stay in it as
        failures for ever.
        """
        return (
            window is not None
            and entry.incarnation not in self.own.writable
            and self._has_open_decisions(entry)
            and now - self._changed_at.setdefault(entry.incarnation, now)
            > self._settling_time(window)
        )

    def _has_open_decisions(self, entry: Entry) -> bool:
        rows = ((name, row) for name, row in entry.ledger().items() if not is_side_row(name))
        return any(self.own.bounds.open_count(row) > 0 for _, row in rows)

    def _settling_time(self, window: float | None) -> float:
        """Return the seconds in which a living agent of this name would have changed something."""
        return self.quiet if window is None else ABANDONED_WINDOWS * window + self.longest_rest

    def _changed_lately(self, now: float, window: float | None) -> bool:
        """Whether an own entry that this disk may not write has changed, or was met, lately."""
        for entry in self._unfolded():
            if entry.incarnation not in self.own.writable:
                self._changed_at.setdefault(entry.incarnation, now)
        return any(now - at <= self._settling_time(window) for at in self._changed_at.values())

    def _oldest_writable(self) -> list[Entry]:
        """Return the oldest entries beyond the most that may stay unfolded.

        Without a reward window a decision may be open for ever: here those of long ago end.
        """
        by_number = {entry.incarnation: entry for entry in self._unfolded()}
        oldest = [by_number[number] for number in self.own.writable if number in by_number]
        return oldest[: max(0, len(oldest) - self.most_unfolded)]

    def _forget_empty(self, open_incarnations: Collection[int]) -> None:
        """Forget the names of incarnations that never had evidence, and have nothing open."""
        held = {entry.incarnation for entry in self.own.replica.of_origin(self.own.identity)}
        busy = {*held, *open_incarnations, self.own.present}
        self.own.remove([number for number in self.own.writable if number not in busy])

    def _write_base(self, base: Entry, entries: list[Entry]) -> None:
        """Fold entries into the base, but none with which a message could not carry it."""
        own = self.own
        epoch = own.epochs.epoch
        folded = shift_ledger(base.ledger(), epoch - base.epoch, own.bounds)
        names: list[int] = []
        for entry in entries:
            if len(names) == MOST_AT_ONCE:
                break
            sums = plus(folded, self._closed_rows(entry))
            if _fits(sums):
                folded = sums
                names.append(entry.incarnation)
            else:
                self.full = True
        if not names:
            return
        covers = (*base.covers, *names)[-MOST_NAMES:]
        (made, seq, _) = base.version
        version = made + len(names), seq + 1, own.draw(NONCE_BITS)
        own.remove(names)
        own.replica.keep(Entry.from_ledger(base.key, version, folded, epoch, covers))

    def join_bases(self, mine: Entry, theirs: Entry) -> Entry | None:
        """Return the sum of two bases that cover nothing in common; None: one is to be given up.

        A lost disk may fold before it hears of the base that its neighbours hold.
        """
        epoch = self.own.epochs.epoch
        bases = theirs, mine
        covers = (*theirs.covers, *mine.covers)
        # A base that covers the most names may have dropped the names of others.
        apart = len(set(covers)) == len(covers) <= MOST_NAMES
        sums = total(shift_ledger(b.ledger(), epoch - b.epoch, self.own.bounds) for b in bases)
        if not apart or max(b.epoch for b in bases) > epoch or not _fits(sums):
            return None
        made = sum(b.version[0] for b in bases)
        version = made, max(b.version[1] for b in bases) + 1, self.own.draw(NONCE_BITS)
        return Entry.from_ledger(mine.key, version, sums, epoch, covers)

    def _closed_rows(self, entry: Entry) -> Ledger:
        """Return what is closed of an entry, in numbers of the present epoch."""
        bounds = self.own.bounds
        rows = shift_ledger(entry.ledger(), self.own.epochs.epoch - entry.epoch, bounds)
        return {
            name: row if is_side_row(name) else bounds.closed_row(row) for name, row in rows.items()
        }


def _fits(rows: Ledger) -> bool:
    """Whether a message can carry a base of these sums."""
    size = sum(row_size(name, len(row)) for name, row in rows.items())
    largest = max((abs(value) for row in rows.values() for value in row), default=0)
    return len(rows) <= MOST_ARMS and size <= LARGEST_ROWS and largest <= LARGEST_SUM


def _is_largest(entry: Entry, neighbours: Mapping[str, Neighbour], now: float) -> bool:
    """Whether neighbours that were heard lately hold this version, and none a larger one.

    A larger one would be of another copy of this disk. One that holds less is only behind. Before
    all of them have shown what they hold, nobody knows: one may have a base that is not here.
    """
    heard = [n for n in neighbours.values() if n.heard_at is not None and now - n.heard_at <= DAY]
    if not all(neighbour.answered or neighbour.shown_all for neighbour in heard):
        return False
    held = [neighbour.holds.get(entry.key, NO_VERSION) for neighbour in heard]
    return bool(held) and max(held) == entry.version
