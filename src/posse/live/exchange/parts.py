"""Small durable parts of an exchange, of which only those that changed are written again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Parts:
    """What was last written of them."""

    def __init__(self) -> None:
        self._said: Mapping[str, Any] = {}

    def say_all(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """All of them, to be written."""
        self.restore(now)
        return dict(now)

    def say_changes(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """Those that changed since they were last written."""
        # the same object is the same part: own evidence may be long
        changed = {
            name: part
            for name, part in now.items()
            if part is not self._said.get(name) and part != self._said.get(name)
        }
        self.restore(now)
        return changed

    def restore(self, said: Mapping[str, Any]) -> None:
        """Go on from what is on disk."""
        self._said = said
