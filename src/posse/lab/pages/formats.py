"""Numbers as readers of a page see them: few digits, a true minus sign, a dash for the unknown."""

from __future__ import annotations

import math

from posse.lab.pages.markup import NOTHING


def number(value: float | None, digits: int = 4) -> str:
    """A number of so many digits, or all before its point; an exponent where it is far from 1."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    exponent = 0 < size < 1e-4 or size >= 1e9
    shape = f".{digits - 1}e" if exponent else f",.{_decimals(size, digits)}f"
    return format(value, shape).replace("-", "−")


def interval(value: float | None, low: float | None, high: float | None, digits: int = 4) -> str:
    """The value and its bounds, all to the same decimal place."""
    if value is None or low is None or high is None:
        return number(value, digits)
    sizes = [abs(value), abs(low), abs(high)]
    if not all(map(math.isfinite, sizes)):
        return number(value, digits)
    if 0 < max(sizes) < 1e-4 or max(sizes) >= 1e9:
        return f"{number(value, digits)} [{number(low, digits)}, {number(high, digits)}]"
    places = _decimals(max(sizes), digits)
    middle, left, right = (f"{each:,.{places}f}".replace("-", "−") for each in (value, low, high))
    return f"{middle} [{left}, {right}]"


def with_error(value: float | None, error: float | None) -> str:
    """The value ± its standard error where there is one."""
    return number(value) if error is None else f"{number(value)} ± {number(error, 3)}"


def share(value: float | None) -> str:
    """A share as a percentage."""
    return NOTHING if value is None or not math.isfinite(value) else f"{100 * value:.1f}%"


def probability(value: float | None) -> str:
    """A p-value; the very small ones are only said to be so."""
    return "< 0.0001" if value is not None and value < 1e-4 else number(value, 3)


def duration(seconds: float) -> str:
    """A time in the two units that tell most."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def counted(count: int, what: str) -> str:
    """A number of things: "1 run", "1,200 runs"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _decimals(size: float, digits: int) -> int:
    return min(6, max(0, digits - 1 - math.floor(math.log10(size)))) if size else 0
