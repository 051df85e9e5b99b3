"""The messages of the exchanges: plain values; `wire` serialises them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from posse.live.exchange.layouts import DEFAULT, LAYOUT

Key = tuple[str, int]  # origin and incarnation
FIRST: Key = ("", 0)  # before all keys, for no name is empty
END: Key = ("", 0)  # as the last key: up to the end


@dataclass(frozen=True)
class Entry:
    """All that one origin has seen in one incarnation; written and signed by it alone.

    It may absorb (fold) older incarnations of its origin: those named, up to the seq named with
    each, and all others below `floor`.
    """

    origin: str
    incarnation: int
    seq: int
    evidence: Mapping[str, tuple[int, ...]]
    signature: bytes = b""
    layout: int = LAYOUT  # how it was signed, and how it is read
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
        arms = (row_size(arm, len(row)) for arm, row in self.evidence.items())
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


def row_size(arm: str, coordinates: int) -> int:
    """The most bytes that the evidence of an arm takes on the wire."""
    return 20 + wire_size(arm) + 10 * coordinates


def wire_size(text: str) -> int:
    """The bytes of a text on the wire."""
    return len(text.encode(errors="replace"))


Message = OriginsMessage | FlowsMessage
