"""What folded incarnations were worth by themselves, so that more of one can be added exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posse.live.exchange.bounds import ROUNDING, Bounds
from posse.live.exchange.carried import VOID, Carried
from posse.live.exchange.epochs import shift_ledger
from posse.live.exchange.ledger import Ledger, from_plain, minus, plain
from posse.live.exchange.messages import Entry

PREFIX = "archive "  # of the names of durable parts


class Archive:
    """By incarnation its seq and its worth, or the incarnation whose worth it is a part of.

    The latter where it was never seen by itself, or cannot be told from what it absorbed.
    """

    def __init__(self, bounds: Bounds, read: Callable[[Entry], Ledger]) -> None:
        self._rounded = bounds.rounded
        self._read = read  # the evidence of an entry, in the present epoch
        self.kept: dict[int, tuple[int, Ledger | int]] = {}
        self.changed: set[int] = set()

    def note(self, incarnation: int, seq: int, worth: Ledger | None, into: int) -> None:
        """An incarnation was absorbed: what it was worth or, if that cannot be told, into what."""
        self.kept[incarnation] = seq, into if worth is None else worth
        self.changed.add(incarnation)

    def note_unknown(self, entry: Entry) -> None:
        """What an entry absorbed and we never saw by itself is part of that entry's worth."""
        for incarnation, seq in entry.folded:
            if incarnation not in self.kept and seq != VOID:
                self.note(incarnation, seq, None, entry.incarnation)

    def forget(self, incarnation: int) -> None:
        """It has no name any more."""
        if self.kept.pop(incarnation, None) is not None:
            self.changed.add(incarnation)

    def worth(self, incarnation: int) -> Ledger | None:
        """What an absorbed incarnation was worth by itself, if that can be told."""
        _, worth = self.kept.get(incarnation, (0, 0))
        return None if isinstance(worth, int) else worth

    def pure(self, entry: Entry, floor: int, carried: Carried) -> Ledger | None:
        """What an entry is worth without all that it absorbed; None if it cannot be told.

        Below `floor` there is what we count and have no name for any more.  Of what it absorbed it
        may have taken back what was `carried`.
        """
        worth = dict(self._read(entry))
        named = dict(entry.folded)
        below = {j for j in self.kept if j < entry.floor and j not in named}
        void = {number for number, seq in entry.folded if seq == VOID}
        for incarnation in [*(named.keys() - void), *below]:
            if incarnation not in self.kept:
                if incarnation < floor:
                    return None
                continue  # nothing else counts it
            seq, part = self.kept[incarnation]
            if incarnation in named and seq != named[incarnation]:
                return None
            if not isinstance(part, int):
                worth = minus(worth, minus(part, carried.void_of(incarnation, void)))
            elif part != entry.incarnation and part not in named:
                return None
        least = -ROUNDING if self._rounded else 0
        if any(values[-1] < least for values in worth.values()):
            return None
        return {arm: values for arm, values in worth.items() if values[-1] >= 0}

    def fade(self, passed: int) -> None:
        """Bring all worths to a later epoch."""
        for incarnation, (seq, part) in self.kept.items():
            if not isinstance(part, int):
                self.kept[incarnation] = seq, shift_ledger(part, passed)
                self.changed.add(incarnation)

    def arms(self) -> dict[int, int]:
        """How many arms are kept of each incarnation."""
        return {i: len(part) for i, (_, part) in self.kept.items() if not isinstance(part, int)}

    def state(self) -> dict[str, Any]:
        """All as plain parts."""
        self.changed.clear()
        return {f"{PREFIX}{each}": self._written(each) for each in self.kept}

    def changes(self) -> dict[str, Any]:
        """The parts that changed since they were last written; None: a part is gone."""
        changed: dict[str, Any] = {
            f"{PREFIX}{i}": self._written(i) if i in self.kept else None for i in self.changed
        }
        self.changed.clear()
        return changed

    def restore(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Take what was written out of all parts of a state."""
        for name, part in state.items():
            if name.startswith(PREFIX):
                seq, worth = part
                if not isinstance(worth, int):
                    worth = from_plain(worth)
                self.kept[int(name.removeprefix(PREFIX))] = seq, worth

    def _written(self, incarnation: int) -> list[Any]:
        seq, worth = self.kept[incarnation]
        return [seq, worth if isinstance(worth, int) else plain(worth)]
