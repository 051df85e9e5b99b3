"""Digests (anti-entropy): what a neighbour holds, and the entries that it lacks.

A digest lists versions, in pages that are each complete for a range of keys. What a neighbour is
known to hold is replaced by its digest, not merged with it: after its disk was restored it holds
less than it had acknowledged.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from posse.live.exchange.interface import Outgoing
from posse.live.exchange.message_validation import Sign
from posse.live.exchange.messages import (
    END,
    FIRST,
    LARGEST_ENTRY,
    LARGEST_MESSAGE,
    NO_VERSION,
    Entry,
    Holding,
    Key,
    OriginsMessage,
    Version,
    signed_bytes,
    wire_size,
)
from posse.live.exchange.replica import Replica

T = TypeVar("T")


def holding_bytes(holding: Holding) -> int:
    """The most bytes it takes on the wire."""
    return 50 + wire_size(holding[0])


def is_within(key: Key, first: Key, last: Key) -> bool:
    """Whether a key is in a range."""
    return first <= key and (last == END or key < last)


@dataclass
class Neighbour:
    """What one neighbour is known to hold; all volatile."""

    holds: dict[Key, Version] = field(default_factory=dict)
    # entries that one of its digests lacked: two agents of one name show different digests, and
    # each must get what it lacks
    owed: set[Key] = field(default_factory=set)
    last_heard: float | None = None  # by the wall clock
    heard_at: float = -math.inf  # by the clock that nobody sets
    shown_up_to: Key = FIRST  # its digest, without a gap since the process began
    shown_all: bool = False  # whether all of it was shown
    sent: int = 0  # entries so far, behind which its next turn begins
    answered: bool = False  # whether it has shown what it holds of us since this process began

    @property
    def has_shown_all(self) -> bool:
        """Whether it has shown all that it holds of us since this process began."""
        return self.answered or self.shown_all

    def note(self, key: Key, version: Version) -> None:
        """Note that it holds at least this version."""
        if version > self.holds.get(key, NO_VERSION):
            self.holds[key] = version

    def lacking(self, entries: Mapping[Key, Entry]) -> list[Entry]:
        """Return the entries that it is not known to hold."""
        holds = self.holds
        lacking = [e for key, e in entries.items() if e.version > holds.get(key, NO_VERSION)]
        if self.owed:
            owed = self.owed - {entry.key for entry in lacking}
            lacking += [entries[key] for key in owed if key in entries]
        return lacking

    def receive_digest(self, message: OriginsMessage, replica: Replica, most: int) -> None:
        """Note what it says that it holds."""
        if message.complete:
            first = message.first
            last = message.last
            # replaced, not merged: after a restored disk it holds less than it acknowledged
            held = self.holds.items()
            self.holds = {key: v for key, v in held if not is_within(key, first, last)}
            if first <= self.shown_up_to:
                self.shown_all = self.shown_all or last == END
                self.shown_up_to = FIRST if last == END else max(last, self.shown_up_to)
        for origin, incarnation, made, seq, nonce in message.holds:
            key = origin, incarnation
            if key in self.holds or len(self.holds) < most:
                version = made, seq, nonce
                mine = replica.version(key)
                self.note(key, mine if mine == version else version)  # one tuple: there are many
        if message.complete:
            within = (e.key for e in self.lacking(replica.entries))
            self.owed |= {key for key in within if is_within(key, message.first, message.last)}


@dataclass
class Sender:
    """Builds messages: in turns the entries that a neighbour lacks, and pages of the digest."""

    fingerprint: str
    network: str
    sign: Sign | None
    digest_every: int  # ticks
    batch: int  # the most entries a message
    ticks: int = 0
    _next_page: Key = FIRST  # where it begins

    def make_messages(
        self,
        replica: Replica,
        neighbours: Mapping[str, Neighbour],
        identity: str,
        question: int,
    ) -> Outgoing:
        """Build for each neighbour the entries it has not acknowledged, and a digest if it is due.

        question: the random number of an agent that rests, which asks what is held of it; 0: none.
        """
        outgoing: Outgoing = []
        digest_due = self.ticks % self.digest_every == 0 or self._next_page != FIRST
        self.ticks += 1
        first = self._next_page
        holds = self._turn_page(replica) if digest_due else ()
        page = holds, digest_due, first, self._next_page
        room = LARGEST_MESSAGE - sum(map(holding_bytes, holds))
        for name, neighbour in neighbours.items():
            batch = self._next_batch(neighbour.lacking(replica.entries), neighbour.sent)
            signed = (self._sign_entry(replica, identity, entry) for entry in batch)
            entries = _fitting(signed, Entry.size, room)
            neighbour.sent += len(entries)
            neighbour.owed -= {entry.key for entry in entries}
            asks = (identity, question) if question and not neighbour.answered else ("", 0)
            if entries or digest_due or asks[1]:
                message = OriginsMessage(self.fingerprint, entries, *page, asks)
                outgoing.append((name, message))
        return outgoing

    def _next_batch(self, lacking: list[Entry], sent: int) -> list[Entry]:
        """In turns, for entries that a neighbour refuses would else keep the others from it."""
        first = sent % max(1, len(lacking))
        return (lacking[first:] + lacking[:first])[: self.batch]

    def _turn_page(self, replica: Replica) -> tuple[Holding, ...]:
        """Return the next page of the digest, as much as fits into a message."""
        order = replica.order()
        at = bisect.bisect_left(order, self._next_page)
        holdings = (replica.entries[key].holding for key in order[at:])
        holds = _fitting(holdings, holding_bytes, LARGEST_MESSAGE - LARGEST_ENTRY)
        self._next_page = order[at + len(holds)] if at + len(holds) < len(order) else END
        return holds

    def _sign_entry(self, replica: Replica, identity: str, entry: Entry) -> Entry:
        """Return an entry with its whole signature, which an own one gets when it is first sent."""
        if self.sign is not None and not entry.signature and entry.origin == identity:
            content = signed_bytes(self.fingerprint, entry, self.network)
            entry = replace(entry, signature=self.sign(content))
            replica.keep(entry, counted=True)
        return replace(entry, signature=entry.whole_signature, certificate=b"")


def _fitting(items: Iterable[T], size: Callable[[T], int], room: int) -> tuple[T, ...]:
    """Return the first of the items, as many as fit into a message."""
    fitting: list[T] = []
    for item in items:
        room -= size(item)
        if room < 0:
            break
        fitting.append(item)
    return tuple(fitting)
