"""Epochs of peer processes (boots): tells live messages from late ones of a dead process.

A process draws a random boot number when it starts, and only one of an identity runs at a time.
When a boot is seen for the first time, any boot of that peer counts only once it has heard what we
sent since: both had started by then, so only the later one can answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
