"""The interface of transports, which carry messages between agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from posse.live.counters import Counts

Receive = Callable[[str, bytes], None]

MAX_BYTES = 1_000_000


class Transport(Protocol):
    """An unreliable datagram service: messages may be lost, repeated, late and out of order."""

    @property
    def refusals(self) -> Counts:
        """Messages that were dropped before anybody read them, by reason."""

    def start(self, receive: Receive) -> None:
        """Begin to call `receive(peer, payload)`, perhaps from another thread.

        It must return at once: while it runs, its neighbour's messages wait on the network.
        """

    def send(self, peer: str, payload: bytes) -> None:
        """Send, without blocking, what may be dropped; too large a payload is a ValueError."""

    def connected(self) -> dict[str, bool]:
        """The neighbours, and whether each can be reached now."""

    def close(self) -> None:
        """End it all, for good; a second time does nothing."""


def check_size(payload: bytes, max_bytes: int) -> None:
    """Refuse what is too large."""
    if len(payload) > max_bytes:
        raise ValueError(
            f"a message may have {max_bytes:,} bytes, got {len(payload):,}: send it in parts"
        )
