"""Validation of messages: refuses what no honest neighbour sends; plausible lies pass.

Of origins a message of another shape is refused as a whole; what is in it, entry by entry: one that
cannot be used does not keep the others out. Shapes come first, then signatures, quotas and rates.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from posse.live.exchange.flow_records import MOST_KNOWN
from posse.live.exchange.messages import (
    END,
    LARGEST_ENTRY,
    MOST_NAMES,
    Entry,
    FlowsMessage,
    OriginsMessage,
    signed_bytes,
)
from posse.live.exchange.replica import Replica
from posse.live.ledger import (
    LARGEST,
    LARGEST_SUM,
    MOST_ARMS,
    PER_UNIT,
    Bounds,
    Rows,
    is_list,
    is_name,
    is_whole,
)

LARGEST_ORIGIN = 2_000_000  # bytes that the entries of one origin may take, however many
MOST_EDGES = 10_000  # of an agent under flows

Sign = Callable[[bytes], bytes]  # content -> signature
Verify = Callable[[str, bytes, bytes], bool]  # origin, content, signature


@dataclass(frozen=True)
class Examined:
    """A message with those of its entries that are news and signed, and what was refused."""

    message: OriginsMessage
    news: tuple[Entry, ...]
    known: tuple[Entry, ...]  # well-formed, and no news to us
    refused: Counter[str]
    usable: bool = True  # whether the message is one of ours at all


@dataclass(frozen=True)
class Examiner:
    """Checks sizes and shapes first, signatures last, and none after a bad signature.

    A liar must not cause work: after a bad signature the rest of a message is dropped. Entries are
    checked from a random one on, so that a bad one does not keep others out for ever.
    """

    fingerprint: str
    bounds: Bounds
    most_entries: int
    verify: Verify | None
    network: str
    is_news: Callable[[Entry], bool]
    draw: Callable[[int], int]

    def examine(self, message: OriginsMessage) -> Examined:
        """Return the entries that can be used; never raises."""
        refused: Counter[str] = Counter()
        if message.fingerprint != self.fingerprint:
            return Examined(message, (), (), Counter(["fingerprint_mismatch"]), usable=False)
        if not self._has_shape(message):
            return Examined(message, (), (), Counter(["malformed"]), usable=False)
        news: list[Entry] = []
        known: list[Entry] = []
        for entry in self._rotate(message.entries):
            if problem := self._find_entry_problem(entry):
                refused[problem] += 1
            elif not self.is_news(entry):
                known.append(entry)
            elif self._is_signed(entry):
                news.append(entry)
            else:
                refused["signature_invalid"] += 1
                break
        return Examined(message, tuple(news), tuple(known), refused)

    def _has_shape(self, message: OriginsMessage) -> bool:
        return (
            is_list(message.entries, self.most_entries, lambda _: True)
            and is_list(message.holds, self.most_entries, _is_holding)
            and isinstance(message.complete, bool)
            and all(map(_is_key, (message.first, message.last, message.asks)))
            and is_whole(message.answers)
        )

    def _find_entry_problem(self, entry: object) -> str | None:
        """Return why an entry cannot be used."""
        if not isinstance(entry, Entry) or not self._is_entry(entry):
            return "malformed"
        if entry.size() > LARGEST_ENTRY:
            return "entry_too_large"
        ledger = entry.ledger()
        if any(max(map(abs, row)) > LARGEST_SUM for row in ledger.values()):
            return "malformed"
        if not all(map(self.bounds.allow_row, ledger.keys(), ledger.values())):
            return "evidence_exceeds_pulls"
        return None

    def _is_entry(self, entry: Entry) -> bool:
        return (
            is_list(entry.version, 3, is_whole)
            and _is_holding(entry.holding)
            # Those of a base are of many starts: only its size limits them.
            and is_list(entry.arms, LARGEST_ENTRY if entry.covers else MOST_ARMS, is_name)
            and len(set(entry.arms)) == len(entry.arms)
            and isinstance(entry.numbers, bytes)
            and len(entry.numbers) == 8 * sum(map(self.bounds.count_numbers, entry.arms))
            and isinstance(entry.signature, bytes)
            and isinstance(entry.certificate, bytes)
            and is_whole(entry.epoch)
            and (not entry.epoch or self.bounds.rounded)  # only where evidence fades
            # a base covers some incarnations, each once
            and is_list(entry.covers, MOST_NAMES, is_whole)
            and len({entry.incarnation, *entry.covers}) == 1 + len(entry.covers)
        )

    def _rotate(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if self.verify is None or len(entries) < 2:
            return entries
        first = self.draw(32) % len(entries)
        return (*entries[first:], *entries[:first])

    def _is_signed(self, entry: Entry) -> bool:
        """Whether its origin signed it, under our fingerprint."""
        if self.verify is None:
            return True
        content = signed_bytes(self.fingerprint, entry, self.network)
        return self.verify(entry.origin, content, entry.whole_signature)


def _is_key(key: object) -> bool:
    return key == END or (
        isinstance(key, tuple | list) and len(key) == 2 and is_name(key[0]) and is_whole(key[1])
    )


def _is_holding(holding: object) -> bool:
    return (
        isinstance(holding, tuple | list)
        and len(holding) == 5
        and is_name(holding[0])
        and all(map(is_whole, holding[1:]))
    )


# ---- quotas of origins


@dataclass(frozen=True)
class RateCap:
    """A rate limit: no origin can have pulled more often since the network began (by our clock)."""

    per_second: float
    since: float

    def pulls(self, now: float) -> float:
        """The most pulls an origin can have made by now."""
        return self.per_second * max(0.0, now - self.since)


@dataclass(frozen=True)
class Quotas:
    """Per-origin quotas: entries, bytes and pulls, so that nobody takes the room of others."""

    most_entries: int
    rate_cap: RateCap | None
    fading: bool

    def find_problem(self, replica: Replica, entry: Entry, now: float) -> str | None:
        """Return why there is no room for an entry beside those that are held."""
        replaced = replica.find_rivals(entry)
        if self.rate_cap is not None:
            pulls = entry.pulls() - sum(other.pulls() for other in replaced)
            pulls += replica.pulls_of(entry.origin)
            most = self.rate_cap.pulls(now) * PER_UNIT
            # late in an epoch a pull weighs up to 2
            if pulls > (2 * most if self.fading else most):
                return "rate_cap_exceeded"
        if not replaced and len(replica.entries) >= self.most_entries:
            return "too_many_entries"
        # From a sum that is kept: an origin may have thousands of entries.
        size = replica.sizes[entry.origin] - sum(other.size() for other in replaced)
        if size + entry.size() > LARGEST_ORIGIN:
            return "too_many_entries_of_origin"
        return None


# ---- flows


@dataclass(frozen=True)
class FlowChecks:
    """Checks of one message by itself.

    A bound on the size of a step is not among them: a step that was lost is sent again with a later
    level, from which its size no longer follows, and an honest edge would be refused for ever.
    """

    fingerprint: str
    bounds: Bounds
    most_pulls: int  # of the whole network, ever

    def find_problem(self, message: FlowsMessage) -> str | None:
        """Return why a message cannot be used; never raises."""
        if message.fingerprint != self.fingerprint:
            return "fingerprint_mismatch"
        if not self._has_shape(message):
            return "malformed"
        if not (self.is_possible(message.flow) and self.is_possible(message.level)):
            return "evidence_exceeds_network"
        return None

    def _has_shape(self, message: FlowsMessage) -> bool:
        m = message
        return (
            is_name(m.src)
            and all(map(is_whole, (m.boot, m.echo, m.heard, m.seq, m.version, m.epoch)))
            and is_whole(m.degree, MOST_EDGES)
            and min(m.boot, m.degree) > 0
            and (not m.epoch or self.bounds.rounded)  # only where evidence fades
            and isinstance(m.settled, bool)
            and isinstance(m.active, bool)
            and self._is_ledger(m.flow)
            and self._is_ledger(m.level)
            and is_list(m.known, MOST_KNOWN, is_name)
        )

    def _is_ledger(self, value: object) -> bool:
        return (
            isinstance(value, Mapping)
            and is_list([*value], MOST_ARMS, is_name)
            and all(map(self._is_row, value.values()))
        )

    def _is_row(self, row: object) -> bool:
        return (
            isinstance(row, tuple | list)
            and len(row) == self.bounds.dimension
            and {int}.issuperset(map(type, row))
            and max(map(abs, row)) <= LARGEST
        )

    def is_possible(self, ledger: Rows, margin: int = 1) -> bool:
        """Whether the network can have so many times this evidence, of so many arms."""
        most = [largest // margin for largest in self._largest]
        return len(ledger) <= MOST_ARMS and all(
            all(map(operator.le, map(abs, values), most)) for values in ledger.values()
        )

    @cached_property
    def _largest(self) -> tuple[int, ...]:
        return tuple(
            min(LARGEST_SUM, math.ceil(bound * self.most_pulls) * PER_UNIT)
            for bound in self.bounds.per_pull
        )
