"""Monotonic counters that any thread may raise."""

from __future__ import annotations

import threading
from collections import Counter


class Counts:
    """Named counters, raised and read under a lock of their own, so that no increment is lost.

    whole: the counters of which these are a part, raised with them.
    """

    def __init__(self, whole: Counts | None = None) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.whole = whole

    def add(self, name: str, by: int = 1) -> None:
        """Raise one of them."""
        with self._lock:
            self._counts[name] += by
        if self.whole is not None:
            self.whole.add(name, by)

    def __getitem__(self, name: str) -> int:
        """One of them; 0 if it was never raised."""
        with self._lock:
            return self._counts[name]

    def copy(self) -> Counter[str]:
        """All of them, as they are at this moment."""
        with self._lock:
            return self._counts.copy()
