"""The books of a swarm: an invariant of acknowledged rewards that holds at every moment.

    acknowledged = counted by every running agent + on their way + lost

Of each origin: *acknowledged* is how many rewards its visitors were told are kept, as noted before
the agents were asked what they hold (so that an honest agent holds at least as many of its own).
*Counted* are those that every running agent holds. *Lost* are those that nobody holds, its own
agent being there to say so; while it is down its disk may have them. The others are on their way:
on a disk, and to come with a later message. Holdings only grow, so an old answer of an agent that
does not answer now is too small at most, and the sum holds all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

Holdings = Mapping[str, int]  # origin -> pulls


@dataclass(frozen=True)
class Books:
    """Acknowledged rewards, and where they are."""

    acknowledged: int
    counted: int
    under_way: int
    lost: int


class Counting:
    """Keeps what every agent last said that it holds."""

    def __init__(self) -> None:
        self._held: dict[str, Holdings] = {}
        self._checked: Counter[str] = Counter()  # acknowledged when its own agent last answered

    def take(
        self,
        acknowledged: Holdings,
        answers: Mapping[str, Holdings],
        running: Collection[str],
    ) -> Books:
        """The books after these answers, which were asked for after `acknowledged` was noted."""
        self._held.update(answers)
        for name in answers:
            self._checked[name] = acknowledged.get(name, 0)
        known = [self._held.get(name, {}) for name in running]
        told = counted = lost = 0
        for origin, count in acknowledged.items():
            told += count
            counted += min([count, *(held.get(origin, 0) for held in known)]) if known else 0
            anywhere = max((held.get(origin, 0) for held in self._held.values()), default=0)
            lost += max(0, self._checked[origin] - anywhere)
        return Books(told, counted, told - counted - lost, lost)

    def behind(self, name: str, acknowledged: Holdings) -> int:
        """How many acknowledged rewards of others an agent did not hold when it last answered."""
        held = self._held.get(name, {})
        others = ((origin, count) for origin, count in acknowledged.items() if origin != name)
        return sum(max(0, count - held.get(origin, 0)) for origin, count in others)
