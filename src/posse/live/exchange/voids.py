"""Decisions that are void: open on a disk that was set back, and rewarded in what it forgot.

News of an own incarnation comes from a future that this disk forgot.  Decisions made up to it may
have been open in the copy, and rewarded then.  What they added since, in later incarnations, is
taken back (`carried`): entries only grow, so a new incarnation absorbs what holds it, without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from posse.live.exchange.carried import VOID
from posse.live.exchange.ledger import minus, total
from posse.live.exchange.messages import Entry

if TYPE_CHECKING:
    from posse.live.exchange.own import Own


def forgotten(own: Own, entry: Entry) -> list[int]:
    """The incarnations that an entry, which is news, tells more of than is known here."""
    absorbed = own.books.absorbed(own.identity)
    unknown = [entry.incarnation]
    for incarnation, seq in entry.folded:
        held = own.books.entries.get((own.identity, incarnation))
        known = absorbed.covers(incarnation, seq) or (held is not None and held.seq >= seq)
        if not known and seq != VOID:
            unknown.append(incarnation)
    return unknown


def void(own: Own, forgot: Collection[int]) -> None:
    """Decisions made up to these incarnations are void: take back what they added later."""
    own.void_through = max(own.void_through, *forgot)
    take_back(own, [n for n, row in own.carried.counting() if any(map(row.is_after, forgot))])


def named_by(own: Own, entry: Entry) -> list[int]:
    """What another future of this disk has taken back, and is counted here."""
    named = {number for number, seq in entry.folded if seq == VOID}
    return [number for number, _ in own.carried.counting() if number in named]


def take_back(own: Own, numbers: Iterable[int]) -> None:
    """Count these rows no longer."""
    by_holder: dict[int, list[int]] = {}
    for number in numbers:
        holder = _holder(own, own.carried.rows[number].added_in)
        if holder is not None and (number, VOID) in holder.folded:
            own.carried.take_back(number)  # it was, by that one
        elif holder is not None:
            by_holder.setdefault(holder.incarnation, []).append(number)
    for incarnation, held in by_holder.items():
        _absorb_without(own, own.books.entries[own.identity, incarnation], held)


def _holder(own: Own, incarnation: int) -> Entry | None:
    """The entry that counts an incarnation, itself or as a part of another."""
    absorbed = own.books.absorbed(own.identity)
    for entry in own.books.of(own.identity):
        if not absorbed.holds(entry.incarnation) and (
            entry.incarnation == incarnation or any(incarnation == each for each, _ in entry.folded)
        ):
            return entry
    return None


def _absorb_without(own: Own, holder: Entry, numbers: list[int]) -> None:
    """A new incarnation in place of an entry, without these rows."""
    rows = own.carried.rows
    bounds = own.books.bounds
    evidence = minus(own.read(holder), total(rows[each].evidence for each in numbers))
    evidence = {arm: bounds.undo_rounding(row) for arm, row in evidence.items()}
    if not all(map(bounds.allow_part, evidence.values())):
        return  # what came from elsewhere in its place has not all of it
    before = own.current
    current = own.open()
    own.archive.note(holder.incarnation, holder.seq, own.pure(holder), current.incarnation)
    own.archive.note_unknown(holder)
    current.absorb(evidence)
    current.folded = dict(holder.folded) | {holder.incarnation: holder.seq}
    current.folded |= dict.fromkeys(numbers, VOID)
    current.floor = holder.floor
    for number in numbers:
        own.carried.take_back(number)
    own.rewrite(current)
    # what is observed next goes on where it was, not into the fold
    gone = before is None or before.incarnation == holder.incarnation
    own.current = None if gone else before
