"""The messages of the exchanges: plain values; `wire` serialises them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Entry:
    """All that one origin has seen in one incarnation; written and signed by it alone."""

    origin: str
    incarnation: int
    seq: int
    evidence: Mapping[str, tuple[int, ...]]
    signature: bytes = b""

    @property
    def key(self) -> tuple[str, int]:
        """Of entries with the same one, that with the highest seq is right."""
        return self.origin, self.incarnation

    @cached_property
    def size(self) -> int:
        """The most bytes it takes on the wire."""
        arms = (20 + wire_size(arm) + 10 * len(each) for arm, each in self.evidence.items())
        return 300 + wire_size(self.origin) + len(self.signature) + sum(arms)


@dataclass(frozen=True)
class OriginsMessage:
    """Entries the receiver may lack, and what the sender holds."""

    fingerprint: str
    entries: tuple[Entry, ...]
    holds: tuple[tuple[str, int, int], ...]  # (origin, incarnation, seq)
    complete: bool  # whether `holds` is all the sender holds, or only an acknowledgement


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


def wire_size(text: str) -> int:
    """The bytes of a text on the wire."""
    return len(text.encode(errors="replace"))


Message = OriginsMessage | FlowsMessage
