"""Sums of evidence: whole quanta by arm name, so that conservation can be tested with `==`.

An arm without evidence is left out of a ledger.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

Ledger = dict[str, tuple[int, ...]]

PER_UNIT = 2**20  # quanta in 1; one pull adds this much to the count
MOST_ARMS = 1000
LONGEST_NAME = 200
LARGEST = 2**63 - 1  # what the wire can carry
LARGEST_SUM = 2**62  # of evidence


def add_row(ledger: Ledger, arm: str, values: Sequence[int]) -> None:
    """Add to one arm of a ledger, in place."""
    mine = ledger.get(arm)
    row = tuple(values) if mine is None else tuple(map(operator.add, mine, values))
    if any(row):
        ledger[arm] = row
    else:
        ledger.pop(arm, None)


def plus(one: Mapping[str, Sequence[int]], other: Mapping[str, Sequence[int]]) -> Ledger:
    """The sum, arm by arm."""
    total = {arm: tuple(values) for arm, values in one.items() if any(values)}
    for arm, values in other.items():
        add_row(total, arm, values)
    return total


def minus(one: Mapping[str, Sequence[int]], other: Mapping[str, Sequence[int]]) -> Ledger:
    """The difference, arm by arm."""
    return plus(one, negative(other))


def map_values(ledger: Mapping[str, Sequence[int]], change: Callable[[int], int]) -> Ledger:
    """Apply a function to every number."""
    changed = {arm: tuple(map(change, values)) for arm, values in ledger.items()}
    return {arm: values for arm, values in changed.items() if any(values)}


def negative(ledger: Mapping[str, Sequence[int]]) -> Ledger:
    """Return the additive inverse."""
    return map_values(ledger, operator.neg)


def total(ledgers: Iterable[Mapping[str, Sequence[int]]]) -> Ledger:
    """Return the sum of many ledgers."""
    result: Ledger = {}
    for ledger in ledgers:
        result = plus(result, ledger)
    return result


def plain(ledger: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the ledger as plain JSON values."""
    return {arm: list(values) for arm, values in ledger.items()}


def from_plain(values: Mapping[str, Sequence[int]]) -> Ledger:
    """Build the ledger from the values of `plain`."""
    return {arm: tuple(numbers) for arm, numbers in values.items()}


def is_whole(value: object, most: int = LARGEST) -> bool:
    """Whether it is an integer (True is none) from 0 to the most."""
    return type(value) is int and 0 <= value <= most


def is_name(value: object) -> bool:
    """Whether it is a text of a sensible length."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME


def is_list(value: object, most: int, check: Callable[[object], bool]) -> bool:
    """Whether it is a tuple or list of at most so many items that all pass a check."""
    return isinstance(value, tuple | list) and len(value) <= most and all(map(check, value))


def is_ledger(value: object, dimension: int) -> bool:
    """Whether it maps few enough arm names to so many numbers that the wire can carry."""
    return (
        isinstance(value, Mapping)
        and len(value) <= MOST_ARMS
        and all(is_name(arm) for arm in value)
        and all(
            isinstance(numbers, tuple | list)
            and len(numbers) == dimension
            and all(type(number) is int for number in numbers)
            and max(map(abs, numbers)) <= LARGEST
            for numbers in value.values()
        )
    )


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
