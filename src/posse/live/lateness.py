"""How late rewards came: a histogram of the time since their windows had closed."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass

# seconds: what ends a bucket, from a window nearly long enough to one of the wrong order
BUCKETS = (1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)


@dataclass(frozen=True)
class Late:
    """A histogram at one moment: by bucket, the last without an end; sum and longest in seconds."""

    counts: tuple[int, ...]
    total: float
    longest: float


class Lateness:
    """Counts late rewards by how late they came, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._total = self._longest = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        with self._lock:
            self._counts[bisect_left(BUCKETS, seconds)] += 1
            self._total += seconds
            self._longest = max(self._longest, seconds)

    def copy(self) -> Late:
        """All of them, as they are at this moment."""
        with self._lock:
            return Late(tuple(self._counts), self._total, self._longest)
