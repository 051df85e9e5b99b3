"""Rewards as powers of two, a different one each time: a sum tells exactly which are in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posse.live.exchange.quanta import PER_UNIT

MOST_BITS = 50  # of one arm; their sum stays below what the wire carries
WIDE = 4  # numbers of a sum that tells closed decisions apart
RANGE = (0.0, float(2**MOST_BITS))

Mark = tuple[str, str, int]  # experiment, arm and bit: one reward


class Garbled(ValueError):
    """A sum that no set of rewards gives: something was counted twice, or made up."""


def reward_of(bit: int) -> float:
    """The reward whose evidence is this bit, in quanta."""
    return float(2**bit) / PER_UNIT


def bit_of(reward: float) -> int:
    """The bit that a reward sets; -1 for the default reward of a closed window, 0."""
    return int(reward * PER_UNIT).bit_length() - 1


def marks_of(experiment: str, ledger: Mapping[str, Sequence[int]]) -> tuple[frozenset[Mark], int]:
    """Which rewards are in a ledger, and how many default rewards beside them."""
    marks: set[Mark] = set()
    silent = 0
    for arm, values in ledger.items():
        if arm.startswith("lie"):
            continue
        total, pulls = values[0], values[-1]
        if total < 0 or pulls % PER_UNIT:
            raise Garbled(f"{experiment}/{arm} is no sum of rewards: {values}")
        bits = [bit for bit in range(total.bit_length()) if total >> bit & 1]
        extra = pulls // PER_UNIT - len(bits)
        if extra < 0 or (bits and bits[-1] >= MOST_BITS):
            raise Garbled(f"{experiment}/{arm} has {pulls // PER_UNIT} pulls for rewards {bits}")
        if len(values) == WIDE and values[1] & ~total:
            raise Garbled(f"{experiment}/{arm} has closed {values[1]:b}, of {total:b}")
        silent += extra
        marks.update((experiment, arm, bit) for bit in bits)
    return frozenset(marks), silent
