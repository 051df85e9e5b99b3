"""Control records as operators sign them: pinned and paused arms, forgotten agents, and by whom."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from posse.live.ledger import LARGEST, MOST_ARMS, is_name, is_whole

MOST_FORGOTTEN = 200  # agents in one record
# characters
LONGEST_NAME = 100
LONGEST_REASON = 300
# a text without control characters and line ends, as JSON Schema and Python read it
ONE_LINE = r"[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*"


def describe_person(by: str, reason: str) -> str:
    """Say who gave a command and why, in brackets, for the end of a sentence."""
    stated = ": ".join(text for text in (by, reason) if text)
    return f" ({stated})" if stated else ""


@dataclass(frozen=True)
class Control:
    """One version of the controls: one arm pinned ("": none), some paused (sorted).

    forgotten: agents that left, sorted by name, each with the time of its last status, in
    milliseconds of its own clock: one with a later status has come back. by, reason: the person who
    gave the command that made this version, and why, as stated ("": not stated).

    The signature covers all other fields, so that no record can be replayed into another network or
    experiment. Of two records the one with the higher (version, signer) wins.
    """

    network: str
    experiment: str
    version: int
    signer: str
    pinned: str = ""
    paused: tuple[str, ...] = ()
    forgotten: tuple[tuple[str, int], ...] = ()
    by: str = ""
    reason: str = ""
    signature: bytes = b""

    @property
    def rank(self) -> tuple[Any, ...]:
        """The order that decides which record wins.

        An operator's store restored from a copy can make one version twice: then the content
        decides, so that all agents still agree.
        """
        return self.version, self.signer, *self.settings, self.by, self.reason

    @property
    def settings(self) -> tuple[Any, ...]:
        """What the record sets, whoever said so."""
        return self.pinned, self.paused, self.forgotten

    @property
    def note(self) -> str:
        """Who gave the last command and why, in brackets, for the end of a sentence."""
        return describe_person(self.by, self.reason)

    @property
    def content(self) -> bytes:
        """The bytes that are signed; entries and statuses begin with other bytes."""
        fields = [self.network, self.experiment, self.version, self.signer, self.pinned]
        more = [self.paused, self.forgotten, self.by, self.reason]
        return b"posse control 2 " + json.dumps([*fields, *more]).encode()

    def with_pin(self, arm: str) -> Control:
        """Return a copy with this arm pinned, and no longer paused."""
        return replace(self, pinned=arm, paused=tuple(a for a in self.paused if a != arm))

    def with_pause(self, arm: str) -> Control:
        """Return a copy with this arm paused, and no longer pinned."""
        pinned = "" if self.pinned == arm else self.pinned
        return replace(self, pinned=pinned, paused=tuple(sorted({*self.paused, arm})))

    def with_resume(self, arm: str | None) -> Control:
        """Return a copy without pins and pauses of an arm; None: of all arms."""
        if arm is None:
            return replace(self, pinned="", paused=())
        pinned = "" if self.pinned == arm else self.pinned
        return replace(self, pinned=pinned, paused=tuple(a for a in self.paused if a != arm))

    def with_forgotten(self, agent: str, last_status: int) -> Control:
        """Return a copy in which this agent is forgotten, unless a later status of it comes."""
        others = [row for row in self.forgotten if row[0] != agent]
        # the names of agents that left longest ago make room
        latest = sorted(others, key=lambda row: row[1])[-(MOST_FORGOTTEN - 1) :]
        return replace(self, forgotten=tuple(sorted([*latest, (agent, last_status)])))

    def to_plain(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        lists = {"paused": list(self.paused), "forgotten": list(map(list, self.forgotten))}
        return {**vars(self), **lists, "signature": self.signature.hex()}

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Control:
        """Build a record from the values of `to_plain`."""
        forgotten = tuple((name, time) for name, time in data.get("forgotten", ()))
        tuples = {"paused": tuple(data["paused"]), "forgotten": forgotten}
        return cls(**{**data, **tuples, "signature": bytes.fromhex(data["signature"])})


@dataclass(frozen=True)
class ControlMessage:
    """The controls that an agent sends, oldest first."""

    controls: tuple[Control, ...]


def is_control(control: Control) -> bool:
    """Whether an untrusted record could have been made by `Controls`."""
    return (
        isinstance(control, Control)
        and all(is_name(name) for name in (control.network, control.experiment, control.signer))
        and is_whole(control.version, LARGEST - 1)
        and control.version > 0
        and (control.pinned == "" or is_name(control.pinned))
        and isinstance(control.paused, tuple)
        and len(control.paused) <= MOST_ARMS
        and all(map(is_name, control.paused))
        and list(control.paused) == sorted(set(control.paused))
        and control.pinned not in control.paused
        and _is_forgotten(control.forgotten)
        and is_note(control.by, LONGEST_NAME)
        and is_note(control.reason, LONGEST_REASON)
        and isinstance(control.signature, bytes)
    )


def is_note(text: object, longest: int) -> bool:
    """Whether a text can be the person or the reason of a command: one line, not too long."""
    return isinstance(text, str) and len(text) <= longest and bool(re.fullmatch(ONE_LINE, text))


def _is_forgotten(rows: object) -> bool:
    return (
        isinstance(rows, tuple)
        and len(rows) <= MOST_FORGOTTEN
        and all(isinstance(row, tuple) and len(row) == 2 for row in rows)
        and all(is_name(name) and is_whole(time) for name, time in rows)
        and (names := [name for name, _ in rows]) == sorted(set(names))
    )


# ---- Steps: old controls by which an agent that joins reaches a high version, 1000 at a time
#
# A version may be at most `AHEAD` of those known, so that one forged or mistaken number cannot use
# up all numbers. So that an agent that joins later can follow, agents store a few old records,
# each within `AHEAD` of the one before, and send them along. A step only proves that a version
# existed: its certificate may have expired.

AHEAD = 1000  # versions
MOST_STEPS = 100
MOST_BYTES = 200_000  # in one message; the others follow in turn


class VersionSteps:
    """The highest version that an operator signed, and the steps to it."""

    def __init__(self) -> None:
        self._steps: list[Control] = []  # the last one is the highest version
        self._turn = 0  # which are sent next

    @property
    def version(self) -> int:
        """The highest version known."""
        return self._steps[-1].version if self._steps else 0

    def within_reach(self, version: int) -> bool:
        """Whether a version is not too far ahead."""
        full = len(self._steps) >= MOST_STEPS and self._is_far(version)
        return version <= self.version + AHEAD and not full

    def add_version(self, control: Control) -> None:
        """Add a higher version; the highest before it stays if it is needed as a step."""
        if control.version <= self.version:
            return
        if self._steps and not self._is_far(control.version):
            self._steps.pop()
        self._steps.append(control)

    def _is_far(self, version: int) -> bool:
        """Whether the highest version must stay, because the one below is too far from this one."""
        below = self._steps[-2].version if len(self._steps) > 1 else 0
        return version - below > AHEAD

    def keep_signed_by(self, operators: Container[str]) -> None:
        """Drop the steps that other agents signed."""
        self._steps = [step for step in self._steps if step.signer in operators]

    def map_records(self, change: Callable[[Control], Control]) -> None:
        """Replace every record, such as by one with a new signature."""
        self._steps = [change(step) for step in self._steps]

    def next_batch(self) -> list[Control]:
        """Return as many steps as fit into a message; the next message gets the next ones."""
        batch: list[Control] = []
        size = 0
        # Round robin: a long list of steps reaches a new agent over several messages.
        for step in self._steps[self._turn :] + self._steps[: self._turn]:
            size += len(step.content) + len(step.signature)
            if batch and size > MOST_BYTES:
                break
            batch.append(step)
        if self._steps:
            self._turn = (self._turn + len(batch)) % len(self._steps)
        return batch

    def to_plain(self) -> list[dict[str, Any]]:
        """Return the steps as plain JSON values."""
        return [step.to_plain() for step in self._steps]

    def restore(self, data: list[dict[str, Any]]) -> None:
        """Return to the values of `to_plain`."""
        self._steps = [Control.from_plain(record) for record in data]
        self._turn = 0


# The answer about controls: the types that are built, sent over HTTP and documented.


class ControlAnswer(TypedDict):
    """A control record: the arms that an operator pinned or paused, and agents it forgot.

    by, reason: who gave the last command, and why; empty if that was not stated.
    """

    version: int
    signer: str
    pinned: str | None
    paused: list[str]
    forgotten: list[str]
    by: str
    reason: str


class ControlsAnswer(TypedDict):
    """Pinned and paused arms, and the records that they come from.

    unknown: arms that are named by a record but do not exist here. operator: whether commands given
    here apply to the whole network.
    """

    pinned: str | None
    paused: list[str]
    unknown: list[str]
    operator: bool
    network: ControlAnswer | None
    here: ControlAnswer | None
