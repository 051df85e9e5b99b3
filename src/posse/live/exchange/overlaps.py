"""One's own words, said by another, that count in part what is counted here already.

All that has to do with them is absorbed by the present incarnation first, so that one place says
what is counted; then exactly what is new of them is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from posse.live.exchange.books import Absorbed
from posse.live.exchange.ledger import Ledger, larger, minus
from posse.live.exchange.messages import Entry

if TYPE_CHECKING:
    from posse.live.exchange.own import Own

UNTOLD = "ambiguous_overlap"


def overlap(own: Own, entry: Entry) -> bool:
    """Whether an entry absorbed something that others, which it did not, absorbed as well."""
    by = Absorbed.by([entry])
    entries = own.books.of(own.identity)
    absorbed = Absorbed.by(
        e for e in entries if e.key != entry.key and not by.covers(e.incarnation, e.seq)
    )
    below = [j for j in absorbed.named if j < entry.floor]
    return bool(below) or any(absorbed.holds(each) for each, _ in entry.folded)


def absorb(own: Own, entry: Entry) -> str | None:
    """Absorb one's own words that count, in part, what is counted elsewhere."""
    return _absorb_worth(own, entry, {})


def add_difference(own: Own, entry: Entry) -> str | None:
    """Add what an absorbed incarnation has more than we knew of it."""
    return _absorb_worth(own, entry, own.archive.worth(entry.incarnation))


def _absorb_worth(own: Own, entry: Entry, before: Ledger | None) -> str | None:
    if not _gather(own, entry):
        return "overlap_quota_exceeded"
    current = own.current or own.open()
    worth = own.pure(entry)
    problem = None
    if worth is None or before is None:
        # nothing twice, then: of each arm the larger count of it and of all that is counted
        worth = None
        problem = UNTOLD
        counted = own.books.sum_of(own.identity, own.epoch)
        fresh = minus(_larger(own, counted, own.read(entry), False), counted)
    else:
        # of two futures of a past process the larger count of each arm, for all to agree on
        known, _ = own.archive.kept.get(entry.incarnation, (0, 0))
        worth = _larger(own, before, worth, entry.seq > known)
        fresh = minus(worth, before)
    if not current.has_room_for(fresh):
        return "overlap_quota_exceeded"
    current.absorb(fresh)
    own.archive.note_unknown(entry)
    counting = {number for number, _ in own.carried.counting()}
    for incarnation, seq in entry.folded:
        if incarnation not in counting:  # else it is yet to be taken back
            current.folded[incarnation] = max(seq, current.folded.get(incarnation, 0))
    seq = max(entry.seq, current.folded.get(entry.incarnation, 0))
    current.folded[entry.incarnation] = seq
    current.floor = max(current.floor, entry.floor)
    own.archive.note(entry.incarnation, seq, worth, current.incarnation)
    own.rewrite(current)
    return problem


def _gather(own: Own, entry: Entry) -> bool:
    """Absorb all that has to do with an entry, so that one place says what is counted.

    Whether there was room for all of it.
    """
    named = {entry.incarnation, *(each for each, _ in entry.folded)}
    current = own.current or own.open()
    absorbed = own.books.absorbed(own.identity)

    def concerns(incarnation: int) -> bool:
        """Named by the entry, or below its floor, which absorbs without a name."""
        return incarnation in named or incarnation < entry.floor

    concerned = [
        e
        for e in own.books.of(own.identity)
        if e.incarnation not in (current.incarnation, entry.incarnation)
        and not absorbed.holds(e.incarnation)
        and any(map(concerns, (e.incarnation, *(each for each, _ in e.folded))))
    ]
    own.fold(concerned)
    absorbed = own.books.absorbed(own.identity)
    return all(absorbed.holds(e.incarnation) for e in concerned)


def _larger(own: Own, one: Ledger, other: Mapping[str, Sequence[int]], newer: bool) -> Ledger:
    bounds = own.books.bounds
    return larger(one, other, bounds.counts, newer and bool(bounds.closed))
