"""Steps: old controls by which an agent that joins gets to a high version, 1000 at a time.

A version may be at most `AHEAD` of what is known, so that one forged or mistaken number cannot use
up all numbers. So that whoever comes later can follow, agents keep a few of the old records, each
within `AHEAD` of the one before, and send them along. A step says only which versions there were:
its certificate may have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from posse.live.control.records import Control

AHEAD = 1000  # versions
MOST = 100
MOST_BYTES = 200_000  # in one message; the others follow in turn


class Steps:
    """The highest version that an operator signed, and the way to it."""

    def __init__(self) -> None:
        self._steps: list[Control] = []  # the last one is the highest version
        self._turn = 0  # which are sent next

    @property
    def version(self) -> int:
        """The highest version known."""
        return self._steps[-1].version if self._steps else 0

    def within_reach(self, version: int) -> bool:
        """Whether a version is not too far ahead."""
        full = len(self._steps) >= MOST and self._is_far(version)
        return version <= self.version + AHEAD and not full

    def climb(self, control: Control) -> None:
        """Know a higher version; the highest before it stays where it is needed as a step."""
        if control.version <= self.version:
            return
        if self._steps and not self._is_far(control.version):
            self._steps.pop()
        self._steps.append(control)

    def _is_far(self, version: int) -> bool:
        """Whether the highest version must stay, for the one below it is too far from this."""
        below = self._steps[-2].version if len(self._steps) > 1 else 0
        return version - below > AHEAD

    def keep(self, operators: Container[str]) -> None:
        """Drop what others signed."""
        self._steps = [each for each in self._steps if each.signer in operators]

    def change(self, change: Callable[[Control], Control]) -> None:
        """Change every record, as by a new signature."""
        self._steps = [change(each) for each in self._steps]

    def some(self) -> list[Control]:
        """As many as fit into a message; with the next message the next ones."""
        chosen: list[Control] = []
        size = 0
        for each in self._steps[self._turn :] + self._steps[: self._turn]:
            size += len(each.content) + len(each.signature)
            if chosen and size > MOST_BYTES:
                break
            chosen.append(each)
        if self._steps:
            self._turn = (self._turn + len(chosen)) % len(self._steps)
        return chosen

    def plain(self) -> list[dict[str, Any]]:
        """As JSON would give it back."""
        return [each.plain() for each in self._steps]

    def restore(self, data: list[dict[str, Any]]) -> None:
        """Go back to what was made plain."""
        self._steps, self._turn = [Control.from_plain(each) for each in data], 0
