"""Numbers of incarnations: they rise with time.

They have the milliseconds of the wall clock, then random bits, so that two processes that forgot
each other do not use the same one.
"""

from __future__ import annotations

from collections.abc import Callable

RANDOM_BITS = 20
LAST = 2**63 - 1


def new_incarnation(now: float, above: int, draw: Callable[[int], int]) -> int:
    """A number above another one, by the wall clock `now` in seconds."""
    milliseconds = min(max(0, int(now * 1000)), LAST >> RANDOM_BITS)
    number = milliseconds << RANDOM_BITS | draw(RANDOM_BITS)
    if number > above:
        return number
    # the clock is behind: beyond a gap, for what was forgotten may lie just above
    return min(LAST, above + 1 + draw(RANDOM_BITS))
