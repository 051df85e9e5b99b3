"""The interface of exchanges, sans-I/O: messages in, messages out, time is an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posse.live.exchange.messages import Message
from posse.live.exchange.side_rows import Cell

Outgoing = list[tuple[str, Message]]  # (name of the neighbour, message)


@dataclass(frozen=True)
class NeighbourStatus:
    """What an agent knows of one neighbour."""

    identity: str | None  # None until it has been heard, or where identities do not matter
    active: bool  # whether the edge is in use at this end
    last_heard: float | None  # the `now` of its last accepted message since this process began
    lag: int | None  # entries or versions that it is not known to hold; None before it was heard


class Exchange(Protocol):
    """A replicated sum of evidence that neighbours keep in agreement (eventual consistency).

    What has a default here is for exchanges that know whose evidence it is: `Origins`.
    """

    identity: str
    fingerprint: str
    refusals: Counter[str]  # reason -> how many messages (or entries) were refused for it

    @property
    def revision(self) -> int:
        """A number that rises whenever `evidence` changes, so that beliefs can be kept."""

    reward_window: float | None  # seconds after which no decision is open; None: never

    def incarnation(self) -> int:
        """Return the present incarnation, to which new decisions belong (0: there are none)."""
        return 0

    def begin_decision(self, arm: str, side_rows: Sequence[str] = ()) -> int:
        """Note that a decision is made now; returns the incarnation that it belongs to for ever.

        side_rows: the names of those to which something of it may be added.
        """
        return 0

    def observe_side(self, name: str, cell: Sequence[int], incarnation: int = 0) -> None:
        """Add an observation of an own decision, in quanta, to a side row, which no belief reads.

        cell: its value, its square and a count of 1.
        """
        raise ValueError("this exchange has no side rows: its sums are estimates")

    def side_cells(self) -> dict[tuple[str, ...], Cell]:
        """The side rows of all agents, by the parts of their names."""
        return {}

    def own_side_cells(self) -> dict[tuple[str, ...], Cell]:
        """The side rows of this agent."""
        return {}

    def observe(
        self, arm: str, statistic: Sequence[int], incarnation: int = 0, at: float | None = None
    ) -> None:
        """Add a part of an own decision, in quanta, its last coordinate the count.

        A count of -1 takes back an open decision that is cancelled, with what it counted so far.
        incarnation: that of its decision (0: the present one); at: the time of the decision.
        """

    def is_superseded(self, incarnation: int) -> bool:
        """Whether decisions of an incarnation no longer count here: another copy has them."""
        return False

    def warnings(self) -> list[str]:
        """Return the sentences to log since the last call: a restored copy, a second agent."""
        return []

    def by_origin(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The evidence of each origin, where it is known whose it is."""
        return {}

    def pulls_by_origin(self) -> dict[str, int]:
        """How many pulls of each origin count here, over all arms."""
        return {}

    def evidence(self) -> dict[str, tuple[int, ...]]:
        """What the belief adds to its prior, in quanta."""

    def is_current(self) -> bool:
        """Whether all evidence that neighbours announced is here, with all it builds on."""
        return True

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
        return message

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Process a neighbour's message, raw or examined; save the state before sending answers."""

    def needs_compaction(self) -> bool:
        """Whether old evidence may be compacted, if `compact` is told which decisions are open."""
        return False

    def compact(self, open_incarnations: Collection[int]) -> None:
        """Compact the evidence of old incarnations, but not of those with open decisions."""

    def state(self) -> dict[str, Any]:
        """All durable parts, flat, in plain JSON; a part that changed is a new object."""

    def changes(self) -> dict[str, Any]:
        """The parts that changed since the last `state`, `changes` or `restore`; None: gone."""

    def commit(self) -> None:
        """Note that all changes so far are on disk."""

    def rollback(self) -> None:
        """Return to the last `commit`: what came later could not be written."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from saved parts, in a new process."""

    def known(self) -> frozenset[str]:
        """Return the identities of all agents ever seen, its own included."""

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """The status of every edge, by the neighbour's name."""
