"""Validation of origin messages, and a rate limit on what one origin can have pulled."""

from __future__ import annotations

from dataclasses import dataclass

from posse.live.exchange.ledger import Bounds, is_ledger, is_name, is_whole
from posse.live.exchange.messages import Entry, OriginsMessage


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
    """Checks of one message by itself."""

    fingerprints: tuple[str, ...]  # all equal
    bounds: Bounds
    most_entries: int

    def problem(self, message: OriginsMessage) -> str | None:
        """Why a message cannot be used at all; never an exception."""
        if message.fingerprint not in self.fingerprints:
            return "another fingerprint"
        return None if self._has_shape(message) else "malformed"

    def _has_shape(self, message: OriginsMessage) -> bool:
        return (
            isinstance(message.entries, tuple | list)
            and isinstance(message.holds, tuple | list)
            and isinstance(message.complete, bool)
            and max(len(message.holds), len(message.entries)) <= self.most_entries
            and all(map(_is_holding, message.holds))
            and all(map(self._is_entry, message.entries))
        )

    def _is_entry(self, entry: object) -> bool:
        return (
            isinstance(entry, Entry)
            and _is_holding((entry.origin, entry.incarnation, entry.seq))
            and is_ledger(entry.evidence, self.bounds.dimension)
            and isinstance(entry.signature, bytes)
        )


def _is_holding(holding: object) -> bool:
    return (
        isinstance(holding, tuple | list)
        and len(holding) == 3
        and is_name(holding[0])
        and is_whole(holding[1])
        and is_whole(holding[2])
    )
