"""A status: the heartbeat that an agent signs about itself, and the message that carries it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from posse.live.exchange import wire_size
from posse.live.ledger import LARGEST, is_name, is_whole

MOST_NEIGHBOURS = 200
MOST_EXPERIMENTS = 100
MOST_REASONS = 20
# characters
LONGEST_REASON = 80
LONGEST_VERSION = 40
LARGEST_STATUS = 64_000  # bytes: names are at most 64 characters, but untrusted ones up to 200
MOST_STATUSES = 1000  # of a message
UNKNOWN = -1  # a lag that nobody has measured

NeighbourRow = tuple[str, bool, int]  # its name, whether it is connected, the lag in ms
ExperimentTally = tuple[
    str, int, int, int
]  # its name, pulls counted, open ones of these, late rewards


@dataclass(frozen=True)
class Status:
    """The report of one agent about itself at a time of its own clock, in milliseconds.

    The signature covers all other fields, so that a status can be relayed, but not into another
    network. Of two statuses of one origin the later one is right.
    """

    origin: str
    network: str
    time: int
    started: int
    version: str  # of Posse
    neighbours: tuple[NeighbourRow, ...] = ()
    experiments: tuple[ExperimentTally, ...] = ()
    refused: tuple[tuple[str, int], ...] = ()  # reason and number, the largest ones
    signature: bytes = b""

    @property
    def content(self) -> bytes:
        """The bytes that are signed; entries and controls begin with other bytes."""
        fields = [self.origin, self.network, self.time, self.started, self.version]
        tables = [self.neighbours, self.experiments, self.refused]
        return b"posse status 1 " + json.dumps([*fields, *tables]).encode()

    @cached_property
    def size(self) -> int:
        """The most bytes it takes on the wire."""
        tables = self.neighbours, self.experiments, self.refused
        names = [row[0] for table in tables for row in table]
        texts = sum(map(wire_size, (self.origin, self.network, self.version, *names)))
        return 150 + len(self.signature) + texts + 33 * len(names)


@dataclass(frozen=True)
class StatusMessage:
    """Statuses that the receiver may lack, and a ping: the round trip without trusting clocks.

    With each status its age in milliseconds, without the time of this message.
    """

    statuses: tuple[tuple[int, Status], ...]
    sent: int  # ms of the sender's clock
    echo: int  # the `sent` that it heard last from the receiver, 0: none
    echo_delay: int  # ms since it heard that


def is_status(status: object) -> bool:
    """Whether an untrusted record could have been made by `Presence`."""
    return (
        isinstance(status, Status)
        and is_name(status.origin)
        and is_name(status.network)
        and is_whole(status.time)
        and is_whole(status.started)
        and _is_text(status.version, LONGEST_VERSION)
        and _is_table(status.neighbours, MOST_NEIGHBOURS, is_name, _is_bool, _is_lag)
        and _is_table(status.experiments, MOST_EXPERIMENTS, is_name, *[is_whole] * 3)
        and _is_table(status.refused, MOST_REASONS, _is_reason, is_whole)
        and isinstance(status.signature, bytes)
        and status.size <= LARGEST_STATUS
    )


def is_status_message(message: StatusMessage) -> bool:
    """Whether a message has the right shape; its statuses are checked one by one."""
    return (
        all(map(is_whole, (message.sent, message.echo, message.echo_delay)))
        and isinstance(message.statuses, tuple)
        and len(message.statuses) <= MOST_STATUSES
        and all(isinstance(row, tuple) and len(row) == 2 for row in message.statuses)
        and all(is_whole(age) for age, _ in message.statuses)
    )


def largest_reasons(refused: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return the reasons that were counted most, sorted, as a status has them."""
    most = sorted(refused, key=lambda row: (-row[1], row[0]))[:MOST_REASONS]
    short = {reason[:LONGEST_REASON]: number for reason, number in most if number > 0}
    return tuple(sorted(short.items()))


def _is_table(rows: object, most: int, *columns: Callable[[object], bool]) -> bool:
    """Whether there are few enough rows of such columns, sorted by different names."""
    return (
        isinstance(rows, tuple)
        and len(rows) <= most
        and all(isinstance(row, tuple) and len(row) == len(columns) for row in rows)
        and all(_match_columns(row, columns) for row in rows)
        and (names := [row[0] for row in rows]) == sorted(set(names))
    )


def _match_columns(row: Sequence[object], columns: Sequence[Callable[[object], bool]]) -> bool:
    return all(check(value) for check, value in zip(columns, row, strict=True))


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest


def _is_reason(value: object) -> bool:
    return _is_text(value, LONGEST_REASON) and value != ""


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_lag(value: object) -> bool:
    return type(value) is int and UNKNOWN <= value <= LARGEST
