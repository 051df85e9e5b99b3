"""A simulated network in memory with reproducible faults: loss, delay, reordering, partitions."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from posse.live.counters import Counts
from posse.live.messaging.transport import MAX_BYTES, Receive, check_size


class MemoryNetwork:
    """Agents joined by links that lose, delay, repeat and reorder messages.

    A message takes one step and `delay` more, drawn evenly from (least, most). Unless `reorder`,
    those of one link arrive in the order sent.
    """

    def __init__(
        self,
        links: Iterable[tuple[str, str]],
        *,
        seed: int = 0,
        loss: float = 0.0,
        delay: tuple[int, int] = (0, 0),
        duplication: float = 0.0,
        reorder: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        for name, probability in (("loss", loss), ("duplication", duplication)):
            if not 0 <= probability <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {probability}")
        if not 0 <= delay[0] <= delay[1]:
            raise ValueError(f"delay must be (least, most) with 0 <= least <= most, got {delay}")
        self.loss = loss
        self.delay = delay
        self.duplication = duplication
        self.reorder = reorder
        self.max_bytes = max_bytes
        self.now = 0
        self.sent = self.delivered = self.lost = 0
        self._random = random.Random(seed)
        self._neighbours: dict[str, dict[str, None]] = {}
        self._groups: tuple[frozenset[str], ...] = ()
        self._joined: dict[str, MemoryTransport] = {}
        # by the step at which they arrive, in the order in which they were sent
        self._due: dict[int, list[tuple[str, str, bytes]]] = {}
        self._latest: dict[tuple[str, str], int] = {}
        for a, b in links:
            self.link(a, b)

    def link(self, a: str, b: str) -> None:
        """Make two agents neighbours."""
        if a == b:
            raise ValueError(f"{a!r} cannot be its own neighbour")
        self._neighbours.setdefault(a, {})[b] = None
        self._neighbours.setdefault(b, {})[a] = None

    def unlink(self, a: str, b: str) -> None:
        """Make two agents neighbours no longer."""
        self._neighbours.get(a, {}).pop(b, None)
        self._neighbours.get(b, {}).pop(a, None)

    def partition(self, *groups: Collection[str]) -> None:
        """Let nothing pass between groups; agents in none of them form another."""
        self._groups = tuple(frozenset(group) for group in groups)

    def heal(self) -> None:
        """End a partition."""
        self._groups = ()

    def transport(self, name: str) -> MemoryTransport:
        """Return a transport for an agent; a new one may follow a closed one."""
        if name not in self._neighbours:
            raise ValueError(f"{name!r} has no link in this network")
        return MemoryTransport(self, name)

    def step(self) -> int:
        """Deliver the messages that are due, answers not included; returns their number."""
        self.now += 1
        due = self._due.pop(self.now, [])
        if self.reorder:
            self._random.shuffle(due)
        before = self.delivered
        for source, target, payload in due:
            transport = self._joined.get(target)
            # where a link broke, what was under way is lost
            if transport is None or transport.receive is None or not self._can_pass(source, target):
                self.lost += 1
                continue
            self.delivered += 1
            transport.receive(source, payload)
        return self.delivered - before

    @property
    def under_way(self) -> int:
        """How many messages have not arrived yet."""
        return sum(map(len, self._due.values()))

    def neighbours(self, name: str) -> list[str]:
        """The neighbours of an agent, in the order in which they were linked."""
        return list(self._neighbours.get(name, ()))

    def reaches(self, source: str, target: str) -> bool:
        """Whether a message sent now could arrive."""
        return target in self._joined and self._can_pass(source, target)

    def _can_pass(self, source: str, target: str) -> bool:
        if target not in self._neighbours.get(source, ()):
            return False
        return self._group_of(source) == self._group_of(target)

    def _group_of(self, name: str) -> int:
        return next((i for i, group in enumerate(self._groups) if name in group), -1)

    def _send(self, source: str, target: str, payload: bytes) -> None:
        self.sent += 1
        if not self._can_pass(source, target):
            self.lost += 1
            return
        for _ in range(2 if self._random.random() < self.duplication else 1):
            if self._random.random() < self.loss:
                self.lost += 1
                continue
            at = self.now + 1 + self._random.randint(*self.delay)
            if not self.reorder:
                at = self._latest[source, target] = max(at, self._latest.get((source, target), 0))
            self._due.setdefault(at, []).append((source, target, payload))


class MemoryTransport:
    """One agent's end of a network in memory."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self.name = name
        self.receive: Receive | None = None
        self.refusals = Counts()
        self._network = network
        self._closed = False

    def start(self, receive: Receive) -> None:
        """Join the network."""
        if self._closed or self.name in self._network._joined:
            raise RuntimeError(f"the transport of {self.name} was closed or is in use")
        self.receive = receive
        self._network._joined[self.name] = self

    def send(self, peer: str, payload: bytes) -> None:
        """Send to a neighbour; to anyone else, or before the start, nothing goes out."""
        check_size(payload, self._network.max_bytes)
        if self.receive is not None:
            self._network._send(self.name, peer, bytes(payload))

    def connected(self) -> dict[str, bool]:
        """The neighbours, and whether each is there and on this side of a partition."""
        network = self._network
        return {
            peer: self.receive is not None and network.reaches(self.name, peer)
            for peer in network.neighbours(self.name)
        }

    def close(self) -> None:
        """Leave the network."""
        self._closed = True
        if self.receive is not None:
            self.receive = None
            del self._network._joined[self.name]
