"""Side rows: rows of an entry beside those of its arms, which no belief reads.

They are for what is measured and not acted on: the uplift over a holdout, and metrics. A side row
is part of the entry of its decision like any other row, and so just as exact. Its name begins with
a character that no arm's name can have. It has the first three of a row's numbers,

    sum  squares  count  0 ... 0

and ends in 0, so that it counts as no pull.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from posse.live.exchange.evidence_sums import PER_UNIT

PREFIX = "\x1f"  # not printable: arms cannot begin with it

Cell = tuple[int, int, int]  # sum, sum of squares and count, in quanta
NO_CELL: Cell = (0, 0, 0)


def is_side_row(name: str) -> bool:
    """Whether a row of an entry is none of an arm."""
    return name.startswith(PREFIX)


def name_side_row(*parts: str) -> str:
    """Return the name of a side row, such as that of a metric and an arm."""
    return "".join(PREFIX + part for part in parts)


def select_cells(rows: Mapping[str, Sequence[int]]) -> dict[tuple[str, ...], Cell]:
    """Return the cells of all side rows among some rows, by the parts of their names."""
    return {
        tuple(name.split(PREFIX)[1:]): (row[0], row[1], row[2])
        for name, row in rows.items()
        if is_side_row(name)
    }


def select_arms(rows: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return the rows of arms among some rows."""
    return {name: tuple(row) for name, row in rows.items() if not is_side_row(name)}


def is_cell(row: Iterable[int], limit: int) -> bool:
    """Whether so many observations can have added up to a row; limit: the largest, in quanta."""
    total, squares, count, *rest = row
    return (
        not any(rest)
        and count >= 0
        and 0 <= squares <= count
        and abs(total) * PER_UNIT <= limit * count
    )
