"""Fault injection: a transport that loses messages and cuts links as it is told."""

from __future__ import annotations

import random
from collections import deque

from msgspec import Struct

from posse.live.counters import Counts
from posse.live.messaging.transport import Receive, Transport
from posse.live.node import Node

MOST_NOTED = 1000  # messages, of which the oldest is forgotten first


class Faults(Struct, frozen=True):
    """What goes wrong with an agent's messages."""

    cut: frozenset[str] = frozenset()  # neighbours that it does not reach
    loss: float = 0.0  # share of all others that is lost, on either way
    deaf: bool = False  # whether it hears nothing, as a process that is stopped


class Interference:
    """The faults of one agent, over all the transports that it opens; and what it sent."""

    def __init__(self, generator: random.Random) -> None:
        self.faults = Faults()
        self._random = generator
        self._sent: deque[tuple[str, bool]] = deque(maxlen=MOST_NOTED)

    def around(self, transport: Transport) -> Transport:
        """A transport with these faults."""
        return FaultyTransport(transport, self)

    def passes(self, peer: str) -> bool:
        """Whether a message to a neighbour is let through; it is noted."""
        passed = peer not in self.faults.cut and self._random.random() >= self.faults.loss
        self._sent.append((peer, passed))
        return passed

    def hears(self, peer: str) -> bool:
        """Whether a message from a neighbour is let in."""
        return not (self.faults.deaf or peer in self.faults.cut)

    def sent(self) -> list[tuple[str, bool]]:
        """To whom messages went since this was last asked, and whether each was let through."""
        return [self._sent.popleft() for _ in range(len(self._sent))]


class FaultyTransport:
    """Any transport, with faults: the inner one carries what they let through."""

    def __init__(self, inner: Transport, interference: Interference) -> None:
        self._inner = inner
        self._interference = interference

    @property
    def refusals(self) -> Counts:
        """Those of the transport inside."""
        return self._inner.refusals

    def start(self, receive: Receive) -> None:
        """Begin to call `receive` with what faults let in."""

        def hear(peer: str, payload: bytes) -> None:
            if self._interference.hears(peer):
                receive(peer, payload)

        self._inner.start(hear)

    def send(self, peer: str, payload: bytes) -> None:
        """Send what faults let through."""
        if self._interference.passes(peer):
            self._inner.send(peer, payload)

    def connected(self) -> dict[str, bool]:
        """The neighbours, and whether each can be reached now."""
        cut = self._interference.faults.cut
        return {peer: up and peer not in cut for peer, up in self._inner.connected().items()}

    def close(self) -> None:
        """End it all."""
        self._inner.close()


# A snapshot of an agent for the page of a swarm: whose evidence it holds, what it plays.


class Glance(Struct, frozen=True):
    """What an agent holds and does at one moment."""

    held: dict[str, int]  # pulls of each agent, its own included
    shares: dict[str, float]  # with which probability its next decision plays each arm
    sent: list[tuple[str, bool]]  # messages since the last glance: to whom, and whether let through


def glance(node: Node, interference: Interference) -> Glance:
    """Look at an agent."""
    experiment = node.experiment()
    return Glance(
        experiment.pulls_by_origin(),
        experiment.probabilities(),
        interference.sent(),
    )
