"""History: pulls and rewards of every arm over time (a time series), here and in the network.

A point of the store is packed: the expected loss of settling now, then for each arm of its list
six numbers, cumulative: pulls (open ones included), closed ones and the sum of their rewards, here
and in the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from posse.live.agent import Agent
from posse.live.exchange.ledger import Ledger
from posse.live.store.events import Event
from posse.live.store.points import Point
from posse.randomness import FloatArray

EACH = 6  # numbers of an arm
PLACES = 2  # decimals of pulls, which are whole but under flows or with a half-life
DIGITS = 3  # of an expected loss

Numbers = list[int | float | None]


@dataclass(frozen=True)
class Scale:
    """How far back one looks, and how closely: the seconds between points, and the most of them."""

    seconds: int
    points: int


SCALES = {"day": Scale(60, 1440), "month": Scale(3600, 744), "year": Scale(86_400, 366)}


@dataclass(frozen=True)
class Series:
    """Cumulative numbers at the times of a history; None where the arm was not known."""

    pulls: Numbers
    closed: Numbers
    rewards: Numbers


@dataclass(frozen=True)
class ArmHistory:
    """Of one arm what was seen at this agent, and what it held of all."""

    here: Series
    network: Series


@dataclass(frozen=True)
class History:
    """What was known at some times, rising; fading: numbers are what they were worth then."""

    scale: str
    seconds: int
    times: list[int]
    arms: dict[str, ArmHistory]
    expected_loss: Numbers
    fading: bool
    events: list[Event]


def packed(agent: Agent, names: Sequence[str], own: Ledger, held: Ledger, loss: float) -> bytes:
    """A point of now, about these arms."""
    numbers = [loss]
    for name in names:
        numbers += (*agent.tally(own.get(name, ())), *agent.tally(held.get(name, ())))
    return np.array(numbers, "<f8").tobytes()


def unpacked(
    points: Sequence[Point], arms_of: Callable[[int], Sequence[str]], names: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Expected losses (T,) and numbers (T, K, 6) of these arms; nan where one was not known."""
    losses, numbers = np.empty(len(points)), np.full((len(points), len(names), EACH), np.nan)
    places = {name: place for place, name in enumerate(names)}
    for number, run in groupby(enumerate(points), key=lambda each: each[1].arms):
        rows, data = zip(*((row, point.data) for row, point in run), strict=True)
        table = np.frombuffer(b"".join(data), "<f8").reshape(len(rows), -1)
        columns = [places[name] for name in arms_of(number)]
        losses[list(rows)] = table[:, 0]
        numbers[np.ix_(rows, columns)] = table[:, 1:].reshape(len(rows), -1, EACH)
    return losses, numbers


def histories(numbers: FloatArray, names: Iterable[str], largest: float) -> dict[str, ArmHistory]:
    """The numbers (T, K, 6) of each arm, rounded; largest: what a reward can be at most."""
    # so that the largest reward has four digits: rates are differences of sums
    places = min(15, max(0, 3 - math.floor(math.log10(largest)))) if largest > 0 else 0
    decimals = (PLACES, PLACES, places) * 2
    made = {}
    for k, name in enumerate(names):
        columns = [rounded(numbers[:, k, n], each) for n, each in enumerate(decimals)]
        made[name] = ArmHistory(Series(*columns[:3]), Series(*columns[3:]))
    return made


def rounded(values: FloatArray, decimals: int) -> Numbers:
    """Whole numbers where they are, else with so many decimals; None for what is no number."""
    return [
        (int(value) if value.is_integer() else value) if math.isfinite(value) else None
        for value in np.round(values, decimals).tolist()
    ]


def shortened(losses: FloatArray) -> Numbers:
    """To a few digits each."""
    return [float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None for x in losses.tolist()]
