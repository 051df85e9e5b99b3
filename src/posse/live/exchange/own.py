"""One's own evidence: a new incarnation for each process, old ones folded into the present one.

No process goes on in an incarnation of another one: its disk may be an old copy, and then sequence
numbers that others have seen would be used twice. So that restarts do not add up for ever, the
present incarnation absorbs old ones (a fold, that is compaction). What each of these was worth by
itself is kept in an archive: if a neighbour comes with more of one than we knew, exactly the
difference is added.

Where evidence fades all of it but the older entries is in numbers of one epoch, the present one,
and these are read in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from posse.live.exchange import overlaps, voids
from posse.live.exchange.archive import Archive
from posse.live.exchange.books import NOT_HERE_YET, Books
from posse.live.exchange.carried import MANY_NUMBERS, Carried
from posse.live.exchange.current import Current
from posse.live.exchange.epochs import Epochs
from posse.live.exchange.futures import part
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.messages import Entry
from posse.live.exchange.numbers import new_incarnation
from posse.live.exchange.overlaps import UNTOLD as UNTOLD

FOLDED_ABOVE = 64  # own entries
FOLDED_AT_ONCE_ABOVE = 512  # whatever neighbours have shown
MOST_NAMED = 256  # folded incarnations by name, where the others can be told by a floor
MOST_NAMED_EVER = 1024
MOST_ARCHIVED = 20_000  # arms, over all of the archive; fewer where each has many numbers


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
        epochs: Epochs,
    ) -> None:
        self._epochs = epochs
        self.epoch = 0
        self.books = books
        self.identity = identity
        self.experiment = experiment
        self.current: Current | None = None  # None: the next observation opens one
        self.archive = Archive(books.bounds, self.read)
        self.carried = Carried(books.bounds.closed)
        self.void_through = 0  # the newest own incarnation of which this disk forgot a part
        self.last_opened = 0
        self._largest_entry = largest_entry
        self._largest_origin = largest_origin
        self._clock = clock
        self._draw = draw

    def observe(
        self, arm: str, values: tuple[int, ...], made: int = 0, at: float | None = None
    ) -> int:
        """Add one observation, of a decision made in some incarnation; the one it is added to."""
        if self._epochs.fading:
            self.lift()
            values = self._epochs.weigh_values(values, at, self.epoch, self.books.bounds)
        current = self.current
        if current is None or not current.has_room(arm, values):
            current = self.open()
        if not any(values):  # of so long ago that it is worth nothing
            return current.incarnation
        if made:
            if made <= self.void_through:
                return current.incarnation
            if made < current.incarnation:
                self._carry(made, current.incarnation, arm, values)
        current.add(arm, values, made > 0)
        self.books.count(arm, values, self.epoch)
        return current.incarnation

    def lift(self, epoch: int = 0) -> None:
        """Go on in the present epoch, or in one that other words of ours are of."""
        epoch = max(self._epochs.epoch, epoch)
        if epoch <= self.epoch or not self._epochs.fading:
            return
        self.write()
        passed = epoch - self.epoch
        self.epoch = epoch
        self.archive.fade(passed)
        self.carried.fade(passed)
        if self.current is not None:
            self.current.fade(epoch)
            if (self.identity, self.current.incarnation) in self.books.entries:
                self.rewrite(self.current)

    def read(self, entry: Entry) -> Ledger:
        """The evidence of an own entry in numbers of the present epoch."""
        return dict(self.books.read_in(entry, self.epoch))

    def forget(self, entries: Iterable[Entry]) -> None:
        """Some entries read as nothing, and are about to be dropped."""
        for entry in entries:
            if self.current is not None and entry.key == (self.identity, self.current.incarnation):
                self.close()

    def _carry(self, made: int, added_in: int, arm: str, values: tuple[int, ...]) -> None:
        """Note what a decision of an older incarnation adds: see `voids`."""
        number = self.carried.number(made, added_in)
        if number is None:
            number = self._new_number()
            self.carried.open(number, made, added_in)
        self.carried.add(number, arm, values)

    def open(self) -> Current:
        """A new incarnation, above all that are known."""
        self.write()
        self.current = None
        self.lift()
        made = self.identity, self._new_number(), self.experiment
        made_of = self.books.bounds, self._largest_entry, self._draw
        self.current = Current(*made, *made_of, self.epoch)
        return self.current

    def _new_number(self) -> int:
        own = [entry.incarnation for entry in self.books.of(self.identity)]
        known = [*own, *self.archive.kept, *self.carried.rows]
        floor = self.books.absorbed(self.identity).floor
        above = max([0, self.last_opened, self.void_through, floor, *known])
        self.last_opened = new_incarnation(self._clock(), above, self._draw)
        return self.last_opened

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
        self.lift(self.books.epoch_of(entry))
        voids.void(self, voids.forgotten(self, entry))
        if not self.books.allow(entry):
            return NOT_HERE_YET
        problem = self._take(entry)
        voids.take_back(self, voids.named_by(self, entry))
        return problem

    def _take(self, entry: Entry) -> str | None:
        if self.current is not None and entry.incarnation == self.current.incarnation:
            part(self, entry)
            return None
        if self.books.absorbed(self.identity).holds(entry.incarnation):
            return overlaps.add_difference(self, entry)
        held = self.books.entries.get(entry.key)
        if held is not None:
            other_future = entry.seq <= held.seq or not self._dominates(entry, held)
            if other_future or overlaps.overlap(self, entry):
                self.fold([held])
            if self.books.absorbed(self.identity).holds(entry.incarnation):
                return overlaps.add_difference(self, entry)
            if other_future:  # and no room to hold both
                return "sequence_regressed"
        elif overlaps.overlap(self, entry):
            return overlaps.absorb(self, entry)
        self._keep(entry)
        current = self.current
        if current and self.books.absorbed(self.identity).holds(current.incarnation):
            part(self, entry)
        return None

    def fold_if_many(self, all_shown: bool) -> None:
        """Absorb old incarnations, once there are many.

        `all_shown`: every neighbour has shown that it holds nothing of ours that we do not. Only
        then are incarnations absorbed that have no name; and only if they take much room, others.
        """
        current = self.current
        entries = self.books.of(self.identity)
        size = self.books.sizes[self.identity]
        if current is None or not (len(entries) > FOLDED_ABOVE or 4 * size > self._largest_origin):
            return
        pressing = 2 * size > self._largest_origin or len(entries) > FOLDED_AT_ONCE_ABOVE
        if not (pressing or all_shown):
            return
        absorbed = self.books.absorbed(self.identity)
        old = [
            e
            for e in sorted(entries, key=lambda entry: entry.incarnation)
            if e.incarnation != current.incarnation and not absorbed.holds(e.incarnation)
        ]
        self.fold(old, all_shown)

    def fold(self, entries: Sequence[Entry], all_shown: bool = False) -> bool:
        """Absorb entries, as far as there is room, into the present incarnation; whether any."""
        current = self.current or self.open()
        self.write()
        names = dict(current.folded)
        for entry in entries:
            more = names | dict(entry.folded) | {entry.incarnation: entry.seq}
            evidence = self.read(entry)
            room = current.has_room_for(evidence)
            if not room or (len(more) > MOST_NAMED_EVER and not all_shown):
                continue
            self.archive.note(entry.incarnation, entry.seq, self.pure(entry), current.incarnation)
            self.archive.note_unknown(entry)
            current.absorb(evidence)
            names = more
            current.floor = max(current.floor, entry.floor)
        if names == current.folded:
            return False
        current.folded = names
        if all_shown:
            self._raise_floor(current)
        self.rewrite(current)
        return True

    def pure(self, entry: Entry) -> Ledger | None:
        """What an entry is worth without all that it absorbed, if that can be told."""
        floor = self.books.absorbed(self.identity).floor
        return self.archive.pure(entry, floor, self.carried)

    def _dominates(self, one: Entry, other: Entry) -> bool:
        return self.books.dominates(one, other)

    def rewrite(self, current: Current) -> None:
        """Enter an incarnation that absorbed others, or parts of them."""
        if self._epochs.fading:
            current.tidy()
        current.seq += 1
        current.dirty = False
        self.books.keep(current.entry())

    def _keep(self, entry: Entry) -> None:
        """Hold one's own words, and archive what they have absorbed."""
        pure = {e.incarnation: self.pure(e) for e in self.books.of(self.identity)}
        named = dict(entry.folded)
        for gone in self.books.keep(entry):
            seq = named.get(gone.incarnation, gone.seq)
            worth = pure[gone.incarnation] if seq == gone.seq else None
            self.archive.note(gone.incarnation, seq, worth, entry.incarnation)

    def _raise_floor(self, current: Current) -> None:
        """Forget the names of the oldest, if there are too many."""
        dated = sorted(current.folded)
        known = self.books.absorbed(self.identity)
        free = [
            e.incarnation
            for e in self.books.of(self.identity)
            if e.incarnation not in current.folded and not known.holds(e.incarnation)
        ]
        lowest = min([current.incarnation, *free])
        arms = self.archive.arms()
        most = MOST_ARCHIVED // max(1, self.books.bounds.dimension // MANY_NUMBERS)
        while dated and dated[0] < lowest:
            if len(current.folded) <= MOST_NAMED and sum(arms.values()) <= most:
                break
            incarnation = dated.pop(0)
            current.floor = incarnation + 1
            del current.folded[incarnation]
            arms.pop(incarnation, None)
            self.archive.forget(incarnation)
        self.carried.forget_below(current.floor)
