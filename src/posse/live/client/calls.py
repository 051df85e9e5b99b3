"""The calls of a client without I/O: which requests each needs, and what the answers mean.

A call is a generator: it yields a request, is sent the answer, and returns what the caller gets.
`Client` and `AsyncClient` differ only in how they send.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from posse import validation
from posse.live.agent.agent import Decision
from posse.live.store import Conflict, Unknown
from posse.live.store.records import number, text

BATCH = 500  # items of one request

T = TypeVar("T")
Reward = tuple[Decision | str, float]
Told = bool | ValueError  # of a reward: what `update` returns, or the error it would raise
Request = tuple[str, str, Any]  # method, path below /v1 or that of the experiment, body
Call = Generator[Request, Any, T]
Context = Mapping[str, Any]
Quanta = dict[str, dict[str, tuple[int, ...]]]


def pull(
    allowed: Sequence[str] | None, decision: str | None, context: Context | None = None
) -> Call[Decision]:
    """Which arm to play."""
    return _decision((yield "POST", "/decisions", _wish(allowed, decision, context)))


def update(decision: Decision | str, reward: float) -> Call[bool]:
    """How a decision went."""
    value = number("reward", reward)
    id_ = _id(decision)
    if not id_:
        return False
    if id_ in (".", ".."):  # they would be taken for a folder
        raise Unknown(f"there is no decision {id_!r}: check the id")
    answer = yield "POST", f"/decisions/{quote(id_, safe='')}/reward", {"reward": value}
    return not answer["repeated"]


def pull_all(
    count: int, allowed: Sequence[str] | None, contexts: Sequence[Context] | None = None
) -> Call[list[Decision]]:
    """Many decisions."""
    made: list[Decision] = []
    wishes = _wishes(count, allowed, contexts)
    for first in range(0, len(wishes), BATCH):
        asked = {"decisions": wishes[first : first + BATCH]}
        answer = yield "POST", "/decisions/batch", asked
        made += map(_decision, answer["decisions"])
    return made


def update_all(rewards: Iterable[Reward]) -> Call[list[Told]]:
    """Many rewards; all are looked at before the first is sent."""
    items = _items(rewards)
    told = yield from _send(items, len(items))
    return _in_place(items, told)


def step(
    rewards: Iterable[Reward],
    allowed: Sequence[str] | None,
    decision: str | None,
    context: Context | None = None,
) -> Call[tuple[Decision, list[Told]]]:
    """How decisions went, and which arm to play next, in one commit."""
    answer, told = yield from _step(rewards, _wish(allowed, decision, context))
    return _decision(answer["decision"]), told


def step_all(
    rewards: Iterable[Reward],
    count: int,
    allowed: Sequence[str] | None,
    contexts: Sequence[Context] | None = None,
) -> Call[tuple[list[Decision], list[Told]]]:
    """How decisions went, and many new ones; the first 500 of each in one commit."""
    wishes = _wishes(count, allowed, contexts)
    answer, told = yield from _step(rewards, wishes[:BATCH])
    made = [*map(_decision, answer["decisions"])]
    rest = None if contexts is None else contexts[BATCH:]
    return made + (yield from pull_all(count - len(made), allowed, rest)), told


def arms(context: Context | None = None) -> Call[dict[str, dict[str, float]]]:
    """What is known of every arm."""
    if context is None:
        return dict((yield "GET", "/arms", None))
    return dict((yield "POST", "/arms", {"context": dict(context)}))


def verdict() -> Call[dict[str, Any]]:
    """Whether the experiment may stop."""
    return dict((yield "GET", "/verdict", None))


def evidence() -> Call[Quanta]:
    """In quanta: what the agent saw itself, and what it holds of all."""
    answer = yield "GET", "/evidence", None
    return {
        whose: {arm: tuple(quanta) for arm, quanta in held.items()}
        for whose, held in answer.items()
    }


def books() -> Call[dict[str, Any]]:
    """Decisions counted beside the pulls in the evidence."""
    return dict((yield "GET", "/books", None))


def history(scale: str) -> Call[dict[str, Any]]:
    """Pulls and rewards over time."""
    return dict((yield "GET", f"/history/{quote(text('scale', scale), safe='')}", None))


def controls() -> Call[dict[str, Any]]:
    """What is pinned and paused, and by whom."""
    return dict((yield "GET", "/controls", None))


def show(path: str) -> Call[dict[str, Any]]:
    """What an agent shows of itself as a whole."""
    return dict((yield "GET", f"/v1{path}", None))


def order(command: str, arm: str | None = None) -> Call[dict[str, Any]]:
    """An operator's command for the experiment: pin, pause, resume."""
    body = {} if arm is None else {"arm": text("arm", arm)}
    return dict((yield "POST", f"/{command}", body))


def reload() -> Call[dict[str, Any]]:
    """An operator's command to read agent.toml again."""
    return dict((yield "POST", "/v1/reload", {}))


def advance(call: Call[T], answer: Any) -> Request:
    """The next request of a call, told the answer to the last one or the error in its place."""
    return call.throw(answer) if isinstance(answer, Exception) else call.send(answer)


def refusal(status: int, sentence: str) -> ValueError:
    """The error that an agent's refusal means."""
    return {404: Unknown, 409: Conflict}.get(status, ValueError)(sentence)


def _step(rewards: Iterable[Reward], decide: Any) -> Call[tuple[Any, list[Told]]]:
    """Rewards and a wish in one request; rewards that do not fit go before it."""
    items = _items(rewards)
    kept = [item for item in items if item is not None]
    first = max(0, len(kept) - BATCH)
    told = yield from _send(items, first)
    answer = yield "POST", "/steps", {"rewards": kept[first:], "decide": decide}
    return answer, _in_place(items, [*told, *map(_settled, answer["rewards"])])


def _items(rewards: Iterable[Reward]) -> list[dict[str, Any] | None]:
    """The rewards as they are sent; None in place of those of fallbacks, which nobody knows."""
    items: list[dict[str, Any] | None] = []
    for decision, reward in rewards:
        value = number("reward", reward)
        id_ = _id(decision)
        items.append({"decision": id_, "reward": value} if id_ else None)
    return items


def _send(items: Sequence[dict[str, Any] | None], count: int) -> Call[list[Told]]:
    """Send the first of some rewards."""
    kept = [item for item in items if item is not None][:count]
    told: list[Told] = []
    for first in range(0, len(kept), BATCH):
        answer = yield "POST", "/rewards", {"rewards": kept[first : first + BATCH]}
        told += map(_settled, answer["rewards"])
    return told


def _in_place(items: Sequence[dict[str, Any] | None], told: Sequence[Told]) -> list[Told]:
    """What was told of each, and False for those that were not sent."""
    answers = iter(told)
    return [False if item is None else next(answers) for item in items]


def _wish(
    allowed: Sequence[str] | None, decision: str | None = None, context: Context | None = None
) -> dict[str, Any]:
    """The request of a decision, with an id that makes it idempotent, so that it may be retried."""
    if isinstance(allowed, str):
        raise ValueError(f"allowed must be a list of arms, got {allowed!r}")
    wish: dict[str, Any] = {"decision": secrets.token_hex(16) if decision is None else decision}
    if allowed is not None:
        wish["allowed"] = list(allowed)
    if context is not None:
        wish["context"] = dict(context)
    return wish


def _wishes(
    count: int, allowed: Sequence[str] | None, contexts: Sequence[Context] | None
) -> list[dict[str, Any]]:
    """The requests of so many decisions."""
    if contexts is None:
        return [_wish(allowed) for _ in range(count)]
    if len(contexts) != count:
        raise ValueError(f"contexts must be {count}, one for each decision, got {len(contexts)}")
    return [_wish(allowed, context=context) for context in contexts]


def _id(decision: Decision | str) -> str:
    """The id of a decision; empty for a fallback, which no agent knows."""
    if isinstance(decision, Decision):
        return text("decision", decision.id) if decision.recorded else ""
    return text("decision", decision)


def _decision(item: Any) -> Decision:
    if "error" in item:
        raise refusal(item["status"], item["error"])
    return Decision(item["decision"], item["arm"], item["probability"])


def _settled(item: Any) -> Told:
    return refusal(item["status"], item["error"]) if "error" in item else not item["repeated"]


# The arm that a client plays when no agent answers in time: recorded nowhere.

REMEMBERED = 100_000  # ids of decisions, of which the oldest is forgotten first
UNAVAILABLE = (ConnectionError, RuntimeError)  # such as a StoreError


log = logging.getLogger(__name__)


class Fallback:
    """Decisions without an agent, for callers that cannot wait; arm None: there are none."""

    def __init__(self, arm: str | None, after: float) -> None:
        self.arm = None if arm is None else text("fallback", arm)
        self._after = validation.validate_number("fallback_after", after, above=0)
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
