"""What decisions of older incarnations added to newer ones, so that it can be taken back exactly.

A disk that is set back has decisions open that were rewarded in the future it forgot.  Rewards of
them that came again are counted in an incarnation of the new process.  Once a neighbour shows a
word of the forgotten future, they are void (`voids`).

A row has a number of its own, of the kind that incarnations have.  An entry that absorbs what the
row is part of, and took the row back, names this number with the sequence number VOID: two futures
of one disk that both take it back say so, and it is not subtracted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any

from posse.live.exchange.epochs import shift_ledger
from posse.live.exchange.ledger import LARGEST, Ledger, from_plain, plain, total

PREFIX = "carried "  # of the names of durable parts
VOID = LARGEST  # a sequence number that nothing has
MOST_CARRIED = 20_000  # arms, over all rows: beyond, those of the oldest decisions are forgotten
MANY_NUMBERS = 20  # of an arm, for more of which there are fewer


@dataclass
class Row:
    """The evidence that decisions made in one incarnation added to a later one."""

    made: int
    added_in: int
    void: bool = False  # taken back
    evidence: Ledger = field(default_factory=dict)

    def is_after(self, incarnation: int) -> bool:
        """Whether it was added after a process that its decisions may have been open in."""
        return self.made <= incarnation < self.added_in


class Carried:
    """Rows by their numbers; durable."""

    def __init__(self, closed: int = 0) -> None:
        self._most = MOST_CARRIED // max(1, 2 * closed // MANY_NUMBERS)
        self.rows: dict[int, Row] = {}
        self._numbers: dict[tuple[int, int], int] = {}  # of the present processes' rows
        self._changed: set[int] = set()

    def number(self, made: int, added_in: int) -> int | None:
        """The number of a row, if there is one."""
        return self._numbers.get((made, added_in))

    def open(self, number: int, made: int, added_in: int) -> None:
        """A new row; if there are too many, those of the oldest decisions go."""
        self.rows[number] = Row(made, added_in)
        self._numbers[made, added_in] = number
        arms = sum(len(row.evidence) for row in self.rows.values())
        for oldest in sorted(self.rows, key=lambda each: self.rows[each].made):
            if arms <= self._most:
                break
            arms -= len(self.rows[oldest].evidence)
            self.forget(oldest)

    def add(self, number: int, arm: str, values: tuple[int, ...]) -> None:
        """One more observation."""
        row = self.rows[number].evidence
        held = row.get(arm)
        row[arm] = values if held is None else tuple(map(add, held, values))
        self._changed.add(number)

    def fade(self, passed: int) -> None:
        """Bring all rows to a later epoch."""
        for number, row in list(self.rows.items()):
            row.evidence = shift_ledger(row.evidence, passed)
            self._changed.add(number)
            if not row.evidence:  # there is nothing left to take back
                self.forget(number)

    def take_back(self, number: int) -> None:
        """It counts no more; what it was is kept, to tell what those are worth that named it."""
        self.rows[number].void = True
        self._changed.add(number)

    def restore_to_count(self, number: int) -> None:
        """It counts again, for where it was taken back is gone."""
        self.rows[number].void = False
        self._changed.add(number)

    def forget(self, number: int) -> None:
        """It cannot be taken back any more."""
        row = self.rows.pop(number)
        self._numbers.pop((row.made, row.added_in), None)
        self._changed.add(number)

    def forget_of(self, added_in: int) -> None:
        """What one incarnation has in it is not known any more."""
        for number in [n for n, row in self.rows.items() if row.added_in == added_in]:
            self.forget(number)

    def forget_below(self, floor: int) -> None:
        """Of what has no name any more nothing comes as news."""
        for number in [n for n, row in self.rows.items() if row.added_in < floor]:
            self.forget(number)

    def void_of(self, added_in: int, named: Collection[int]) -> Ledger:
        """What those rows of an incarnation are worth whose numbers are named."""
        return total(
            row.evidence for n, row in self.rows.items() if row.added_in == added_in and n in named
        )

    def counting(self) -> Iterator[tuple[int, Row]]:
        """The rows that are not void."""
        return ((number, row) for number, row in self.rows.items() if not row.void)

    def state(self) -> dict[str, Any]:
        """All as plain parts."""
        self._changed.clear()
        return {f"{PREFIX}{each}": self._written(each) for each in self.rows}

    def changes(self) -> dict[str, Any]:
        """The parts that changed since they were last written; None: a part is gone."""
        changed: dict[str, Any] = {
            f"{PREFIX}{n}": self._written(n) if n in self.rows else None for n in self._changed
        }
        self._changed.clear()
        return changed

    def restore(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Take what was written out of all parts of a state."""
        for name, part in state.items():
            if name.startswith(PREFIX):
                made, added_in, void, evidence = part
                number = int(name.removeprefix(PREFIX))
                self.rows[number] = Row(made, added_in, bool(void), from_plain(evidence))
                self._numbers[made, added_in] = number

    def _written(self, number: int) -> list[Any]:
        row = self.rows[number]
        return [row.made, row.added_in, int(row.void), plain(row.evidence)]
