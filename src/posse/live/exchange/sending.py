"""What an agent sends in a round: entries that a neighbour lacks, and now and then a digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from posse.live.exchange.books import Books
from posse.live.exchange.digests import Holding, Neighbour, Page, Pages
from posse.live.exchange.examine import Sign
from posse.live.exchange.layouts import signed_bytes
from posse.live.exchange.messages import Entry, OriginsMessage
from posse.live.exchange.origin_checks import LARGEST_ENTRY
from posse.live.exchange.seam import Outgoing

T = TypeVar("T")

ROOM = 900_000  # bytes of a message


class Sending:
    """Whose turn it is, of entries and of the pages of the digest."""

    def __init__(self, sign: Sign | None, network: str, digest_every: int, batch: int) -> None:
        """digest_every: so many ticks; batch: the most entries a message."""
        self.digest_every = digest_every
        self.batch = batch
        self.ticks = 0
        self._sign = sign
        self._network = network
        self._pages = Pages()

    def messages(
        self, books: Books, identity: str, fingerprint: str, neighbours: Mapping[str, Neighbour]
    ) -> Outgoing:
        """To each neighbour the entries it has not acknowledged, and a digest if that is due."""
        outgoing: Outgoing = []
        digest_due = self.ticks % self.digest_every == 0 or self._pages.open
        self.ticks += 1
        page = Page()
        if digest_due:
            page = self._pages.turn(books.order(), books.entries, ROOM - LARGEST_ENTRY)
        for name, neighbour in neighbours.items():
            batch = self._next_batch(neighbour.lacking(books.entries))
            signed = (self._signed(books, identity, fingerprint, entry) for entry in batch)
            entries = _fitting(signed, lambda entry: entry.size, ROOM - page.size)
            if entries or digest_due:
                told = (page.holds, digest_due, page.first, page.last)
                outgoing.append((name, OriginsMessage(fingerprint, entries, *told)))
        return outgoing

    def answer(
        self,
        books: Books,
        identity: str,
        fingerprint: str,
        shown: Iterable[Entry],
        holds: Iterable[Holding],
    ) -> OriginsMessage:
        """The acknowledgement of what came, with entries that its sender should see."""
        signed = [self._signed(books, identity, fingerprint, entry) for entry in shown]
        fit = _fitting(signed, lambda entry: entry.size, LARGEST_ENTRY)
        return OriginsMessage(fingerprint, fit, tuple(holds), False)

    def _next_batch(self, lacking: list[Entry]) -> list[Entry]:
        """In turns, for entries that a neighbour refuses would else keep the others from it."""
        first = self.ticks * self.batch % max(1, len(lacking))
        return (lacking[first:] + lacking[:first])[: self.batch]

    def _signed(self, books: Books, identity: str, fingerprint: str, entry: Entry) -> Entry:
        if self._sign is None or entry.signature or entry.origin != identity:
            return entry
        content = signed_bytes(fingerprint, entry, self._network)
        signed = replace(entry, signature=self._sign(content))
        books.keep(signed, counted=True)
        return signed


def _fitting(items: Iterable[T], size: Callable[[T], int], room: int) -> tuple[T, ...]:
    """The first of the items, as many as fit into a message."""
    taken: list[T] = []
    for item in items:
        room -= size(item)
        if room < 0:
            break
        taken.append(item)
    return tuple(taken)
