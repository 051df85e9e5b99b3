"""Readiness of an agent, from recent failures of its store."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from weakref import WeakKeyDictionary

from posse.live.counters import Counts
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
            self._told = now
            self._open = True
            return True

    def succeeded(self) -> bool:
        """Note that the store could be written; whether that ends a failure that the log has."""
        if self._failed is None:
            return False
        with self._lock:
            self._failed = None
            told = self._open
            self._open = False
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


# What the HTTP interface knows of its own work: waiting times, refusals, connections, health.

BUCKETS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0  # seconds


class Waits:
    """How long requests of one route took: a histogram; raised by one thread."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Note one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Traffic:
    """Of one node, whatever asks for its numbers."""

    def __init__(self, node: Node) -> None:
        self.health = Health(node)
        self.waits: dict[str, Waits] = {}
        self.refused = Counts()  # requests and connections, by reason
        self.connections: Callable[[], int] = lambda: 0
        self.viewers = 0  # of the page
        self.renew: Callable[[], bool] = lambda: False  # read the server's certificate anew
        # decisions since the start, by experiment and arm
        self.played: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.started = time.time()


_all: WeakKeyDictionary[Node, Traffic] = WeakKeyDictionary()


def traffic_of(node: Node) -> Traffic:
    """The one of a node: its server raises it, its metrics show it."""
    if node not in _all:
        _all[node] = Traffic(node)
    return _all[node]
