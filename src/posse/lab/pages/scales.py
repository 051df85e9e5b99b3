"""From numbers to places: an axis in percent of its length, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from posse.lab.plots import DECADES, WIDE

_END = 96.0  # percent: room for half a mark and half a label
_GAP = 12.0  # percent between zero and the least number of a logarithmic axis that has a zero


@dataclass(frozen=True)
class Scale:
    """An axis from low to high, 0 < low < high where it is logarithmic.

    zero:  whether a logarithmic axis is broken and begins with 0
    start: the place of its first number, in percent
    """

    low: float
    high: float
    log: bool = False
    zero: bool = False
    start: float = 4.0

    def place(self, value: float) -> float:
        """Where a value stands, in percent; what is beyond an end stands there."""
        if self.zero and value <= 0:
            return self.start
        start = self.start + _GAP * self.zero
        if value <= self.low:
            return start
        bend = math.log if self.log else float
        part = (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low))
        return start + (_END - start) * min(1.0, part)

    def holds(self, value: float) -> bool:
        """Whether the value is on the axis."""
        return self.low <= value <= self.high or (self.zero and value == 0)

    def ticks(self, count: int = 5) -> list[float]:
        """About so many round numbers."""
        found = _log_ticks(self.low, self.high, count) if self.log else []
        found = found if len(found) > 1 else _linear_ticks(self.low, self.high, count)
        return [0.0, *found] if self.zero else found


def scale_of(values: Iterable[float | None], *, log: bool | None = None) -> Scale:
    """An axis that holds all values: logarithmic, unless told, where they are far apart.

    A logarithmic axis reaches four decades down at most, and has a broken off zero where a value
    is zero; a linear one begins at zero unless a value is less.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    above = [value for value in known if value > 0]
    if log is None:
        log = bool(above) and max(above) > WIDE * min(above)
    if not log or not above:
        low, high = min(known, default=0.0), max(known, default=1.0)
        low = min(0.0, low)
        return Scale(low, high if high > low else low + 1.0)
    high = max(above)
    low = max(min(above), high / 10**DECADES)
    if high < 1.5 * low:  # all alike: some room about them
        low, high = low / 1.5, high * 1.5
    return Scale(low / 1.08, high * 1.08, log=True, zero=0.0 in known)


def centred(values: Iterable[float | None], most: float) -> Scale:
    """A linear axis with zero in its middle that holds the values, those beyond `most` apart."""
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    inside = [value for value in known if value <= most]
    end = most if len(inside) < len(known) else max(inside, default=0.0)
    end = end or most or 1.0
    return Scale(-1.05 * end, 1.05 * end)


def label(tick: float) -> str:
    """A tick as it is written."""
    return f"{tick:,.10g}".replace("-", "−")


def _linear_ticks(low: float, high: float, count: int) -> list[float]:
    span = high - low
    power = 10 ** math.floor(math.log10(span / count))
    step = power * next(each for each in (1, 2, 5, 10) if span / (each * power) <= count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [float(f"{i * step:.10g}") for i in range(first, last + 1)]
    return [tick for tick in ticks if low <= tick <= high]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    """Powers of ten and, where there is room, round numbers between them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for parts in ((1, 2, 5), (1, 3), (1,)):
        every = [float(f"{part}e{power}") for power in powers for part in parts]
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) <= count + 1:
            return ticks
    return ticks[:: math.ceil(len(ticks) / count)]
