"""One end of a link: which statuses the other end lacks, what is under way, and for how long."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from posse import __version__
from posse.live.exchange.examine import Sign, Verify
from posse.live.exchange.layouts import DEFAULT
from posse.live.membership.records import (
    LONGEST_VERSION,
    MOST_EXPERIMENTS,
    MOST_NEIGHBOURS,
    UNKNOWN,
    Experiment,
    Neighbour,
    Status,
    StatusMessage,
    is_message,
    is_status,
    largest_reasons,
)

REPEAT = 10.0  # seconds after which what was not echoed is said again
PING = 10.0  # seconds between two messages, if there is nothing to say
LONGEST_ROUND = 60.0  # seconds; a longer round trip is a clock that was set


@dataclass
class Link:
    """What is known of a neighbour since this process began."""

    since: float  # when it was connected, or lost
    up: bool | None = None  # whether it is connected; None: the transport cannot tell
    heard: float | None = None  # when any message of it came
    lacks: dict[str, None] = field(default_factory=dict)  # origins, oldest news first
    under_way: dict[str, int] = field(default_factory=dict)  # origin -> `sent`, not echoed yet
    last: tuple[int, float] | None = None  # its newest `sent`, and when that came
    owes: bool = False  # whether its last statuses were not echoed yet
    told: float | None = None  # when it was last told anything
    rounds: deque[float] = field(default_factory=lambda: deque(maxlen=5))  # seconds
    lag: float | None = None  # seconds of a message, half of the usual round trip

    def look(self, up: bool | None, now: float) -> None:
        """Note whether it is connected now."""
        if up is not self.up:
            self.up = up
            self.since = now

    def lack(self, origins: Iterable[str]) -> None:
        """It is not known to have the newest of these; each waits for its turn."""
        for origin in origins:
            self.lacks.pop(origin, None)
            self.lacks[origin] = None

    def has(self, origin: str) -> None:
        """It has the newest of this one."""
        self.lacks.pop(origin, None)
        self.under_way.pop(origin, None)

    def hear(self, sent: int, echo: int, held: int, more: bool, now: float) -> None:
        """Take in what a message says of the link: what arrived there is under way no longer."""
        self.last = (sent, now)
        self.owes = self.owes or more
        if echo:
            self.under_way = {each: at for each, at in self.under_way.items() if at != echo}
            passed = now - (echo + held) / 1000
            if -0.01 < passed < LONGEST_ROUND:  # a little below 0: times are in whole ms
                self.rounds.append(max(0.0, passed))
                self.lag = median(self.rounds) / 2

    def give_up(self, now: float) -> None:
        """What was not echoed for long was lost: it is to be said again."""
        sent = self.under_way.items()
        for origin in [each for each, at in sent if not 0 <= now - at / 1000 < REPEAT]:
            del self.under_way[origin]
            self.lacks.setdefault(origin)

    def is_due(self, now: float) -> bool:
        """Whether a message is to be sent though there is nothing to say."""
        return self.owes or self.told is None or not 0 <= now - self.told < PING

    def tell(self, origins: Iterable[str], sent: int, now: float) -> tuple[int, int]:
        """Note that these are sent; what to echo, and how long it was held."""
        for origin in origins:
            self.lacks.pop(origin, None)
            self.under_way[origin] = sent
        self.told = now
        self.owes = False
        if self.last is None:
            return 0, 0
        echo, at = self.last
        return echo, max(0, round(1000 * (now - at)))


# Presence without I/O: gossip of signed heartbeats, of which everybody keeps the newest of each.
#
# An agent makes a status of itself when something changes, and once a minute. Each neighbour is
# told what is new once; what its messages do not echo was lost, and is told again. Who has just
# started lacks everything. An age goes along with each status, to which every relay adds for how
# long it held it: so no clock is compared with another's, and news of an agent that is gone do
# not look fresh.

EVERY = 60.0  # seconds between two statuses if nothing changes
SOONEST = 2.0  # seconds between two, whatever changes
AHEAD = 300.0  # seconds that a status may be ahead of our clock
OLDEST = 7 * 86400.0  # seconds after which a status is forgotten: that agent is gone
ROOM = 64_000  # bytes of statuses in a message
MOST_FORGED = 10  # bad signatures after which the rest of a message is not looked at

MALFORMED = "a malformed status"
FORGED = "a status with a bad signature"
ANOTHER = "a status of another network"
EARLY = "a status ahead of our clock"
LATE = "a status that is long past"
FULL = "too many statuses"


@dataclass(frozen=True)
class Held:
    """The newest status of an origin, and how it came here, by our clock."""

    status: Status
    arrived: float
    made: float  # when it was made, as far as is known: at the latest when it arrived
    via: str | None  # None: it is our own

    @property
    def lag(self) -> float:
        """The seconds that it took to get here."""
        return self.arrived - self.made


class Presence:
    """The newest status of every agent, and which neighbour lacks which; any thread may call.

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
        most: int = 10_000,  # statuses: a stranger cannot fill the memory
    ) -> None:
        self.name = name
        self.network = network
        self.started = now
        self._sign = sign
        self._verify = verify
        self._most = most
        self._lock = threading.Lock()  # never held while signatures are looked at
        self._held: dict[str, Held] = {}
        self._links: dict[str, Link] = {}
        self._said: tuple[object, float] | None = None  # what our last status was about, and when
        self._later_than = 0  # ms: others know a status of ours of this time

    def look(self, connected: Mapping[str, bool | None], now: float) -> None:
        """Note which neighbours there are, and which are connected (None: nobody knows)."""
        with self._lock:
            for name in self._links.keys() - connected.keys():
                del self._links[name]
            for name, up in connected.items():
                if name not in self._links:
                    self._links[name] = Link(now, lacks=dict.fromkeys(self._held))
                self._links[name].look(up, now)

    def is_due(self, experiments: Iterable[str], now: float) -> bool:
        """Whether to say something of ourselves: it changed, or others have not heard for long."""
        with self._lock:
            if self._said is None:
                return True
            about, when = self._said
            passed = now - when
            if about != _about(self._neighbours(), experiments, self._later_than):
                return not 0 <= passed < SOONEST
            return not 0 <= passed < EVERY  # a clock may go back

    def status(
        self, experiments: Iterable[Experiment], refused: Mapping[str, int], now: float
    ) -> Status:
        """What there is to say of ourselves now, not signed yet."""
        with self._lock:
            return Status(
                self.name,
                self.network,
                max(round(1000 * now), self._later_than + 1),
                max(0, round(1000 * self.started)),
                __version__[:LONGEST_VERSION],
                self._neighbours(),
                tuple(sorted(experiments)[:MOST_EXPERIMENTS]),
                largest_reasons(refused.items()),
            )

    def say(self, status: Status, experiments: Iterable[str], now: float) -> None:
        """Sign it, and let all neighbours know."""
        if self._sign is not None:
            status = replace(status, signature=self._sign(status.content))
        with self._lock:
            self._later_than = max(self._later_than, status.time)
            self._said = _about(status.neighbours, experiments, status.time), now
            self._forget(now)
            self._keep(Held(status, now, now, None))

    def messages(
        self, peers: Iterable[str], relay: bool, now: float
    ) -> list[tuple[str, StatusMessage]]:
        """What to send to these neighbours; relay: statuses of others, too."""
        outgoing = []
        with self._lock:
            for peer in peers:
                link = self._links.get(peer)
                if link is None or link.up is False:
                    continue
                link.give_up(now)
                # a neighbour that has sent none may not be there: our own is enough to find out
                batch = self._batch(link, peer, relay and link.last is not None)
                if batch or (link.last is not None and link.is_due(now)):
                    sent = max(0, round(1000 * now))
                    echo, held = link.tell(batch, sent, now)
                    statuses = tuple(
                        (max(0, round(1000 * (now - each.made))), each.status)
                        for each in batch.values()
                    )
                    outgoing.append((peer, StatusMessage(statuses, sent, echo, held)))
        return outgoing

    def hear(self, peer: str, now: float) -> None:
        """Note that any message came from a neighbour."""
        link = self._links.get(peer)
        if link is not None:
            link.heard = now

    def receive(self, peer: str, message: StatusMessage, now: float) -> Counter[str]:
        """Keep what is newer; the reasons of what was refused, to be counted."""
        if not is_message(message):
            return Counter({MALFORMED: 1})
        refused: Counter[str] = Counter()
        sent = now
        with self._lock:
            if (link := self._links.get(peer)) is not None:
                link.hear(message.sent, message.echo, message.held, bool(message.statuses), now)
                sent -= link.lag or 0.0
        for age, status in message.statuses:
            if problem := self._problem(status, now):
                refused[problem] += 1
            elif not self._is_news(status):
                self._hear_again(peer, status, sent - age / 1000)
            elif self._is_signed(status):
                if problem := self._take(peer, status, sent - age / 1000, now):
                    refused[problem] += 1
            else:
                refused[FORGED] += 1
                if refused[FORGED] >= MOST_FORGED:
                    break  # a liar shall not make us work
        return refused

    def held(self) -> dict[str, Held]:
        """The newest status of every origin, the own included."""
        with self._lock:
            return dict(self._held)

    def links(self) -> dict[str, Link]:
        """What is known of every neighbour; to be read only."""
        with self._lock:
            return dict(self._links)

    def _neighbours(self) -> tuple[Neighbour, ...]:
        rows = sorted(self._links.items())[:MOST_NEIGHBOURS]
        return tuple(
            (name, True, UNKNOWN if link.lag is None else round(1000 * link.lag))
            if link.up
            else (name, False, UNKNOWN)
            for name, link in rows
        )

    def _batch(self, link: Link, peer: str, relay: bool) -> dict[str, Held]:
        """The statuses that a neighbour is to be told next, as many as fit into a message."""
        batch: dict[str, Held] = {}
        room = ROOM
        for origin in (origin for origin in link.lacks if relay or origin == self.name):
            if origin == peer or (held := self._held.get(origin)) is None:
                continue
            room -= held.status.size
            if batch and room < 0:
                break
            batch[origin] = held
        return batch

    def _problem(self, status: Status, now: float) -> str | None:
        """Why a status cannot be used, whoever signed it."""
        if not is_status(status):
            return MALFORMED
        if status.network != self.network:
            return ANOTHER
        if status.time > 1000 * (now + AHEAD):
            return EARLY
        if status.time < 1000 * (now - OLDEST):
            return LATE
        return None

    def _is_news(self, status: Status) -> bool:
        held = self._held.get(status.origin)
        return held is None or status.time > held.status.time

    def _is_signed(self, status: Status) -> bool:
        verify = self._verify
        return verify is None or verify(status.origin, status.content, status.signature)

    def _hear_again(self, peer: str, status: Status, made: float) -> None:
        """It has what we hold, or less; perhaps it knows better when that was made."""
        origin = status.origin
        with self._lock:
            held = self._held.get(origin)
            if held is not None and status.time == held.status.time:
                if (link := self._links.get(peer)) is not None:
                    link.has(origin)
                made = min(max(made, held.made), held.arrived)
                self._held[origin] = replace(held, made=made)

    def _take(self, peer: str, status: Status, made: float, now: float) -> str | None:
        with self._lock:
            if not self._is_news(status):  # any more
                return None
            if status.origin == self.name:  # of before a restart, by a clock that was ahead
                self._later_than = max(self._later_than, status.time)
                return None
            if status.origin not in self._held and len(self._held) >= self._most:
                return FULL
            self._keep(Held(status, now, made, peer))
            return None

    def _keep(self, held: Held) -> None:
        """Hold a status that is newer, which neighbours lack but for who made or brought it."""
        origin = held.status.origin
        old = self._held.get(origin)
        self._held[origin] = held
        for name, link in self._links.items():
            if name in (origin, held.via):
                link.has(origin)
            else:
                link.lack([origin])
        if origin in self._links and old is not None and old.status.started != held.status.started:
            link = self._links[origin]
            link.under_way.clear()
            link.lack(self._held)  # it has just started, and knows nothing

    def _forget(self, now: float) -> None:
        """Drop what nobody would take any more; a clock that was set back brings nobody ahead."""
        for origin, held in list(self._held.items()):
            if held.status.time < 1000 * (now - OLDEST) and origin != self.name:
                del self._held[origin]
            elif held.arrived > now:
                self._held[origin] = replace(held, arrived=now, made=min(held.made, now))
        for link in self._links.values():
            link.since = min(link.since, now)
            link.lacks = {origin: None for origin in link.lacks if origin in self._held}


def _about(neighbours: Iterable[Neighbour], experiments: Iterable[str], time: int) -> object:
    """What others are told of at once when it changes; a lag only when it is first known."""
    return [(name, up, lag == UNKNOWN) for name, up, lag in neighbours], sorted(experiments), time
