"""Own evidence: an agent's incarnations, and which of them its disk may write.

Every decision belongs for ever to the incarnation in which it was made, a random number that each
process draws: its start, its reward, its closing and its cancelling change that entry and no other.
So a decision counts once, whichever copies of a disk come back, because of an entry only one
version counts.

After a start the entries of earlier incarnations *rest*: this disk may be an old copy, and then
neighbours hold larger versions of them. Rewards that arrive meanwhile wait (`waiting`): they are on
disk and count here, but no neighbour is told of them before the rest is over. An own entry that a
neighbour shows in a larger version is taken whole, and its incarnation is *superseded*: this disk
never writes it again, and the decisions that it has open in it no longer count.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posse.live.exchange.messages import LARGEST_ENTRY, NO_VERSION, Entry, Key, row_size
from posse.live.exchange.replica import Replica
from posse.live.ledger import (
    LARGEST_SUM,
    MOST_ARMS,
    PER_UNIT,
    Bounds,
    Epochs,
    Ledger,
    is_side_row,
    negative,
    plain,
    shift_ledger,
)

INCARNATION_BITS = 62
NONCE_BITS = 48
LARGEST_OWN = LARGEST_ENTRY // 2  # bytes beyond which a new incarnation begins


@dataclass
class Sums:
    """Sums of evidence by arm that are cheap to change, in numbers of one epoch."""

    epoch: int = 0
    rows: dict[str, list[int]] = field(default_factory=dict)  # of 0: room that is reserved
    observations: int = 0  # added so far

    def has_room(self, arm: str, values: Sequence[int]) -> bool:
        """Whether a message can carry it with this: there may be many arms, and large sums."""
        row = self.rows.get(arm)
        if row is None:  # its room was reserved, but a restart forgets rows of zeros
            return self.has_room_for(1, LARGEST_ENTRY)
        for mine, value in zip(row, values, strict=True):
            if not -LARGEST_SUM <= mine + value <= LARGEST_SUM:
                return False
        return True

    def has_room_for(self, n_new: int, most: int = LARGEST_OWN) -> bool:
        """Whether it is smaller than so many bytes, and may have so many rows more."""
        size = sum(row_size(arm, len(row)) for arm, row in self.rows.items())
        return len(self.rows) + n_new <= MOST_ARMS and size <= most

    def add(self, arm: str, values: Sequence[int]) -> None:
        """Add to an arm."""
        row = self.rows.get(arm)
        if row is None:
            self.rows[arm] = list(values)
        else:
            for nth, value in enumerate(values):
                row[nth] += value
        self.observations += 1

    def ledger(self) -> Ledger:
        """Return the sums; arms whose sums are zero are left out."""
        return {arm: tuple(row) for arm, row in self.rows.items() if any(row)}


@dataclass
class OwnEntry(Sums):
    """The entry of an incarnation that this disk may write."""

    made: int = 0  # decisions begun in it
    seq: int = 0  # versions written


@dataclass
class OwnIncarnations:
    """The incarnations of this agent that its disk may write, and rewards that wait for a rest."""

    identity: str
    replica: Replica
    bounds: Bounds
    epochs: Epochs
    draw: Callable[[int], int]
    present: int = 0  # the incarnation of this process; 0: none yet
    resting: bool = False
    # that this disk may write, the oldest first; None: not read from its entry yet
    writable: dict[int, OwnEntry | None] = field(default_factory=dict)
    _begun_here: set[int] = field(default_factory=set)  # in this process: they do not rest
    _waiting: dict[int, Sums] = field(default_factory=dict)
    _changed: dict[int, OwnEntry] = field(default_factory=dict)  # to be written

    def incarnation(self) -> int:
        """Return the present incarnation; one is drawn if there is none."""
        if not self.present:
            self.present = self.draw_number()
            self._begun_here.add(self.present)
            self.writable[self.present] = OwnEntry(self.epochs.epoch)
        return self.present

    def draw_number(self) -> int:
        """Draw a number that no own entry has."""
        while True:
            drawn = 1 + self.draw(INCARNATION_BITS)
            key = self.identity, drawn
            held = key in self.replica.entries or self.replica.is_covered(key)
            if not held and drawn not in self.writable:  # else a test repeats its random numbers
                return drawn

    def begin_decision(self, arm: str, side_rows: Sequence[str] = ()) -> int:
        """Note that a decision for an arm is made now; returns its incarnation.

        side_rows: those to which something of it may be added, too. The room for its reward is
        reserved now, in a new incarnation if a message could not carry more arms, or larger sums:
        later nothing can be refused for lack of room.
        """
        names = (arm, *side_rows)
        entry = self._entry(self.incarnation())
        new = [name for name in names if name not in entry.rows]
        payable = (entry.made + 1) * self.bounds.largest <= LARGEST_SUM
        if not payable or (new and not entry.has_room_for(len(new))):
            self.present = 0
            entry = self._entry(self.incarnation())
            new = list(names)
        for name in new:
            entry.add(name, [0] * self.bounds.count_numbers(name))
        # Written with the next evidence: a version counts only when a neighbour is told of it.
        entry.made += 1
        return self.present

    def observe(
        self, arm: str, values: Sequence[int], incarnation: int = 0, at: float | None = None
    ) -> str | None:
        """Add a part of a decision to the entry of its incarnation; returns why not, if not."""
        if not incarnation and not self._entry(self.incarnation()).has_room(arm, values):
            self.present = 0
        number = incarnation or self.incarnation()
        if number not in self.writable:
            return "superseded"
        sums: Sums = self._entry(number)
        if self.resting and number not in self._begun_here:
            sums = self._waiting.setdefault(number, Sums(self.epochs.epoch))
        if self.epochs.fading:
            self._follow_time(number, sums)
            values = self.epochs.weigh_values(values, at, sums.epoch, self.bounds)
            if values[-1] <= 0 and isinstance(sums, OwnEntry):
                values = self._limit_change(sums, arm, values)
        if not any(values):  # of so long ago that it is worth nothing
            return None
        if not sums.has_room(arm, values):
            return "evidence_full"
        sums.add(arm, values)
        if isinstance(sums, OwnEntry):
            self._changed[number] = sums
        self.replica.count(arm, values, sums.epoch)
        return None

    def write(self) -> None:
        """Enter changed sums into the replica, each as a new version.

        Only evidence makes a version: a decision that adds none yet must not supersede the same
        evidence in a copy of the disk.
        """
        for number, entry in self._changed.items():
            key = self.identity, number
            ledger = entry.ledger()
            # Without evidence there is no entry: a process that starts again and again leaves none.
            if ledger or key in self.replica.entries:
                entry.seq += 1
                # A restart forgets how many decisions were begun without evidence: of two copies
                # of a disk the one that knows of more decisions is kept.
                rows = (row for name, row in ledger.items() if not is_side_row(name))
                counted = sum(row[-1] for row in rows) // PER_UNIT
                entry.made = max(entry.made, counted)
                version = entry.made, entry.seq, self.draw(NONCE_BITS)
                written = Entry.from_ledger(key, version, ledger, entry.epoch)
                self.replica.keep(written, counted=True)
        self._changed = {}

    def supersede(self, incarnation: int) -> int:
        """Never write an incarnation again; returns how many parts of decisions had waited."""
        self.write()
        del self.writable[incarnation]
        if incarnation == self.present:
            self.present = 0
        waiting = self._waiting.pop(incarnation, None)
        if waiting is None:
            return 0
        self._take_back(waiting)
        return waiting.observations

    def end_rest(self) -> None:
        """Add the rewards that waited to the entries of their decisions."""
        self.resting = False
        for number, waiting in self._waiting.items():
            entry = self._entry(number)
            self._follow_time(number, entry)
            self._take_back(waiting)
            later = shift_ledger(waiting.ledger(), max(0, entry.epoch - waiting.epoch))
            if self.epochs.fading:
                later = {arm: self._limit_change(entry, arm, row) for arm, row in later.items()}
            for arm, values in later.items():
                entry.add(arm, values)
            self.replica.add(later, entry.epoch)
            self._changed[number] = entry
        self._waiting = {}

    def forget_faded(self, incarnations: Iterable[int]) -> None:
        """Begin anew after entries that read as nothing were dropped."""
        for number in incarnations:
            if number in self.writable:
                self.writable[number] = None
                self._changed.pop(number, None)
            if number == self.present:
                self.present = 0

    def remove(self, incarnations: Iterable[int]) -> None:
        """Never write these incarnations again: they are compacted, or had no evidence."""
        self.write()
        for number in incarnations:
            self.writable.pop(number, None)

    def parts(self) -> dict[str, Any]:
        """Return the durable parts beside the entries."""
        waiting = [
            [number, sums.epoch, sums.observations, plain(sums.ledger())]
            for number, sums in self._waiting.items()
        ]
        return {"own": list(self.writable), "waiting": waiting}

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Continue in a new process: what is on disk rests until neighbours were asked."""
        self.resting = True
        self._read_parts(parts)

    def rollback(self, parts: Mapping[str, Any]) -> None:
        """Return to what is on disk, with the replica; in the same process."""
        self.write()
        for waiting in self._waiting.values():
            self._take_back(waiting)
        self.replica.rollback()
        self._read_parts(parts)
        # A commit may fail in the tick that ends the rest: then what waited waits on.
        self.resting = self.resting or bool(self._waiting)
        self.present = 0  # the room that was reserved in it is forgotten

    def waiting_ledgers(self) -> list[tuple[int, Ledger]]:
        """Return the sums that wait, each with its epoch."""
        return [(sums.epoch, sums.ledger()) for sums in self._waiting.values()]

    def waiting_keys(self) -> set[Key]:
        """Return the keys of the entries that change when the rest is over."""
        return {(self.identity, number) for number in self._waiting}

    def _read_parts(self, parts: Mapping[str, Any]) -> None:
        self._changed = {}
        self.writable = dict.fromkeys(parts["own"])
        self._waiting = {}
        for number, epoch, observations, rows in parts["waiting"]:
            self._waiting[number] = Sums(epoch, plain(rows), observations)
            self.replica.add(rows, epoch)

    def _entry(self, number: int) -> OwnEntry:
        """Return the entry of an incarnation, read from the replica when it is first needed."""
        entry = self.writable[number]
        if entry is None:
            nothing = Entry.from_ledger((self.identity, number), NO_VERSION, {}, self.epochs.epoch)
            written = self.replica.entries.get(nothing.key, nothing)
            rows = plain(written.ledger())
            entry = self.writable[number] = OwnEntry(written.epoch, rows, 0, *written.version[:2])
        return entry

    def _follow_time(self, number: int, sums: Sums) -> None:
        """Bring sums to the present epoch: all numbers are halved for every epoch that passed."""
        passed = self.epochs.epoch - sums.epoch
        if not self.epochs.fading or passed <= 0:
            return
        self._take_back(sums)
        # What waits is a change, perhaps a negative one: only the entry it is added to has bounds.
        bounds = None
        if isinstance(sums, OwnEntry):
            bounds = self.bounds
            self._changed[number] = sums
        left = plain(shift_ledger(sums.ledger(), passed, bounds))
        # Also rows of zeros, which are room that is reserved.
        sums.rows = {arm: left.get(arm, [0] * len(row)) for arm, row in sums.rows.items()}
        sums.epoch = self.epochs.epoch
        self.replica.add(sums.ledger(), sums.epoch)

    def _limit_change(self, entry: OwnEntry, arm: str, values: Sequence[int]) -> tuple[int, ...]:
        """Return what a change adds to an entry so that it stays within its bounds.

        Where evidence fades, the parts of a decision are rounded apart, or weighed at two epochs.
        Neighbours would refuse an entry of less than nothing, or with more closed than counted.
        """
        row = entry.rows.get(arm, [0] * len(values))
        after = self.bounds.clip_entry(list(map(operator.add, row, values)))
        return tuple(map(operator.sub, after, row))

    def _take_back(self, sums: Sums) -> None:
        """Take sums out of the total of the replica."""
        self.replica.add(negative(sums.ledger()), sums.epoch)
