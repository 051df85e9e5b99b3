"""Rewards as powers of four, a different one each time: a sum tells exactly which are in it.

Every second bit stays free, so a reward that counts twice shows as a bit that no reward has.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from operator import add

from posse.live.ledger import PER_UNIT
from posse.live.store import DecisionRecord

MOST_BITS = 50  # of one arm; their sum stays below what the wire carries
CONTEXT_BITS = 20  # the same at contexts, where a sum has fewer digits; no reward is this bit
CLOSED = 100  # added to the bit of a reward in a sum of closed decisions
STEP = 2  # from bit to bit

Mark = tuple[str, str, int]  # experiment, arm and bit: one reward, acted on or (+ CLOSED) final
Sums = tuple[int, ...]  # power, closed power, closed count, count


class ImpossibleSum(ValueError):
    """A sum that no set of rewards gives: something was counted twice, or made up."""


def highest_reward(bits: int) -> float:
    """Return the highest reward, as a default: above all others, so that sums tell how many."""
    return float(2**bits) / PER_UNIT


def reward_of(bit: int) -> float:
    """The reward whose evidence is this bit, in quanta."""
    return float(2**bit) / PER_UNIT


def nth_bit(nth: int) -> int:
    """The bit of the nth reward of an arm."""
    bit = STEP * nth
    return bit if bit < CONTEXT_BITS else bit + STEP


def bit_of(reward: float) -> int:
    """The bit that a reward sets; -1 for the lowest, 0."""
    return int(reward * PER_UNIT).bit_length() - 1


def sums_of_decision(record: DecisionRecord) -> Sums:
    """What a decision adds to its agent's sums as it is now.

    One that was counted from the start has the reward assumed for it until it is rewarded; any
    other counts when it is final.  One that is final without a reward, or superseded, is not
    closed.  One in a holdout is no evidence about its arm.
    """
    if record.holdout:
        return 0, 0, 0, 0
    final = record.closed is not None and record.reward is not None and not record.superseded
    if record.assumed is None and not final:
        return 0, 0, 0, 0
    reward = record.assumed if record.reward is None else record.reward
    assert reward is not None
    power = int(reward * PER_UNIT)
    return power, power * final, PER_UNIT * final, PER_UNIT


def side_cells_of_decision(record: DecisionRecord, bits: int) -> dict[tuple[str, ...], Sums]:
    """What a decision adds to side rows: its final reward to a bucket, and its metrics."""
    cells: dict[tuple[str, ...], Sums] = {}
    final = record.closed is not None and record.reward is not None and not record.superseded
    if record.uplift is not None and final:
        assert record.reward is not None
        square = (record.reward / highest_reward(bits)) ** 2
        cell = (int(record.reward * PER_UNIT), int(square * PER_UNIT), PER_UNIT)
        number = record.uplift
        name = f"control {-1 - number}" if number < 0 else f"bandit {number}"
        cells["uplift", name] = cell
    for metric, value in json.loads(record.metrics or "{}").items():
        cell = (int(value * PER_UNIT), int(value * value * PER_UNIT), PER_UNIT)
        cells["metric", metric, record.arm] = cell
    return cells


def add_cells(
    one: Mapping[tuple[str, ...], Sums], other: Mapping[tuple[str, ...], Sums]
) -> dict[tuple[str, ...], Sums]:
    """The sum of side rows, name by name."""
    total = dict(one)
    for name, cell in other.items():
        total[name] = tuple(map(add, total[name], cell)) if name in total else cell
    return total


@functools.lru_cache(10_000)
def marks_in(experiment: str, arm: str, sums: Sums) -> frozenset[Mark]:
    """The rewards that a decision has added."""
    bits = (bit_of(sums[0] / PER_UNIT), CLOSED + bit_of(sums[1] / PER_UNIT))
    return frozenset(
        (experiment, arm, bit)
        for bit in bits
        if 0 <= bit % CLOSED < MOST_BITS and bit % CLOSED != CONTEXT_BITS
    )


def drop_signs(ledger: Mapping[str, Sequence[int]], closed: bool) -> dict[str, Sums]:
    """The sums of a ledger: of all, then of closed decisions; as many where none are told apart."""
    rows = {arm: tuple(values) for arm, values in ledger.items() if not arm.startswith("lie")}
    if not closed:
        return {arm: (v[0], v[0], v[-1], v[-1]) for arm, v in rows.items() if v[0] or v[-1]}
    sums: dict[str, Sums] = {}
    for arm, v in rows.items():
        n = _count_sums(v)
        row = v[0], v[n], v[2 * n], v[-1]
        if any(row):
            sums[arm] = row
    return sums


def _count_sums(row: Sequence[int]) -> int:
    """How many sums come again for closed decisions: 1, or 5 of two features and their products.

    Under flows there are 16 signs besides.
    """
    return 5 if len(row) == 12 else 1


def marks_of(experiment: str, ledger: Mapping[str, Sums], bits: int) -> frozenset[Mark]:
    """Which rewards are in the sums of a ledger, and which of them are final."""
    return frozenset().union(*(_marks_of_arm(experiment, *row, bits) for row in ledger.items()))


@functools.lru_cache(10_000)  # all agents hold the same sums for many steps
def _marks_of_arm(experiment: str, arm: str, row: Sums, bits: int) -> frozenset[Mark]:
    power, closed, closed_count, count = row
    marks: set[Mark] = set()
    for total, pulls, offset in ((power, count, 0), (closed, closed_count, CLOSED)):
        if total < 0 or pulls % PER_UNIT:
            raise ImpossibleSum(f"{experiment}/{arm} is no sum of rewards: {row}")
        present = [bit for bit in range(bits) if total >> bit & 1]
        if any(bit % STEP for bit in present):
            raise ImpossibleSum(f"{experiment}/{arm} counts a reward twice: {row}")
        if len(present) + (total >> bits) > pulls // PER_UNIT:
            raise ImpossibleSum(f"{experiment}/{arm} has {pulls / PER_UNIT} pulls for {present}")
        marks.update((experiment, arm, bit + offset) for bit in present)
    if closed_count > count or closed & ~power & (1 << bits) - 1:
        raise ImpossibleSum(f"{experiment}/{arm} has more closed than counted: {row}")
    return frozenset(marks)
