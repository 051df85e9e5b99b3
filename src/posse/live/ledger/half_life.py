"""Epochs: time in half-lives, by which evidence fades and every agent fades alike (sans-I/O).

An epoch h = floor(now / H) is one half-life H of wall-clock time, f = now / H - h the position in
it.  Numbers are kept relative to the start of an epoch: what is decided at f enters with the weight
2^f, below 2, and is read with 2^-f; when an epoch passes, whole numbers are halved toward zero.
That is odd (opposite flows stay opposite) and a semigroup (k epochs at once are k epochs one by
one), so that agents that halve at different times, or after a restart, still hold equal numbers.

Here, and only here, agents compare times: clocks must agree within 1% of H, which is 0.7% of
weight.  A clock that jumps ahead by more than an epoch of a time that cannot be put back would
halve for good, and is not followed; one that goes back stands still until it has caught up.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import neg

from posse import validation
from posse.live.ledger.bounds import Bounds
from posse.live.ledger.sums import Ledger, Rows, map_values, plus

FORGOTTEN = 60  # half-lives after which evidence reads as 0
LEAST_TICKS = 100  # in a half-life
AHEAD = "epoch_ahead_of_clock"
JUMPED = "clock_jumped_ahead"


def halve(value: int, times: int = 1) -> int:
    """Halve toward zero this many times; a negative number doubles, which is exact."""
    if times < 0:
        return value << -times
    return value >> times if value >= 0 else -(-value >> times)


def shift_ledger(ledger: Rows, epochs: int, bounds: Bounds | None = None) -> Ledger:
    """Return a ledger this many epochs later, clipped to its bounds if there are any."""
    if not epochs:
        return plus(ledger, {})
    rows = map_values(ledger, lambda value: halve(value, epochs))
    return rows if bounds is None else plus({}, {a: bounds.clip_values(rows[a]) for a in rows})


class Epochs:
    """The time of one exchange in half-lives; without a half-life it stands still at 0."""

    def __init__(
        self,
        half_life: float | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] | None = None,
        refusals: Counter[str] | None = None,
    ) -> None:
        """`clock` is asked before the first tick only; without `monotonic` jumps are believed."""
        if half_life is not None:
            validation.validate_number("half_life", half_life, above=0)
        self.half_life = math.inf if half_life is None else half_life  # then the time is always 0
        self._clock = clock
        self.monotonic = monotonic
        self._refusals = Counter() if refusals is None else refusals
        self._position: float | None = None  # None: no tick yet
        self._begun = (0.0, 0.0)  # position and monotonic time of the first
        self._jumped = False

    @property
    def fading(self) -> bool:
        """Whether there is a half-life."""
        return self.half_life < math.inf

    @property
    def position(self) -> float:
        """The half-lives since 1970 at the last tick or message."""
        if self._position is None:
            self.move_to(self._clock())
        assert self._position is not None
        return self._position

    @property
    def epoch(self) -> int:
        """The present epoch, by our own clock."""
        return math.floor(self.position)

    def move_to(self, now: float) -> bool:
        """Move the time, never back and never faster than `monotonic`; returns whether it did."""
        position = max(0.0, now / self.half_life)
        passed = 0.0 if self.monotonic is None else self.monotonic() / self.half_life
        if self._position is None:
            self._position = position
            self._begun = (position, passed)
            return self.fading
        if self.monotonic is not None:
            first, then = self._begun
            # One epoch of tolerance beyond the time that really passed since the first tick.
            most = first + passed - then + 1.0
            if position > most and not self._jumped:
                self._refusals[JUMPED] += 1
            self._jumped = position > most
            position = min(position, most)
        moved = position > self._position
        self._position = max(position, self._position)
        return moved

    def is_behind(self, at: float) -> bool:
        """Whether a time is later than the last tick or message."""
        return self.fading and at > self.position * self.half_life

    def is_ahead(self, epoch: int) -> bool:
        """Whether an epoch is more than one ahead of ours, so that no clock near ours says it."""
        return epoch > self.epoch + 1

    def weight(self, at: float | None, epoch: int) -> float:
        """Return the weight of a decision at this time (None: now) relative to an epoch's start."""
        position = self.position if at is None else at / self.half_life
        # Our ticks may be behind the decision, but no further than into the next epoch: a weight is
        # 2 or less, whatever time a decision claims.
        return float(2.0 ** min(position - epoch, 1.0))

    def worth(self, epoch: int) -> float:
        """Return the factor by which numbers of this epoch are read now."""
        age = self.position - epoch
        # A clock that is behind reads what is ahead of it for its whole weight, and never for more.
        return 0.0 if age >= FORGOTTEN else float(2.0 ** -max(age, 0.0))

    def is_forgotten(self, epoch: int) -> bool:
        """Whether numbers of this epoch read as 0 for good."""
        return self.position - epoch >= FORGOTTEN

    def weigh_values(
        self, values: Sequence[int], at: float | None, epoch: int, bounds: Bounds
    ) -> tuple[int, ...]:
        """Return what a part of a decision adds to numbers of an epoch."""
        if values[-1] < 0:  # taken back: the opposite of what was added
            return tuple(map(neg, self.weigh_values(tuple(map(neg, values)), at, epoch, bounds)))
        weight = self.weight(at, epoch)
        return bounds.clip_values([int(value * weight) for value in values], pull=True)

    def read_ledger(self, by_epoch: Mapping[int, Ledger]) -> Ledger:
        """Return the sum of numbers of several epochs, for their present worth."""
        if not self.fading:  # exact: all numbers are of epoch 0
            return dict(by_epoch.get(0, {}))
        total: dict[str, list[float]] = {}
        for epoch in sorted(by_epoch):  # always in one order, because rounding depends on it
            factor = self.worth(epoch)
            for arm, values in by_epoch[epoch].items():
                row = total.setdefault(arm, [0.0] * len(values))
                for nth, value in enumerate(values):
                    row[nth] += value * factor
        return plus({}, {arm: tuple(map(int, values)) for arm, values in total.items()})
