"""A simulated network: messages wait until a schedule delivers, repeats, drops or shuffles them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from posse.live.counters import Counts
from posse.live.messaging.transport import MAX_BYTES, Receive, check_size

MOST_WAITING = 400  # an old one is lost for each one more


@dataclass(frozen=True)
class Letter:
    """A message under way."""

    sender: str
    receiver: str
    payload: bytes


@dataclass
class Post:
    """All messages under way, oldest first, and those delivered lately, for who repeats them."""

    waiting: list[Letter] = field(default_factory=list)
    seen: list[Letter] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)  # a partition: which side each is on

    def queue_letter(self, letter: Letter) -> None:
        """Take a message; it is lost if a partition is in between."""
        if self.groups.get(letter.sender, 0) == self.groups.get(letter.receiver, 0):
            self.waiting.append(letter)
            del self.waiting[:-MOST_WAITING]

    def take_letter(self, index: int, repeat: bool = False) -> Letter | None:
        """One of those that wait, which stays if it is to come again; None: nothing waits."""
        if not self.waiting:
            return None
        index %= len(self.waiting)
        letter = self.waiting[index] if repeat else self.waiting.pop(index)
        self.seen.append(letter)
        del self.seen[:-MOST_WAITING]
        return letter


class Mailbox:
    """One agent's transport: what it sends goes to the post, if its process lives to send it."""

    def __init__(self, name: str, post: Post, event: Callable[[], None]) -> None:
        self.name = name
        self.post = post
        self.event = event
        self.refusals = Counts()
        self.closed = False

    def start(self, receive: Receive) -> None:
        """Nothing: the schedule says when a message arrives."""

    def send(self, peer: str, payload: bytes) -> None:
        """Send, between two points at which the process can be killed."""
        check_size(payload, MAX_BYTES)
        self.event()
        if not self.closed:
            self.post.queue_letter(Letter(self.name, peer, bytes(payload)))
        self.event()

    def connected(self) -> dict[str, bool]:
        """Nobody knows."""
        return {}

    def close(self) -> None:
        """Send nothing more."""
        self.closed = True
