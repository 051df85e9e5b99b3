"""The messages of the exchanges: plain values; `wire` serialises them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from posse.live.exchange.layouts import DEFAULT

Key = tuple[str, int]  # origin and incarnation
FIRST: Key = ("", 0)  # before all keys, for no name is empty
END: Key = ("", 0)  # as the last key: up to the end


@dataclass(frozen=True)
class Entry:
    """All that one origin has seen in one incarnation; written and signed by it alone.

    It may absorb (fold) older incarnations of its origin: those named, up to the seq named with
    each, and all others from `numbers.DATED` up to `floor`.
    """

    origin: str
    incarnation: int
    seq: int
    evidence: Mapping[str, tuple[int, ...]]
    signature: bytes = b""
    layout: int = 1  # how it was signed, and how it is read
    experiment: str = DEFAULT
    epoch: int = 0  # 0: none
    folded: tuple[tuple[int, int], ...] = ()  # (incarnation, seq), rising
    floor: int = 0

    @property
    def key(self) -> Key:
        """Of entries with the same one, that with the highest seq is right."""
        return self.origin, self.incarnation

    @cached_property
    def pulls(self) -> int:
        """How many it counts over all arms, in quanta: the last number of every row."""
        return sum(row[-1] for row in self.evidence.values())

    @cached_property
    def size(self) -> int:
        """The most bytes it takes on the wire."""
        arms = (row_size(arm, len(each)) for arm, each in self.evidence.items())
        names = wire_size(self.origin) + wire_size(self.experiment)
        return 400 + names + len(self.signature) + 19 * len(self.folded) + sum(arms)


@dataclass(frozen=True)
class OriginsMessage:
    """Entries the receiver may lack, and what the sender holds."""

    fingerprint: str
    entries: tuple[Entry, ...]
    holds: tuple[tuple[str, int, int], ...]  # (origin, incarnation, seq)
    complete: bool  # whether `holds` is all from `first` up to `last`, or acknowledges
    first: Key = FIRST
    last: Key = END

    VERSION_1: ClassVar[int] = 4  # fields that wire version 1 has

    def in_version_1(self) -> list[Any]:
        """Its fields for neighbours of 0.1, without the entries that they could not read."""
        entries = [
            {
                "origin": entry.origin,
                "incarnation": entry.incarnation,
                "seq": entry.seq,
                "evidence": entry.evidence,
                "signature": entry.signature,
            }
            for entry in self.entries
            if entry.layout == 1
        ]
        whole = self.complete and self.first == FIRST and self.last == END
        return [self.fingerprint, entries, self.holds, whole]

    def left_out_of_version_1(self) -> int:
        """How many of its entries need a newer Posse."""
        return sum(entry.layout != 1 for entry in self.entries)


@dataclass(frozen=True)
class FlowsMessage:
    """One end's record of one edge, and what the other end needs to judge and to answer it."""

    fingerprint: str
    src: str  # the sender's identity, not its name
    boot: int
    echo: int  # the last boot heard from the receiver, 0 if none
    heard: int  # the last seq heard in that boot
    seq: int
    settled: bool  # whether the sender knows that the receiver has this version; if not, it asks
    active: bool
    degree: int
    version: int
    flow: Mapping[str, tuple[int, ...]]
    level: Mapping[str, tuple[int, ...]]  # e, the sender's estimate of the average evidence
    known: tuple[str, ...]  # some identities of the network
    epoch: int = 0  # of flow and level, where evidence fades

    VERSION_1: ClassVar[int] = 13

    def in_version_1(self) -> list[Any]:
        """Its fields, but for the epoch: in a network of 0.1 nothing fades."""
        return [
            *(self.fingerprint, self.src, self.boot, self.echo, self.heard, self.seq),
            *(self.settled, self.active, self.degree, self.version),
            *(self.flow, self.level, self.known),
        ]

    def left_out_of_version_1(self) -> int:
        """Nothing of it needs a newer Posse."""
        return 0


def row_size(arm: str, coordinates: int) -> int:
    """The most bytes that the evidence of an arm takes on the wire."""
    return 20 + wire_size(arm) + 10 * coordinates


def wire_size(text: str) -> int:
    """The bytes of a text on the wire."""
    return len(text.encode(errors="replace"))


Message = OriginsMessage | FlowsMessage
