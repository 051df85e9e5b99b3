"""A ring buffer of views: the last quarter of an hour, each written as what changed in it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

MOST = 1800  # views

View = dict[str, Any]  # by name of what it shows; a value is never changed, only replaced


class Ring:
    """Views in the order in which they came; any thread may read them.

    start: the number before the first view's. Of another run on the same port a reader that went
    on should not be understood, so let it be a random one.
    """

    def __init__(self, most: int = MOST, start: int = 0) -> None:
        self.ended = False
        self._first: View = {}  # the view before the oldest change
        self._newest: View = {}
        self._changes: deque[tuple[View, bytes]] = deque()
        self._most, self._count = most, start
        self._lock = threading.Lock()
        self._told: list[Callable[[], None]] = []

    def tell(self, listener: Callable[[], None]) -> None:
        """Call this whenever there is something new, from another thread."""
        self._told.append(listener)

    def add(self, view: View) -> None:
        """Keep a view, unless it is equal to the last, and forget the oldest."""
        with self._lock:
            known = self._newest
            change = {
                key: value for key, value in view.items() if key not in known or value != known[key]
            }
            if not change:
                return
            self._count += 1
            self._newest = self._newest | change  # what is equal is kept once
            self._changes.append((change, _written(self._count, change)))
            if len(self._changes) > self._most:
                self._first = self._first | self._changes.popleft()[0]
        self._say()

    def end(self) -> None:
        """Nothing will come any more."""
        self.ended = True
        self._say()

    @property
    def newest(self) -> View:
        """The last view, whole."""
        return dict(self._newest)

    @property
    def count(self) -> int:
        """The number of the last view."""
        return self._count

    def since(self, number: int) -> tuple[list[bytes], int]:
        """What changed after the view of this number, as JSON, and the number of the last one.

        Who is further behind than the ring reaches, or ahead of it, gets the oldest view whole.
        """
        with self._lock:
            oldest = self._count - len(self._changes)
            if number and oldest <= number <= self._count:
                late = self._count - number
                return [self._changes[k][1] for k in range(-late, 0)], self._count
            if not self._changes:
                return [], number
            (change, _), *later = self._changes
            whole = _written(oldest + 1, self._first | change, whole=True)
            return [whole, *(text for _, text in later)], self._count

    def _say(self) -> None:
        for listener in self._told:
            listener()


def _written(number: int, change: View, whole: bool = False) -> bytes:
    return msgspec.json.encode({"number": number, "whole": whole, "view": change})
