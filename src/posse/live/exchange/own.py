"""One's own evidence: a new incarnation for each process, old ones folded into the present one.

No process goes on in an incarnation of another one: its disk may be an old copy, and then sequence
numbers that others have seen would be used twice. So that restarts do not add up for ever, the
present incarnation absorbs old ones (a fold). What each of these was worth by itself is kept in an
archive: if a neighbour comes with more of one than we knew, exactly the difference is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add

from posse.live.exchange.archive import Archive
from posse.live.exchange.books import Absorbed, Books
from posse.live.exchange.current import Current
from posse.live.exchange.ledger import Ledger, larger, minus
from posse.live.exchange.messages import Entry
from posse.live.exchange.numbers import DATED, new_incarnation

FOLDED_ABOVE = 64  # own entries
FOLDED_AT_ONCE_ABOVE = 512  # whatever neighbours have shown, and can read
MOST_NAMED = 256  # folded incarnations by name, where the others can be told by a floor
MOST_NAMED_EVER = 1024
MOST_ARCHIVED = 20_000  # arms, over all of the archive
UNTOLD = "cannot be told from what is counted"


class Own:
    """The present incarnation, and the archive of those that it or its like absorbed."""

    def __init__(
        self,
        books: Books,
        *,
        identity: str,
        experiment: str,
        largest_entry: int,
        largest_origin: int,
        clock: Callable[[], float],
        draw: Callable[[int], int],
    ) -> None:
        self.books, self.identity, self.experiment = books, identity, experiment
        self.current: Current | None = None  # None: the next observation opens one
        self.archive = Archive(books.bounds.closed)
        self.void_through = 0  # the newest own incarnation of which this disk forgot a part
        self.last_opened = 0
        self._largest_entry, self._largest_origin = largest_entry, largest_origin
        self._clock, self._draw = clock, draw

    def observe(self, arm: str, values: tuple[int, ...], made: int = 0) -> int:
        """Add one observation, of a decision made in some incarnation; the one it is added to."""
        current = self.current
        if current is None or not current.has_room(arm, values):
            current = self.open()
        current.add(arm, values)
        books = self.books
        held = books.total.get(arm)
        books.total[arm] = values if held is None else tuple(map(add, held, values))
        books.revision += 1
        return current.incarnation

    def open(self) -> Current:
        """A new incarnation, above all that are known."""
        self.write()
        own = [entry.incarnation for entry in self.books.of(self.identity)]
        above = max([DATED, self.last_opened, self.void_through, *own, *self.archive.kept])
        above = max(above, self.books.absorbed(self.identity).floor)
        number = self.last_opened = new_incarnation(self._clock(), above, self._draw)
        made = self.identity, number, self.experiment
        self.current = Current(*made, self.books.bounds, self._largest_entry, self._draw)
        return self.current

    def write(self) -> None:
        """Enter what was observed into the books, where it is counted already."""
        if self.current is not None and self.current.dirty:
            self.current.dirty = False
            self.books.keep(self.current.entry(), counted=True)

    def close(self) -> None:
        """Go on in another incarnation."""
        self.write()
        self.current = None

    def is_news(self, entry: Entry) -> bool:
        """Whether one's own words, said by another, must be looked at."""
        if self.books.absorbed(self.identity).covers(entry.incarnation, entry.seq):
            return False
        current = self.current
        if current is not None and entry.incarnation == current.incarnation:
            return not current.is_own_past(entry)
        held = self.books.entries.get(entry.key)
        return (
            held is None
            or entry.seq > held.seq
            or not self._dominates(held, entry)  # another future of a past process
        )

    def take(self, entry: Entry) -> str | None:
        """Take in one's own words, said by another, that are news; why not, if they cannot be."""
        self.write()
        if self.current is not None and entry.incarnation == self.current.incarnation:
            self._part(entry)
            return None
        if self.books.absorbed(self.identity).holds(entry.incarnation):
            return self._add_difference(entry)
        held = self.books.entries.get(entry.key)
        if held is not None:
            other_future = entry.seq <= held.seq or not self._dominates(entry, held)
            if other_future or self._overlap(entry):
                self.fold([held])
            if self.books.absorbed(self.identity).holds(entry.incarnation):
                return self._add_difference(entry)
            if other_future:  # and no room to hold both
                return "goes back"
        elif self._overlap(entry):
            return self._absorb(entry)
        self._keep(entry)
        current = self.current
        if current and self.books.absorbed(self.identity).holds(current.incarnation):
            self._part(entry)
        return None

    def fold_if_many(self, all_shown: bool, apart: bool = False) -> None:
        """Absorb old incarnations, once there are many.

        `all_shown`: every neighbour has shown that it holds nothing of ours that we do not. Only
        then are incarnations absorbed that have no name; and only if they take much room, others.
        `apart`: a neighbour may not read folds. It keeps what it has of the old ones; so it is done
        only if they take much room, and in an incarnation of its own, for it shall read the rest.
        """
        current, entries = self.current, self.books.of(self.identity)
        size = self.books.sizes[self.identity]
        if current is None or not (len(entries) > FOLDED_ABOVE or 4 * size > self._largest_origin):
            return
        pressing = 2 * size > self._largest_origin or len(entries) > FOLDED_AT_ONCE_ABOVE
        if not (pressing or (all_shown and not apart)):
            return
        absorbed = self.books.absorbed(self.identity)
        old = [
            e
            for e in sorted(entries, key=lambda entry: entry.incarnation)
            if e.incarnation != current.incarnation and not absorbed.holds(e.incarnation)
        ]
        if apart:
            self.open()
        folded = self.fold(old, all_shown)
        if apart:
            self.current = None if folded else current

    def fold(self, entries: Sequence[Entry], all_shown: bool = False) -> bool:
        """Absorb entries, as far as there is room, into the present incarnation; whether any."""
        current = self.current or self.open()
        self.write()
        names = dict(current.folded)
        for entry in entries:
            more = names | dict(entry.folded) | {entry.incarnation: entry.seq}
            evidence = self.books.read(entry)
            room = current.has_room_for(evidence)
            if not room or (len(more) > MOST_NAMED_EVER and not all_shown):
                continue
            self.archive.note(entry.incarnation, entry.seq, self._pure(entry), current.incarnation)
            self.archive.note_unknown(entry)
            current.absorb(evidence)
            names = more
            current.floor = max(current.floor, entry.floor)
        if names == current.folded:
            return False
        current.folded = names
        if all_shown:
            self._raise_floor(current)
        self._rewrite(current)
        return True

    def _pure(self, entry: Entry) -> Ledger | None:
        """What an entry is worth without all that it absorbed, if that can be told."""
        return self.archive.pure(entry, self.books.absorbed(self.identity).floor)

    def _dominates(self, one: Entry, other: Entry) -> bool:
        return self.books.dominates(self.books.read(one), self.books.read(other))

    def _larger(self, one: Ledger, other: Mapping[str, Sequence[int]]) -> Ledger:
        return larger(one, other, self.books.bounds.counts)

    def _rewrite(self, current: Current) -> None:
        """Enter an incarnation that absorbed others, or parts of them."""
        current.seq += 1
        current.dirty = False
        self.books.keep(current.entry())

    def _keep(self, entry: Entry) -> None:
        """Hold one's own words, and archive what they have absorbed."""
        pure = {e.incarnation: self._pure(e) for e in self.books.of(self.identity)}
        named = dict(entry.folded)
        for gone in self.books.keep(entry):
            seq = named.get(gone.incarnation, gone.seq)
            worth = pure[gone.incarnation] if seq == gone.seq else None
            self.archive.note(gone.incarnation, seq, worth, entry.incarnation)

    def _overlap(self, entry: Entry) -> bool:
        """Whether an entry absorbed something that others, which it did not, absorbed as well."""
        by = Absorbed.by([entry])
        own = self.books.of(self.identity)
        absorbed = Absorbed.by(
            e for e in own if e.key != entry.key and not by.covers(e.incarnation, e.seq)
        )
        below = [j for j in absorbed.named if DATED <= j < entry.floor]
        return bool(below) or any(absorbed.holds(each) for each, _ in entry.folded)

    def _gather(self, entry: Entry) -> bool:
        """Absorb all that has to do with an entry, so that one place says what is counted.

        Whether there was room for all of it.
        """
        named = {entry.incarnation, *(each for each, _ in entry.folded)}
        current = self.current or self.open()
        absorbed = self.books.absorbed(self.identity)

        def concerns(incarnation: int) -> bool:
            """Named by the entry, or below its floor, which absorbs without a name."""
            return incarnation in named or DATED <= incarnation < entry.floor

        concerned = [
            e
            for e in self.books.of(self.identity)
            if e.incarnation not in (current.incarnation, entry.incarnation)
            and not absorbed.holds(e.incarnation)
            and any(map(concerns, (e.incarnation, *(each for each, _ in e.folded))))
        ]
        self.fold(concerned)
        absorbed = self.books.absorbed(self.identity)
        return all(absorbed.holds(e.incarnation) for e in concerned)

    def _absorb(self, entry: Entry) -> str | None:
        """Absorb one's own words that count, in part, what is counted elsewhere."""
        return self._absorb_worth(entry, {})

    def _add_difference(self, entry: Entry) -> str | None:
        """Add what an absorbed incarnation has more than we knew of it."""
        return self._absorb_worth(entry, self.archive.worth(entry.incarnation))

    def _absorb_worth(self, entry: Entry, before: Ledger | None) -> str | None:
        if not self._gather(entry):
            return "no room"
        current = self.current or self.open()
        worth, problem = self._pure(entry), None
        if worth is None or before is None:
            # nothing twice, then: of each arm the larger count of it and of all that is counted
            worth, problem, counted = None, UNTOLD, self.books.sum_of(self.identity)
            fresh = minus(self._larger(counted, self.books.read(entry)), counted)
        else:
            # of two futures of a past process the larger count of each arm, for all to agree on
            worth = self._larger(before, worth)
            fresh = minus(worth, before)
        if not current.has_room_for(fresh):
            return "no room"
        current.absorb(fresh)
        self.archive.note_unknown(entry)
        for incarnation, seq in entry.folded:
            current.folded[incarnation] = max(seq, current.folded.get(incarnation, 0))
        seq = max(entry.seq, current.folded.get(entry.incarnation, 0))
        current.folded[entry.incarnation] = seq
        current.floor = max(current.floor, entry.floor)
        self.archive.note(entry.incarnation, seq, worth, current.incarnation)
        self._rewrite(current)
        return problem

    def _part(self, theirs: Entry) -> None:
        """Another future of the present incarnation: keep theirs, move ours to a new one."""
        ours = self.current
        assert ours is not None
        said = self.books.read(theirs)
        named = dict(theirs.folded) | {theirs.incarnation: theirs.seq}
        seq, evidence, folded = 0, Ledger(), dict[int, int]()
        if ours.incarnation in named:
            seq, evidence, folded = ours.parted_at(named[ours.incarnation], said)
        # else below a floor, for a disk was lost and the clock went back: they have none of it
        fresh = minus(ours.evidence(), evidence)
        for incarnation in ours.folded.keys() - folded.keys():
            part = self.archive.worth(incarnation)
            if incarnation in named and part is not None:
                fresh = minus(fresh, part)  # they absorbed it as well
        sent = ours.last_version > seq
        self.current = None
        if theirs.incarnation == ours.incarnation:
            self.books.keep(theirs)
        if not (fresh or sent):
            return
        current = self.open()
        current.absorb(fresh)
        current.folded = {i: s for i, s in ours.folded.items() if i not in folded}
        if theirs.incarnation == ours.incarnation and sent and current.has_room_for(said):
            # some may hold our future, others theirs: both are in what replaces it
            seq = max(theirs.seq, ours.seq)
            self.archive.note(theirs.incarnation, seq, self._pure(theirs), current.incarnation)
            current.absorb(said)
            current.folded |= dict(theirs.folded)
            current.folded[theirs.incarnation] = seq
        self._rewrite(current)

    def _raise_floor(self, current: Current) -> None:
        """Forget the names of the oldest, if there are too many."""
        dated = sorted(each for each in current.folded if each >= DATED)
        known = self.books.absorbed(self.identity)
        free = [
            e.incarnation
            for e in self.books.of(self.identity)
            if e.incarnation not in current.folded and not known.holds(e.incarnation)
        ]
        lowest = min([current.incarnation, *free])
        arms = self.archive.arms()
        while dated and dated[0] < lowest:
            if len(current.folded) <= MOST_NAMED and sum(arms.values()) <= MOST_ARCHIVED:
                break
            incarnation = dated.pop(0)
            current.floor = incarnation + 1
            del current.folded[incarnation]
            arms.pop(incarnation, None)
            self.archive.forget(incarnation)
