"""One end of a link: which statuses the other end lacks, what is under way, and for how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

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
            self.up, self.since = up, now

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
        self.last, self.owes = (sent, now), self.owes or more
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
        self.told, self.owes = now, False
        if self.last is None:
            return 0, 0
        echo, at = self.last
        return echo, max(0, round(1000 * (now - at)))
