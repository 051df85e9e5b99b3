"""Monotonic counters that any thread may raise, and those of unusual contexts."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from posse.contexts import Category, Contexts, Features, Number


class Counts:
    """Named counters, raised and read under a lock of their own, so that no increment is lost.

    whole: the counters of which these are a part, raised with them.
    """

    def __init__(self, whole: Counts | None = None) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.whole = whole

    def add(self, name: str, by: int = 1) -> None:
        """Raise one counter."""
        with self._lock:
            self._counts[name] += by
        if self.whole is not None:
            self.whole.add(name, by)

    def __getitem__(self, name: str) -> int:
        """Return one counter; 0 if it was never raised."""
        with self._lock:
            return self._counts[name]

    def copy(self) -> Counter[str]:
        """Return all counters as they are at this moment."""
        with self._lock:
            return self._counts.copy()


# ---- Contexts outside of the schema: counted, because the schema may need another category


class ContextOddities:
    """How often a category had an unknown name, or a number was outside its range."""

    def __init__(self, schema: Contexts | None) -> None:
        fields = () if schema is None else tuple(schema)
        self._unknown = Counts()
        self._clipped = Counts()
        self._categories = [name for name, field in fields if isinstance(field, Category)]
        self._numbers = [name for name, field in fields if isinstance(field, Number)]

    def count_context(self, features: Features) -> None:
        """Count one context."""
        for name in features.unknown:
            self._unknown.add(name)
        for name in features.clipped:
            self._clipped.add(name)

    @property
    def unknown(self) -> dict[str, int]:
        """Unknown names of each category, since the start."""
        return {name: self._unknown[name] for name in self._categories}

    @property
    def clipped(self) -> dict[str, int]:
        """Clipped values of each number, since the start."""
        return {name: self._clipped[name] for name in self._numbers}


def serialize_context(context: Mapping[str, Any]) -> str:
    """Encode a validated context for the store: JSON without missing fields."""
    present = {name: value for name, value in context.items() if value is not None}
    # of NumPy's numbers those that Python has
    return json.dumps(
        present, ensure_ascii=False, separators=(",", ":"), default=lambda n: n.item()
    )


def is_same_context(context: Mapping[str, Any] | None, stored: str | None) -> bool:
    """Whether a context is the one stored with a decision."""
    if context is None or stored is None:
        return context is None and stored is None
    before: Any = json.loads(stored)
    return bool(before == {n: value for n, value in context.items() if value is not None})
