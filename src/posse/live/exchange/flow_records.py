"""Durable state of flows: an agent's own evidence, and what flowed over each edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posse.live.exchange.ledger import Ledger, from_plain, minus, plain, plus

MOST_IDENTITIES = 100  # of one name: every lost disk takes one
MOST_KNOWN = 1000  # identities
GOSSIPED = 32  # identities a message, in turns, so that its size does not grow with N


@dataclass
class Record:
    """One edge ever used: its version, and what has flowed out over it."""

    name: str
    version: int = 0
    flow: Ledger = field(default_factory=dict)


@dataclass
class Records:
    """Own evidence, every record, and the level: the one less the sum of the others."""

    own: Ledger = field(default_factory=dict)
    level: Ledger = field(default_factory=dict)
    # by identity; of those with one name, the one heard last comes last
    by_identity: dict[str, Record] = field(default_factory=dict)
    _plain: list[list[Any]] | None = None  # as in `state`, if unchanged

    def observe(self, evidence: Ledger) -> None:
        """Add to one's own evidence."""
        self.own = plus(self.own, evidence)
        self.level = plus(self.level, evidence)

    def of(self, identity: str, name: str) -> Record:
        """The record of an edge, new if it was never used."""
        if identity not in self.by_identity:
            self.by_identity[identity] = Record(name)
            self._plain = None
        return self.by_identity[identity]

    def set(self, record: Record, version: int, flow: Ledger) -> None:
        """Replace what a record says."""
        self._plain = None
        self.level = self.level_with(record, flow)
        record.version, record.flow = version, flow

    def level_with(self, record: Record, flow: Ledger) -> Ledger:
        """The level, if that had flowed out over an edge."""
        return minus(plus(self.level, record.flow), flow)

    def present(self) -> dict[str, str]:
        """The identity that each name now stands for."""
        return {record.name: identity for identity, record in self.by_identity.items()}

    def make_present(self, identity: str) -> None:
        """Its name now stands for this identity."""
        record = self.by_identity[identity]
        if self.present()[record.name] != identity:
            self.by_identity[identity] = self.by_identity.pop(identity)
            self._plain = None

    def problem(self, name: str, identity: str) -> str | None:
        """An identity belongs to the name under which it was first heard, and never to two."""
        if identity in self.by_identity:
            same = self.by_identity[identity].name == name
            return None if same else "the identity of another name"
        identities = sum(record.name == name for record in self.by_identity.values())
        return "too many identities" if identities >= MOST_IDENTITIES else None

    def state(self) -> list[list[Any]]:
        """All records as plain values."""
        if self._plain is None:
            records = self.by_identity.items()
            self._plain = [[i, r.name, r.version, plain(r.flow)] for i, r in records]
        return self._plain

    @classmethod
    def restored(cls, own: Mapping[str, Sequence[int]], state: Sequence[Sequence[Any]]) -> Records:
        """The records that were saved."""
        records = cls(from_plain(own), from_plain(own))
        for identity, name, version, flow in state:
            records.set(records.of(identity, name), version, from_plain(flow))
        return records


class Census:
    """The identities ever seen, passed on from agent to agent."""

    def __init__(self, identities: Sequence[str]) -> None:
        self.known: dict[str, None] = dict.fromkeys(identities)  # in the order of arrival
        self._next = 0
        self._plain: list[str] | None = None  # as in `state`, if unchanged

    def learn(self, identities: Sequence[str]) -> None:
        """Add them, up to the most that are counted."""
        for identity in identities:
            if identity not in self.known and len(self.known) < MOST_KNOWN:
                self.known[identity] = None
                self._plain = None

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
