"""Heartbeats without I/O: gossip of signed statuses; every agent stores the newest of each.

An agent publishes a status of itself when something changes, and once a minute. Each neighbour is
sent a new status once; a status that its messages do not echo was lost and is sent again. A process
that has just started lacks every status. Each status carries its age, to which every relay adds the
time it held the status: so no clock is compared with another's, and the last status of an agent
that died does not look fresh.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from posse import __version__
from posse.live.exchange import DEFAULT, Sign, Verify
from posse.live.membership.records import (
    LONGEST_VERSION,
    MOST_EXPERIMENTS,
    MOST_NEIGHBOURS,
    UNKNOWN,
    ExperimentTally,
    NeighbourRow,
    Status,
    StatusMessage,
    is_status,
    is_status_message,
    largest_reasons,
)

REPEAT_SECONDS = 10.0  # after which a status that was not echoed is sent again
PING_SECONDS = 10.0  # seconds between two messages, if there is nothing to say
LONGEST_ROUND = 60.0  # seconds; a longer round trip is a clock that was set


@dataclass
class Link:
    """One end of a link: the statuses that the neighbour lacks, and its round trips."""

    since: float  # when it was connected, or lost
    up: bool | None = None  # whether it is connected; None: the transport cannot tell
    last_message_at: float | None = None  # when any message of it came
    lacks: dict[str, None] = field(default_factory=dict)  # origins, the longest waiting first
    under_way: dict[str, int] = field(default_factory=dict)  # origin -> `sent`, not echoed yet
    last: tuple[int, float] | None = None  # its newest `sent`, and when that came
    owes_echo: bool = False  # whether its last statuses were not echoed yet
    last_sent_at: float | None = None  # when the last message was sent to it
    rounds: deque[float] = field(default_factory=lambda: deque(maxlen=5))  # seconds
    lag: float | None = None  # seconds of a message, half of the usual round trip

    def note_connection(self, up: bool | None, now: float) -> None:
        """Note whether the neighbour is connected now."""
        if up is not self.up:
            self.up = up
            self.since = now

    def mark_lacking(self, origins: Iterable[str]) -> None:
        """Queue the newest status of each of these origins for the neighbour."""
        for origin in origins:
            self.lacks.pop(origin, None)
            self.lacks[origin] = None

    def mark_received(self, origin: str) -> None:
        """Note that the neighbour has the newest status of this origin."""
        self.lacks.pop(origin, None)
        self.under_way.pop(origin, None)

    def note_echo(
        self, sent: int, echo: int, echo_delay: int, has_statuses: bool, now: float
    ) -> None:
        """Note the echo of a message: statuses that arrived there are under way no longer."""
        self.last = (sent, now)
        self.owes_echo = self.owes_echo or has_statuses
        if echo:
            self.under_way = {origin: at for origin, at in self.under_way.items() if at != echo}
            # Round trip by this clock alone: the echoed `sent` was ours, the delay is a duration.
            passed = now - (echo + echo_delay) / 1000
            if -0.01 < passed < LONGEST_ROUND:  # a little below 0: times are in whole ms
                self.rounds.append(max(0.0, passed))
                self.lag = median(self.rounds) / 2

    def requeue_lost(self, now: float) -> None:
        """Queue again the statuses that were not echoed for long: they were lost."""
        sent = self.under_way.items()
        for origin in [name for name, at in sent if not 0 <= now - at / 1000 < REPEAT_SECONDS]:
            del self.under_way[origin]
            self.lacks.setdefault(origin)

    def is_due(self, now: float) -> bool:
        """Whether a message is due even without statuses to send."""
        return (
            self.owes_echo
            or self.last_sent_at is None
            or not 0 <= now - self.last_sent_at < PING_SECONDS
        )

    def note_sent(self, origins: Iterable[str], sent: int, now: float) -> tuple[int, int]:
        """Note that these statuses are sent; returns the echo and its delay."""
        for origin in origins:
            self.lacks.pop(origin, None)
            self.under_way[origin] = sent
        self.last_sent_at = now
        self.owes_echo = False
        if self.last is None:
            return 0, 0
        echo, at = self.last
        return echo, max(0, round(1000 * (now - at)))


# ---- Statuses of all agents

STATUS_SECONDS = 60.0  # seconds between two statuses if nothing changes
LEAST_STATUS_SECONDS = 2.0  # seconds between two, whatever changes
MOST_AHEAD_SECONDS = 300.0  # seconds that a status may be ahead of our clock
OLDEST_SECONDS = 7 * 86400.0  # seconds after which a status is forgotten: that agent is gone
BATCH_BYTES = 64_000  # bytes of statuses in a message
MOST_FORGED = 10  # bad signatures after which the rest of a message is not looked at

MALFORMED = "malformed_status"
SIGNATURE_INVALID = "status_signature_invalid"
WRONG_NETWORK = "status_wrong_network"
FROM_FUTURE = "status_from_future"
TOO_OLD = "status_too_old"
TOO_MANY = "too_many_statuses"


@dataclass(frozen=True)
class ReceivedStatus:
    """The newest status of an origin, and when it came, by this agent's clock."""

    status: Status
    arrived_at: float
    made_at: float  # when it was made, as far as is known: at the latest when it arrived
    via: str | None  # None: it is our own

    @property
    def lag(self) -> float:
        """The seconds that it took to arrive."""
        return self.arrived_at - self.made_at


class Presence:
    """The newest status of every agent, and what each neighbour lacks; any thread may call.

    sign and verify: as the holder of a certificate; without them statuses are not signed.
    """

    def __init__(
        self,
        name: str,
        network: str = DEFAULT,
        *,
        now: float,
        sign: Sign | None = None,
        verify: Verify | None = None,
        most: int = 10_000,  # statuses: an attacker cannot fill the memory
    ) -> None:
        self.name = name
        self.network = network
        self.started = now
        self._sign = sign
        self._verify = verify
        self._most = most
        self._lock = threading.Lock()  # never held while signatures are looked at
        self._statuses: dict[str, ReceivedStatus] = {}
        self._links: dict[str, Link] = {}
        self._last_published: tuple[object, float] | None = (
            None  # what our last status was about, and when
        )
        self._later_than = 0  # ms: others know a status of ours of this time

    def note_connections(self, connected: Mapping[str, bool | None], now: float) -> None:
        """Note the neighbours, and which of them are connected (None: unknown)."""
        with self._lock:
            # Neighbours may change by a reload; a new one lacks every status.
            for name in self._links.keys() - connected.keys():
                del self._links[name]
            for name, up in connected.items():
                if name not in self._links:
                    self._links[name] = Link(now, lacks=dict.fromkeys(self._statuses))
                self._links[name].note_connection(up, now)

    def is_due(self, experiments: Iterable[str], now: float) -> bool:
        """Whether an own status is due: it changed, or the last one is old."""
        with self._lock:
            if self._last_published is None:
                return True
            about, when = self._last_published
            passed = now - when
            # A change is published soon, but not at every flap of a link.
            if about != _status_subject(self._neighbour_rows(), experiments, self._later_than):
                return not 0 <= passed < LEAST_STATUS_SECONDS
            return not 0 <= passed < STATUS_SECONDS  # a clock may go back

    def make_status(
        self, experiments: Iterable[ExperimentTally], refused: Mapping[str, int], now: float
    ) -> Status:
        """Build the own status of now, not signed yet."""
        with self._lock:
            return Status(
                self.name,
                self.network,
                max(round(1000 * now), self._later_than + 1),
                max(0, round(1000 * self.started)),
                __version__[:LONGEST_VERSION],
                self._neighbour_rows(),
                tuple(sorted(experiments)[:MOST_EXPERIMENTS]),
                largest_reasons(refused.items()),
            )

    def publish_status(self, status: Status, experiments: Iterable[str], now: float) -> None:
        """Sign the own status, and queue it for all neighbours."""
        if self._sign is not None:
            status = replace(status, signature=self._sign(status.content))
        with self._lock:
            self._later_than = max(self._later_than, status.time)
            self._last_published = _status_subject(status.neighbours, experiments, status.time), now
            self._drop_expired(now)
            self._store_status(ReceivedStatus(status, now, now, None))

    def make_messages(
        self, peers: Iterable[str], relay: bool, now: float
    ) -> list[tuple[str, StatusMessage]]:
        """Build the messages to these neighbours; relay: with statuses of other agents."""
        outgoing = []
        with self._lock:
            for peer in peers:
                link = self._links.get(peer)
                if link is None or link.up is False:
                    continue
                link.requeue_lost(now)
                # a neighbour that has sent none may not be there: our own is enough to find out
                batch = self._next_batch(link, peer, relay and link.last is not None)
                if batch or (link.last is not None and link.is_due(now)):
                    sent = max(0, round(1000 * now))
                    echo, echo_delay = link.note_sent(batch, sent, now)
                    statuses = tuple(
                        (max(0, round(1000 * (now - stored.made_at))), stored.status)
                        for stored in batch.values()
                    )
                    outgoing.append((peer, StatusMessage(statuses, sent, echo, echo_delay)))
        return outgoing

    def note_message(self, peer: str, now: float) -> None:
        """Note that a message of any kind came from a neighbour."""
        link = self._links.get(peer)
        if link is not None:
            link.last_message_at = now

    def receive(self, peer: str, message: StatusMessage, now: float) -> Counter[str]:
        """Store statuses that are newer; returns the reasons of refusals, to be counted."""
        if not is_status_message(message):
            return Counter({MALFORMED: 1})
        refused: Counter[str] = Counter()
        sent = now
        with self._lock:
            if (link := self._links.get(peer)) is not None:
                link.note_echo(
                    message.sent, message.echo, message.echo_delay, bool(message.statuses), now
                )
                # Ages are those at sending: half of a round trip has passed since.
                sent -= link.lag or 0.0
        for age, status in message.statuses:
            if problem := self._find_problem(status, now):
                refused[problem] += 1
            elif not self._is_newer(status):
                self._note_repetition(peer, status, sent - age / 1000)
            # Signatures last: repetitions, most of the traffic, need no verification.
            elif self._is_signed(status):
                if problem := self._accept_status(peer, status, sent - age / 1000, now):
                    refused[problem] += 1
            else:
                refused[SIGNATURE_INVALID] += 1
                if refused[SIGNATURE_INVALID] >= MOST_FORGED:
                    break  # a liar shall not make us work
        return refused

    def statuses(self) -> dict[str, ReceivedStatus]:
        """Return the newest status of every origin, the own one included."""
        with self._lock:
            return dict(self._statuses)

    def links(self) -> dict[str, Link]:
        """Return the link to every neighbour; to be read only."""
        with self._lock:
            return dict(self._links)

    def _neighbour_rows(self) -> tuple[NeighbourRow, ...]:
        rows = sorted(self._links.items())[:MOST_NEIGHBOURS]
        return tuple(
            (name, True, UNKNOWN if link.lag is None else round(1000 * link.lag))
            if link.up
            else (name, False, UNKNOWN)
            for name, link in rows
        )

    def _next_batch(self, link: Link, peer: str, relay: bool) -> dict[str, ReceivedStatus]:
        """Return the next statuses for a neighbour, as many as fit into a message."""
        batch: dict[str, ReceivedStatus] = {}
        room = BATCH_BYTES
        for origin in (origin for origin in link.lacks if relay or origin == self.name):
            if origin == peer or (stored := self._statuses.get(origin)) is None:
                continue
            room -= stored.status.size
            if batch and room < 0:
                break
            batch[origin] = stored
        return batch

    def _find_problem(self, status: Status, now: float) -> str | None:
        """Return why a status cannot be used, whoever signed it."""
        if not is_status(status):
            return MALFORMED
        if status.network != self.network:
            return WRONG_NETWORK
        if status.time > 1000 * (now + MOST_AHEAD_SECONDS):
            return FROM_FUTURE
        if status.time < 1000 * (now - OLDEST_SECONDS):
            return TOO_OLD
        return None

    def _is_newer(self, status: Status) -> bool:
        stored = self._statuses.get(status.origin)
        return stored is None or status.time > stored.status.time

    def _is_signed(self, status: Status) -> bool:
        verify = self._verify
        return verify is None or verify(status.origin, status.content, status.signature)

    def _note_repetition(self, peer: str, status: Status, made_at: float) -> None:
        """Note a status that is stored already; the neighbour may know better when it was made."""
        origin = status.origin
        with self._lock:
            stored = self._statuses.get(origin)
            if stored is not None and status.time == stored.status.time:
                if (link := self._links.get(peer)) is not None:
                    link.mark_received(origin)
                # Several routes give several ages; the latest plausible time is the best estimate.
                made_at = min(max(made_at, stored.made_at), stored.arrived_at)
                self._statuses[origin] = replace(stored, made_at=made_at)

    def _accept_status(self, peer: str, status: Status, made_at: float, now: float) -> str | None:
        with self._lock:
            if not self._is_newer(status):  # any more
                return None
            if status.origin == self.name:  # of before a restart, by a clock that was ahead
                self._later_than = max(self._later_than, status.time)
                return None
            if status.origin not in self._statuses and len(self._statuses) >= self._most:
                return TOO_MANY
            self._store_status(ReceivedStatus(status, now, made_at, peer))
            return None

    def _store_status(self, received: ReceivedStatus) -> None:
        """Store a newer status, and queue it for neighbours except its origin and its sender."""
        origin = received.status.origin
        old = self._statuses.get(origin)
        self._statuses[origin] = received
        for name, link in self._links.items():
            if name in (origin, received.via):
                link.mark_received(origin)
            else:
                link.mark_lacking([origin])
        if (
            origin in self._links
            and old is not None
            and old.status.started != received.status.started
        ):
            link = self._links[origin]
            link.under_way.clear()
            link.mark_lacking(self._statuses)  # it has just started, and knows nothing

    def _drop_expired(self, now: float) -> None:
        """Drop statuses that are too old; correct times after the clock was set back."""
        for origin, stored in list(self._statuses.items()):
            if stored.status.time < 1000 * (now - OLDEST_SECONDS) and origin != self.name:
                del self._statuses[origin]
            elif stored.arrived_at > now:
                self._statuses[origin] = replace(
                    stored, arrived_at=now, made_at=min(stored.made_at, now)
                )
        for link in self._links.values():
            link.since = min(link.since, now)
            link.lacks = {origin: None for origin in link.lacks if origin in self._statuses}


def _status_subject(
    neighbours: Iterable[NeighbourRow], experiments: Iterable[str], time: int
) -> object:
    """Return the facts whose change is published at once; a lag only when it is first known."""
    return [(name, up, lag == UNKNOWN) for name, up, lag in neighbours], sorted(experiments), time
