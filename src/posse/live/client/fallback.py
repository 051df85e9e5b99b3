"""The arm that a client plays when no agent answers in time: recorded nowhere."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from posse import checks
from posse.live.agent import Decision
from posse.live.client.calls import Call, Reward
from posse.live.store.records import text

REMEMBERED = 100_000  # ids of decisions, of which the oldest is forgotten first
UNAVAILABLE = (ConnectionError, RuntimeError)  # such as a StoreError

T = TypeVar("T")

log = logging.getLogger(__name__)


class Fallback:
    """Decisions without an agent, for callers that cannot wait; arm None: there are none."""

    def __init__(self, arm: str | None, after: float) -> None:
        self.arm = None if arm is None else text("fallback", arm)
        self._after = checks.number("fallback_after", after, above=0)
        self.away = False  # whether the agent was so when last asked: then it is tried only once
        self._ids: dict[str | None, None] = {}
        self._lock = threading.Lock()  # of changes to them: threads share a client

    @property
    def hurry(self) -> float | None:
        """After how many seconds a decision has to be there; None: there is no hurry."""
        return None if self.arm is None else self._after

    def decision(
        self, call: Call[Decision], allowed: Sequence[str] | None, id_: str | None
    ) -> Call[Decision]:
        """A call for a decision, and the fallback in its place."""
        return (yield from self._instead(call, allowed, id_, lambda made: made))

    def decisions(
        self, call: Call[list[Decision]], allowed: Sequence[str] | None, count: int
    ) -> Call[list[Decision]]:
        """A call for some decisions, and fallbacks in their place."""
        return (yield from self._instead(call, allowed, None, lambda made: [made] * count))

    def known(self, decision: Decision | str) -> Decision | str:
        """The decision, or the fallback that was played under this id."""
        if self.arm is None or not isinstance(decision, str):
            return decision
        return self._made() if decision == "" or decision in self._ids else decision

    def known_of(self, rewards: Iterable[Reward]) -> list[Reward]:
        """The same for many."""
        return [(self.known(decision), reward) for decision, reward in rewards]

    def _instead(
        self,
        call: Call[T],
        allowed: Sequence[str] | None,
        id_: str | None,
        given: Callable[[Decision], T],
    ) -> Call[T]:
        try:
            made = yield from call
        except UNAVAILABLE as error:
            if self.arm is None or (allowed is not None and self.arm not in allowed):
                raise
            self._note(error)
            if id_ is not None:  # the agent may have decided under this id, and answered too late
                with self._lock:
                    self._ids[id_] = None
                    if len(self._ids) > REMEMBERED:
                        del self._ids[next(iter(self._ids))]
            return given(self._made())
        if self.away:
            log.warning("the agent answers again")
        self.away = False
        if id_ in self._ids:
            with self._lock:
                self._ids.pop(id_, None)
        return made

    def _note(self, error: Exception) -> None:
        """Say it once: every visitor is served like this until the agent is back."""
        if not self.away:
            log.warning("%s; %r is played meanwhile, and recorded nowhere", error, self.arm)
        self.away = True

    def _made(self) -> Decision:
        return Decision("", self.arm or "", 1.0, recorded=False)
