"""Evidence as whole numbers of quanta, so that conservation can be tested with `==`."""

from __future__ import annotations

from collections.abc import Sequence

PER_UNIT = 2**20  # quanta in 1; one pull adds this much to the count


def to_quanta(values: Sequence[float]) -> tuple[int, ...]:
    """Whole quanta, truncated toward zero so that no bound is ever exceeded."""
    return tuple(int(float(value) * PER_UNIT) for value in values)


def from_quanta(quanta: Sequence[int]) -> tuple[float, ...]:
    """Return the numbers that these quanta stand for."""
    return tuple(quantum / PER_UNIT for quantum in quanta)


def divide_toward_zero(numerator: int, denominator: int) -> int:
    """Return the quotient toward zero, exact for integers of any size; denominator > 0."""
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient
