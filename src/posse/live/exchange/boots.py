"""Whether a message comes from the process that runs now, or is a late one of a dead process.

A process draws a random boot number when it starts.  When a boot is seen for the first time, only
what it says after it has heard our answer counts: a dead process cannot answer.  When one boot has
proved itself alive, all others must do so again: of two processes of one identity, of which only
one runs at a time, the one that answers later is the later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_BOOTS = 16  # remembered of one peer; a forgotten one is only asked again


@dataclass
class _Boot:
    last_seq: int
    must_hear: int  # what it must have heard of us to count as alive


@dataclass
class Boots:
    """The boots heard of one peer in our own present boot."""

    current: int = 0  # the one that proved itself alive last; 0 before any did
    latest: int = 0  # the one heard last, alive or not: the one to be asked
    seen: dict[int, _Boot] = field(default_factory=dict)

    def is_repeated(self, boot: int, seq: int) -> bool:
        """Whether this or a later message of that boot has been seen."""
        return boot in self.seen and seq <= self.seen[boot].last_seq

    def hear(self, boot: int, seq: int, our_seq: int) -> None:
        """Take note of a message, when the last we have sent to anyone was `our_seq`."""
        if boot not in self.seen:
            spare = [known for known in self.seen if known != self.current]
            if len(self.seen) >= MOST_BOOTS:
                del self.seen[spare[0]]
            self.seen[boot] = _Boot(seq, our_seq + 1)
        self.seen[boot].last_seq = seq
        self.latest = boot

    def is_alive(self, boot: int, heard: int) -> bool:
        """Whether it has heard what we have sent since we had reason to doubt it."""
        return heard >= self.seen[boot].must_hear

    def confirm(self, boot: int, our_seq: int) -> bool:
        """Make it the current one; whether it was another before."""
        if boot == self.current:
            return False
        self.current = boot
        for other, record in self.seen.items():
            if other != boot:
                record.must_hear = our_seq + 1
        return True

    def last_heard(self) -> tuple[int, int]:
        """The boot heard last and its last seq, to be told to the peer."""
        return (self.latest, self.seen[self.latest].last_seq) if self.seen else (0, 0)
