"""Readiness of an agent, and counters of its HTTP traffic: latencies, refusals, connections."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from weakref import WeakKeyDictionary

from posse.live.counters import Counts
from posse.live.node import Node

RECENT_SECONDS = 10.0  # how long a failure of the store counts, unless a write succeeds
LOG_INTERVAL = (
    10.0  # seconds between two logged failures: where some writes succeed the log would be flooded
)


class StoreHealth:
    """Whether the store of a node failed recently; it does not keep the node alive."""

    def __init__(self, node: Node) -> None:
        self._failed_at: float | None = None  # monotonic time of the last failure
        self._logged_at: float | None = None  # monotonic time of the last log line
        self._failure_logged = False  # the log has a failure without its end
        self._failures_seen = _count_failures(node)
        self._lock = threading.Lock()

    def record_failure(self, node: Node) -> bool:
        """Record that the store failed a request; return whether to log it."""
        with self._lock:
            node.failures.add("request")
            self._failed_at = now = time.monotonic()
            self._failures_seen = _count_failures(node)
            if self._failure_logged or (
                self._logged_at is not None and now - self._logged_at < LOG_INTERVAL
            ):
                return False
            self._logged_at = now
            self._failure_logged = True
            return True

    def record_success(self) -> bool:
        """Record that the store was written; return whether that ends a logged failure."""
        # Read without the lock, because successful requests come here: a race costs one late log
        # line.
        if self._failed_at is None:
            return False
        with self._lock:
            self._failed_at = None
            was_logged = self._failure_logged
            self._failure_logged = False
            return was_logged

    def is_ready(self, node: Node) -> bool:
        """Return whether the store can be written, as far as is known; raise if it fails now."""
        with self._lock:
            count = _count_failures(node)
            if count > self._failures_seen:  # of ticks and messages
                self._failures_seen, self._failed_at = count, time.monotonic()
            failed = self._failed_at
        if failed is not None and time.monotonic() - failed < RECENT_SECONDS:
            return False
        with node.store.transaction():  # it is open and can begin a transaction
            pass
        return True


def _count_failures(node: Node) -> int:
    return sum(node.failures[doing] for doing in ("tick", "receive", "request"))


BUCKETS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0  # seconds


class LatencyHistogram:
    """A histogram of the seconds that requests of one route took; written by one thread."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Add one request."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Traffic:
    """HTTP counters of one node, shared by its server and its metrics."""

    def __init__(self, node: Node) -> None:
        self.health = StoreHealth(node)
        self.latencies: dict[str, LatencyHistogram] = {}
        self.refusals = Counts()  # requests and connections, by reason
        self.connections: Callable[[], int] = lambda: 0
        self.viewers = 0  # of the page
        self.renew_certificate: Callable[[], bool] = lambda: (
            False
        )  # read the server's certificate anew
        # decisions since the start, by experiment and arm
        self.decisions_by_arm: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.started = time.time()


# Weak keys: the counters of a stopped node are freed together with it.
_traffic_by_node: WeakKeyDictionary[Node, Traffic] = WeakKeyDictionary()


def get_traffic(node: Node) -> Traffic:
    """Return the counters of a node."""
    if node not in _traffic_by_node:
        _traffic_by_node[node] = Traffic(node)
    return _traffic_by_node[node]
