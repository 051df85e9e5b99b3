"""Back-pressure on neighbours: a budget of messages and bytes a second, and a bounded queue.

What a neighbour says beyond its budget, or faster than it is worked off, is dropped and counted:
exchanges say again what was lost. No neighbour's messages wait behind another's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from posse import validation
from posse.live.counters import Counts

# What an honest neighbour may need in a tick, for each experiment: a message, its answer and a
# control in two versions are 6 messages, and it may tick some times as often as we do; after a
# partition a message has 900 kB. It may run many more experiments than we do. (Of statuses there is
# one message a tick, of 64 kB.) Much of it is no harm: work is charged by the time it takes.
MESSAGES_A_TICK = 40.0
BYTES_A_TICK = 2_000_000.0
EXPERIMENTS = 25
MOST_BYTES_A_SECOND = 20_000_000.0  # unless set, however many catch up at once
BURST = 5.0  # seconds of budget that a neighbour may save up
LONGEST_QUEUE = 1000  # messages that wait, of one neighbour
LARGEST_QUEUE = 4_000_000  # bytes
MESSAGES = "too many messages"
BYTES = "too many bytes"


@dataclass(frozen=True)
class Limits:
    """What one neighbour may send: messages and bytes a second; None: by ticks and experiments."""

    messages_per_second: float | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for key in ("messages_per_second", "bytes_per_second"):
            if (value := getattr(self, key)) is not None:
                validation.validate_number(f"limits.{key}", value, above=0)

    def of(self, tick_seconds: float, experiments: int) -> tuple[float, float]:
        """Messages and bytes a second, enough for a tick a second at least."""
        ticks = max(EXPERIMENTS, experiments) / min(1.0, tick_seconds)
        return (
            self.messages_per_second or MESSAGES_A_TICK * ticks,
            self.bytes_per_second or min(BYTES_A_TICK * ticks, MOST_BYTES_A_SECOND),
        )


class Bucket:
    """A token bucket: it fills with time, up to some seconds' worth."""

    def __init__(self, rate: float, room: float, now: float) -> None:
        self.rate = rate
        self.room = room
        self.left = room
        self._since = now

    def holds(self, tokens: float, now: float) -> bool:
        """Whether there are so many now; a clock set back only costs the time between."""
        self.left = min(self.room, self.left + self.rate * max(0.0, now - self._since))
        self._since = now
        return self.left >= tokens

    def take(self, tokens: float) -> None:
        """Take so many, or go into debt, of which time pays off the last burst at most."""
        self.left = max(self.left - tokens, -self.room)


@dataclass
class _Neighbour:
    messages: Bucket
    volume: Bucket
    waiting: deque[bytes] = field(default_factory=deque)
    size: int = 0  # bytes that wait


class Inbox:
    """What neighbours said and nobody has read yet; each has a budget and a queue of its own."""

    def __init__(
        self, rates: tuple[float, float], clock: Callable[[], float], refusals: Counts
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._refusals = refusals
        self._neighbours: dict[str, _Neighbour] = {}
        self._turns: deque[str] = deque()  # neighbours with something that waits
        self._changed = threading.Condition()
        self._closed = False

    def limit(self, rates: tuple[float, float]) -> None:
        """Change the budget of every neighbour: messages and bytes a second."""
        with self._changed:
            self._rates = rates
            for each in self._neighbours.values():
                waiting = each.waiting
                size = each.size
                fresh = self._fresh()
                each.messages = fresh.messages
                each.volume = fresh.volume
                each.waiting = waiting
                each.size = size

    def admit(self, peer: str, size: int) -> bool:
        """Charge a message to its neighbour's budget; whether there was enough."""
        with self._changed:
            return self._admit(self._of(peer), size)

    def charge(self, peer: str, messages: float = 0.0, seconds: float = 0.0) -> None:
        """Charge a neighbour for further messages, or for what it could send in some seconds.

        If it has not got as much, what waits of it is dropped.
        """
        with self._changed:
            each = self._of(peer)
            each.messages.take(messages + seconds * each.messages.rate)
            if each.messages.left < 0 and each.waiting:
                self._refusals.add(MESSAGES, len(each.waiting))
                each.waiting.clear()
                each.size = 0
                self._turns.remove(peer)

    def put(self, peer: str, payload: bytes) -> bool:
        """Let a message wait, or drop it where there is no budget or no room; never blocks."""
        with self._changed:
            each = self._of(peer)
            if self._closed or not self._admit(each, len(payload)):
                return False
            if len(each.waiting) >= LONGEST_QUEUE:
                self._refusals.add(MESSAGES)
                return False
            if each.size + len(payload) > LARGEST_QUEUE:
                self._refusals.add(BYTES)
                return False
            if not each.waiting:
                self._turns.append(peer)
            each.waiting.append(payload)
            each.size += len(payload)
            self._changed.notify()
            return True

    def take(self) -> tuple[str, bytes] | None:
        """Wait for the next message, of the neighbours in turns; None once it is closed."""
        with self._changed:
            while not self._turns and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            peer = self._turns.popleft()
            each = self._neighbours[peer]
            payload = each.waiting.popleft()
            each.size -= len(payload)
            if each.waiting:
                self._turns.append(peer)
            return peer, payload

    def close(self) -> None:
        """Drop what waits, and let nobody wait for more."""
        with self._changed:
            self._closed = True
            self._turns.clear()
            self._neighbours.clear()
            self._changed.notify_all()

    def _admit(self, each: _Neighbour, size: int) -> bool:
        now = self._clock()
        enough = each.messages.holds(1.0, now), each.volume.holds(size, now)
        if all(enough):
            each.messages.take(1.0)
            each.volume.take(size)
            return True
        self._refusals.add(BYTES if enough[0] else MESSAGES)
        return False

    def _of(self, peer: str) -> _Neighbour:
        if peer not in self._neighbours:
            self._neighbours[peer] = self._fresh()
        return self._neighbours[peer]

    def _fresh(self) -> _Neighbour:
        now = self._clock()
        messages, bytes_ = self._rates
        # room for the largest message, however little is allowed in a second
        return _Neighbour(
            Bucket(messages, max(1.0, messages * BURST), now),
            Bucket(bytes_, max(1_000_000.0, bytes_ * BURST), now),
        )
