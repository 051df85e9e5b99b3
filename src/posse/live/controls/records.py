"""A control: the record of which arm is pinned and which are paused, as operators sign it."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any

from posse.live.exchange.ledger import LARGEST, MOST_ARMS, is_name, is_whole


@dataclass(frozen=True)
class Control:
    """What holds from a version on: one arm pinned ("": none), some paused (sorted).

    The signature covers all the rest, so that no record can be replayed into another network or
    experiment. Of two records the one with the higher (version, signer) wins.
    """

    network: str
    experiment: str
    version: int
    signer: str
    pinned: str = ""
    paused: tuple[str, ...] = ()
    signature: bytes = b""

    @property
    def rank(self) -> tuple[int, str, str, tuple[str, ...]]:
        """What decides which record wins.

        An operator's disk set back can make one version twice: then the content decides, so that
        all agents still agree.
        """
        return self.version, self.signer, self.pinned, self.paused

    @property
    def content(self) -> bytes:
        """The bytes that are signed; entries and other records begin otherwise."""
        fields = [self.network, self.experiment, self.version, self.signer, self.pinned]
        return b"posse control 1 " + json.dumps([*fields, self.paused]).encode()

    def pinning(self, arm: str) -> Control:
        """The same with one arm pinned, which is then no longer paused."""
        return replace(self, pinned=arm, paused=tuple(a for a in self.paused if a != arm))

    def pausing(self, arm: str) -> Control:
        """The same with one more arm paused, which is then no longer pinned."""
        pinned = "" if self.pinned == arm else self.pinned
        return replace(self, pinned=pinned, paused=tuple(sorted({*self.paused, arm})))

    def resuming(self, arm: str | None) -> Control:
        """The same without what holds for an arm; None: for all."""
        if arm is None:
            return replace(self, pinned="", paused=())
        pinned = "" if self.pinned == arm else self.pinned
        return replace(self, pinned=pinned, paused=tuple(a for a in self.paused if a != arm))

    def plain(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return {**vars(self), "paused": list(self.paused), "signature": self.signature.hex()}

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Control:
        """The record that was made plain."""
        signature = bytes.fromhex(data["signature"])
        return cls(**{**data, "paused": tuple(data["paused"]), "signature": signature})


@dataclass(frozen=True)
class ControlMessage:
    """The controls that an agent holds, oldest first."""

    controls: tuple[Control, ...]


def is_control(control: Control) -> bool:
    """Whether a stranger's record could have been made by `Controls`."""
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
        and isinstance(control.signature, bytes)
    )


# Steps: old controls by which an agent that joins gets to a high version, 1000 at a time.
#
# A version may be at most `AHEAD` of what is known, so that one forged or mistaken number cannot
# use up all numbers. So that whoever comes later can follow, agents keep a few of the old
# records, each within `AHEAD` of the one before, and send them along. A step says only which
# versions there were: its certificate may have ended.

AHEAD = 1000  # versions
MOST = 100
MOST_BYTES = 200_000  # in one message; the others follow in turn


class Steps:
    """The highest version that an operator signed, and the way to it."""

    def __init__(self) -> None:
        self._steps: list[Control] = []  # the last one is the highest version
        self._turn = 0  # which are sent next

    @property
    def version(self) -> int:
        """The highest version known."""
        return self._steps[-1].version if self._steps else 0

    def within_reach(self, version: int) -> bool:
        """Whether a version is not too far ahead."""
        full = len(self._steps) >= MOST and self._is_far(version)
        return version <= self.version + AHEAD and not full

    def climb(self, control: Control) -> None:
        """Know a higher version; the highest before it stays where it is needed as a step."""
        if control.version <= self.version:
            return
        if self._steps and not self._is_far(control.version):
            self._steps.pop()
        self._steps.append(control)

    def _is_far(self, version: int) -> bool:
        """Whether the highest version must stay, for the one below it is too far from this."""
        below = self._steps[-2].version if len(self._steps) > 1 else 0
        return version - below > AHEAD

    def keep(self, operators: Container[str]) -> None:
        """Drop what others signed."""
        self._steps = [each for each in self._steps if each.signer in operators]

    def change(self, change: Callable[[Control], Control]) -> None:
        """Change every record, as by a new signature."""
        self._steps = [change(each) for each in self._steps]

    def some(self) -> list[Control]:
        """As many as fit into a message; with the next message the next ones."""
        chosen: list[Control] = []
        size = 0
        for each in self._steps[self._turn :] + self._steps[: self._turn]:
            size += len(each.content) + len(each.signature)
            if chosen and size > MOST_BYTES:
                break
            chosen.append(each)
        if self._steps:
            self._turn = (self._turn + len(chosen)) % len(self._steps)
        return chosen

    def plain(self) -> list[dict[str, Any]]:
        """As JSON would give it back."""
        return [each.plain() for each in self._steps]

    def restore(self, data: list[dict[str, Any]]) -> None:
        """Go back to what was made plain."""
        self._steps = [Control.from_plain(each) for each in data]
        self._turn = 0
