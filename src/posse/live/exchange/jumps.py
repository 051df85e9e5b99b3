"""Jumps of the wall clock, such as when a machine wakes up or is put back."""

from __future__ import annotations

LEAST = 60.0  # seconds ahead that are no jump, whatever is usual
FAR = 30.0  # times the usual gap between two ticks


class Jumps:
    """Notices that time went backwards, or ahead by far more than usual."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._usual = 0.0  # seconds from tick to tick, of late

    def at(self, now: float) -> bool:
        """Whether the clock has jumped since the last tick."""
        last = self._last
        self._last = now
        if last is None:
            return False
        jumped = self._is_jump(now - last)
        self._usual += (max(0.0, now - last) - self._usual) / 8
        return jumped

    def between(self, now: float) -> bool:
        """Whether it has jumped since the last tick, which is then told once; before any, never."""
        if self._last is None or not self._is_jump(now - self._last):
            return False
        self._last = now
        return True

    def _is_jump(self, gap: float) -> bool:
        return gap < 0 or gap > max(LEAST, FAR * self._usual)
