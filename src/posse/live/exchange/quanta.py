"""Evidence as whole numbers of quanta, so that conservation can be tested with `==`."""

from __future__ import annotations

from collections.abc import Sequence

PER_UNIT = 2**20  # quanta in 1; one pull adds this much to the count


def to_quanta(values: Sequence[float]) -> tuple[int, ...]:
    """Whole quanta, truncated toward zero so that no bound is ever exceeded."""
    return tuple(int(float(value) * PER_UNIT) for value in values)


def from_quanta(quanta: Sequence[int]) -> tuple[float, ...]:
    """The numbers that so many quanta stand for."""
    return tuple(quantum / PER_UNIT for quantum in quanta)


def divide_toward_zero(numerator: int, denominator: int) -> int:
    """The quotient toward zero, for a positive denominator, exact for integers of any size."""
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient
