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
        """Messages dropped before they were processed, by reason."""

    def start(self, receive: Receive) -> None:
        """Begin to call `receive(peer, payload)`, perhaps from another thread.

        It must return at once: while it runs, its neighbour's messages wait on the network.
        """

    def send(self, peer: str, payload: bytes) -> None:
        """Send without blocking; a message may be dropped; too large a one is a ValueError."""

    def connected(self) -> dict[str, bool]:
        """The neighbours, and whether each can be reached now."""

    def close(self) -> None:
        """Close it for good; a second call does nothing."""


def check_size(payload: bytes, max_bytes: int) -> None:
    """Refuse a payload that is too large."""
    if len(payload) > max_bytes:
        raise ValueError(
            f"a message may have {max_bytes:,} bytes, got {len(payload):,}: send it in parts"
        )
