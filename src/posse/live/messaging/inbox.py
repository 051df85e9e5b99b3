"""Back-pressure on neighbours: quotas of messages and bytes a second, and a bounded queue.

Messages beyond a neighbour's quota, or faster than they are processed, are dropped and counted:
exchanges send lost content again. No neighbour's messages wait behind another's.
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
LEAST_EXPERIMENTS = 25
MOST_BYTES_A_SECOND = 20_000_000.0  # unless set, however many catch up at once
BURST_SECONDS = 5.0  # seconds of budget that a neighbour may save up
LONGEST_QUEUE = 1000  # messages that wait, of one neighbour
LARGEST_QUEUE = 4_000_000  # bytes
MESSAGE_RATE_EXCEEDED = "message_rate_exceeded"
BYTE_RATE_EXCEEDED = "byte_rate_exceeded"


@dataclass(frozen=True)
class MessageLimits:
    """Messages and bytes a second of one neighbour; None: by ticks and experiments."""

    messages_per_second: float | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for key in ("messages_per_second", "bytes_per_second"):
            if (value := getattr(self, key)) is not None:
                validation.validate_number(f"limits.{key}", value, above=0)

    def rates_for(self, tick_seconds: float, experiments: int) -> tuple[float, float]:
        """Return messages and bytes a second, enough for at least one tick a second."""
        ticks = max(LEAST_EXPERIMENTS, experiments) / min(1.0, tick_seconds)
        return (
            self.messages_per_second or MESSAGES_A_TICK * ticks,
            self.bytes_per_second or min(BYTES_A_TICK * ticks, MOST_BYTES_A_SECOND),
        )


class TokenBucket:
    """A token bucket: it fills with time, up to some seconds' worth."""

    def __init__(self, rate: float, room: float, now: float) -> None:
        self.rate = rate
        self.room = room
        self.left = room
        self._since = now

    def refill_and_check(self, tokens: float, now: float) -> bool:
        """Refill the bucket up to now, and return whether it holds so many tokens; spends none.

        A clock that is set back only costs the time between.
        """
        self.left = min(self.room, self.left + self.rate * max(0.0, now - self._since))
        self._since = now
        return self.left >= tokens

    def spend_tokens(self, tokens: float) -> None:
        """Spend tokens, or go into debt, at most by one burst."""
        self.left = max(self.left - tokens, -self.room)


@dataclass
class _Neighbour:
    message_bucket: TokenBucket
    byte_bucket: TokenBucket
    waiting: deque[bytes] = field(default_factory=deque)
    size: int = 0  # bytes that wait


class Inbox:
    """Messages of neighbours not processed yet; each neighbour has its own budget and queue."""

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

    def set_rates(self, rates: tuple[float, float]) -> None:
        """Change the quota of every neighbour: messages and bytes a second."""
        with self._changed:
            self._rates = rates
            for neighbour in self._neighbours.values():
                waiting = neighbour.waiting
                size = neighbour.size
                fresh = self._new_neighbour()
                neighbour.message_bucket = fresh.message_bucket
                neighbour.byte_bucket = fresh.byte_bucket
                neighbour.waiting = waiting
                neighbour.size = size

    def admit_message(self, peer: str, size: int) -> bool:
        """Charge a message to its neighbour's budget; returns whether there was enough."""
        with self._changed:
            return self._charge_message(self._find_neighbour(peer), size)

    def charge_neighbour(self, peer: str, messages: float = 0.0, seconds: float = 0.0) -> None:
        """Charge a neighbour for further messages, or for what it could send in some seconds.

        If its quota is overdrawn, its waiting messages are dropped.
        """
        with self._changed:
            neighbour = self._find_neighbour(peer)
            neighbour.message_bucket.spend_tokens(
                messages + seconds * neighbour.message_bucket.rate
            )
            if neighbour.message_bucket.left < 0 and neighbour.waiting:
                self._refusals.add(MESSAGE_RATE_EXCEEDED, len(neighbour.waiting))
                neighbour.waiting.clear()
                neighbour.size = 0
                self._turns.remove(peer)

    def put_message(self, peer: str, payload: bytes) -> bool:
        """Queue a message, or drop it if there is no budget or no room; never blocks."""
        with self._changed:
            neighbour = self._find_neighbour(peer)
            if self._closed or not self._charge_message(neighbour, len(payload)):
                return False
            if len(neighbour.waiting) >= LONGEST_QUEUE:
                self._refusals.add(MESSAGE_RATE_EXCEEDED)
                return False
            if neighbour.size + len(payload) > LARGEST_QUEUE:
                self._refusals.add(BYTE_RATE_EXCEEDED)
                return False
            if not neighbour.waiting:
                self._turns.append(peer)
            neighbour.waiting.append(payload)
            neighbour.size += len(payload)
            self._changed.notify()
            return True

    def take_message(self) -> tuple[str, bytes] | None:
        """Wait for the next message, of the neighbours in turns; None once it is closed."""
        with self._changed:
            while not self._turns and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            peer = self._turns.popleft()
            neighbour = self._neighbours[peer]
            payload = neighbour.waiting.popleft()
            neighbour.size -= len(payload)
            if neighbour.waiting:
                self._turns.append(peer)
            return peer, payload

    def close(self) -> None:
        """Drop waiting messages, and release waiting threads."""
        with self._changed:
            self._closed = True
            self._turns.clear()
            self._neighbours.clear()
            self._changed.notify_all()

    def _charge_message(self, neighbour: _Neighbour, size: int) -> bool:
        now = self._clock()
        enough = (
            neighbour.message_bucket.refill_and_check(1.0, now),
            neighbour.byte_bucket.refill_and_check(size, now),
        )
        if all(enough):
            neighbour.message_bucket.spend_tokens(1.0)
            neighbour.byte_bucket.spend_tokens(size)
            return True
        self._refusals.add(BYTE_RATE_EXCEEDED if enough[0] else MESSAGE_RATE_EXCEEDED)
        return False

    def _find_neighbour(self, peer: str) -> _Neighbour:
        if peer not in self._neighbours:
            self._neighbours[peer] = self._new_neighbour()
        return self._neighbours[peer]

    def _new_neighbour(self) -> _Neighbour:
        now = self._clock()
        messages, bytes_ = self._rates
        # room for the largest message, however little is allowed in a second
        return _Neighbour(
            TokenBucket(messages, max(1.0, messages * BURST_SECONDS), now),
            TokenBucket(bytes_, max(1_000_000.0, bytes_ * BURST_SECONDS), now),
        )
