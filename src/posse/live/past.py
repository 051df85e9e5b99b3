"""The past of an experiment: events as they happen, and a point of its history with each minute."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from posse.live.agent import Agent
from posse.live.counts import Counts
from posse.live.history import EACH, SCALES, History, histories, packed, shortened, unpacked
from posse.live.store import Store, StoreError, Unknown
from posse.live.store.events import MOST, Event, listed
from posse.live.store.offers import Offers
from posse.live.store.points import Point
from posse.live.verdicts import Judgement

Kind = Literal[
    "restart", "arm", "pin", "pause", "resume", "partition",
    "late", "void", "sites", "settings", "verdict",
]  # fmt: skip
MINUTE, HOUR = SCALES["day"].seconds, 3600.0
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
        offers: Offers,
        counts: Counts,
        lock: threading.RLock,
        clock: Callable[[], float],
        verdict: Callable[[], Judgement],
    ) -> None:
        """lock: that of the agent and the offers; counts, verdict: those of the experiment."""
        self._agent, self._store, self._offers = agent, store, offers
        self._counts, self._lock, self._clock = counts, lock, clock
        self._waiting: deque[Event] = deque(maxlen=MOST)  # for a store that can be written
        self._minute: int | None = None  # that was looked at last
        self._late = 0  # of the late rewards those that were told
        self._told = max((each.time for each in store.events.of("late")), default=-math.inf)
        self._judge = verdict
        self._verdict = ""

    def note(self, kind: Kind, text: str) -> None:
        """Keep an event of now; not while the agent's lock is held, and never fails."""
        event = Event(self._clock(), kind, text)
        try:
            self._store.events.add([event])
        except StoreError:
            self._waiting.append(event)

    def note_once(self, kind: Kind, text: str) -> None:
        """Keep an event unless the last of its kind says the same, before a restart perhaps."""
        with suppress(StoreError):
            if [each.text for each in self._store.events.of(kind)[-1:]] != [text]:
                self.note(kind, text)

    def note_arms(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Keep which arms came and went."""
        for names, others, what in ((after, before, "added"), (before, after, "removed")):
            if changed := [name for name in names if name not in others]:
                were = "was" if len(changed) == 1 else "were"
                self.note("arm", f"{listed(changed)} {were} {what}")

    def begin(self) -> None:
        """Keep which arms came and went while no process ran."""
        last = self._store.points.newest(MINUTE)
        if last is not None:
            self.note_arms(self._offers.arms(last.arms), self._agent.arm_names)

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
            self._store.points.add(self._point(minute * MINUTE), scales)

    def newest(self) -> tuple[int | None, int]:
        """The last minute kept and the number of the last event: what is read changes with them."""
        return self._minute, self._store.events.newest()

    def read(self, scale: str) -> History:
        """What was known over a day, a month or a year, up to the last minute."""
        if scale not in SCALES:
            raise Unknown(f"there is no history of a {scale[:100]!r}: ask for {', '.join(SCALES)}")
        seconds, most = SCALES[scale].seconds, SCALES[scale].points
        now, agent = self._clock(), self._agent
        after = now - seconds * most
        every = -(-EACH * most * len(agent.arm_names) // NUMBERS)  # of so many points one
        points = self._store.points.between(seconds, after, now, every)
        last = self._store.points.newest(MINUTE)
        if last and after < last.time <= now and (not points or points[-1].time < last.time):
            points.append(last)
        lists = [self._offers.arms(number) for number in {point.arms for point in points}]
        names = list(dict.fromkeys([*agent.arm_names, *(name for each in lists for name in each)]))
        losses, numbers = unpacked(points, self._offers.arms, names)
        return History(
            scale,
            seconds * every,
            [point.time for point in points],
            histories(numbers, names, max(map(abs, agent.reward_range))),
            shortened(losses),
            agent.half_life is not None,
            self._store.events.between(after, now),
        )

    def _point(self, time: int) -> Point:
        agent = self._agent
        status = agent.arms(self._lock).values()  # takes long, and holds no lock meanwhile
        loss = min(each.expected_loss for each in status)
        with self._lock:
            own, held = agent.exchange.own(), agent.exchange.evidence()
            number, names = self._offers.number, agent.arm_names
        return Point(time, number, packed(agent, names, own, held, loss))

    def _note_late(self, now: float) -> None:
        fresh = self._counts["late"] - self._late
        if fresh and not 0 <= now - self._told < HOUR:
            self._late, self._told = self._late + fresh, now
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
            if text not in [each.text for each in self._store.events.of("verdict")]:
                self.note("verdict", text)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque(maxlen=MOST)
        try:
            self._store.events.add(list(waiting))
        except StoreError:
            self._waiting.extendleft(reversed(waiting))
            raise
