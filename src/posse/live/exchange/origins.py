"""Origins: a state-based CRDT of every origin's cumulative evidence; exact, whatever is lost.

Entries only grow, and the one with the higher sequence number wins, so loss, repetition and order
of messages do not matter.  An origin's evidence is the sum over its incarnations: after an unclean
stop its disk may have forgotten sequence numbers that others have seen, and a new incarnation never
uses one twice; what others hold of the old ones comes back to it.  With the agent's own name as
identity even a lost disk costs only what it had not sent yet.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from posse.live.exchange.ledger import (
    MOST_ARMS,
    Bounds,
    Ledger,
    from_plain,
    minus,
    plain,
    plus,
    total,
)
from posse.live.exchange.messages import Entry, OriginsMessage, wire_size
from posse.live.exchange.origin_checks import OriginChecks, RateCap
from posse.live.exchange.quanta import PER_UNIT
from posse.live.exchange.seam import NeighbourStatus, Outgoing

T = TypeVar("T")
Key = tuple[str, int]  # origin and incarnation
Sign = Callable[[bytes], bytes]  # content -> signature
Verify = Callable[[str, bytes, bytes], bool]  # origin, content, signature

ROOM = 900_000  # bytes of a message
LARGEST_ENTRY = 400_000  # bytes, so that one always fits into a message
LARGEST_ORIGIN = 2_000_000  # bytes that the entries of one origin may take, however many


@dataclass
class _Neighbour:
    """What one neighbour is known to hold; all volatile."""

    holds: dict[Key, int] = field(default_factory=dict)  # -> seq
    last_heard: float | None = None


class Origins:
    """The exchange of exact evidence, entry by entry and neighbour by neighbour."""

    def __init__(
        self,
        *,
        fingerprint: str,
        bounds: Sequence[float],
        equal: Sequence[str] = (),  # fingerprints that mean the same
        identity: str | None = None,
        sign: Sign | None = None,
        verify: Verify | None = None,
        rate_cap: RateCap | None = None,
        digest_every: int = 10,  # ticks
        batch: int = 200,  # entries a message
        most_entries: int = 10_000,  # a stranger cannot fill the memory
        draw: Callable[[int], int] = secrets.randbits,
    ) -> None:
        """Nothing observed yet; `bounds` are the most a pull adds to each coordinate."""
        self.identity = identity or f"{draw(128):032x}"
        self.refusals: Counter[str] = Counter()
        self.revision = 0
        self.fingerprint = fingerprint
        self._fingerprints = (fingerprint, *equal)
        self._patient = True  # no entry of this message had a bad signature
        self._bounds = Bounds(tuple(bounds))
        self._checks = OriginChecks(self._fingerprints, self._bounds, most_entries)
        self._sign, self._verify = sign, verify
        self._rate_cap = rate_cap
        self._digest_every, self._batch, self._most_entries = digest_every, batch, most_entries
        self._draw = draw
        self._entries: dict[Key, Entry] = {}
        self._total: Ledger = {}  # over all entries, kept up to date: every decision reads it
        self._others: list[Any] | None = None  # their entries as in `state`, if unchanged
        self._sizes: Counter[str] = Counter()  # bytes of all entries of an origin
        self._incarnation: int | None = None  # None: the next observation opens a new one
        self._neighbours: dict[str, _Neighbour] = {}
        self._ticks = 0

    def observe(self, arm: str, statistic: Sequence[int]) -> None:
        """Add one's own evidence to one's current entry."""
        fresh = self._bounds.observed(arm, statistic)
        if self._incarnation is None or self._is_full(arm):
            # drawn at random, for a counter would roll back with the disk
            self._incarnation = self._draw(62)
        key = self.identity, self._incarnation
        old = self._entries.get(key, Entry(*key, 0, {}))
        # signed when it is sent: rewards come more often than ticks
        self._keep(Entry(*key, old.seq + 1, plus(old.evidence, fresh)))

    def evidence(self) -> Ledger:
        """The sum over all origins."""
        return dict(self._total)

    def own(self) -> Ledger:
        """The sum over one's own incarnations."""
        return total(e.evidence for e in self._entries.values() if e.origin == self.identity)

    def known(self) -> frozenset[str]:
        """All origins with evidence, and oneself."""
        return frozenset({self.identity, *(origin for origin, _ in self._entries)})

    def connect(self, peer: str) -> None:
        """Begin as if it held nothing, until it says what it holds."""
        self._neighbours.setdefault(peer, _Neighbour())

    def disconnect(self, peer: str) -> None:
        """Send nothing more to it; what it says is still heard."""
        self._neighbours.pop(peer, None)

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """Every edge, with the number of entries the neighbour is not known to hold."""
        return {
            name: NeighbourStatus(
                identity=None,
                active=True,
                last_heard=neighbour.last_heard,
                lag=None if neighbour.last_heard is None else len(self._lacking(neighbour)),
            )
            for name, neighbour in self._neighbours.items()
        }

    def tick(self, now: float) -> Outgoing:
        """To each neighbour the entries it has not acknowledged, and now and then a digest."""
        outgoing: Outgoing = []
        digest_due = self._ticks % self._digest_every == 0
        self._ticks += 1
        holds = self._holdings(self._entries) if digest_due else ()
        shown = _fitting(holds, _holding_bytes, ROOM - LARGEST_ENTRY)
        complete = digest_due and len(shown) == len(holds)
        left = ROOM - sum(map(_holding_bytes, shown))
        for name, neighbour in self._neighbours.items():
            lacking = map(self._signed, self._next_batch(self._lacking(neighbour)))
            entries = _fitting(lacking, lambda entry: entry.size, left)
            if entries or digest_due:
                message = OriginsMessage(self.fingerprint, entries, shown, complete)
                outgoing.append((name, message))
        return outgoing

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Keep what is newer, and acknowledge what came."""
        if not isinstance(message, OriginsMessage):
            return self._refuse("no message of origins")
        if problem := self._checks.problem(message):
            return self._refuse(problem)
        neighbour = self._neighbours.get(peer, _Neighbour())  # a removed edge is still heard
        neighbour.last_heard = now
        if message.complete:
            # replaced, not merged: after a rolled-back disk it holds less than it acknowledged
            neighbour.holds = {}
        for origin, incarnation, seq in message.holds:
            key = origin, incarnation
            if key in neighbour.holds or len(neighbour.holds) < self._most_entries:
                neighbour.holds[key] = max(seq, neighbour.holds.get(key, 0))
        if not message.entries:
            return []
        self._patient = True
        for entry in self._in_turns(message.entries):
            self._take(entry, neighbour, now)
        held = self._holdings(e.key for e in message.entries if e.key in self._entries)
        return [(peer, OriginsMessage(self.fingerprint, (), held, False))]

    def state(self) -> dict[str, Any]:
        """Identity, incarnation, all entries, and the edges."""
        mine = [e for e in self._entries.values() if e.origin == self.identity]
        if self._others is None:
            theirs = (e for e in self._entries.values() if e.origin != self.identity)
            self._others = list(map(_plain_entry, theirs))
        return {
            "identity": self.identity,
            "incarnation": self._incarnation,
            "own": list(map(_plain_entry, mine)),
            "others": self._others,
            "neighbours": list(self._neighbours),
        }

    def restore(self, state: Mapping[str, Any], clean: bool = False) -> None:
        """Continue; after an unclean stop the next observation opens a new incarnation."""
        self.identity = state["identity"]
        self._incarnation = state["incarnation"] if clean else None
        self.revision += 1
        self._entries, self._total, self._others, self._sizes = {}, {}, None, Counter()
        for origin, incarnation, seq, evidence, signature in [*state["own"], *state["others"]]:
            written = from_plain(evidence), bytes.fromhex(signature)
            self._keep(Entry(origin, incarnation, seq, *written))
        self._neighbours = {name: _Neighbour() for name in state["neighbours"]}

    def _refuse(self, reason: str) -> Outgoing:
        self.refusals[reason] += 1
        return []

    def _keep(self, entry: Entry) -> None:
        old = self._entries.get(entry.key)
        change = minus(entry.evidence, old.evidence if old else {})
        # only what changes is touched: of others there may be much
        ours = {arm: self._total.pop(arm) for arm in change if arm in self._total}
        self._total |= plus(ours, change)
        self._sizes[entry.origin] += entry.size - (old.size if old else 0)
        self._entries[entry.key] = entry
        self.revision += 1
        if entry.origin != self.identity:
            self._others = None

    def _is_full(self, arm: str) -> bool:
        """Whether our entry has no room for a new arm: over the years there may be many."""
        mine = self._entries.get((self.identity, self._incarnation or 0))
        if mine is None or arm in mine.evidence:
            return False
        return len(mine.evidence) >= MOST_ARMS or mine.size > LARGEST_ENTRY // 2

    def _lacking(self, neighbour: _Neighbour) -> list[Entry]:
        holds = neighbour.holds
        return [entry for key, entry in self._entries.items() if entry.seq > holds.get(key, 0)]

    def _next_batch(self, lacking: list[Entry]) -> list[Entry]:
        """In turns, for entries that a neighbour refuses would else keep the others from it."""
        first = self._ticks * self._batch % max(1, len(lacking))
        return (lacking[first:] + lacking[:first])[: self._batch]

    def _holdings(self, keys: Iterable[Key]) -> tuple[tuple[str, int, int], ...]:
        return tuple((*key, self._entries[key].seq) for key in keys)

    def _signed(self, entry: Entry) -> Entry:
        if self._sign is None or entry.signature or entry.origin != self.identity:
            return entry
        signed = replace(entry, signature=self._sign(signed_bytes(self.fingerprint, entry)))
        self._keep(signed)
        return signed

    def _take(self, entry: Entry, neighbour: _Neighbour, now: float) -> None:
        """Keep an entry if it is newer and nothing speaks against it."""
        mine = self._entries.get(entry.key)
        if mine is None or entry.seq > mine.seq:
            if problem := self._entry_problem(entry, now):
                self._refuse(problem)
                return
            if entry.key == (self.identity, self._incarnation):
                # our own words, which we forgot: the disk rolled back after a stop called clean
                self._incarnation = None
            self._keep(entry)
        neighbour.holds[entry.key] = max(entry.seq, neighbour.holds.get(entry.key, 0))

    def _entry_problem(self, entry: Entry, now: float) -> str | None:
        if not all(self._bounds.allow(values) for values in entry.evidence.values()):
            return "more evidence than its pulls allow"
        mine = self._entries.get(entry.key)
        if self._rate_cap is not None:
            entries = self._entries.items()
            others = (e for k, e in entries if k[0] == entry.origin and k != entry.key)
            pulls = _pulls(entry) + sum(map(_pulls, others))
            if pulls > self._rate_cap.pulls(now) * PER_UNIT:
                return "more pulls than the rate allows"
        if mine is None and len(self._entries) >= self._most_entries:
            return "too many entries"
        if entry.size > LARGEST_ENTRY:
            return "too large an entry"
        if self._sizes[entry.origin] + entry.size - (mine.size if mine else 0) > LARGEST_ORIGIN:
            return "too many entries of one origin"
        return None if self._is_signed(entry) else "bad signature"

    def _in_turns(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Begun anywhere, or one bad signature would always keep out what is signed otherwise."""
        if self._verify is None or len(self._fingerprints) == 1:
            return entries
        first = self._draw(32) % len(entries)
        return entries[first:] + entries[:first]

    def _is_signed(self, entry: Entry) -> bool:
        """Whether its origin signed it, under our fingerprint or, maybe, an equal one.

        Equal ones are not tried after a bad signature in the same message: a liar would make us
        work for each of them.
        """
        if self._verify is None:
            return True
        equal = (each for each in self._fingerprints if each != self.fingerprint)
        for fingerprint in (self.fingerprint, *(equal if self._patient else ())):
            if self._verify(entry.origin, signed_bytes(fingerprint, entry), entry.signature):
                return True
        self._patient = False
        return False


def signed_bytes(fingerprint: str, entry: Entry) -> bytes:
    """What an origin signs: one spelling for equal content, whatever the order of the arms."""
    content = [fingerprint, entry.origin, entry.incarnation, entry.seq, dict(entry.evidence)]
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _plain_entry(e: Entry) -> list[Any]:
    return [e.origin, e.incarnation, e.seq, plain(e.evidence), e.signature.hex()]


def _fitting(items: Iterable[T], size: Callable[[T], int], room: int) -> tuple[T, ...]:
    """The first of the items, as many as fit into a message."""
    taken: list[T] = []
    for item in items:
        room -= size(item)
        if room < 0:
            break
        taken.append(item)
    return tuple(taken)


def _holding_bytes(holding: tuple[str, int, int]) -> int:
    """The most bytes it takes on the wire."""
    return 30 + wire_size(holding[0])


def _pulls(entry: Entry) -> int:
    return sum(values[-1] for values in entry.evidence.values())
