"""The interface of exchanges, sans-I/O: messages in, messages out, time is an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posse.live.exchange.messages import Message

Outgoing = list[tuple[str, Message]]  # (name of the neighbour, message)


@dataclass(frozen=True)
class NeighbourStatus:
    """What an agent knows of one neighbour."""

    identity: str | None  # None until it has been heard, or where identities do not matter
    active: bool  # whether the edge is in use at this end
    last_heard: float | None  # the `now` of its last accepted message since this process began
    lag: int | None  # entries or versions that it is not known to hold; None before it was heard


class Exchange(Protocol):
    """A replicated sum of evidence that neighbours keep in agreement (eventual consistency)."""

    identity: str
    fingerprint: str
    refusals: Counter[str]  # reason -> how many messages (or entries) were refused for it

    @property
    def revision(self) -> int:
        """A number that rises whenever `evidence` changes, so that beliefs can be kept."""

    @property
    def void_through(self) -> int:
        """Durable: decisions made up to this incarnation that were open then are void (0: none)."""

    def observe(
        self, arm: str, statistic: Sequence[int], *, made: int = 0, at: float | None = None
    ) -> int:
        """Add one's own evidence, in quanta, its last coordinate the count.

        made: the incarnation that the decision of a reward was made in, at: its time.  What comes
        back is the incarnation that it was counted in (0: there are none).
        """

    def incarnation(self) -> int:
        """One's own present incarnation, for decisions to be known by (0: there are none)."""

    def by_origin(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The evidence of each origin, where it is known whose it is."""

    def pulls_by_origin(self) -> dict[str, int]:
        """How many pulls of each origin count here, over all arms."""

    def evidence(self) -> dict[str, tuple[int, ...]]:
        """What the belief adds to its prior, in quanta."""

    def is_current(self) -> bool:
        """Whether all evidence that neighbours announced is here, with all it builds on."""

    def own(self) -> dict[str, tuple[int, ...]]:
        """Return all evidence that this agent observed itself."""

    def connect(self, peer: str) -> None:
        """Begin, or resume, to exchange with the agent of this name."""

    def disconnect(self, peer: str) -> None:
        """Stop exchanging with the agent of this name; nothing is forgotten."""

    def tick(self, now: float) -> Outgoing:
        """What to send now; save the state first."""

    def examine(self, message: object) -> object:
        """The expensive checks of a message; needs no lock, whatever others do meanwhile."""

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Process a neighbour's message, raw or examined; save the state before sending answers."""

    def state(self) -> dict[str, Any]:
        """All durable parts, flat, in plain JSON; a part that changed is a new object."""

    def changes(self) -> dict[str, Any]:
        """The parts that changed since the last `state`, `changes` or `restore`; None: gone."""

    def restore(self, state: Mapping[str, Any], clean: bool = False) -> None:
        """Continue from saved parts; `clean`: this very process goes back after a failed commit."""

    def known(self) -> frozenset[str]:
        """Return the identities of all agents ever seen, its own included."""

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """The status of every edge, by the neighbour's name."""
