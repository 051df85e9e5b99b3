"""Readiness of an agent, from recent failures of its store."""

from __future__ import annotations

import threading
import time

from starlette.exceptions import HTTPException

from posse.live.node import Node

RECENT = 10.0  # seconds for which a failure of the store counts, unless a write succeeds


class Health:
    """Whether the store failed recently."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._failed: float | None = None  # when
        self._seen = self._count()
        self._lock = threading.Lock()

    def failed(self) -> bool:
        """Note that the store failed a request; whether that is news."""
        with self._lock:
            news = self._failed is None
            self._node.failures.add("request")
            self._failed = time.monotonic()
            self._seen = self._count()
            return news

    def succeeded(self) -> None:
        """Note that the store could be written."""
        if self._failed is not None:
            with self._lock:
                self._failed = None

    def check(self) -> None:
        """Raise if the store cannot be written, as far as one knows."""
        with self._lock:
            count = self._count()
            if count > self._seen:  # of ticks and messages
                self._seen, self._failed = count, time.monotonic()
            failed = self._failed
        if failed is not None and time.monotonic() - failed < RECENT:
            raise HTTPException(503, "the store failed a moment ago: see the agent's log")
        with self._node.store.transaction():  # it is open, and its turn comes
            pass

    def _count(self) -> int:
        return sum(self._node.failures[doing] for doing in ("tick", "receive", "request"))
