"""Replica: the entries of all origins that an agent holds, and their sum.

Of each key the entry with the largest version is held. An entry whose incarnation a base of its
origin covers is dropped: its evidence is in the base. Of two bases that cover the same incarnation
the one with the larger version is held. So each incarnation is in one entry, and no decision counts
twice, whatever arrives, how often and in which order.

Where evidence fades (`half_life`), the numbers of an entry are relative to its own epoch; everybody
reads them by their age, and nobody but the origin rewrites them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from posse.live.exchange.messages import NO_VERSION, PROOF, Entry, Key, Version
from posse.live.ledger import Ledger, Rows, add_row, minus, negative

PREFIX = "entry "  # of the names of durable parts
MOST_SHARED_ARMS = 1000  # tuples of arms


class Replica:
    """Entries by key, their sum, and which of them changed since they were last written."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self.totals: dict[int, Ledger] = {}  # by epoch; kept up to date: every decision reads them
        self.sizes: Counter[str] = Counter()  # bytes of all entries of an origin
        self.incarnations: dict[str, list[int]] = {}  # of each origin, its base among them
        self.revision = 0
        self._pulls: dict[str, int] = {}  # of origins, where they were asked for: in quanta
        self._covered: dict[str, dict[int, int]] = {}  # of an origin: incarnation -> base
        self._changed: set[Key] = set()
        self._committed: dict[Key, Entry | None] = {}  # of changed keys, as it is on disk
        self._order: list[Key] | None = None
        self._arms: dict[tuple[str, ...], tuple[str, ...]] = {}  # most entries have the same arms

    def version(self, key: Key) -> Version:
        """Return the version that is held of an entry."""
        entry = self.entries.get(key)
        return NO_VERSION if entry is None else entry.version

    def is_covered(self, key: Key) -> bool:
        """Whether a base of its origin stands for an incarnation."""
        return key[1] in self._covered.get(key[0], ())

    def find_rivals(self, entry: Entry) -> list[Entry]:
        """Return what is held of the incarnations that an entry stands for."""
        covered = self._covered.get(entry.origin, {})
        numbers = dict.fromkeys(covered.get(n, n) for n in (entry.incarnation, *entry.covers))
        keys = ((entry.origin, number) for number in numbers)
        return [self.entries[key] for key in keys if key in self.entries]

    def is_news(self, entry: Entry) -> bool:
        """Whether an entry is to be held in place of all its rivals."""
        return all(_beats(entry, rival) for rival in self.find_rivals(entry))

    def holds(self, key: Key, version: Version) -> bool:
        """Whether this version or a larger one is here, or a base that covers it."""
        return self.version(key) >= version or self.is_covered(key)

    def of_origin(self, origin: str) -> list[Entry]:
        """Return all entries of an origin, its bases among them."""
        return [self.entries[origin, number] for number in self.incarnations.get(origin, ())]

    def pulls_of(self, origin: str) -> int:
        """Count the pulls of an origin, in quanta; it may have thousands of entries."""
        if origin not in self._pulls and origin in self.incarnations:
            self._pulls[origin] = sum(entry.pulls() for entry in self.of_origin(origin))
        return self._pulls.get(origin, 0)

    def order(self) -> list[Key]:
        """All keys in their order."""
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order

    def keep(self, entry: Entry, counted: bool = False) -> None:
        """Hold an entry in place of its rivals; `counted`: its evidence is in the sum already."""
        if entry.covers:
            self.drop(rival for rival in self.find_rivals(entry) if rival.key != entry.key)
        self._replace(entry.key, entry, counted)

    def drop(self, entries: Iterable[Entry]) -> None:
        """Hold these entries no longer."""
        for entry in entries:
            self._replace(entry.key, None)

    def _replace(self, key: Key, entry: Entry | None, counted: bool = False) -> None:
        """Hold another entry under a key, or none; all that is known of the entries follows."""
        origin, incarnation = key
        old = self.entries.get(key)
        self._changed.add(key)
        self._committed.setdefault(key, old)
        if not counted:
            self._replace_in_totals(old, entry)
        incarnations = self.incarnations.setdefault(origin, [])
        self.sizes[origin] += (entry.size() if entry else 0) - (old.size() if old else 0)
        if origin in self._pulls:
            self._pulls[origin] += (entry.pulls() if entry else 0) - (old.pulls() if old else 0)
        self._note_covers(incarnation, old, entry)
        if entry is not None:
            self.entries[key] = self._share_parts(entry)
            if old is None:
                incarnations.append(incarnation)
                self._order = None
        elif old is not None:
            del self.entries[key]
            incarnations.remove(incarnation)
            self._order = None
        if not incarnations:
            del self.incarnations[origin], self.sizes[origin]
            self._covered.pop(origin, None)
            self._pulls.pop(origin, None)

    def _note_covers(self, base: int, old: Entry | None, new: Entry | None) -> None:
        if old is not None and old.covers:
            covered = self._covered[old.origin]
            # a rollback may hold another base again before it drops this one
            for number in [n for n in old.covers if covered.get(n) == base]:
                del covered[number]
        if new is not None and new.covers:
            self._covered.setdefault(new.origin, {}).update(dict.fromkeys(new.covers, base))

    def _replace_in_totals(self, old: Entry | None, new: Entry | None) -> None:
        if old is not None and new is not None and old.epoch == new.epoch:
            self.add(minus(new.ledger(), old.ledger()), new.epoch)
            return
        if old is not None:
            self.add(negative(old.ledger()), old.epoch)
        if new is not None:
            self.add(new.ledger(), new.epoch)

    def _share_parts(self, entry: Entry) -> Entry:
        """Let entries share the tuple of their arms, and the name and certificate of an origin."""
        if len(self._arms) > MOST_SHARED_ARMS:  # of liars, whose arms are all different
            self._arms.clear()
        arms = self._arms.setdefault(entry.arms, entry.arms)
        origin = sys.intern(entry.origin)
        signature = entry.whole_signature
        certificate = signature[:-PROOF]
        # of one other entry only: there may be thousands, and certificates are rarely renewed
        for number in self.incarnations[origin][-1:]:
            if self.entries[origin, number].certificate == certificate:
                certificate = self.entries[origin, number].certificate
        return replace(
            entry,
            arms=arms,
            origin=origin,
            signature=signature[-PROOF:],
            certificate=certificate,
        )

    def count(self, arm: str, values: Sequence[int], epoch: int) -> None:
        """Add own evidence to the sum before its entry is written; every reward comes here."""
        add_row(self.totals.setdefault(epoch, {}), arm, values)
        self.revision += 1

    def add(self, change: Rows, epoch: int) -> None:
        """Change the sum; only the arms that change are touched, because there may be many."""
        for arm, values in change.items():
            self.count(arm, values, epoch)
        if not self.totals.get(epoch, True):
            del self.totals[epoch]

    def state(self) -> dict[str, Any]:
        """Return a durable part for each entry."""
        self._changed = set(self.entries)
        return self.changes()

    def changes(self) -> dict[str, Any]:
        """Return the parts that changed since they were last written; None: a part is gone."""
        changed = {
            f"{PREFIX}{key[0]} {key[1]}": encode_entry(self.entries.get(key))
            for key in self._changed
        }
        self._changed.clear()
        return changed

    def commit(self) -> None:
        """Note that all entries are on disk."""
        self._committed.clear()

    def rollback(self) -> None:
        """Hold again what is on disk; the sum must be that of the entries."""
        for key, before in self._committed.items():
            self._replace(key, before)
        self._committed.clear()
        self._changed.clear()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Read the entries out of all parts of a state."""
        for name in state:
            if name.startswith(PREFIX):
                self.keep(decode_entry(state[name]))
        self._committed.clear()
        self._changed.clear()


def _beats(entry: Entry, rival: Entry) -> bool:
    """Whether an entry is held in place of one with an incarnation in common."""
    if entry.key == rival.key or (entry.covers and rival.covers):
        return (entry.version, entry.incarnation) > (rival.version, rival.incarnation)
    return bool(entry.covers)


def encode_entry(entry: Entry | None) -> list[Any] | None:
    """Encode an entry as plain JSON values."""
    if entry is None:
        return None
    rows = [list(row) for row in entry.ledger().values()]
    return [
        *(entry.origin, entry.incarnation, list(entry.version), entry.epoch),
        *(list(entry.covers), list(entry.arms), rows, entry.whole_signature.hex()),
    ]


def decode_entry(values: Sequence[Any]) -> Entry:
    """Decode an entry of `encode_entry`."""
    origin, incarnation, (made, seq, nonce), epoch, covers, arms, rows, signature = values
    what = (origin, incarnation), (made, seq, nonce), dict(zip(arms, rows, strict=True))
    return Entry.from_ledger(*what, epoch, tuple(covers), bytes.fromhex(signature))
