"""Sums of evidence by arm name; an arm without evidence is left out, so that `==` compares sums."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

Ledger = dict[str, tuple[int, ...]]
Counts = tuple[int, ...]  # which coordinates are counts: of pulls, then of closed ones

LAST: Counts = (-1,)

MOST_ARMS = 1000
LONGEST_NAME = 200
LARGEST = 2**63 - 1  # what the wire can carry
LARGEST_SUM = 2**62  # of evidence


def plus(one: Mapping[str, Sequence[int]], other: Mapping[str, Sequence[int]]) -> Ledger:
    """The sum, arm by arm."""
    total = {arm: tuple(values) for arm, values in one.items()}
    for arm, values in other.items():
        mine = total.get(arm)
        total[arm] = tuple(values) if mine is None else tuple(map(operator.add, mine, values))
    return {arm: values for arm, values in total.items() if any(values)}


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


def dominates(
    one: Mapping[str, Sequence[int]], other: Mapping[str, Sequence[int]], counts: Counts = LAST
) -> bool:
    """Whether the other counts no more pulls, and no more closed ones, of any arm."""
    return all(
        arm in one and all(one[arm][count] >= values[count] for count in counts)
        for arm, values in other.items()
    )


def larger(
    one: Mapping[str, Sequence[int]],
    other: Mapping[str, Sequence[int]],
    counts: Counts = LAST,
    newer: bool = False,
) -> Ledger:
    """Of each arm that which counts more pulls; and what is closed, of that which closed more.

    `newer`: of as many pulls the other, which may have corrected one.
    """
    both = {arm: tuple(values) for arm, values in one.items()}
    for arm, values in other.items():
        mine = both.get(arm)
        if mine is None:
            both[arm] = tuple(values)
            continue
        theirs = [values[n] for n in counts]
        ours = [mine[n] for n in counts]
        row, less = (values, mine) if (theirs, newer) > (ours, False) else (mine, values)
        # Open and closed sums may come from different copies: take the larger count of each.
        if less[counts[-1]] > row[counts[-1]]:  # it closed more
            n = counts[-1] // 2
            row = (*row[:n], *less[n:-1], row[-1])
        both[arm] = tuple(row)
    return both


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


def is_ledger(value: object, dimension: int, number: type = int) -> bool:
    """Whether it maps few enough arm names to so many numbers that the wire can carry."""
    return (
        isinstance(value, Mapping)
        and len(value) <= MOST_ARMS
        and all(is_name(arm) for arm in value)
        and all(
            isinstance(numbers, tuple | list)
            and len(numbers) == dimension
            and {int, number}.issuperset(map(type, numbers))
            and max(map(abs, numbers)) <= LARGEST
            for numbers in value.values()
        )
    )
