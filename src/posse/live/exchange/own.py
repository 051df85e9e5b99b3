"""One's own evidence: a new incarnation for each process, old ones folded into the present one.

No process goes on in an incarnation of another one: its disk may be an old copy, and then sequence
numbers that others have seen would be used twice. So that restarts do not add up for ever, the
present incarnation absorbs old ones (a fold). What each of these was worth by itself is kept in an
archive: if a neighbour comes with more of one than we knew, exactly the difference is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any

from posse.live.exchange.books import Absorbed, Books
from posse.live.exchange.current import Current
from posse.live.exchange.ledger import Ledger, dominates, from_plain, minus, plain
from posse.live.exchange.messages import Entry
from posse.live.exchange.numbers import DATED, new_incarnation

FOLDED_ABOVE = 64  # own entries
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
        # incarnation -> seq and what it was worth by itself, or the incarnation with whose worth
        # it is mixed, where we never saw it by itself
        self.archive: dict[int, tuple[int, Ledger | int]] = {}
        self.archive_changed: set[int] = set()
        self._largest_entry, self._largest_origin = largest_entry, largest_origin
        self._clock, self._draw = clock, draw

    def observe(self, arm: str, values: tuple[int, ...]) -> None:
        """Add one observation."""
        current = self.current
        if current is None or not current.has_room(arm, values):
            current = self.open()
        current.add(arm, values)
        books = self.books
        held = books.total.get(arm)
        books.total[arm] = values if held is None else tuple(map(add, held, values))
        books.revision += 1

    def open(self) -> Current:
        """A new incarnation, above all that are known."""
        self.write()
        own = [entry.incarnation for entry in self.books.of(self.identity)]
        above = max([DATED, *own, *self.archive, self.books.absorbed(self.identity).floor])
        number = new_incarnation(self._clock(), above, self._draw)
        made = self.identity, number, self.experiment, self._largest_entry
        self.current = Current(*made, self._draw)
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
        return held is None or entry.seq > held.seq

    def take(self, entry: Entry) -> str | None:
        """Take in one's own words, said by another, that are news; why not, if they cannot be."""
        self.write()
        if self.current is not None and entry.incarnation == self.current.incarnation:
            self._part(entry)
            return None
        if self.books.absorbed(self.identity).holds(entry.incarnation):
            return self._add_difference(entry)
        held = self.books.entries.get(entry.key)
        if held is not None and not dominates(entry.evidence, held.evidence):
            return "goes back"
        if self._overlap(entry):
            if held is not None:
                self.fold([held])
                return self._add_difference(entry)
            return self._absorb(entry)
        self._keep(entry)
        current = self.current
        if current and self.books.absorbed(self.identity).holds(current.incarnation):
            self._part(entry)
        return None

    def fold_if_many(self, all_shown: bool) -> None:
        """Absorb old incarnations, once there are many.

        `all_shown`: every neighbour has shown that it holds nothing of ours that we do not. Only
        then are incarnations absorbed that have no name; and only if they take much room, others.
        """
        current, entries = self.current, self.books.of(self.identity)
        size = self.books.sizes[self.identity]
        if current is None or not (len(entries) > FOLDED_ABOVE or 4 * size > self._largest_origin):
            return
        pressing = 2 * size > self._largest_origin or len(entries) > 8 * FOLDED_ABOVE
        if not (all_shown or pressing):
            return
        absorbed = self.books.absorbed(self.identity)
        old = [
            e
            for e in sorted(entries, key=lambda entry: entry.incarnation)
            if e.incarnation != current.incarnation and not absorbed.holds(e.incarnation)
        ]
        self.fold(old, all_shown)

    def fold(self, entries: Sequence[Entry], all_shown: bool = False) -> None:
        """Absorb entries, as far as there is room, into the present incarnation."""
        current = self.current or self.open()
        self.write()
        names = dict(current.folded)
        for entry in entries:
            more = names | dict(entry.folded) | {entry.incarnation: entry.seq}
            room = current.has_room_for(entry.evidence)
            if not room or (len(more) > MOST_NAMED_EVER and not all_shown):
                continue
            self._archive(entry.incarnation, entry.seq, self._pure(entry), current.incarnation)
            self._archive_unknown(entry)
            current.absorb(entry.evidence)
            names = more
            current.floor = max(current.floor, entry.floor)
        if names != current.folded:
            current.folded = names
            if all_shown:
                self._raise_floor(current)
            self._rewrite(current)

    def written(self) -> dict[str, Any]:
        """The archive as plain parts."""
        return {f"archive {each}": self.written_archive(each) for each in self.archive}

    def written_archive(self, incarnation: int) -> list[Any]:
        """One part of it."""
        seq, worth = self.archive[incarnation]
        return [seq, worth if isinstance(worth, int) else plain(worth)]

    def restore_archive(self, parts: Mapping[int, Sequence[Any]]) -> None:
        """The archive that was written."""
        self.archive = {
            incarnation: (seq, worth if isinstance(worth, int) else from_plain(worth))
            for incarnation, (seq, worth) in parts.items()
        }
        self.archive_changed = set()

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
            self._archive(gone.incarnation, seq, worth, entry.incarnation)

    def _archive(self, incarnation: int, seq: int, worth: Ledger | None, into: int) -> None:
        """Note what was absorbed: what it was worth or, if that cannot be told, into what."""
        self.archive[incarnation] = seq, into if worth is None else worth
        self.archive_changed.add(incarnation)

    def _archive_unknown(self, entry: Entry) -> None:
        """What an entry absorbed and we never saw by itself is part of that entry's worth."""
        for incarnation, seq in entry.folded:
            if incarnation not in self.archive:
                self._archive(incarnation, seq, None, entry.incarnation)

    def _pure(self, entry: Entry) -> Ledger | None:
        """What an incarnation was worth without those it absorbed; None if it cannot be told."""
        worth: Ledger = dict(entry.evidence)
        named = dict(entry.folded)
        below = {j for j in self.archive if DATED <= j < entry.floor and j not in named}
        for incarnation in [*named, *below]:
            if incarnation not in self.archive:
                continue  # nothing else counts it
            seq, part = self.archive[incarnation]
            if incarnation in named and seq != named[incarnation]:
                return None
            if isinstance(part, int):
                if part != entry.incarnation and part not in named:
                    return None
            else:
                worth = minus(worth, part)
        return worth if all(values[-1] >= 0 for values in worth.values()) else None

    def _overlap(self, entry: Entry) -> bool:
        """Whether an entry absorbed something that others, which it did not, absorbed as well."""
        by = Absorbed.by([entry])
        own = self.books.of(self.identity)
        absorbed = Absorbed.by(
            e for e in own if e.key != entry.key and not by.covers(e.incarnation, e.seq)
        )
        below = [j for j in absorbed.named if DATED <= j < entry.floor]
        return bool(below) or any(absorbed.holds(each) for each, _ in entry.folded)

    def _gather(self, entry: Entry) -> None:
        """Absorb all that has to do with an entry, so that one place says what is counted."""
        named = {entry.incarnation, *(each for each, _ in entry.folded)}
        current = self.current or self.open()
        absorbed = self.books.absorbed(self.identity)
        self.fold(
            [
                e
                for e in self.books.of(self.identity)
                if e.incarnation not in (current.incarnation, entry.incarnation)
                and not absorbed.holds(e.incarnation)
                and (e.incarnation in named or named & {each for each, _ in e.folded})
            ]
        )

    def _absorb(self, entry: Entry) -> str | None:
        """Absorb one's own words that count, in part, what is counted elsewhere."""
        self._gather(entry)
        return self._absorb_worth(entry, self._pure(entry), {})

    def _add_difference(self, entry: Entry) -> str | None:
        """Add what an absorbed incarnation has more than we knew of it."""
        self._gather(entry)
        _, before = self.archive.get(entry.incarnation, (0, 0))
        worth = self._pure(entry)
        if isinstance(before, int):
            return UNTOLD
        return self._absorb_worth(entry, worth, before)

    def _absorb_worth(self, entry: Entry, worth: Ledger | None, before: Ledger) -> str | None:
        if worth is None:
            return UNTOLD
        if not dominates(worth, before):
            return "goes back"
        current = self.current or self.open()
        fresh = minus(worth, before)
        if not current.has_room_for(fresh):
            return "no room"
        current.absorb(fresh)
        self._archive_unknown(entry)
        for incarnation, seq in entry.folded:
            current.folded[incarnation] = max(seq, current.folded.get(incarnation, 0))
        current.folded[entry.incarnation] = entry.seq
        current.floor = max(current.floor, entry.floor)
        self._archive(entry.incarnation, entry.seq, worth, current.incarnation)
        self._rewrite(current)
        return None

    def _part(self, theirs: Entry) -> None:
        """Another future of the present incarnation: keep theirs, move ours to a new one."""
        ours = self.current
        assert ours is not None
        seq, evidence, folded = ours.parted_at(theirs)
        fresh = minus(ours.evidence(), evidence)
        named = {each for each, _ in theirs.folded}
        for incarnation in ours.folded.keys() - folded.keys():
            _, part = self.archive.get(incarnation, (0, 0))
            if incarnation in named and not isinstance(part, int):
                fresh = minus(fresh, part)  # they absorbed it as well
        said = ours.last_version > seq
        self.current = None
        if theirs.incarnation == ours.incarnation:
            self.books.keep(theirs)
        if not (fresh or said):
            return
        current = self.open()
        current.absorb(fresh)
        current.folded = {i: s for i, s in ours.folded.items() if i not in folded}
        if (
            theirs.incarnation == ours.incarnation
            and said
            and current.has_room_for(theirs.evidence)
        ):
            # some may hold our future, others theirs: both are in what replaces it
            seq = max(theirs.seq, ours.seq)
            self._archive(theirs.incarnation, seq, self._pure(theirs), current.incarnation)
            current.absorb(theirs.evidence)
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
        arms = {i: len(worth) for i, (_, worth) in self.archive.items() if isinstance(worth, dict)}
        while dated and dated[0] < lowest:
            if len(current.folded) <= MOST_NAMED and sum(arms.values()) <= MOST_ARCHIVED:
                break
            incarnation = dated.pop(0)
            current.floor = incarnation + 1
            del current.folded[incarnation]
            arms.pop(incarnation, None)
            if self.archive.pop(incarnation, None) is not None:
                self.archive_changed.add(incarnation)
