"""Views of a demonstration, and the audit of its rewards: an invariant at every moment.

    acknowledged = counted by every running agent + on their way + lost

Of each origin: *acknowledged* is the number of rewards acknowledged to its visitors, noted before
the snapshots are taken (so an honest agent holds at least as many of its own). *Counted* are the
rewards that every running agent holds. *Lost* are those that no agent holds although their own
agent has answered; while it is down, its disk may have them. The others are on their way: on a
disk, to arrive with a later message. Holdings only grow, so the last snapshot of an agent that
does not answer now is at most too small, and the invariant still holds.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from posse.live.demo.fault_injection import AgentSnapshot
from posse.live.demo.page.stage import KILLED, RUNS, Stage
from posse.live.demo.visitors import SiteTotals

Holdings = Mapping[str, int]  # origin -> pulls


@dataclass(frozen=True)
class RewardAudit:
    """Acknowledged rewards by where they are."""

    acknowledged: int
    counted: int
    under_way: int
    lost: int


class RewardAuditor:
    """Audits rewards from the latest holdings of every agent."""

    def __init__(self) -> None:
        self._holdings: dict[str, Holdings] = {}
        self._checked: Counter[str] = (
            Counter()
        )  # acknowledged at the last answer of their own agent

    def audit_rewards(
        self,
        acknowledged: Holdings,
        answers: Mapping[str, Holdings],
        running: Collection[str],
    ) -> RewardAudit:
        """Audit after these answers, which were requested after `acknowledged` was noted."""
        self._holdings.update(answers)
        for name in answers:
            self._checked[name] = acknowledged.get(name, 0)
        running_holdings = [self._holdings.get(name, {}) for name in running]
        total = counted = lost = 0
        for origin, count in acknowledged.items():
            total += count
            # A reward counts once every running agent holds it. The bound by `count` is needed
            # since agents may hold rewards that were acknowledged after the totals were noted.
            counted += (
                min([count, *(holdings.get(origin, 0) for holdings in running_holdings)])
                if running_holdings
                else 0
            )
            anywhere = max(
                (holdings.get(origin, 0) for holdings in self._holdings.values()), default=0
            )
            lost += max(0, self._checked[origin] - anywhere)
        return RewardAudit(total, counted, total - counted - lost, lost)

    def count_missing(self, name: str, acknowledged: Holdings) -> int:
        """Count the acknowledged rewards of others that an agent lacked at its last answer."""
        holdings = self._holdings.get(name, {})
        other_counts = ((origin, count) for origin, count in acknowledged.items() if origin != name)
        return sum(max(0, count - holdings.get(origin, 0)) for origin, count in other_counts)


# A ring buffer of views: the last quarter of an hour, each stored as a change.

MOST = 1800  # views

View = dict[str, Any]  # section -> value; values are replaced, never mutated


class ViewLog:
    """A ring buffer of views in order; any thread may read it.

    start: the number before the first view. A random one keeps the readers of an earlier run on
    the same port from being taken for readers of this one.
    """

    def __init__(self, most: int = MOST, start: int = 0) -> None:
        self.ended = False
        self._first: View = {}  # the view before the oldest change
        self._newest: View = {}
        self._changes: deque[tuple[View, bytes]] = deque()
        self._most = most
        self._count = start
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a listener after every new view, from the thread that adds it."""
        self._listeners.append(listener)

    def append_view(self, view: View) -> None:
        """Append a view unless it equals the last, and drop the oldest."""
        with self._lock:
            before = self._newest
            change = {
                key: value
                for key, value in view.items()
                if key not in before or value != before[key]
            }
            if not change:
                return
            self._count += 1
            self._newest = self._newest | change  # equal values share one object
            self._changes.append((change, _encode_change(self._count, change)))
            if len(self._changes) > self._most:
                self._first = self._first | self._changes.popleft()[0]
        self._notify_listeners()

    def close(self) -> None:
        """Announce that no more views will come."""
        self.ended = True
        self._notify_listeners()

    @property
    def newest(self) -> View:
        """The last view, whole."""
        return dict(self._newest)

    @property
    def count(self) -> int:
        """The number of the last view."""
        return self._count

    def changes_since(self, number: int) -> tuple[list[bytes], int]:
        """Return the changes after a view as JSON, and the number of the newest view.

        A reader outside the range of the buffer gets the oldest view in full.
        """
        with self._lock:
            oldest = self._count - len(self._changes)
            if number and oldest <= number <= self._count:
                late = self._count - number
                return [self._changes[k][1] for k in range(-late, 0)], self._count
            if not self._changes:
                return [], number
            (change, _), *later = self._changes
            whole = _encode_change(oldest + 1, self._first | change, whole=True)
            return [whole, *(text for _, text in later)], self._count

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener()


def _encode_change(number: int, change: View, whole: bool = False) -> bytes:
    return msgspec.json.encode({"number": number, "whole": whole, "view": change})


# The observer: it takes views of the stage.

MOST_MESSAGES = 200  # in one view
SHOWN_EVENTS = 60


class Observer:
    """Takes views of a stage, and remembers the last snapshots of agents that are down."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.auditor = RewardAuditor()
        self._shares: dict[str, dict[str, float]] = {}
        self._before: dict[str, SiteTotals] = {}
        # cumulative, of the average agent
        self._regret = 0.0
        self._alone = 0.0

    def take_view(self) -> View:
        """Take a view of the present moment; lists of agents are in the order of `agents`."""
        stage = self._stage
        backend = self._stage.backend
        audience = self._stage.audience
        totals = audience.collect_totals()  # before the snapshots: see the invariant above
        self._mark_dead_agents()
        snapshots = backend.take_snapshots(stage.running_agents)
        for name, snapshot in snapshots.items():
            stage.states[name] = RUNS
            self._shares[name] = snapshot.shares
        acknowledged = {name: total.acknowledged for name, total in totals.items()}
        holdings = {name: snapshot.pulls_by_origin for name, snapshot in snapshots.items()}
        running = [name for name, state in stage.states.items() if state == RUNS]
        audit = self.auditor.audit_rewards(acknowledged, holdings, running)
        self._add_regret(totals)
        names = list(stage.states)
        place = {name: i for i, name in enumerate(names)}
        return {
            "mode": "memory" if backend.stepped else "processes",
            "time": round(backend.now, 1),
            "arms": list(audience.means.items()),
            "agents": names,
            "links": [(place[a], place[b]) for a, b in stage.links],
            "cut": [i for i, link in enumerate(stage.links) if link in stage.cut_links],
            "loss": stage.loss,
            "states": list(stage.states.values()),
            "lies": [audience.visitors_of(name).lying for name in names],
            "differs": [audience.visitors_of(name).different for name in names],
            "shares": [self._arm_shares(name) for name in names],
            "visits": list(acknowledged.values()),
            "behind": [self.auditor.count_missing(name, acknowledged) for name in names],
            "regret": [round(totals[name].regret, 2) for name in names],
            "alone": [round(totals[name].isolated_regret, 2) for name in names],
            "mean_regret": round(self._regret, 3),
            "mean_alone": round(self._alone, 3),
            "messages": self._list_messages(snapshots, place),
            "audit": [audit.acknowledged, audit.counted, audit.under_way, audit.lost],
            "events": stage.events[-SHOWN_EVENTS:],
        }

    def _mark_dead_agents(self) -> None:
        """Mark and log the agents that ended by themselves."""
        for name in self._stage.running_agents:
            if (problem := self._stage.backend.find_problem(name)) is not None:
                self._stage.states[name] = KILLED
                self._stage.log_event(f"{name} ended by itself: {problem}")

    def _arm_shares(self, name: str) -> list[float]:
        """Return the probabilities of the arms; zeros for an agent that never answered."""
        shares = self._shares.get(name, {})
        return [round(shares.get(arm, 0.0), 3) for arm in self._stage.audience.means]

    def _add_regret(self, totals: dict[str, SiteTotals]) -> None:
        """Add the mean regret since the last view, of agents and of their isolated twins.

        Averaging increments keeps agents that join later from pulling the curves down. Sites that
        lie are left out: they harm themselves, and the curves show the others.
        """
        stage = self._stage
        zero = SiteTotals(0, 0.0, 0.0)
        gains = [
            (after.regret - before.regret, after.isolated_regret - before.isolated_regret)
            for name, after in totals.items()
            if not stage.audience.visitors_of(name).lying
            and ((before := self._before.get(name, zero)) != after or stage.states[name] == RUNS)
        ]
        self._before = totals
        if gains:
            self._regret += sum(gain for gain, _ in gains) / len(gains)
            self._alone += sum(gain for _, gain in gains) / len(gains)

    def _list_messages(
        self, snapshots: dict[str, AgentSnapshot], place: dict[str, int]
    ) -> list[tuple[int, int, bool]]:
        """List sender, receiver and whether each message passed; none on cut links."""
        stage = self._stage
        cut = {frozenset(link) for link in stage.cut_links}
        return [
            (place[name], place[peer], passed and stage.states[peer] == RUNS)
            for name, snapshot in snapshots.items()
            for peer, passed in snapshot.sent
            if frozenset((name, peer)) not in cut
        ][-MOST_MESSAGES:]
