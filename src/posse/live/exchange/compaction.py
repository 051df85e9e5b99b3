"""Compaction: an origin folds the entries of its old incarnations into a base.

A base has the closed sums of the incarnations that it covers, and their numbers. Whoever takes it
drops their entries, so that a decision counts in its entry or in the base, never in both. An entry
may be folded only when nobody will write it again: no decision of it is open on this disk, or, if
it came back from neighbours, it has not changed for long. Neighbours must hold no larger versions:
then no other copy of this disk has written anything that is not here.

A base is an entry with a number of its own, which this disk may write until a neighbour shows a
larger version. Then the next fold begins another one, as it does when a base has no room. What came
back folds into bases of its own, which nobody writes again: if another copy of the disk has folded
some of it, too, one of the two bases is dropped whole, and nothing that this disk wrote is in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from posse.live.exchange.digests import Neighbour
from posse.live.exchange.message_validation import LARGEST_ORIGIN
from posse.live.exchange.messages import MOST_NAMES, NO_VERSION, Entry, Key, row_size
from posse.live.exchange.own_incarnations import LARGEST_OWN, NONCE_BITS, OwnIncarnations
from posse.live.ledger import LARGEST_SUM, is_side_row, plus, shift_ledger

Neighbours = Mapping[str, Neighbour]  # by name
DAY = 86_400.0  # seconds
ABANDONED_WINDOWS = 2  # a living twin closes its decisions after one, and tells it a tick later
MANY = 4  # times `fold_above`, beyond which an agent that starts again and again compacts at once
MOST_AT_ONCE = 64  # entries: requests wait meanwhile
LARGEST_ROWS = LARGEST_OWN * 9 // 5  # bytes of the sums of a base, beside its numbers


@dataclass
class Compaction:
    """Decides which own entries are folded, and folds them."""

    own: OwnIncarnations
    fold_above: int = 8  # own entries
    most_unfolded: int = 256  # own entries, where it is never certain that a decision is closed
    most_names: int = MOST_NAMES  # incarnations that a base covers
    every: int = 60  # ticks
    quiet: float = DAY  # seconds for which an entry that came back must not have changed
    longest_rest: float = 300.0  # seconds for which a living twin may rest, and tell nothing
    window: float | None = None  # the reward window, in seconds
    twin_seen: float | None = None  # when a second agent of this name was last noticed
    _began: float = math.inf  # when it was first asked whether there is something to fold
    _changed_at: dict[int, float] = field(default_factory=dict)  # of entries that came back
    _told_at: float = -math.inf  # when the last of these changes was told
    _first_change: float | None = None  # of one that came back, after all had shown what they hold
    _stuck: int = 0  # entries of which the last fold took none: the next one waits for its turn

    def note_change(self, entry: Entry, now: float, neighbours: Collection[Neighbour]) -> None:
        """Note that a neighbour told an own entry that this disk may not write.

        What a process that is gone had told comes within a few ticks of the time when all
        neighbours have shown what they hold. Another agent of this name goes on and on.
        """
        self._changed_at[entry.incarnation] = self._told_at = now
        if self.own.resting or not all(neighbour.has_shown_all for neighbour in neighbours):
            return
        if self._first_change is None:
            self._first_change = now
        elif now - self._first_change > self.longest_rest / 10:
            self.twin_seen = now

    def is_due(self, tick: int, now: float) -> bool:
        """Whether there may be something to fold; cheap, because every tick asks."""
        self._began = min(self._began, now)
        _, entries = self._split_entries()
        size = self.own.replica.sizes[self.own.identity]
        much = len(entries) > MANY * self.fold_above or size > LARGEST_ORIGIN // 2
        # Where another agent of this name is at work, it may write what would be folded here.
        if self.own.resting or self._changed_lately(entries, now, much):
            return False
        if tick % self.every and len(entries) <= max(MANY * self.fold_above, self._stuck):
            return False
        return (
            len(entries) > self.fold_above
            or much
            or len(self.own.writable) > MANY * self.fold_above  # also without evidence
            or (self.window is not None and any(map(self._is_left_open, entries)))
        )

    def fold(self, open_incarnations: Collection[int], neighbours: Neighbours, now: float) -> None:
        """Fold the entries that nobody will write again into bases."""
        bases, unfolded = self._split_entries()
        finished = [e for e in unfolded if self._is_finished(e, open_incarnations, now)]
        oldest = self._oldest_writable(unfolded)
        finished += [entry for entry in oldest if entry not in finished]
        self._forget_empty(open_incarnations)
        settled = self._find_settled([*finished, *bases], neighbours, now)
        finished = [entry for entry in finished if entry.key in settled][:MOST_AT_ONCE]
        came_back = [e for e in finished if e.incarnation not in self.own.writable]
        if len(came_back) == 1 and not self._is_left_open(came_back[0]):  # nothing would change
            finished.remove(came_back[0])
        may_write = all(base.key in settled for base in bases)
        self._stuck = 0 if may_write and self._write_bases(bases, finished) else len(unfolded)

    def _find_settled(self, entries: list[Entry], neighbours: Neighbours, now: float) -> set[Key]:
        """Return the keys of entries of which no other copy of this disk wrote a larger version.

        Neighbours that were heard lately have shown all that they hold of this agent, it is here,
        and one of them holds this version. Of what came back, a neighbour that was not heard yet
        may hold more: it is waited for, for a day.
        """
        own = self.own
        # Numbers of a later epoch would be doubled, not halved: the clock was ahead.
        entries = [entry for entry in entries if entry.epoch <= own.epochs.epoch]
        if not neighbours:  # nobody knows of an entry that came back
            return {entry.key for entry in entries if entry.incarnation in own.writable}
        heard = [n for n in neighbours.values() if now - n.heard_at <= DAY]
        shown = {item for n in heard for item in n.holds.items() if item[0][0] == own.identity}
        here = all(own.replica.holds(*item) for item in shown)
        if not here or not all(neighbour.has_shown_all for neighbour in heard):
            return set()
        young = now - self._began <= DAY
        if young and not all(neighbour.has_shown_all for neighbour in neighbours.values()):
            entries = [entry for entry in entries if entry.incarnation in own.writable]
        return {entry.key for entry in entries if (entry.key, entry.version) in shown}

    def _split_entries(self) -> tuple[list[Entry], list[Entry]]:
        """Return the bases that this disk may write, and the entries that may be folded."""
        own = self.own
        entries = own.replica.of_origin(own.identity)
        bases = [entry for entry in entries if entry.covers and entry.incarnation in own.writable]
        # A base that came back and is half full would fold alone, again and again.
        full = {entry.incarnation for entry in entries if 2 * len(entry.covers) > self.most_names}
        settled = {own.present, *full, *(base.incarnation for base in bases)}
        return bases, [entry for entry in entries if entry.incarnation not in settled]

    def _is_finished(self, entry: Entry, open_incarnations: Collection[int], now: float) -> bool:
        number = entry.incarnation
        if number in self.own.writable:
            return number not in open_incarnations
        unchanged = now - self._changed_at.setdefault(number, now)
        if self.window is not None and self._is_left_open(entry):
            return unchanged > self._settling_time()
        return unchanged >= self.quiet + ABANDONED_WINDOWS * (self.window or 0.0)

    def _is_left_open(self, entry: Entry) -> bool:
        """Whether decisions are open in an entry that came back.

        Their process or its disk is gone: they leave the belief, or they would stay in it as
        failures for ever.
        """
        rows = [row for name, row in entry.ledger().items() if not is_side_row(name)]
        came_back = entry.incarnation not in self.own.writable
        return came_back and any(self.own.bounds.open_count(row) > 0 for row in rows)

    def _settling_time(self) -> float:
        """Return the seconds in which a living agent of this name would have changed something."""
        window = self.window
        return self.quiet if window is None else ABANDONED_WINDOWS * window + self.longest_rest

    def _changed_lately(self, entries: list[Entry], now: float, much: bool) -> bool:
        """Whether an own entry that this disk may not write has changed, or was met, lately."""
        for entry in entries:
            if entry.incarnation not in self.own.writable:
                self._changed_at.setdefault(entry.incarnation, now)
        # An agent that starts again and again always meets some: it must fold at last.
        times = [self._told_at] if much else self._changed_at.values()
        return any(now - at <= self._settling_time() for at in times)

    def _oldest_writable(self, unfolded: list[Entry]) -> list[Entry]:
        """Return the oldest entries beyond half the quota, or the most that may stay unfolded.

        Without a reward window a decision may be open for ever: here those of long ago end.
        """
        by_number = {entry.incarnation: entry for entry in unfolded}
        newest = [by_number[n] for n in reversed(self.own.writable) if n in by_number]
        sizes = itertools.accumulate(entry.size() for entry in newest)
        room = sum(size <= LARGEST_ORIGIN // 2 for size in sizes)
        return newest[min(room, self.most_unfolded) if self.window is None else room :]

    def _forget_empty(self, open_incarnations: Collection[int]) -> None:
        """Forget the names of incarnations that never had evidence, and have nothing open."""
        held = self.own.replica.incarnations.get(self.own.identity, ())
        busy = {*held, *open_incarnations, self.own.present}
        self.own.remove([number for number in self.own.writable if number not in busy])

    def _write_bases(self, bases: list[Entry], entries: list[Entry]) -> bool:
        """Fold each entry into the first base with room for it, or a new one; returns whether."""
        own = self.own
        changed: dict[int, Entry] = {}
        names: list[int] = []
        for entry in entries:
            mine = entry.incarnation in own.writable
            for nth, base in enumerate(bases):
                alike = mine == (base.incarnation in own.writable)
                if alike and (folded := self._fold_into(base, entry)):
                    bases[nth] = folded
                    break
            else:
                key = own.identity, own.draw_number()
                folded = self._fold_into(Entry.from_ledger(key, NO_VERSION, {}), entry)
                if folded is None:  # as large as a base may be
                    continue
                bases.append(folded)
                own.writable.update({key[1]: None} if mine else {})
            changed[folded.incarnation] = folded
            names.append(entry.incarnation)
        own.remove(names)
        for base in changed.values():
            own.replica.keep(base)
        return bool(changed)

    def _fold_into(self, base: Entry, entry: Entry) -> Entry | None:
        """Return a base with an entry folded into it; None: a message could not carry it."""
        epoch = self.own.epochs.epoch
        bounds = self.own.bounds
        rows = shift_ledger(entry.ledger(), epoch - entry.epoch, bounds)
        closed = {
            name: row if is_side_row(name) else bounds.closed_row(row) for name, row in rows.items()
        }
        sums = plus(shift_ledger(base.ledger(), epoch - base.epoch, bounds), closed)
        covers = (*base.covers, *entry.covers, entry.incarnation)
        size = sum(row_size(name, len(row)) for name, row in sums.items())
        largest = max((abs(value) for row in sums.values() for value in row), default=0)
        few = len(covers) <= self.most_names
        allowed = all(map(bounds.allow_row, sums.keys(), sums.values()))
        if not (few and allowed and size <= LARGEST_ROWS and largest <= LARGEST_SUM):
            return None
        # Larger than the versions of all bases that it covers.
        (made, seq, _) = base.version
        (more, other_seq, _) = entry.version if entry.covers else (1, 0, 0)
        version = made + more, max(seq, other_seq) + 1, self.own.draw(NONCE_BITS)
        return Entry.from_ledger(base.key, version, sums, epoch, covers)
