"""Sums of evidence: whole quanta by arm name, so that conservation can be tested with `==`.

An arm without evidence is left out of a ledger.

Side rows are rows beside those of the arms, which no belief reads: they are for what is measured
and not acted on, the uplift over a holdout and metrics. A side row is part of the entry of its
decision like any other row, and so just as exact. Its name begins with a character that no arm's
name can have. It has three numbers, however wide the rows of arms are: sum, sum of squares, count.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

Ledger = dict[str, tuple[int, ...]]
Rows = Mapping[str, Sequence[int]]  # a ledger, or what can become one

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


def plus(one: Rows, other: Rows) -> Ledger:
    """The sum, arm by arm."""
    total = {arm: tuple(values) for arm, values in one.items() if any(values)}
    for arm, values in other.items():
        add_row(total, arm, values)
    return total


def minus(one: Rows, other: Rows) -> Ledger:
    """The difference, arm by arm."""
    return plus(one, negative(other))


def map_values(ledger: Rows, change: Callable[[int], int]) -> Ledger:
    """Apply a function to every number."""
    changed = {arm: tuple(map(change, values)) for arm, values in ledger.items()}
    return {arm: values for arm, values in changed.items() if any(values)}


def negative(ledger: Rows) -> Ledger:
    """Return the additive inverse."""
    return map_values(ledger, operator.neg)


def total(ledgers: Iterable[Rows]) -> Ledger:
    """Return the sum of many ledgers."""
    result: Ledger = {}
    for ledger in ledgers:
        result = plus(result, ledger)
    return result


def plain(ledger: Rows) -> dict[str, list[int]]:
    """Return the ledger as plain JSON values; `plus({}, values)` is the ledger again."""
    return {arm: list(values) for arm, values in ledger.items()}


def is_whole(value: object, most: int = LARGEST) -> bool:
    """Whether it is an integer (True is none) from 0 to the most."""
    return type(value) is int and 0 <= value <= most


def is_name(value: object) -> bool:
    """Whether it is a text of a sensible length."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME


def is_list(value: object, most: int, check: Callable[[object], bool]) -> bool:
    """Whether it is a tuple or list of at most so many items that all pass a check."""
    return isinstance(value, tuple | list) and len(value) <= most and all(map(check, value))


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


# ---- side rows

SIDE = "\x1f"  # before every part of a side row's name; not printable: arms cannot begin with it

Cell = tuple[int, int, int]  # sum, sum of squares and count, in quanta
NO_CELL: Cell = (0, 0, 0)
CELL_NUMBERS = len(NO_CELL)


def is_side_row(name: str) -> bool:
    """Whether a row of an entry is none of an arm."""
    return name.startswith(SIDE)


def name_side_row(*parts: str) -> str:
    """Return the name of a side row, such as that of a metric and an arm."""
    return "".join(SIDE + part for part in parts)


def select_cells(rows: Rows) -> dict[tuple[str, ...], Cell]:
    """Return the cells of all side rows among some rows, by the parts of their names."""
    return {
        tuple(name.split(SIDE)[1:]): (row[0], row[1], row[2])
        for name, row in rows.items()
        if is_side_row(name)
    }
