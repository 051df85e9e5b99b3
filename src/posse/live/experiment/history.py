"""History: pulls and rewards of every arm over time (a time series), here and in the network.

A point of the store is packed: the expected loss of settling now, then for each arm of its list
six numbers, cumulative: pulls (open ones included), closed ones and the sum of their rewards, here
and in the network.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from posse.live.agent.agent import Agent
from posse.live.agent.verdicts import Judgement
from posse.live.counters import Counts
from posse.live.exchange.ledger import Ledger
from posse.live.store import Store, StoreError, Unknown
from posse.live.store.decisions import ArmLists
from posse.live.store.timeline import MAX_EVENTS, Event, HistoryPoint, list_names
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
    points: Sequence[HistoryPoint], arms_of: Callable[[int], Sequence[str]], names: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Expected losses (T,) and numbers (T, K, 6) of these arms; nan where one was not known."""
    losses = np.empty(len(points))
    numbers = np.full((len(points), len(names), EACH), np.nan)
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


# The past of an experiment: events as they happen, and a point of its history with each minute.

Kind = Literal[
    "restart", "arm", "pin", "pause", "resume", "partition",
    "late", "void", "sites", "settings", "verdict",
]  # fmt: skip
MINUTE = SCALES["day"].seconds
HOUR = 3600.0
NUMBERS = 150_000  # of an answer at most, so that it takes no more than some tens of milliseconds
VERDICTS = {
    "winner": "{} is named the winner",
    "good-enough": "{} is named good enough",
    "no-difference": "no difference between the arms is found that matters",
}


class Past:
    """Notes what happens to one experiment, and keeps its history in the store.

    It is looked at, not acted on: where the store fails, events wait and the history has a gap.
    """

    def __init__(
        self,
        agent: Agent,
        store: Store,
        offers: ArmLists,
        counts: Counts,
        lock: threading.RLock,
        clock: Callable[[], float],
        verdict: Callable[[], Judgement],
    ) -> None:
        """lock: that of the agent and the offers; counts, verdict: those of the experiment."""
        self._agent = agent
        self._store = store
        self._offers = offers
        self._counts = counts
        self._lock = lock
        self._clock = clock
        self._waiting: deque[Event] = deque(maxlen=MAX_EVENTS)  # for a store that can be written
        self._minute: int | None = None  # that was looked at last
        self._late = 0  # of the late rewards those that were told
        self._told = max((each.time for each in store.events.read_kind("late")), default=-math.inf)
        self._judge = verdict
        self._verdict = ""

    def note(self, kind: Kind, text: str) -> None:
        """Keep an event of now; not while the agent's lock is held, and never fails."""
        event = Event(self._clock(), kind, text)
        try:
            self._store.events.add_events([event])
        except StoreError:
            self._waiting.append(event)

    def note_once(self, kind: Kind, text: str) -> None:
        """Keep an event unless the last of its kind says the same, before a restart perhaps."""
        with suppress(StoreError):
            if [each.text for each in self._store.events.read_kind(kind)[-1:]] != [text]:
                self.note(kind, text)

    def note_arms(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Keep which arms came and went."""
        for names, others, what in ((after, before, "added"), (before, after, "removed")):
            if changed := [name for name in names if name not in others]:
                were = "was" if len(changed) == 1 else "were"
                self.note("arm", f"{list_names(changed)} {were} {what}")

    def begin(self) -> None:
        """Keep which arms came and went while no process ran."""
        last = self._store.points.newest_point(MINUTE)
        if last is not None:
            self.note_arms(self._offers.arms_of(last.arms), self._agent.arm_names)

    def turn(self, now: float) -> None:
        """Keep a point of the history, if a minute has begun since the last one."""
        minute = int(now // MINUTE)
        if minute == self._minute:
            return
        self._minute = minute
        with suppress(StoreError):  # what must be kept will say so
            self._note_late(now)
            self._note_verdict()
            self._write_waiting()
            scales = [(each.seconds, each.points) for each in SCALES.values()]
            self._store.points.add_point(self._point(minute * MINUTE), scales)

    def newest(self) -> tuple[int | None, int]:
        """The last minute kept and the number of the last event: what is read changes with them."""
        return self._minute, self._store.events.newest_number()

    def read(self, scale: str) -> History:
        """What was known over a day, a month or a year, up to the last minute."""
        if scale not in SCALES:
            raise Unknown(f"there is no history of a {scale[:100]!r}: ask for {', '.join(SCALES)}")
        seconds = SCALES[scale].seconds
        most = SCALES[scale].points
        now = self._clock()
        agent = self._agent
        after = now - seconds * most
        every = -(-EACH * most * len(agent.arm_names) // NUMBERS)  # of so many points one
        points = self._store.points.read_between(seconds, after, now, every)
        last = self._store.points.newest_point(MINUTE)
        if last and after < last.time <= now and (not points or points[-1].time < last.time):
            points.append(last)
        lists = [self._offers.arms_of(number) for number in {point.arms for point in points}]
        names = list(dict.fromkeys([*agent.arm_names, *(name for each in lists for name in each)]))
        losses, numbers = unpacked(points, self._offers.arms_of, names)
        return History(
            scale,
            seconds * every,
            [point.time for point in points],
            histories(numbers, names, max(map(abs, agent.reward_range))),
            shortened(losses),
            agent.half_life is not None,
            self._store.events.read_between(after, now),
        )

    def _point(self, time: int) -> HistoryPoint:
        agent = self._agent
        status = agent.arms(self._lock).values()  # takes long, and holds no lock meanwhile
        loss = min(each.expected_loss for each in status)
        with self._lock:
            own = agent.exchange.own()
            held = agent.exchange.evidence()
            number = self._offers.current_number
            names = agent.arm_names
        return HistoryPoint(time, number, packed(agent, names, own, held, loss))

    def _note_late(self, now: float) -> None:
        fresh = self._counts["late"] - self._late
        if fresh and not 0 <= now - self._told < HOUR:
            self._late = self._late + fresh
            self._told = now
            few = "1 reward came after its window had closed, and was refused"
            many = f"{fresh:,} rewards came after their windows had closed, and were refused"
            self.note("late", few if fresh == 1 else many)

    def _note_verdict(self) -> None:
        if self._agent.stop is None:
            return
        found = self._judge()
        text = VERDICTS.get(found.verdict, "").format(found.arm)
        if text and text != self._verdict:
            self._verdict = text
            if text not in [each.text for each in self._store.events.read_kind("verdict")]:
                self.note("verdict", text)

    def _write_waiting(self) -> None:
        waiting = self._waiting
        self._waiting = deque(maxlen=MAX_EVENTS)
        try:
            self._store.events.add_events(list(waiting))
        except StoreError:
            self._waiting.extendleft(reversed(waiting))
            raise
