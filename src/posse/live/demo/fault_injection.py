"""Fault injection: a transport that loses messages and cuts links as it is told."""

from __future__ import annotations

import random
from collections import deque

from msgspec import Struct

from posse.live.counters import Counts
from posse.live.messaging.transport import Receive, Transport
from posse.live.node import Node

MAX_NOTED = 1000  # messages, of which the oldest is forgotten first


class Faults(Struct, frozen=True):
    """What goes wrong with an agent's messages."""

    cut: frozenset[str] = frozenset()  # neighbours that it does not reach
    loss: float = 0.0  # share of all others that is lost, on either way
    deaf: bool = False  # whether it hears nothing, as a process that is stopped


class FaultInjector:
    """The faults of one agent, over all the transports that it opens; and what it sent."""

    def __init__(self, generator: random.Random) -> None:
        self.faults = Faults()
        self._random = generator
        self._sent: deque[tuple[str, bool]] = deque(maxlen=MAX_NOTED)

    def wrap_transport(self, transport: Transport) -> Transport:
        """A transport with these faults."""
        return FaultyTransport(transport, self)

    def admits_outgoing(self, peer: str) -> bool:
        """Whether a message to a neighbour is let through; it is noted."""
        passed = peer not in self.faults.cut and self._random.random() >= self.faults.loss
        self._sent.append((peer, passed))
        return passed

    def admits_incoming(self, peer: str) -> bool:
        """Whether a message from a neighbour is let in."""
        return not (self.faults.deaf or peer in self.faults.cut)

    def drain_sent(self) -> list[tuple[str, bool]]:
        """To whom messages went since this was last asked, and whether each was let through."""
        return [self._sent.popleft() for _ in range(len(self._sent))]


class FaultyTransport:
    """Any transport, with faults: the inner one carries what they let through."""

    def __init__(self, inner: Transport, injector: FaultInjector) -> None:
        self._inner = inner
        self._injector = injector

    @property
    def refusals(self) -> Counts:
        """Those of the transport inside."""
        return self._inner.refusals

    def start(self, receive: Receive) -> None:
        """Begin to call `receive` with what faults let in."""

        def receive_admitted(peer: str, payload: bytes) -> None:
            if self._injector.admits_incoming(peer):
                receive(peer, payload)

        self._inner.start(receive_admitted)

    def send(self, peer: str, payload: bytes) -> None:
        """Send what faults let through."""
        if self._injector.admits_outgoing(peer):
            self._inner.send(peer, payload)

    def connected(self) -> dict[str, bool]:
        """The neighbours, and whether each can be reached now."""
        cut = self._injector.faults.cut
        return {peer: up and peer not in cut for peer, up in self._inner.connected().items()}

    def close(self) -> None:
        """End it all."""
        self._inner.close()


# A snapshot of an agent for the page of a swarm: whose evidence it holds, what it plays.


class AgentSnapshot(Struct, frozen=True):
    """What an agent holds and does at one moment."""

    pulls_by_origin: dict[str, int]  # pulls of each agent, its own included
    shares: dict[str, float]  # with which probability its next decision plays each arm
    sent: list[tuple[str, bool]]  # messages since the last glance: to whom, and whether let through


def take_snapshot(node: Node, injector: FaultInjector) -> AgentSnapshot:
    """Look at an agent."""
    experiment = node.experiment()
    return AgentSnapshot(
        experiment.pulls_by_origin(),
        experiment.probabilities(),
        injector.drain_sent(),
    )
