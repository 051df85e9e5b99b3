"""The entries an agent holds, and their sum, in which no incarnation counts twice.

An entry counts unless another one of its origin has absorbed its incarnation. It is deleted once
that one has absorbed it up to its seq; one with a higher seq is kept, though it does not count, so
that its origin may hear of it and add the difference.

Where evidence fades an entry is of an epoch, from which on everybody reads it as less and less;
nobody but its origin rewrites it.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posse.live.exchange.bounds import Bounds
from posse.live.exchange.epochs import shift_ledger
from posse.live.exchange.layouts import LAYOUT
from posse.live.exchange.ledger import (
    Ledger,
    dominates,
    from_plain,
    minus,
    negative,
    plain,
    plus,
    total,
)
from posse.live.exchange.messages import Entry, Key


@dataclass
class Absorbed:
    """The incarnations of one origin that its other entries have absorbed."""

    named: dict[int, int] = field(default_factory=dict)  # incarnation -> seq
    floor: int = 0

    @classmethod
    def by(cls, entries: Iterable[Entry]) -> Absorbed:
        """All that some entries of an origin absorb."""
        absorbed = cls()
        for entry in entries:
            absorbed.add(entry)
        return absorbed

    def add(self, entry: Entry) -> None:
        """What one more entry absorbs."""
        self.floor = max(self.floor, entry.floor)
        for incarnation, seq in entry.folded:
            self.named[incarnation] = max(seq, self.named.get(incarnation, 0))

    def holds(self, incarnation: int) -> bool:
        """Whether it is part of another entry, up to some seq."""
        return incarnation in self.named or incarnation < self.floor

    def covers(self, incarnation: int, seq: int) -> bool:
        """Whether all of it up to this seq is part of another entry."""
        if incarnation in self.named:
            return seq <= self.named[incarnation]
        return incarnation < self.floor


PREFIX = "entry "  # of the names of durable parts
LAYOUT_PLACE = 5  # among the values of such a part, for every layout to come
NOTHING = Absorbed()
NOT_HERE_YET = "rewards_before_decisions"  # not acknowledged, they come again


class Books:
    """Entries by key, their sum, and which of them changed since they were last written down."""

    def __init__(self, bounds: Bounds, fading: bool = False) -> None:
        self.bounds = bounds
        self.fading = fading
        self.entries: dict[Key, Entry] = {}
        self.totals: dict[int, Ledger] = {}  # by epoch; kept up to date: every decision reads them
        self.sizes: Counter[str] = Counter()  # bytes of all entries of an origin
        self.changed: set[Key] = set()
        self.revision = 0
        self._incarnations: dict[str, dict[int, None]] = {}
        self._absorbed: dict[str, Absorbed] = {}
        self._plain: dict[Key, list[Any]] = {}  # as written down
        self._order: list[Key] | None = None

    def keep(self, entry: Entry, counted: bool = False) -> list[Entry]:
        """Hold an entry in place of an older one; `counted`: its evidence is in the sum already.

        The entries that it absorbed, and which are gone now, come back.
        """
        origin = entry.origin
        old = self.entries.get(entry.key)
        same = (entry.folded, entry.floor) == ((old.folded, old.floor) if old else ((), 0))
        if counted or (same and not self.absorbed(origin).holds(entry.incarnation)):
            if not counted and old is not None and old.epoch != entry.epoch:
                self.add(negative(old.evidence), self.epoch_of(old))
                self.add(entry.evidence, self.epoch_of(entry))
            elif not counted:
                change = minus(entry.evidence, old.evidence if old else {})
                self.add(change, self.epoch_of(entry))
            self._put(entry, old)
            return []
        if same:  # it does not count, before or after
            self._put(entry, old)
            return []
        before = self.sums_of(origin)
        self._put(entry, old)
        self._absorbed[origin] = Absorbed.by(self.of(origin))
        gone = [e for e in self.of(origin) if self._absorbed[origin].covers(e.incarnation, e.seq)]
        for each in gone:
            self._remove(each)
        after = self.sums_of(origin)
        for epoch in before.keys() | after.keys():
            self.add(minus(after.get(epoch, {}), before.get(epoch, {})), epoch)
        return gone

    def of(self, origin: str) -> list[Entry]:
        """All entries of an origin."""
        return [self.entries[origin, each] for each in self._incarnations.get(origin, ())]

    def epoch_of(self, entry: Entry) -> int:
        """The epoch of its numbers."""
        return entry.epoch if self.fading else 0

    def read_in(self, entry: Entry, epoch: int) -> Mapping[str, tuple[int, ...]]:
        """The evidence of an entry, as it will be, or has been, in an epoch."""
        passed = epoch - self.epoch_of(entry)
        return shift_ledger(entry.evidence, passed, self.bounds) if passed else entry.evidence

    def dominates(self, one: Entry, other: Entry) -> bool:
        """Whether one counts, and has closed, no less of any arm than the other."""
        epoch = max(self.epoch_of(one), self.epoch_of(other))
        rows = self.read_in(one, epoch), self.read_in(other, epoch)
        return dominates(*rows, self.bounds.counts)

    def sums_of(self, origin: str) -> dict[int, Ledger]:
        """The evidence of an origin by epoch, each incarnation once."""
        sums: dict[int, Ledger] = {}
        for entry in self.counting(origin):
            epoch = self.epoch_of(entry)
            sums[epoch] = plus(sums.get(epoch, {}), entry.evidence)
        return sums

    def sum_of(self, origin: str, epoch: int = 0) -> Ledger:
        """The evidence of an origin in numbers of one epoch."""
        return total(self.read_in(entry, epoch) for entry in self.counting(origin))

    def counting(self, origin: str) -> list[Entry]:
        """The entries of an origin that count: no other one has absorbed them."""
        absorbed = self.absorbed(origin)
        return [e for e in self.of(origin) if not absorbed.holds(e.incarnation)]

    def allow(self, entry: Entry) -> bool:
        """Whether an origin can have the evidence that it would have with this entry.

        Rewards may come before the entry that counts their decisions.
        """
        if not self.bounds.closed:
            return True  # each is, by itself
        held = self.of(entry.origin)
        by = Absorbed.by([*held, entry])
        if by.holds(entry.incarnation):  # it does not count
            return True
        counting = [e for e in held if e.key != entry.key and not by.holds(e.incarnation)]
        counting.append(entry)
        epoch = max(map(self.epoch_of, counting))
        together = total(self.read_in(each, epoch) for each in counting)
        return all(map(self.bounds.allow_all, together.values()))

    def origins(self) -> Iterable[str]:
        """All origins with entries."""
        return self._incarnations

    def absorbed(self, origin: str) -> Absorbed:
        """What entries of an origin have absorbed."""
        return self._absorbed.get(origin, NOTHING)

    def freed_by(self, entry: Entry) -> int:
        """The bytes that an entry makes unnecessary: its predecessor, and what it absorbs."""
        by = Absorbed.by([entry])
        old = (e for e in self.of(entry.origin) if e.key != entry.key) if entry.folded else ()
        freed = sum(e.size for e in old if by.covers(e.incarnation, e.seq))
        return freed + (self.entries[entry.key].size if entry.key in self.entries else 0)

    def add(self, change: Mapping[str, Sequence[int]], epoch: int = 0) -> None:
        """Change the sum; only what changes is touched, for of others there may be much."""
        if change:
            total = self.totals.pop(epoch, {})
            ours = {arm: total.pop(arm) for arm in change if arm in total}
            total |= plus(ours, change)
            if total:
                self.totals[epoch] = total
            self.revision += 1

    def count(self, arm: str, values: tuple[int, ...], epoch: int) -> None:
        """One observation more of one's own."""
        total = self.totals.setdefault(epoch, {})
        held = total.get(arm)
        total[arm] = values if held is None else tuple(map(operator.add, held, values))
        self.revision += 1

    def drop(self, entries: Iterable[Entry]) -> None:
        """Hold some entries no longer, which read as nothing."""
        for entry in entries:
            before = self.sums_of(entry.origin)
            self._remove(entry)
            self._absorbed[entry.origin] = Absorbed.by(self.of(entry.origin))
            after = self.sums_of(entry.origin)
            for epoch in before.keys() | after.keys():
                self.add(minus(after.get(epoch, {}), before.get(epoch, {})), epoch)
            if not self._incarnations[entry.origin]:
                del self._incarnations[entry.origin], self._absorbed[entry.origin]

    def order(self) -> list[Key]:
        """All keys in their order."""
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order

    def written(self, key: Key) -> list[Any]:
        """An entry as plain values; the same object for as long as it does not change."""
        if key not in self._plain:
            self._plain[key] = plain_entry(self.entries[key])
        return self._plain[key]

    def state(self) -> dict[str, Any]:
        """A durable part for each entry."""
        self.changed.clear()
        return {_part(key): self.written(key) for key in self.entries}

    def changes(self) -> dict[str, Any]:
        """The parts that changed since they were last written; None: a part is gone."""
        changed = {
            _part(key): self.written(key) if key in self.entries else None for key in self.changed
        }
        self.changed.clear()
        return changed

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what was written out of all parts of a state."""
        for name, part in state.items():
            if name.startswith(PREFIX):
                self._restore(entry_from_plain(part))
        self.changed.clear()

    def is_another_future(self, mine: Entry, said: Entry) -> bool:
        """Whether an origin says what it cannot say after what we hold of it."""
        if said.seq == mine.seq:
            return said.evidence != mine.evidence
        return said.seq < mine.seq or not self.dominates(said, mine)

    def _restore(self, entry: Entry) -> None:
        held = self.entries.get(entry.key)
        covered = self.absorbed(entry.origin).covers(entry.incarnation, entry.seq)
        if not covered and (held is None or entry.seq > held.seq):
            self.keep(entry)

    def _put(self, entry: Entry, old: Entry | None) -> None:
        key = entry.key
        if old is None:
            self._incarnations.setdefault(entry.origin, {})[entry.incarnation] = None
            self._order = None
        self.sizes[entry.origin] += entry.size - (old.size if old else 0)
        self.entries[key] = entry
        self.changed.add(key)
        self._plain.pop(key, None)

    def _remove(self, entry: Entry) -> None:
        del self.entries[entry.key], self._incarnations[entry.origin][entry.incarnation]
        self.sizes[entry.origin] -= entry.size
        self.changed.add(entry.key)
        self._plain.pop(entry.key, None)
        self._order = None


def _part(key: Key) -> str:
    return f"{PREFIX}{key[0]} {key[1]}"


def plain_entry(e: Entry) -> list[Any]:
    """An entry as JSON would give it back."""
    return [
        *(e.origin, e.incarnation, e.seq, plain(e.evidence), e.signature.hex()),
        *(e.layout, e.experiment, e.epoch, [list(each) for each in e.folded], e.floor),
    ]


def entry_from_plain(values: Sequence[Any]) -> Entry:
    """The entry that was written."""
    layout = values[LAYOUT_PLACE] if len(values) > LAYOUT_PLACE else None
    if layout != LAYOUT:
        raise ValueError(
            f"the store holds an entry of layout {layout} and this Posse reads layout {LAYOUT}: "
            "start the agent with the Posse that wrote it, or give it a new store"
        )
    origin, incarnation, seq, evidence, signature, _, experiment, epoch, folded, floor = values
    return Entry(
        *(origin, incarnation, seq, from_plain(evidence), bytes.fromhex(signature)),
        *(layout, experiment, epoch, tuple((i, s) for i, s in folded), floor),
    )
