"""The books of a swarm: an invariant of acknowledged rewards that holds at every moment.

    acknowledged = counted by every running agent + on their way + lost

Of each origin: *acknowledged* is how many rewards its visitors were told are kept, as noted before
the agents were asked what they hold (so that an honest agent holds at least as many of its own).
*Counted* are those that every running agent holds. *Lost* are those that nobody holds, its own
agent being there to say so; while it is down its disk may have them. The others are on their way:
on a disk, and to come with a later message. Holdings only grow, so an old answer of an agent that
does not answer now is too small at most, and the sum holds all the same.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from posse.live.demo.fault_injection import Glance
from posse.live.demo.page.stage import KILLED, RUNS, Stage
from posse.live.demo.visitors import Standing

Holdings = Mapping[str, int]  # origin -> pulls


@dataclass(frozen=True)
class Books:
    """Acknowledged rewards, and where they are."""

    acknowledged: int
    counted: int
    under_way: int
    lost: int


class Counting:
    """Keeps what every agent last said that it holds."""

    def __init__(self) -> None:
        self._held: dict[str, Holdings] = {}
        self._checked: Counter[str] = Counter()  # acknowledged when its own agent last answered

    def take(
        self,
        acknowledged: Holdings,
        answers: Mapping[str, Holdings],
        running: Collection[str],
    ) -> Books:
        """The books after these answers, which were asked for after `acknowledged` was noted."""
        self._held.update(answers)
        for name in answers:
            self._checked[name] = acknowledged.get(name, 0)
        known = [self._held.get(name, {}) for name in running]
        told = counted = lost = 0
        for origin, count in acknowledged.items():
            told += count
            counted += min([count, *(held.get(origin, 0) for held in known)]) if known else 0
            anywhere = max((held.get(origin, 0) for held in self._held.values()), default=0)
            lost += max(0, self._checked[origin] - anywhere)
        return Books(told, counted, told - counted - lost, lost)

    def behind(self, name: str, acknowledged: Holdings) -> int:
        """How many acknowledged rewards of others an agent did not hold when it last answered."""
        held = self._held.get(name, {})
        others = ((origin, count) for origin, count in acknowledged.items() if origin != name)
        return sum(max(0, count - held.get(origin, 0)) for origin, count in others)


# A ring buffer of views: the last quarter of an hour, each written as what changed in it.

MOST = 1800  # views

View = dict[str, Any]  # by name of what it shows; a value is never changed, only replaced


class Ring:
    """Views in the order in which they came; any thread may read them.

    start: the number before the first view's. Of another run on the same port a reader that went
    on should not be understood, so let it be a random one.
    """

    def __init__(self, most: int = MOST, start: int = 0) -> None:
        self.ended = False
        self._first: View = {}  # the view before the oldest change
        self._newest: View = {}
        self._changes: deque[tuple[View, bytes]] = deque()
        self._most = most
        self._count = start
        self._lock = threading.Lock()
        self._told: list[Callable[[], None]] = []

    def tell(self, listener: Callable[[], None]) -> None:
        """Call this whenever there is something new, from another thread."""
        self._told.append(listener)

    def add(self, view: View) -> None:
        """Keep a view, unless it is equal to the last, and forget the oldest."""
        with self._lock:
            known = self._newest
            change = {
                key: value for key, value in view.items() if key not in known or value != known[key]
            }
            if not change:
                return
            self._count += 1
            self._newest = self._newest | change  # what is equal is kept once
            self._changes.append((change, _written(self._count, change)))
            if len(self._changes) > self._most:
                self._first = self._first | self._changes.popleft()[0]
        self._say()

    def end(self) -> None:
        """Nothing will come any more."""
        self.ended = True
        self._say()

    @property
    def newest(self) -> View:
        """The last view, whole."""
        return dict(self._newest)

    @property
    def count(self) -> int:
        """The number of the last view."""
        return self._count

    def since(self, number: int) -> tuple[list[bytes], int]:
        """What changed after the view of this number, as JSON, and the number of the last one.

        Who is further behind than the ring reaches, or ahead of it, gets the oldest view whole.
        """
        with self._lock:
            oldest = self._count - len(self._changes)
            if number and oldest <= number <= self._count:
                late = self._count - number
                return [self._changes[k][1] for k in range(-late, 0)], self._count
            if not self._changes:
                return [], number
            (change, _), *later = self._changes
            whole = _written(oldest + 1, self._first | change, whole=True)
            return [whole, *(text for _, text in later)], self._count

    def _say(self) -> None:
        for listener in self._told:
            listener()


def _written(number: int, change: View, whole: bool = False) -> bytes:
    return msgspec.json.encode({"number": number, "whole": whole, "view": change})


# Views of the demonstration: all that the page shows of one moment, in numbers.

MOST_MESSAGES = 200  # of one view
SHOWN_EVENTS = 60


class Looking:
    """Looks at a stage again and again, and remembers what those do not say who are down."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.counting = Counting()
        self._shares: dict[str, dict[str, float]] = {}
        self._before: dict[str, Standing] = {}
        # of an agent, on average
        self._regret = 0.0
        self._alone = 0.0

    def view(self) -> View:
        """The present moment; lists of agents are in the order of `agents`."""
        stage = self._stage
        crew = self._stage.crew
        audience = self._stage.audience
        standings = audience.standings()  # first: whoever is asked then holds at least as many
        self._bury()
        glances = crew.look(stage.running)
        for name, each in glances.items():
            stage.states[name] = RUNS
            self._shares[name] = each.shares
        told = {name: each.acknowledged for name, each in standings.items()}
        runs = [name for name, state in stage.states.items() if state == RUNS]
        books = self.counting.take(told, {n: each.held for n, each in glances.items()}, runs)
        self._add_regret(standings)
        names = list(stage.states)
        place = {name: i for i, name in enumerate(names)}
        return {
            "mode": "memory" if crew.stepped else "processes",
            "time": round(crew.now, 1),
            "arms": list(audience.means.items()),
            "agents": names,
            "links": [(place[a], place[b]) for a, b in stage.links],
            "cut": [i for i, link in enumerate(stage.links) if link in stage.cut_links],
            "loss": stage.loss,
            "states": list(stage.states.values()),
            "lies": [audience.at(name).lie for name in names],
            "differs": [audience.at(name).differ for name in names],
            "shares": [self._share(name) for name in names],
            "visits": list(told.values()),
            "behind": [self.counting.behind(name, told) for name in names],
            "regret": [round(standings[name].regret, 2) for name in names],
            "alone": [round(standings[name].alone, 2) for name in names],
            "mean_regret": round(self._regret, 3),
            "mean_alone": round(self._alone, 3),
            "messages": self._messages(glances, place),
            "books": [books.acknowledged, books.counted, books.under_way, books.lost],
            "events": stage.events[-SHOWN_EVENTS:],
        }

    def _bury(self) -> None:
        """Say of those who ended by themselves that they did."""
        for name in self._stage.running:
            if (problem := self._stage.crew.problem(name)) is not None:
                self._stage.states[name] = KILLED
                self._stage.say(f"{name} ended by itself: {problem}")

    def _share(self, name: str) -> list[float]:
        """How likely an agent now plays each arm; of one that never answered nothing is known."""
        shares = self._shares.get(name, {})
        return [round(shares.get(arm, 0.0), 3) for arm in self._stage.audience.means]

    def _add_regret(self, standings: dict[str, Standing]) -> None:
        """What an agent lost since the last view on average, and would have lost alone.

        So those who join later do not pull the curves down. Sites that lie are left out: they
        harm themselves, and it is the others who matter.
        """
        stage = self._stage
        zero = Standing(0, 0.0, 0.0)
        gains = [
            (each.regret - before.regret, each.alone - before.alone)
            for name, each in standings.items()
            if not stage.audience.at(name).lie
            and ((before := self._before.get(name, zero)) != each or stage.states[name] == RUNS)
        ]
        self._before = standings
        if gains:
            self._regret += sum(gain for gain, _ in gains) / len(gains)
            self._alone += sum(gain for _, gain in gains) / len(gains)

    def _messages(
        self, glances: dict[str, Glance], place: dict[str, int]
    ) -> list[tuple[int, int, bool]]:
        """From whom to whom, and whether it came through; on links that are cut there are none."""
        stage = self._stage
        cut = {frozenset(link) for link in stage.cut_links}
        return [
            (place[name], place[peer], passed and stage.states[peer] == RUNS)
            for name, each in glances.items()
            for peer, passed in each.sent
            if frozenset((name, peer)) not in cut
        ][-MOST_MESSAGES:]
