"""Recorder of an experiment's history: events as they happen, and a point of every minute.

A stored point is packed: the expected loss of stopping now, then for each arm of its list six
cumulative numbers: pulls (open ones included), closed ones and the sum of their rewards, here and
in the network.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from posse.live.agent import Agent, Judgement
from posse.live.counters import Counts
from posse.live.exchange import Origins
from posse.live.ledger import Ledger
from posse.live.store import (
    MAX_EVENTS,
    ArmLists,
    Event,
    HistoryPoint,
    Store,
    StoreError,
    Unknown,
    list_names,
)
from posse.randomness import FloatArray

log = logging.getLogger(__name__)

NUMBERS_PER_ARM = 6  # numbers of an arm
PULL_DECIMALS = 2  # decimals of pulls, which are whole but under flows or with a half-life
LOSS_DIGITS = 3  # of an expected loss
CLOSED_IN_NETWORK = 4  # the place among the numbers of an arm
SHORTEST_RATE = 600  # seconds that must lie between two points, for a rate of decisions

Numbers = list[int | float | None]


@dataclass(frozen=True)
class Scale:
    """A time scale: the seconds between points, and the largest number of points."""

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
    """The series of one arm, at this agent and in the network."""

    here: Series
    network: Series


@dataclass(frozen=True)
class History:
    """The history at rising times; fading: numbers are the weights of evidence at that time."""

    scale: str
    seconds: int
    times: list[int]
    arms: dict[str, ArmHistory]
    expected_loss: Numbers
    fading: bool
    events: list[Event]


@dataclass(frozen=True)
class Start:
    """When an experiment started, in Unix seconds; exact: False if it may have been earlier."""

    since: float
    exact: bool


def pack_point(
    agent: Agent, names: Sequence[str], own_ledger: Ledger, network_ledger: Ledger, loss: float
) -> bytes:
    """Pack a point of now about these arms."""
    numbers = [loss]
    for name in names:
        numbers += (
            *agent.summarize_pulls(own_ledger.get(name, ())),
            *agent.summarize_pulls(network_ledger.get(name, ())),
        )
    return np.array(numbers, "<f8").tobytes()


def unpack_points(
    points: Sequence[HistoryPoint], arms_of: Callable[[int], Sequence[str]], names: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return expected losses (T,) and numbers (T, K, 6) of these arms; nan for unknown arms."""
    losses = np.empty(len(points))
    numbers = np.full((len(points), len(names), NUMBERS_PER_ARM), np.nan)
    places = {name: place for place, name in enumerate(names)}
    for number, run in groupby(enumerate(points), key=lambda each: each[1].arms):
        rows, data = zip(*((row, point.data) for row, point in run), strict=True)
        table = np.frombuffer(b"".join(data), "<f8").reshape(len(rows), -1)
        columns = [places[name] for name in arms_of(number)]
        losses[list(rows)] = table[:, 0]
        numbers[np.ix_(rows, columns)] = table[:, 1:].reshape(len(rows), -1, NUMBERS_PER_ARM)
    return losses, numbers


def build_arm_histories(
    numbers: FloatArray, names: Iterable[str], largest: float
) -> dict[str, ArmHistory]:
    """Round the numbers (T, K, 6) of each arm; largest: the largest absolute reward."""
    # The largest reward has four digits. Rates are differences of cumulative sums, so the sums need
    # more decimals than the rates.
    places = min(15, max(0, 3 - math.floor(math.log10(largest)))) if largest > 0 else 0
    decimals = (PULL_DECIMALS, PULL_DECIMALS, places) * 2
    arms = {}
    for k, name in enumerate(names):
        columns = [
            round_numbers(numbers[:, k, n], places_of_column)
            for n, places_of_column in enumerate(decimals)
        ]
        arms[name] = ArmHistory(Series(*columns[:3]), Series(*columns[3:]))
    return arms


def round_numbers(values: FloatArray, decimals: int) -> Numbers:
    """Round to this number of decimals; whole numbers become ints, other non-numbers None."""
    return [
        (int(value) if value.is_integer() else value) if math.isfinite(value) else None
        for value in np.round(values, decimals).tolist()
    ]


def round_losses(losses: FloatArray) -> Numbers:
    """Round losses to a few significant digits."""
    return [float(f"{x:.{LOSS_DIGITS}g}") if math.isfinite(x) else None for x in losses.tolist()]


# ---- The recorder

Kind = Literal[
    "restart", "arm", "pin", "pause", "resume", "forget", "partition",
    "late", "superseded", "sites", "settings", "verdict", "guardrail", "erase",
]  # fmt: skip
START = "start"  # the durable record of the time when the experiment started
MAX_SECONDS_TO_HEAR = 600.0  # all neighbours after the first point, to know whether it is the start
MINUTE = SCALES["day"].seconds
HOUR = 3600.0
DAY = 86_400.0
MOST_NUMBERS = (
    150_000  # of an answer at most, so that it takes no more than some tens of milliseconds
)
VERDICTS = {
    "winner": "{} is named the winner",
    "good-enough": "{} is named good enough",
    "no-difference": "no difference that matters between the arms",
}


class HistoryRecorder:
    """Records the events and the history of one experiment in the store.

    The history is for reading only: where the store fails, events wait and the history has a gap.
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
        self._unwritten: deque[Event] = deque(maxlen=MAX_EVENTS)  # for a store that can be written
        self._minute: int | None = None  # that was looked at last
        self._late_noted = 0  # late rewards that an event has reported
        self._late_noted_at = max(
            (event.time for event in store.events.read_kind("late")), default=-math.inf
        )
        self._judge = verdict
        self._verdict = ""
        start = store.read_record(START)
        self._start = None if start is None else Start(**json.loads(start))
        self._breaches: set[tuple[str, str]] = set()  # metric and arm, as of the last minute

    def note_event(self, kind: Kind, text: str) -> None:
        """Record an event of now; never fails. Do not call it while the agent's lock is held."""
        event = Event(self._clock(), kind, text)
        try:
            self._store.events.add_events([event])
        except StoreError:
            self._unwritten.append(event)

    def note_once(self, kind: Kind, text: str) -> None:
        """Record an event unless the last of its kind has the same text, also before a restart."""
        with suppress(StoreError):
            if [event.text for event in self._store.events.read_kind(kind)[-1:]] != [text]:
                self.note_event(kind, text)

    def note_arms(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Record which arms were added and removed."""
        for names, counterpart, verb in ((after, before, "added"), (before, after, "removed")):
            if changed := [name for name in names if name not in counterpart]:
                were = "was" if len(changed) == 1 else "were"
                self.note_event("arm", f"{list_names(changed)} {were} {verb}")

    def note_missed_changes(self) -> None:
        """Record which arms were added and removed while no process ran."""
        last = self._store.points.newest_point(MINUTE)
        if last is not None:
            self.note_arms(self._offers.arms_of(last.arms), self._agent.arm_names)

    def record_minute(self, now: float) -> None:
        """Record a point of the history, if a minute has begun since the last one."""
        if self._start is None:
            with suppress(StoreError):  # the next tick tries again
                self._decide_start(now)
        minute = int(now // MINUTE)
        if minute == self._minute:
            return
        self._minute = minute
        with suppress(StoreError):  # what must be kept will say so
            self._note_late(now)
            self._note_verdict()
            self._note_breaches()
            self._write_waiting()
            scales = [(scale.seconds, scale.points) for scale in SCALES.values()]
            self._store.points.add_point(self._make_point(minute * MINUTE), scales)

    def newest_marks(self) -> tuple[int | None, int]:
        """Return the last minute and the number of the last event: history changes with them."""
        return self._minute, self._store.events.newest_number()

    def read_history(self, scale: str) -> History:
        """Read the history of a day, a month or a year, up to the last minute."""
        if scale not in SCALES:
            raise Unknown(f"unknown time scale {scale[:100]!r}: use one of {', '.join(SCALES)}")
        seconds = SCALES[scale].seconds
        most = SCALES[scale].points
        now = self._clock()
        agent = self._agent
        after = now - seconds * most
        every = -(
            -NUMBERS_PER_ARM * most * len(agent.arm_names) // MOST_NUMBERS
        )  # of so many points one
        points = self._store.points.read_between(seconds, after, now, every)
        last = self._store.points.newest_point(MINUTE)
        if last and after < last.time <= now and (not points or points[-1].time < last.time):
            points.append(last)
        lists = [self._offers.arms_of(number) for number in {point.arms for point in points}]
        names = list(
            dict.fromkeys(
                [*agent.arm_names, *(name for listed_arms in lists for name in listed_arms)]
            )
        )
        losses, numbers = unpack_points(points, self._offers.arms_of, names)
        return History(
            scale,
            seconds * every,
            [point.time for point in points],
            build_arm_histories(numbers, names, max(map(abs, agent.reward_range))),
            round_losses(losses),
            agent.half_life is not None,
            self._store.events.read_between(after, now),
        )

    def find_start(self) -> Start | None:
        """Find when the experiment started; None before the first point."""
        if self._start is not None:
            return self._start
        first = self._store.points.oldest_point(SCALES["year"].seconds)
        return None if first is None else Start(first.time, exact=False)

    def closed_per_second(self) -> float | None:
        """Return how many decisions of the network were closed a second; None if it is too early.

        It is the average since the first point that is stored, of this agent's present arms.
        """
        first = self._store.points.oldest_point(SCALES["year"].seconds)
        last = self._store.points.newest_point(MINUTE)
        if first is None or last is None or last.time - first.time < SHORTEST_RATE:
            return None
        arms_of = self._offers.arms_of
        present = self._agent.arm_names
        names = list(dict.fromkeys([*present, *arms_of(first.arms), *arms_of(last.arms)]))
        (_, numbers) = unpack_points([first, last], arms_of, names)
        closed = np.nansum(numbers[:, : len(present), CLOSED_IN_NETWORK], axis=1)
        added = float(closed[1] - closed[0])
        return added / (last.time - first.time) if added > 0 else None

    def _decide_start(self, now: float) -> None:
        """Decide once whether the experiment started with the first point, or is older.

        It started here if this agent has no evidence of others when it has heard all neighbours. An
        agent that joins later receives their evidence with their first messages.
        """
        first = self._store.points.oldest_point(SCALES["year"].seconds)
        if first is None:
            return
        with self._lock:
            exchange = self._agent.exchange
            own = self._agent.count_pulls(exchange.own())
            foreign = self._agent.count_pulls(exchange.evidence()) - own
            edges = [edge for edge in exchange.neighbours().values() if edge.active]
            heard = all(edge.last_heard is not None for edge in edges) and exchange.is_current()
            if edges and not isinstance(exchange, Origins):
                heard = False  # under flows evidence arrives little by little
        undecided = abs(foreign) < 0.5
        if undecided and not heard and 0 <= now - first.time < MAX_SECONDS_TO_HEAR:
            return
        start = Start(first.time, exact=undecided and heard)
        self._store.write_record(START, json.dumps(asdict(start)).encode())
        self._start = start

    def _make_point(self, time: int) -> HistoryPoint:
        agent = self._agent
        # Summarizing takes long and holds no lock; the ledgers are then read together under it.
        status = agent.arms(self._lock).values()
        loss = min(arm_status.expected_loss for arm_status in status)
        with self._lock:
            own_ledger = agent.exchange.own()
            network_ledger = agent.exchange.evidence()
            number = self._offers.current_number
            names = agent.arm_names
        return HistoryPoint(
            time, number, pack_point(agent, names, own_ledger, network_ledger, loss)
        )

    def _note_late(self, now: float) -> None:
        fresh = self._counts["late"] - self._late_noted
        # At most one event an hour, for late rewards come in crowds; a clock may be set back.
        if fresh and not 0 <= now - self._late_noted_at < HOUR:
            self._late_noted = self._late_noted + fresh
            self._late_noted_at = now
            few = "1 reward came after its reward window and was refused"
            many = f"{fresh:,} rewards came after their reward windows and were refused"
            self.note_event("late", few if fresh == 1 else many)

    def _note_verdict(self) -> None:
        if self._agent.stop is None:
            return
        judgement = self._judge()
        text = VERDICTS.get(judgement.verdict, "").format(judgement.arm)
        if text and text != self._verdict:
            self._verdict = text
            if text not in [event.text for event in self._store.events.read_kind("verdict")]:
                self.note_event("verdict", text)

    def _note_breaches(self) -> None:
        """Log and record every limit that is breached, once a day at most.

        An interval that ends near its limit crosses it many times: that is one event, not many.
        """
        side = self._agent.side
        if side is None or not self._agent.measures.metrics:
            return
        statuses = side.report_metrics(self._agent.arm_names, self._lock)
        breaches = {(s.metric, s.arm): s.sentence for s in statuses if s.breached}
        for metric, arm in breaches.keys() - self._breaches:
            text = f"{metric} of {arm} is beyond its limit"
            earlier = [e.time for e in self._store.events.read_kind("guardrail") if e.text == text]
            if not earlier or self._clock() - max(earlier) > DAY:
                log.warning("%s", breaches[metric, arm])
                self.note_event("guardrail", text)
        self._breaches = set(breaches)

    def _write_waiting(self) -> None:
        waiting = self._unwritten
        self._unwritten = deque(maxlen=MAX_EVENTS)
        try:
            self._store.events.add_events(list(waiting))
        except StoreError:
            self._unwritten.extendleft(reversed(waiting))
            raise
