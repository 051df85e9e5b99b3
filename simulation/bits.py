"""Rewards as powers of two, a different one each time: a sum tells exactly which are in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posse.live.exchange.evidence_sums import PER_UNIT
from posse.live.store import DecisionRecord

MOST_BITS = 50  # of one arm; their sum stays below what the wire carries
CLOSED = 100  # added to the bit of a reward in a sum of closed decisions
WIDE = 4  # numbers of a sum that tells closed decisions apart, without signs
# the highest reward, as a default: above all others, so that a sum tells how many there are of it
HIGHEST = float(2**MOST_BITS) / PER_UNIT
RANGE = (0.0, HIGHEST)

Mark = tuple[str, str, int]  # experiment, arm and bit: one reward, acted on or (+ CLOSED) final
Sums = tuple[int, ...]  # power, closed power, closed count, count


class ImpossibleSum(ValueError):
    """A sum that no set of rewards gives: something was counted twice, or made up."""


def reward_of(bit: int) -> float:
    """The reward whose evidence is this bit, in quanta."""
    return float(2**bit) / PER_UNIT


def bit_of(reward: float) -> int:
    """The bit that a reward sets; -1 for the lowest, 0."""
    return int(reward * PER_UNIT).bit_length() - 1


def sums_of_decision(record: DecisionRecord) -> Sums:
    """What a decision adds to its agent's sums as it is now.

    One that was counted from the start has the reward assumed for it until it is rewarded; any
    other counts when it is final.  One that is final without a reward, or void, is not closed.
    """
    final = record.closed is not None and record.reward is not None and not record.void
    if record.assumed is None and not final:
        return 0, 0, 0, 0
    reward = record.assumed if record.reward is None else record.reward
    assert reward is not None
    power = int(reward * PER_UNIT)
    return power, power * final, PER_UNIT * final, PER_UNIT


def marks_in(experiment: str, arm: str, sums: Sums) -> set[Mark]:
    """The rewards that a decision has added."""
    bits = (bit_of(sums[0] / PER_UNIT), CLOSED + bit_of(sums[1] / PER_UNIT))
    return {(experiment, arm, bit) for bit in bits if 0 <= bit % CLOSED < MOST_BITS}


def drop_signs(ledger: Mapping[str, Sequence[int]], closed: bool) -> dict[str, Sums]:
    """The sums of a ledger without signs; closed ones are as the others where none are told."""
    rows = {arm: tuple(values) for arm, values in ledger.items() if not arm.startswith("lie")}
    if closed:
        return {arm: (*v[:3], v[-1]) for arm, v in rows.items() if any((*v[:3], v[-1]))}
    return {arm: (v[0], v[0], v[-1], v[-1]) for arm, v in rows.items() if v[0] or v[-1]}


def marks_of(experiment: str, ledger: Mapping[str, Sums], twice: bool = False) -> frozenset[Mark]:
    """Which rewards are in the sums of a ledger, and which of them are final.

    twice: whether a decision may have two rewards, until its agent hears that it has.
    """
    marks: set[Mark] = set()
    for arm, (power, closed, closed_count, count) in ledger.items():
        for total, pulls, offset in ((power, count, 0), (closed, closed_count, CLOSED)):
            if total < 0 or pulls % PER_UNIT:
                raise ImpossibleSum(f"{experiment}/{arm} is no sum of rewards: {ledger[arm]}")
            bits = [bit for bit in range(MOST_BITS) if total >> bit & 1]
            if len(bits) + (total >> MOST_BITS) > pulls // PER_UNIT and not twice:
                raise ImpossibleSum(f"{experiment}/{arm} has {pulls / PER_UNIT} pulls for {bits}")
            marks.update((experiment, arm, bit + offset) for bit in bits)
        if closed_count > count or closed & ~power & (1 << MOST_BITS) - 1:
            raise ImpossibleSum(f"{experiment}/{arm} has more closed than counted: {ledger[arm]}")
    return frozenset(marks)
