"""Readiness of an agent, from recent failures of its store."""

from __future__ import annotations

import threading
import time

from posse.live.node import Node

RECENT = 10.0  # seconds for which a failure of the store counts, unless a write succeeds
QUIET = 10.0  # seconds until the log has another one: where some writes succeed it would be flooded


class Health:
    """Whether the store of a node failed recently; it does not keep the node alive."""

    def __init__(self, node: Node) -> None:
        self._failed: float | None = None  # when
        self._told: float | None = None  # when the log was
        self._open = False  # whether the log has a failure, and not its end
        self._seen = _count(node)
        self._lock = threading.Lock()

    def failed(self, node: Node) -> bool:
        """Note that the store failed a request; whether the log should have it."""
        with self._lock:
            node.failures.add("request")
            self._failed = now = time.monotonic()
            self._seen = _count(node)
            if self._open or (self._told is not None and now - self._told < QUIET):
                return False
            self._told, self._open = now, True
            return True

    def succeeded(self) -> bool:
        """Note that the store could be written; whether that ends a failure that the log has."""
        if self._failed is None:
            return False
        with self._lock:
            self._failed = None
            told, self._open = self._open, False
            return told

    def is_ready(self, node: Node) -> bool:
        """Whether the store can be written, as far as one knows; raises if it fails now."""
        with self._lock:
            count = _count(node)
            if count > self._seen:  # of ticks and messages
                self._seen, self._failed = count, time.monotonic()
            failed = self._failed
        if failed is not None and time.monotonic() - failed < RECENT:
            return False
        with node.store.transaction():  # it is open, and its turn comes
            pass
        return True


def _count(node: Node) -> int:
    return sum(node.failures[doing] for doing in ("tick", "receive", "request"))
