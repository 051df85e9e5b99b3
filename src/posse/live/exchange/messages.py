"""The messages of the exchanges, and what an origin signs: plain values; `wire` serialises them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from posse.live.ledger import CELL_NUMBERS, Ledger, Rows, is_side_row

DEFAULT = "default"  # the experiment of files without tables of experiments

LARGEST_MESSAGE = 900_000  # bytes
LARGEST_ENTRY = 400_000  # bytes, so that one always fits into a message, beside a page of a digest
MOST_NAMES = 1024  # incarnations that a base covers
PROOF = 64  # bytes at the end of a signature; those before them are its origin's certificate

Key = tuple[str, int]  # origin and incarnation
FIRST: Key = ("", 0)  # before all keys, for no name is empty
END: Key = ("", 0)  # as the last key: up to the end

# How many decisions were begun in an entry, how often it was written, and a random number drawn for
# this version. Of two versions the larger wins whole, everywhere.
Version = tuple[int, int, int]
NO_VERSION: Version = (0, 0, 0)  # below all others

Holding = tuple[str, int, int, int, int]  # origin, incarnation, then the version


@dataclass(frozen=True, slots=True)
class Entry:
    """The evidence of all decisions that one origin made in one incarnation; signed by it alone.

    Entries are held by the ten thousand, so the sums of the arms are packed: (arms, coordinates),
    and those that are held share their origin's certificate, the beginning of its signatures.
    A base has the closed sums of the incarnations that it covers, and a number like theirs.
    """

    origin: str
    incarnation: int
    version: Version
    arms: tuple[str, ...]
    numbers: bytes  # of each arm its coordinates
    epoch: int = 0  # 0: none
    covers: tuple[int, ...] = ()  # of a base: the incarnations that it stands for
    signature: bytes = b""
    certificate: bytes = b""  # cut off the signature; empty in messages, where it is whole

    @classmethod
    def from_ledger(
        cls,
        key: Key,
        version: Version,
        ledger: Rows,
        epoch: int = 0,
        covers: tuple[int, ...] = (),
        signature: bytes = b"",
    ) -> Entry:
        """Pack the sums, eight bytes a number, row after row."""
        numbers = [number for row in ledger.values() for number in row]
        packed = struct.pack(f"<{len(numbers)}q", *numbers)
        return cls(*key, version, tuple(ledger), packed, epoch, covers, signature)

    @property
    def key(self) -> Key:
        """Of entries with the same key, that with the largest version is right."""
        return self.origin, self.incarnation

    @property
    def holding(self) -> Holding:
        """The entry as a digest lists it."""
        return self.origin, self.incarnation, *self.version

    @property
    def whole_signature(self) -> bytes:
        """The signature as its origin made it, wherever it was cut."""
        return self.certificate + self.signature

    def ledger(self) -> Ledger:
        """Unpack the sums by arm."""
        numbers = struct.unpack(f"<{len(self.numbers) // 8}q", self.numbers)
        n_cells = sum(map(is_side_row, self.arms))
        n_arms = len(self.arms) - n_cells
        width = (len(numbers) - CELL_NUMBERS * n_cells) // max(1, n_arms)
        ledger = {}
        at = 0
        for arm in self.arms:
            end = at + (CELL_NUMBERS if is_side_row(arm) else width)
            ledger[arm] = numbers[at:end]
            at = end
        return ledger

    def pulls(self) -> int:
        """Count the pulls over all arms, in quanta: the last number of every row of an arm."""
        return sum(row[-1] for name, row in self.ledger().items() if not is_side_row(name))

    def size(self) -> int:
        """The most bytes it takes on the wire."""
        names = sum(10 + wire_size(name) for name in (self.origin, *self.arms))
        return 300 + names + len(self.numbers) + len(self.whole_signature) + 9 * len(self.covers)


def signed_bytes(fingerprint: str, entry: Entry, network: str = "") -> bytes:
    """Return the bytes that an origin signs: all of an entry, and where it is valid."""
    where = [network, fingerprint, entry.origin, entry.incarnation]
    content = [*where, entry.version, entry.epoch, entry.covers, entry.arms, entry.numbers.hex()]
    return json.dumps(content, separators=(",", ":")).encode()


@dataclass(frozen=True)
class OriginsMessage:
    """Entries the receiver may lack, and what the sender holds."""

    fingerprint: str
    entries: tuple[Entry, ...]
    holds: tuple[Holding, ...]
    complete: bool  # whether `holds` is all from `first` up to `last`, or acknowledges
    first: Key = FIRST
    last: Key = END
    # the origin of which the receiver is to show all it holds, and a random number that its answer
    # repeats: an answer to an earlier process may be out of date
    asks: tuple[str, int] = ("", 0)
    answers: int = 0  # 0: to nothing


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
