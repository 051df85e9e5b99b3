"""The answer about controls: the types that are built, sent over HTTP and documented."""

from __future__ import annotations

from typing import TypedDict


class ControlAnswer(TypedDict):
    """A control record: the arms that an operator pinned or paused."""

    version: int
    signer: str
    pinned: str | None
    paused: list[str]


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
