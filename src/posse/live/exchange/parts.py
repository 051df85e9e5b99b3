"""Small durable parts of an exchange: only those that changed are written again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class WrittenParts:
    """The parts as they were last written."""

    def __init__(self) -> None:
        self._written: Mapping[str, Any] = {}

    def take_all(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parts, to be written."""
        self.restore(now)
        return dict(now)

    def take_changes(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts that changed since they were last written."""
        # the same object is the same part: own evidence may be long
        changed = {
            name: part
            for name, part in now.items()
            if part is not self._written.get(name) and part != self._written.get(name)
        }
        self.restore(now)
        return changed

    def restore(self, written: Mapping[str, Any]) -> None:
        """Continue from the parts on disk."""
        self._written = written
