"""A control: the record of which arm is pinned and which are paused, as operators sign it."""

from __future__ import annotations

import json
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
