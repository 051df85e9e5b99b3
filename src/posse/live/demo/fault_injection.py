"""Fault injection: a transport that loses messages and cuts links on command."""

from __future__ import annotations

import random
from collections import deque

from msgspec import Struct

from posse.live.counters import Counts
from posse.live.messaging import Receive, Transport
from posse.live.node import Node

MAX_NOTED = 1000  # messages; the oldest are dropped first


class Faults(Struct, frozen=True):
    """The faults of an agent's messages."""

    cut: frozenset[str] = frozenset()  # unreachable neighbours
    loss: float = 0.0  # share of its other outgoing messages that is lost
    deaf: bool = False  # whether it receives nothing, like a stopped process


class FaultInjector:
    """Applies faults to all transports that an agent opens, and notes its outgoing messages."""

    def __init__(self, generator: random.Random) -> None:
        self.faults = Faults()
        self._random = generator
        self._sent: deque[tuple[str, bool]] = deque(maxlen=MAX_NOTED)

    def wrap_transport(self, transport: Transport) -> Transport:
        """Put these faults around a transport."""
        return FaultyTransport(transport, self)

    def admits_outgoing(self, peer: str) -> bool:
        """Decide whether a message to a neighbour passes, and note it."""
        passed = peer not in self.faults.cut and self._random.random() >= self.faults.loss
        self._sent.append((peer, passed))
        return passed

    def admits_incoming(self, peer: str) -> bool:
        """Return whether a message from a neighbour passes."""
        # Loss is drawn by the sender only: drawn at both ends, it would apply twice.
        return not (self.faults.deaf or peer in self.faults.cut)

    def drain_sent(self) -> list[tuple[str, bool]]:
        """Return the receivers of messages since the last call, and whether each message passed."""
        # A fixed number of removals: threads of the node append meanwhile, and clearing the queue
        # could drop messages that nobody has seen.
        return [self._sent.popleft() for _ in range(len(self._sent))]


class FaultyTransport:
    """A transport with faults: the inner transport carries the messages that pass."""

    def __init__(self, inner: Transport, injector: FaultInjector) -> None:
        self._inner = inner
        self._injector = injector

    @property
    def refusals(self) -> Counts:
        """The refusals of the inner transport."""
        return self._inner.refusals

    def start(self, receive: Receive) -> None:
        """Begin to call `receive` with the messages that pass."""

        def receive_admitted(peer: str, payload: bytes) -> None:
            if self._injector.admits_incoming(peer):
                receive(peer, payload)

        self._inner.start(receive_admitted)

    def send(self, peer: str, payload: bytes) -> None:
        """Send a message if it passes."""
        if self._injector.admits_outgoing(peer):
            self._inner.send(peer, payload)

    def connected(self) -> dict[str, bool]:
        """Return the neighbours, and whether each can be reached now."""
        # A cut link must look disconnected to the node, as a broken cable does.
        cut = self._injector.faults.cut
        return {peer: up and peer not in cut for peer, up in self._inner.connected().items()}

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


# Snapshots for the page of a demonstration.


class AgentSnapshot(Struct, frozen=True):
    """The evidence and the choices of an agent at one moment."""

    pulls_by_origin: dict[str, int]  # including its own
    shares: dict[str, float]  # probability of each arm in the next decision
    sent: list[tuple[str, bool]]  # since the last snapshot: receiver, and whether it passed


def take_snapshot(node: Node, injector: FaultInjector) -> AgentSnapshot:
    """Take a snapshot of an agent."""
    experiment = node.experiment()
    return AgentSnapshot(
        experiment.pulls_by_origin(),
        experiment.probabilities(),
        injector.drain_sent(),
    )
