"""What both exchanges share, sans-I/O: messages in, messages out, time is an argument.

An exchange is a replicated sum of evidence that neighbours keep in agreement (eventual
consistency): `Origins` knows whose evidence it is, `Flows` does not. Both have the same methods.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from posse.live.exchange.messages import Message
from posse.live.ledger import Bounds, Epochs

Outgoing = list[tuple[str, Message]]  # (name of the neighbour, message)


@dataclass(frozen=True)
class NeighbourStatus:
    """What an agent knows of one neighbour."""

    identity: str | None  # None until it has been heard, or where identities do not matter
    active: bool  # whether the edge is in use at this end
    last_heard: float | None  # the `now` of its last accepted message since this process began
    lag: int | None  # entries or versions that it is not known to hold; None before it was heard


class ExchangeBase(ABC):
    """The identity, the bounds, the time and the small durable parts of an exchange.

    Save the state before sending what `tick` or `receive` returns.
    """

    def __init__(
        self,
        *,
        fingerprint: str,
        bounds: Sequence[float],  # the most that a pull adds to each coordinate
        closed: int = 0,  # how many of the first coordinates come again, for closed decisions
        features: int = 0,  # of contexts, whose Gram matrix is the last of these
        side: float | None = None,  # the largest observation of a side row; None: there are none
        identity: str | None = None,
        network: str = "",
        experiment: str = "",  # part of the fingerprint
        draw: Callable[[int], int] = secrets.randbits,
        half_life: float | None = None,  # seconds in which evidence fades to a half
        clock: Callable[[], float] = time.time,  # for the time before the first tick alone
        monotonic: Callable[[], float] | None = None,  # by which a clock that jumps is known
    ) -> None:
        """Nothing observed yet; without an identity one is drawn."""
        if side is not None and half_life is not None:
            raise ValueError("side rows do not fade: half_life must be None")
        self.identity = identity or f"{draw(128):032x}"
        self.fingerprint = fingerprint
        self.network = network
        self.refusals: Counter[str] = Counter()  # reason -> messages or entries refused for it
        self.reward_window: float | None = None  # seconds after which no decision is open
        self.tick_seconds = 1.0  # between two ticks
        self._bounds = Bounds(tuple(bounds), closed, half_life is not None, features, side)
        self._epochs = Epochs(half_life, clock, monotonic, self.refusals)
        self._draw = draw
        self._written: dict[str, Any] = {}  # small parts, as they were last written
        self._saved: dict[str, Any] = {}  # small parts, as they are on disk

    def state(self) -> dict[str, Any]:
        """All durable parts, flat, in plain JSON; a part that changed is a new object."""
        self._written = self._small_parts()
        return dict(self._written)

    def changes(self) -> dict[str, Any]:
        """The parts that changed since the last `state`, `changes` or `restore`; None: gone."""
        parts = self._small_parts()
        changed = {name: part for name, part in parts.items() if part != self._written.get(name)}
        self._written = parts
        return changed

    def commit(self) -> None:
        """Note that all changes so far are on disk."""
        self._saved = self._written

    @abstractmethod
    def _small_parts(self) -> dict[str, Any]:
        """Return the durable parts that are few."""
