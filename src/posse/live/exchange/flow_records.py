"""Epochs of peer processes (boots): tells live messages from late ones of a dead process.

A process draws a random boot number when it starts, and only one of an identity runs at a time.
When a boot is seen for the first time, any boot of that peer counts only once it has heard what we
sent since: both had started by then, so only the later one can answer.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from posse.live.exchange.bounds import Bounds
from posse.live.exchange.epochs import Epochs, shifted
from posse.live.exchange.ledger import LARGEST_SUM, Ledger, from_plain, minus, plain, plus, total
from posse.live.exchange.messages import FlowsMessage

MOST_BOOTS = 16  # remembered of one peer; a forgotten one is only asked again


@dataclass
class Boots:
    """The boots heard of one peer in our own present boot."""

    latest: int = 0  # the one heard last, alive or not: the one to be asked
    last_seq: dict[int, int] = field(default_factory=dict)
    must_hear: int = 0  # which of our messages a boot must have heard to count as alive

    def is_repeated(self, boot: int, seq: int) -> bool:
        """Whether this or a later message of that boot has been seen."""
        return seq <= self.last_seq.get(boot, -1)

    def hear(self, boot: int, seq: int, our_seq: int) -> bool:
        """Note a message, our own last being `our_seq`; whether its boot is a new one."""
        new = boot not in self.last_seq
        if new:
            self.must_hear = our_seq + 1
            if len(self.last_seq) >= MOST_BOOTS:
                del self.last_seq[next(iter(self.last_seq))]
        self.last_seq[boot] = seq
        self.latest = boot
        return new

    def is_alive(self, heard: int) -> bool:
        """Whether who has heard so much of us is the process that runs now."""
        return heard >= self.must_hear

    def last_heard(self) -> tuple[int, int]:
        """The boot heard last and its last seq, to be told to the peer."""
        return self.latest, self.last_seq.get(self.latest, 0)


@dataclass
class Peer:
    """What the present process knows of one identity: volatile."""

    boots: Boots = field(default_factory=Boots)
    version: int | None = None  # None until a message of its present process has been used
    credit: bool = False
    learned: int = 0  # identities, since the last tick
    last_heard: float | None = None


# Durable state of flows: an agent's own evidence, and what flowed over each edge.

PART = "record "  # before an identity, the name of its record on disk
MOST_IDENTITIES = 100  # of one name: every lost disk takes one
MOST_KNOWN = 1000  # identities
GOSSIPED = 32  # identities a message, in turns, so that its size does not grow with N
LEARNED = 16  # identities a tick from one neighbour: no liar makes N jump


@dataclass
class Record:
    """One edge ever used: its version, and what has flowed out over it."""

    name: str
    rank: int  # of those with one name, the one heard last has the highest
    version: int = 0
    flow: Ledger = field(default_factory=dict)


@dataclass
class Records:
    """Own evidence, every record, and the level: the one less the sum of the others."""

    own: Ledger = field(default_factory=dict)
    level: Ledger = field(default_factory=dict)
    by_identity: dict[str, Record] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # identities, since they were last written
    revision: int = 0  # of the level
    epoch: int = 0  # of all numbers, where evidence fades
    _plain: dict[str, list[Any]] = field(default_factory=dict)  # as written, if unchanged
    _plain_own: dict[str, list[int]] | None = None

    def has_room(self, arm: str, values: tuple[int, ...]) -> bool:
        """Whether the sums stay within what messages can carry."""
        sums = (self.own.get(arm, values), self.level.get(arm, values))
        return all(
            abs(mine) + abs(value) <= LARGEST_SUM
            for row in sums
            for mine, value in zip(row, values, strict=True)
        )

    def observe(self, arm: str, values: tuple[int, ...]) -> None:
        """Add to one's own evidence."""
        for ledger in (self.own, self.level):
            mine = ledger.get(arm)
            row = values if mine is None else tuple(map(operator.add, mine, values))
            if any(row):
                ledger[arm] = row
            else:
                ledger.pop(arm, None)
        self.revision += 1
        self._plain_own = None

    def of(self, identity: str, name: str) -> Record:
        """The record of an edge, new if it was never used."""
        if identity not in self.by_identity:
            self.by_identity[identity] = Record(name, self._next_rank())
            self._touch(identity)
        return self.by_identity[identity]

    def set(self, identity: str, version: int, flow: Ledger) -> None:
        """Replace what a record says."""
        record = self.by_identity[identity]
        level = self.level_with(record, flow)
        self.revision += level != self.level
        self.level = level
        record.version = version
        record.flow = flow
        self._touch(identity)

    def follow(self, epochs: Epochs, bounds: Bounds, now: float | None = None) -> None:
        """Take part in time: numbers fade from tick to tick, and are halved by epochs."""
        if epochs.fading:
            if now is not None and epochs.move(now) and self.own | self.level:
                self.revision += 1
            self.fade(epochs.epoch, bounds)

    def fade(self, epoch: int, bounds: Bounds) -> None:
        """Bring all numbers to a later epoch.

        Own evidence and each flow by itself, so that both ends of an edge stay opposite; the level
        follows from them, and may differ from its own half by a quantum or so for each edge.
        """
        if epoch <= self.epoch:
            return
        passed = epoch - self.epoch
        self.epoch = epoch
        if not (self.own or self.by_identity):
            return
        self.own = shifted(self.own, passed, bounds)
        self._plain_own = None
        for identity, record in self.by_identity.items():
            if record.flow:
                record.flow = shifted(record.flow, passed)
                self._touch(identity)
        self.level = minus(self.own, total(record.flow for record in self.by_identity.values()))
        self.revision += 1

    def level_with(self, record: Record, flow: Ledger) -> Ledger:
        """The level, if that had flowed out over an edge."""
        return minus(plus(self.level, record.flow), flow)

    def present(self) -> dict[str, str]:
        """The identity that each name now stands for."""
        ranked = sorted(self.by_identity.items(), key=lambda item: item[1].rank)
        return {record.name: identity for identity, record in ranked}

    def make_present(self, identity: str) -> None:
        """Its name now stands for this identity."""
        record = self.by_identity[identity]
        if self.present()[record.name] != identity:
            record.rank = self._next_rank()
            self._touch(identity)

    def problem(self, name: str, identity: str) -> str | None:
        """An identity belongs to the name under which it was first heard, and never to two."""
        if identity in self.by_identity:
            same = self.by_identity[identity].name == name
            return None if same else "the identity of another name"
        identities = sum(record.name == name for record in self.by_identity.values())
        return "too many identities" if identities >= MOST_IDENTITIES else None

    def written(self, identity: str) -> list[Any]:
        """A record as plain values; the same object for as long as it does not change."""
        if identity not in self._plain:
            r = self.by_identity[identity]
            self._plain[identity] = [identity, r.name, r.version, plain(r.flow), r.rank]
        return self._plain[identity]

    def written_own(self) -> dict[str, list[int]]:
        """One's own evidence as plain values."""
        if self._plain_own is None:
            self._plain_own = plain(self.own)
        return self._plain_own

    def state(self) -> dict[str, Any]:
        """Every record, a durable part each."""
        self.changed.clear()
        return {PART + each: self.written(each) for each in self.by_identity}

    def changes(self) -> dict[str, Any]:
        """Those that changed since they were last written."""
        changed = {PART + each: self.written(each) for each in self.changed}
        self.changed.clear()
        return changed

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Records:
        """What was written."""
        own = state["own"]
        records = cls(from_plain(own), from_plain(own), epoch=state.get("epoch", 0))
        for part_name, part in state.items():
            if part_name.startswith(PART):
                identity, name, version, flow, rank = part
                records.by_identity[identity] = Record(name, rank)
                records.set(identity, version, from_plain(flow))
        records.changed.clear()
        return records

    def _next_rank(self) -> int:
        return 1 + max((record.rank for record in self.by_identity.values()), default=-1)

    def _touch(self, identity: str) -> None:
        self.changed.add(identity)
        self._plain.pop(identity, None)


def in_epoch(message: FlowsMessage, epoch: int) -> FlowsMessage:
    """What a neighbour said, in numbers of an epoch no older than its own."""
    if message.epoch == epoch:
        return message
    passed = epoch - message.epoch
    flow = shifted(message.flow, passed)
    level = shifted(message.level, passed)
    return replace(message, flow=flow, level=level, epoch=epoch)


class Census:
    """The identities ever seen, passed on from agent to agent."""

    def __init__(self, identities: Sequence[str]) -> None:
        self.known: dict[str, None] = dict.fromkeys(identities)  # in the order of arrival
        self._next = 0
        self._plain: list[str] | None = None  # as in `state`, if unchanged

    def learn(self, identities: Sequence[str], most: int = MOST_KNOWN) -> int:
        """Add so many of them at most, up to the most that are counted; how many it were."""
        fresh = [each for each in dict.fromkeys(identities) if each not in self.known]
        fresh = fresh[: max(0, min(most, MOST_KNOWN - len(self.known)))]
        if fresh:
            self.known |= dict.fromkeys(fresh)
            self._plain = None
        return len(fresh)

    def state(self) -> list[str]:
        """All of them."""
        if self._plain is None:
            self._plain = list(self.known)
        return self._plain

    def gossip(self) -> tuple[str, ...]:
        """Some of them, others each time."""
        known = list(self.known)
        start = self._next % len(known)
        self._next = start + GOSSIPED
        return tuple((known + known)[start : start + min(GOSSIPED, len(known))])
