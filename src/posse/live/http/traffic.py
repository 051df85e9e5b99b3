"""What the HTTP interface knows of its own work: waiting times, refusals, connections, health."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from weakref import WeakKeyDictionary

from posse.live.counts import Counts
from posse.live.http.health import Health
from posse.live.node import Node

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
