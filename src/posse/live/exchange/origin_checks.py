"""Validation of origin messages and entries, and a rate limit on what one origin can have pulled.

A message of another shape is refused as a whole; what is in it, entry by entry: one that cannot be
used does not keep the others out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posse.live.exchange import layouts
from posse.live.exchange.bounds import Bounds
from posse.live.exchange.ledger import LARGEST_SUM, is_ledger, is_name, is_whole
from posse.live.exchange.messages import END, Entry, OriginsMessage

MOST_FOLDED = 4096  # incarnations named by one entry
LARGEST_ENTRY = 400_000  # bytes, so that one always fits into a message


@dataclass(frozen=True)
class RateCap:
    """A rate limit: no origin can have pulled more often since the network began (by our clock)."""

    per_second: float
    since: float

    def pulls(self, now: float) -> float:
        """The most pulls an origin can have made by now."""
        return self.per_second * max(0.0, now - self.since)


@dataclass(frozen=True)
class OriginChecks:
    """Checks of one message, and of one entry, by itself."""

    fingerprint: str
    bounds: Bounds
    most_entries: int
    experiment: str

    def problem(self, message: OriginsMessage) -> str | None:
        """Why a message cannot be used at all; never an exception."""
        if message.fingerprint != self.fingerprint:
            return "fingerprint_mismatch"
        return None if self._has_shape(message) else "malformed"

    def entry_problem(self, entry: object) -> str | None:
        """Why an entry cannot be used; never an exception."""
        if not self._is_entry(entry):
            return "malformed"
        assert isinstance(entry, Entry)
        if problem := layouts.layout_problem(entry, self.experiment):
            return problem
        if not is_ledger(entry.evidence, self.bounds.dimension):
            return "malformed"
        if any(max(map(abs, row)) > LARGEST_SUM for row in entry.evidence.values()):
            return "malformed"
        if entry.size > LARGEST_ENTRY:
            return "entry_too_large"
        if not all(map(self.bounds.allow_part, entry.evidence.values())):
            return "evidence_exceeds_pulls"
        return None

    def _has_shape(self, message: OriginsMessage) -> bool:
        return (
            isinstance(message.entries, tuple | list)
            and isinstance(message.holds, tuple | list)
            and isinstance(message.complete, bool)
            and max(len(message.holds), len(message.entries)) <= self.most_entries
            and all(map(_is_holding, message.holds))
            and _is_key(message.first)
            and _is_key(message.last)
        )

    def _is_entry(self, entry: object) -> bool:
        return (
            isinstance(entry, Entry)
            and _is_holding((entry.origin, entry.incarnation, entry.seq))
            and isinstance(entry.evidence, Mapping)
            and isinstance(entry.signature, bytes)
            and is_whole(entry.layout)
            and isinstance(entry.experiment, str)
            and is_whole(entry.epoch)
            and is_whole(entry.floor, entry.incarnation)
            and _are_folded(entry)
        )


def _are_folded(entry: Entry) -> bool:
    """Whether its names are pairs in their order, and it is not among them."""
    folded = entry.folded
    if not (isinstance(folded, tuple | list) and len(folded) <= MOST_FOLDED):
        return False
    before = -1
    for each in folded:
        if not (isinstance(each, tuple | list) and len(each) == 2 and all(map(is_whole, each))):
            return False
        if each[0] <= before or each[0] == entry.incarnation:
            return False
        before = each[0]
    return True


def _is_key(key: object) -> bool:
    return key == END or (
        isinstance(key, tuple | list) and len(key) == 2 and is_name(key[0]) and is_whole(key[1])
    )


def _is_holding(holding: object) -> bool:
    return (
        isinstance(holding, tuple | list)
        and len(holding) == 3
        and is_name(holding[0])
        and is_whole(holding[1])
        and is_whole(holding[2])
    )
