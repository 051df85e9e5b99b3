"""Two futures of one process, as when a machine is put back with its memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from posse.live.exchange import voids
from posse.live.exchange.carried import VOID
from posse.live.exchange.current import Version
from posse.live.exchange.ledger import minus
from posse.live.exchange.messages import Entry

if TYPE_CHECKING:
    from posse.live.exchange.own import Own


def part(own: Own, theirs: Entry) -> None:
    """Another future of the present incarnation: keep theirs, move ours to a new one.

    But not rewards of decisions that may have been open when they parted: see `voids`.
    """
    ours = own.current
    assert ours is not None
    said = own.read(theirs)
    named = dict(theirs.folded) | {theirs.incarnation: theirs.seq}
    if ours.incarnation in named:
        common = ours.parted_at(named[ours.incarnation], said)
        fresh = ours.new_since(common)
    else:  # below a floor, for a disk was lost and the clock went back: they have none of it
        common = Version()
        fresh = ours.evidence()
    folded = {i: s for i, s in ours.folded.items() if i not in common.folded}
    for incarnation in folded:
        worth = own.archive.worth(incarnation)
        if incarnation in named and worth is not None:  # they absorbed it as well
            fresh = minus(fresh, minus(worth, own.carried.void_of(incarnation, folded)))
    again = _counted_by(own, named, folded)
    own.carried.forget_of(ours.incarnation)
    sent = ours.last_version > common.seq
    own.current = None
    if theirs.incarnation == ours.incarnation:
        own.books.keep(theirs)
    if fresh or sent:
        current = own.open()
        current.absorb(fresh)
        current.folded = {i: s for i, s in folded.items() if i not in again}
        if theirs.incarnation == ours.incarnation and sent and current.has_room_for(said):
            # some may hold our future, others theirs: both are in what replaces it
            seq = max(theirs.seq, ours.seq)
            own.archive.note(theirs.incarnation, seq, own.pure(theirs), current.incarnation)
            current.absorb(said)
            current.folded |= dict(theirs.folded)
            current.folded[theirs.incarnation] = seq
        own.rewrite(current)
    for number in again:
        own.carried.restore_to_count(number)
    voids.take_back(own, again)


def _counted_by(own: Own, named: Mapping[int, int], folded: Mapping[int, int]) -> list[int]:
    """Rows that were taken back here, and that another future counts."""
    rows = own.carried.rows
    return [
        number
        for number, seq in folded.items()
        if seq == VOID and number in rows and number not in named
        if rows[number].added_in in named
    ]
