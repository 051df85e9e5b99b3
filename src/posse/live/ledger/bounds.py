"""Bounds of evidence: what so many pulls can have added up to, coordinate by coordinate.

Where decisions count before their reward is final, closed ones are summed by themselves as well:

    sums...  closed sums...  closed count  signs...  count

Sums are bounded by the count, what is closed (with its signs) by the closed count. Where contexts
have d features, the last d (d + 1) / 2 of the sums are the upper triangle by rows of a Gram matrix,
which no direction can make negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from operator import neg

from posse.live.ledger.sums import CELL_NUMBERS, LARGEST_SUM, PER_UNIT, is_name, is_side_row

DIFFERENCE = 2  # pulls: a correction is the difference of two rewards
# quanta, and the share of a count, that rounding may make up
ROUNDING = 64
ROUNDING_BITS = 6


@dataclass(frozen=True)
class Bounds:
    """The most that one pull can add to each coordinate; the last coordinate counts the pulls."""

    per_pull: tuple[float, ...]
    closed: int = 0  # how many of the first coordinates come again, for closed decisions; 0: none
    rounded: bool = False  # where evidence fades, parts of one decision are rounded apart
    features: int = 0  # of contexts; 0: there is no Gram matrix
    side: float | None = None  # the largest observation of a side row; None: there are none

    @property
    def dimension(self) -> int:
        """How many coordinates a statistic has."""
        return len(self.per_pull)

    def count_numbers(self, name: str) -> int:
        """Return how many numbers a row of this name has."""
        return CELL_NUMBERS if is_side_row(name) else self.dimension

    @cached_property
    def largest(self) -> int:
        """The most quanta that one pull adds to any coordinate, weighed late in an epoch."""
        return (2 if self.rounded else 1) * max(self._quanta)

    def allow(self, values: Sequence[int]) -> bool:
        """Whether so many pulls can have added up to this; in integers, which never overflow."""
        pulls = closed = values[-1]  # below 0 they allow nothing, not even themselves
        if self.closed:
            closed = values[2 * self.closed]
            if self.rounded and pulls >= 0:
                pulls += ROUNDING + (pulls >> ROUNDING_BITS)
            if closed > pulls:
                return False
        return self._are_within(values, pulls, closed)

    def _are_within(self, values: Sequence[int], pulls: int, closed: int) -> bool:
        # kept short: every reward comes here
        for value, (limit, is_closed) in zip(values, self._limits, strict=True):
            if abs(value) * PER_UNIT > limit * (closed if is_closed else pulls):
                return False
        return True

    def allow_row(self, name: str, values: Sequence[int]) -> bool:
        """Whether it can be a row of an entry: all parts of its decisions are in it."""
        if is_side_row(name):
            return self._is_cell(values)
        n = self.closed
        return (
            self.allow(values)
            and self._is_gram(values[:n], values[-1])
            and (not n or self._is_gram(values[n : 2 * n], values[2 * n]))
        )

    def check_cell(self, cell: Sequence[int]) -> tuple[int, ...]:
        """Return a validated observation of a side row as the row that it adds."""
        if not self._is_cell(cell):
            raise ValueError(f"no observation within the bounds: {cell}")
        return tuple(cell)

    def _is_cell(self, row: Sequence[int]) -> bool:
        """Whether so many observations can have added up to a side row."""
        total, squares, count = row
        return (
            self.side is not None
            and 0 <= squares <= count
            and abs(total) * PER_UNIT <= math.ceil(self.side * PER_UNIT) * count
        )

    def _is_gram(self, sums: Sequence[int], pulls: int) -> bool:
        """Whether no two features can have shown that their Gram matrix is none (2 x 2 minors)."""
        slack = ROUNDING + (pulls >> ROUNDING_BITS) if self.rounded else 0
        diagonal = [sums[at] for at in self._diagonal]
        if any(value < 0 for value in diagonal):
            return False
        diagonal = [value + slack for value in diagonal]
        return all(sums[at] ** 2 <= diagonal[i] * diagonal[j] for at, i, j in self._gram)

    def _clip_gram(self, sums: Sequence[int]) -> tuple[int, ...]:
        """Return sums whose Gram matrix, if they have one, has no negative 2 x 2 minor."""
        row = list(sums)
        for at in self._diagonal:
            row[at] = max(0, row[at])
        for at, i, j in self._gram:
            if i != j:
                most = math.isqrt(row[self._diagonal[i]] * row[self._diagonal[j]])
                row[at] = min(max(row[at], -most), most)
        return tuple(row)

    @cached_property
    def _gram(self) -> tuple[tuple[int, int, int], ...]:
        """The place among the sums, row and column of all entries of the Gram matrix."""
        pairs = list(combinations_with_replacement(range(self.features), 2))
        return tuple((self.closed - len(pairs) + n, *pair) for n, pair in enumerate(pairs))

    @cached_property
    def _diagonal(self) -> tuple[int, ...]:
        return tuple(at for at, i, j in self._gram if i == j)

    def clip_values(self, values: Sequence[int], pull: bool = False) -> tuple[int, ...]:
        """Return the nearest values that their counts allow: rounding may lead a little beyond.

        pull: these are a part of one decision. A correction has no count of its own, and is a
        difference of two rewards; only the sum that it is added to bounds it.
        """
        n = self.closed
        counts = values[-1], values[2 * n]
        clipped = tuple(
            _clip_value(counts[is_closed], value, limit)
            for value, (limit, is_closed) in zip(values, self._limits, strict=True)
        )
        return (*values[:n], *clipped[n:]) if pull and not values[-1] else clipped

    def clip_entry(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return the nearest values that an entry can have: no more is closed than counted."""
        if not self.closed:
            return self.clip_values(values)
        n = self.closed
        row = self.clip_values((*values[:-1], max(values[-1], values[2 * n])))
        return (*self._clip_gram(row[:n]), *self._clip_gram(row[n : 2 * n]), *row[2 * n :])

    def closed_row(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return the closed decisions of a row, as if there had never been open ones."""
        n = self.closed
        if not n:
            return tuple(values)
        return (*values[n : 2 * n], *values[n : 2 * n], *values[2 * n : -1], values[2 * n])

    def open_count(self, values: Sequence[int]) -> int:
        """Count the open decisions of a row, in quanta."""
        return values[-1] - values[2 * self.closed] if self.closed else 0

    def check_observation(self, arm: str, statistic: Sequence[int]) -> tuple[int, ...]:
        """Return a validated observation: a pull, or a part of one counted before."""
        values = tuple(statistic)
        if not (
            is_name(arm)
            and len(values) == len(self.per_pull)
            and {int}.issuperset(map(type, values))
            and max(map(abs, values)) <= LARGEST_SUM
            and (self.allow(values) or self._is_late(values) or self._is_taken_back(values))
        ):
            raise ValueError(f"no statistic within the bounds: {arm!r}, {values}")
        return values

    def _is_late(self, values: Sequence[int]) -> bool:
        """Whether it corrects or closes a pull that is counted: no pull, or a difference of two."""
        n = self.closed
        return (
            bool(n)
            and values[-1] == 0
            and values[2 * n] <= PER_UNIT
            and self._are_within(values, DIFFERENCE * PER_UNIT, values[2 * n])
            and self._is_gram(values[n : 2 * n], values[2 * n])
        )

    def _is_taken_back(self, values: Sequence[int]) -> bool:
        """Whether it takes back an open pull that is counted: of a decision that is cancelled."""
        n = self.closed
        is_open = bool(n) and not any(values[n:-1])
        return is_open and values[-1] == -PER_UNIT and self.allow(tuple(map(neg, values)))

    @cached_property
    def _limits(self) -> tuple[tuple[int, bool], ...]:
        """Of each coordinate its most, and whether it is bounded by the closed count."""
        n = self.closed
        last = self.dimension - 1
        return tuple((most, 0 < n <= at < last) for at, most in enumerate(self._quanta))

    @cached_property
    def _quanta(self) -> tuple[int, ...]:
        return tuple(math.ceil(bound * PER_UNIT) for bound in self.per_pull)


def _clip_value(pulls: int, value: int, limit: int) -> int:
    most = limit * max(0, pulls) // PER_UNIT
    return min(max(value, -most), most)
