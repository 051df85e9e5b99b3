"""Records of flows: live boots of peers, durable flows over each edge, and identities ever seen.

A process draws a random boot number when it starts, and only one process of an identity runs at a
time. When a boot is seen for the first time, any boot of that peer counts only once it has received
what this process sent since: both had started by then, so only the later one can answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from posse.live.exchange.messages import FlowsMessage
from posse.live.ledger import (
    LARGEST_SUM,
    Bounds,
    Epochs,
    Ledger,
    add_row,
    minus,
    plain,
    plus,
    shift_ledger,
)

MOST_BOOTS = 16  # remembered of one peer; a forgotten one is only asked again


@dataclass
class Peer:
    """What this process knows of one identity: its boots, and its end of the edge; volatile."""

    latest: int = 0  # the boot heard last, alive or not: the one to be asked
    last_seq: dict[int, int] = field(default_factory=dict)  # by boot
    must_hear: int = 0  # which of our messages a boot must have heard to count as alive
    version: int | None = None  # None until a message of its present process has been used
    credit: bool = False
    learned: int = 0  # identities, since the last tick
    last_heard: float | None = None

    def is_repeated(self, boot: int, seq: int) -> bool:
        """Whether this or a later message of that boot was received before (deduplication)."""
        return seq <= self.last_seq.get(boot, -1)

    def note_message(self, boot: int, seq: int, our_seq: int) -> None:
        """Note a message, the own last one being `our_seq`."""
        if boot not in self.last_seq:
            self.version = None
            self.must_hear = our_seq + 1
            if len(self.last_seq) >= MOST_BOOTS:
                del self.last_seq[next(iter(self.last_seq))]
        self.last_seq[boot] = seq
        self.latest = boot

    def is_alive(self, heard: int) -> bool:
        """Whether a peer that received this own message is the process that runs now."""
        return heard >= self.must_hear

    def echo(self) -> tuple[int, int]:
        """Return the last boot received and its last seq, to be echoed to the peer."""
        return self.latest, self.last_seq.get(self.latest, 0)


# ---- Durable state of flows: own evidence, and what flowed over each edge

RECORD_PREFIX = "record "  # before an identity, the name of its record on disk
MOST_IDENTITIES = 100  # of one name: every lost disk takes one
MOST_KNOWN = 1000  # identities
IDENTITIES_A_MESSAGE = 32  # identities a message, in turns, so that its size does not grow with N
IDENTITIES_A_TICK = 16  # identities a tick from one neighbour: no liar makes N jump


@dataclass
class Record:
    """One edge ever used: its version, and what has flowed out over it."""

    name: str
    rank: int  # of those with one name, the one heard last has the highest
    version: int = 0
    flow: Ledger = field(default_factory=dict)


@dataclass
class FlowRecords:
    """Own evidence, every record, and the level: own evidence less the sum of all flows."""

    bounds: Bounds
    epochs: Epochs
    own: Ledger = field(default_factory=dict)
    level: Ledger = field(default_factory=dict)
    by_identity: dict[str, Record] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)  # the records as they are to be on disk
    revision: int = 0  # of the level
    epoch: int = 0  # of all numbers, where evidence fades

    def observe(self, arm: str, values: tuple[int, ...]) -> None:
        """Add to own evidence."""
        for ledger in (self.own, self.level):
            add_row(ledger, arm, values)
        self.revision += 1

    def has_room(self, arm: str, values: tuple[int, ...]) -> bool:
        """Whether the sums stay within what messages can carry."""
        sums = (self.own.get(arm, values), self.level.get(arm, values))
        return all(
            abs(mine) + abs(value) <= LARGEST_SUM
            for row in sums
            for mine, value in zip(row, values, strict=True)
        )

    def find_record(self, identity: str, name: str) -> Record:
        """Return the record of an edge, a new one if it was never used."""
        if identity not in self.by_identity:
            self.by_identity[identity] = Record(name, self._next_rank())
            self._write_part(identity)
        return self.by_identity[identity]

    def set_record(self, identity: str, version: int, flow: Ledger) -> None:
        """Replace version and flow of a record."""
        record = self.by_identity[identity]
        level = self.level_with(record, flow)
        self.revision += level != self.level
        self.level = level
        record.version = version
        record.flow = flow
        self._write_part(identity)

    def follow_time(self, now: float | None = None) -> None:
        """Follow the time: numbers fade from tick to tick, and are halved by epochs."""
        if self.epochs.fading:
            if now is not None and self.epochs.move_to(now) and self.own | self.level:
                self.revision += 1
            self.fade_to(self.epochs.epoch)

    def fade_to(self, epoch: int) -> None:
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
        self.own = shift_ledger(self.own, passed, self.bounds)
        self.level = dict(self.own)
        for identity, record in self.by_identity.items():
            record.flow = shift_ledger(record.flow, passed)
            self.level = minus(self.level, record.flow)
            self._write_part(identity)
        self.revision += 1

    def level_with(self, record: Record, flow: Ledger) -> Ledger:
        """Return the level if this had flowed out over an edge."""
        return minus(plus(self.level, record.flow), flow)

    def present_identities(self) -> dict[str, str]:
        """Return the identity that each name now stands for."""
        ranked = sorted(self.by_identity.items(), key=lambda item: item[1].rank)
        return {record.name: identity for identity, record in ranked}

    def make_present(self, identity: str) -> None:
        """Let the name of this identity stand for it."""
        record = self.by_identity[identity]
        if self.present_identities()[record.name] != identity:
            record.rank = self._next_rank()
            self._write_part(identity)

    def find_problem(self, name: str, identity: str) -> str | None:
        """Refuse an identity under a second name: it belongs to the name it first came with."""
        if identity in self.by_identity:
            same = self.by_identity[identity].name == name
            return None if same else "identity_name_mismatch"
        identities = sum(record.name == name for record in self.by_identity.values())
        return "too_many_identities" if identities >= MOST_IDENTITIES else None

    def restore(self, state: Mapping[str, Any]) -> None:
        """Read own evidence and all records out of the parts of a state."""
        self.own = plus({}, state["own"])
        self.level = dict(self.own)
        self.epoch = state.get("epoch", 0)
        self.by_identity = {}
        self.parts = {}
        for part_name in state:
            if part_name.startswith(RECORD_PREFIX):
                identity, name, version, flow, rank = state[part_name]
                self.by_identity[identity] = Record(name, rank)
                self.set_record(identity, version, plus({}, flow))

    def _write_part(self, identity: str) -> None:
        r = self.by_identity[identity]
        part = [identity, r.name, r.version, plain(r.flow), r.rank]
        self.parts[RECORD_PREFIX + identity] = part

    def _next_rank(self) -> int:
        return 1 + max((record.rank for record in self.by_identity.values()), default=-1)


def in_epoch(message: FlowsMessage, epoch: int) -> FlowsMessage:
    """Return a neighbour's message in numbers of an epoch no older than its own."""
    if message.epoch == epoch:
        return message
    passed = epoch - message.epoch
    flow, level = (shift_ledger(ledger, passed) for ledger in (message.flow, message.level))
    return replace(message, flow=flow, level=level, epoch=epoch)


class Census:
    """The identities ever seen, passed on from agent to agent."""

    def __init__(self, identities: Sequence[str]) -> None:
        self.known: dict[str, None] = dict.fromkeys(identities)  # in the order of arrival
        self._next = 0

    def add_identities(self, identities: Sequence[str], most: int) -> int:
        """Add at most this number of them, up to the largest census; returns how many were new."""
        fresh = [identity for identity in dict.fromkeys(identities) if identity not in self.known]
        fresh = fresh[: max(0, min(most, MOST_KNOWN - len(self.known)))]
        self.known |= dict.fromkeys(fresh)
        return len(fresh)

    def next_batch(self) -> tuple[str, ...]:
        """Return some identities, the next ones each time."""
        identities = list(self.known)
        start = self._next % len(identities)
        self._next = start + IDENTITIES_A_MESSAGE
        return tuple((identities[start:] + identities[:start])[:IDENTITIES_A_MESSAGE])
