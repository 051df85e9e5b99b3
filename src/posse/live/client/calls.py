"""The calls of a client without I/O: the requests of each, and the meaning of the answers.

A call is a generator: it yields a request, is sent the answer, and returns the caller's result.
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
from posse.live.agent import Decision
from posse.live.store import Conflict, Transition, Unknown, validate_number, validate_text

MAX_BATCH_ITEMS = 500  # items of one request
UNRECORDED = "a fallback decision is recorded nowhere: no agent knows it"

T = TypeVar("T")
Reward = tuple[Decision | str, float]
RewardResult = bool | ValueError  # of a reward: what `update` returns, or the error it would raise
Request = tuple[str, str, Any]  # method, path below /v1 or that of the experiment, body
Call = Generator[Request, Any, T]
Context = Mapping[str, Any]
Quanta = dict[str, dict[str, tuple[int, ...]]]


def pull_arm(
    allowed: Sequence[str] | None,
    decision: str | None,
    context: Context | None = None,
    visitor: str | None = None,
    activate: bool = True,
) -> Call[Decision]:
    """Request a decision."""
    request = _decision_request(allowed, decision, context, visitor, activate)
    return _decode_decision((yield "POST", "/decisions", request))


def send_reward(
    decision: Decision | str, reward: float, metrics: Mapping[str, float] | None = None
) -> Call[bool]:
    """Send the reward of a decision, and perhaps metrics of it."""
    body: dict[str, Any] = {"reward": validate_number("reward", reward)}
    if metrics is not None:
        body["metrics"] = _validate_metrics(metrics)
    path = _decision_path(decision)
    if not path:
        return False
    answer = yield "POST", f"{path}/reward", body
    return not answer["repeated"]


def send_metrics(decision: Decision | str, metrics: Mapping[str, float]) -> Call[bool]:
    """Send metrics of a decision without its reward."""
    values = _validate_metrics(metrics)
    path = _decision_path(decision)
    if not path:
        return False
    answer = yield "POST", f"{path}/metrics", {"metrics": values}
    return not answer["repeated"]


def _validate_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: validate_number(f"metrics.{name}", value) for name, value in metrics.items()}


def send_transition(decision: Decision | str, transition: Transition) -> Call[bool]:
    """Activate or cancel a decision; False if that was done before, or there is no decision."""
    path = _decision_path(decision)
    if not path:
        return False
    answer = yield "POST", f"{path}/{transition}", {}
    return not answer["repeated"]


def get_decision(decision: Decision | str) -> Call[dict[str, Any]]:
    """Get a decision: its arm, state, times, context and reward."""
    path = _decision_path(decision)
    if not path:
        raise Unknown(UNRECORDED)
    return dict((yield "GET", path, None))


def erase_decision(
    decision: Decision | str, by: str = "", reason: str = ""
) -> Call[dict[str, Any]]:
    """Delete a decision from the store of the agent."""
    path = _decision_path(decision)
    if not path:
        raise Unknown(UNRECORDED)
    id_ = decision if isinstance(decision, str) else decision.id
    return dict((yield "POST", "/erasures", {"decision": id_, "by": by, "reason": reason}))


def erase_visitor(visitor: str, by: str = "", reason: str = "") -> Call[dict[str, Any]]:
    """Delete all decisions for a visitor from the store of the agent."""
    body = {"visitor": validate_text("visitor", visitor), "by": by, "reason": reason}
    return dict((yield "POST", "/erasures", body))


def pull_arms(
    count: int,
    allowed: Sequence[str] | None,
    contexts: Sequence[Context] | None = None,
    visitors: Sequence[str] | None = None,
    activate: bool = True,
) -> Call[list[Decision]]:
    """Request many decisions."""
    decisions: list[Decision] = []
    # The ids are drawn here, so that a retry repeats them and is recognised (deduplication).
    wishes = _decision_requests(count, allowed, contexts, visitors, activate)
    for first in range(0, len(wishes), MAX_BATCH_ITEMS):
        body = {"decisions": wishes[first : first + MAX_BATCH_ITEMS]}
        answer = yield "POST", "/decisions/batch", body
        decisions += map(_decode_decision, answer["decisions"])
    return decisions


def send_rewards(rewards: Iterable[Reward]) -> Call[list[RewardResult]]:
    """Send many rewards; all are validated before the first is sent."""
    items = _encode_rewards(rewards)
    results = yield from _send_first(items, len(items))
    return _insert_skipped(items, results)


def send_and_pull(
    rewards: Iterable[Reward],
    allowed: Sequence[str] | None,
    decision: str | None,
    context: Context | None = None,
    visitor: str | None = None,
    activate: bool = True,
) -> Call[tuple[Decision, list[RewardResult]]]:
    """Send rewards and request the next decision, in one commit."""
    request = _decision_request(allowed, decision, context, visitor, activate)
    answer, results = yield from _send_step(rewards, request)
    return _decode_decision(answer["decision"]), results


def send_and_pull_all(
    rewards: Iterable[Reward],
    count: int,
    allowed: Sequence[str] | None,
    contexts: Sequence[Context] | None = None,
    visitors: Sequence[str] | None = None,
    activate: bool = True,
) -> Call[tuple[list[Decision], list[RewardResult]]]:
    """Send rewards and request many decisions; the first 500 of each in one commit."""
    wishes = _decision_requests(count, allowed, contexts, visitors, activate)
    answer, results = yield from _send_step(rewards, wishes[:MAX_BATCH_ITEMS])
    decisions = [*map(_decode_decision, answer["decisions"])]
    later_contexts = None if contexts is None else contexts[MAX_BATCH_ITEMS:]
    later_visitors = None if visitors is None else visitors[MAX_BATCH_ITEMS:]
    return decisions + (
        yield from pull_arms(
            count - len(decisions), allowed, later_contexts, later_visitors, activate
        )
    ), results


def get_arms(context: Context | None = None) -> Call[dict[str, dict[str, float]]]:
    """Get the estimate of every arm."""
    if context is None:
        return dict((yield "GET", "/arms", None))
    return dict((yield "POST", "/arms", {"context": dict(context)}))


def get_verdict() -> Call[dict[str, Any]]:
    """Get whether the experiment may stop."""
    return dict((yield "GET", "/verdict", None))


def get_uplift() -> Call[dict[str, Any]]:
    """Get what the bandit earned beyond the control arm."""
    return dict((yield "GET", "/uplift", None))


def get_guardrails() -> Call[list[dict[str, Any]]]:
    """Get every metric of every arm, and which limits are breached."""
    return list((yield "GET", "/guardrails", None)["metrics"])


def get_evidence() -> Call[Quanta]:
    """Get the evidence in quanta: the agent's own, and that of all agents."""
    answer = yield "GET", "/evidence", None
    return {
        whose: {arm: tuple(quanta) for arm, quanta in by_arm.items()}
        for whose, by_arm in answer.items()
    }


def get_audit() -> Call[dict[str, Any]]:
    """Get the decisions counted beside those in the evidence."""
    return dict((yield "GET", "/audit", None))


def get_history(scale: str) -> Call[dict[str, Any]]:
    """Get decisions and rewards over time."""
    return dict((yield "GET", f"/history/{quote(validate_text('scale', scale), safe='')}", None))


def get_events() -> Call[list[dict[str, Any]]]:
    """Get the newest events of the experiment, oldest first."""
    return list((yield "GET", "/events", None)["events"])


def get_controls() -> Call[dict[str, Any]]:
    """Get pinned and paused arms, and whose controls they are."""
    return dict((yield "GET", "/controls", None))


def get_view(path: str) -> Call[dict[str, Any]]:
    """Get a view of the agent as a whole."""
    return dict((yield "GET", f"/v1{path}", None))


def send_command(
    command: str, arm: str | None = None, by: str = "", reason: str = ""
) -> Call[dict[str, Any]]:
    """Send an operator's command for the experiment: pin, pause, resume."""
    body = {} if arm is None else {"arm": validate_text("arm", arm)}
    return dict((yield "POST", f"/{command}", body | _state_author(by, reason)))


def forget_agent(agent: str, by: str = "", reason: str = "") -> Call[dict[str, Any]]:
    """Send an operator's command to leave an agent out of views of the network."""
    body = {"agent": validate_text("agent", agent)}
    return dict((yield "POST", "/v1/forget", body | _state_author(by, reason)))


def _state_author(by: str, reason: str) -> dict[str, str]:
    """Return who gives a command and why, as far as stated."""
    return {name: text for name, text in (("by", by), ("reason", reason)) if text}


def reload_settings() -> Call[dict[str, Any]]:
    """Send an operator's command to read agent.toml again."""
    return dict((yield "POST", "/v1/reload", {}))


def next_request(call: Call[T], answer: Any) -> Request:
    """Advance a call with the answer to its last request, or the error in its place."""
    return call.throw(answer) if isinstance(answer, Exception) else call.send(answer)


def refusal_error(status: int, sentence: str) -> ValueError:
    """Return the exception of an agent's refusal."""
    return {404: Unknown, 409: Conflict}.get(status, ValueError)(sentence)


def _send_step(rewards: Iterable[Reward], decide: Any) -> Call[tuple[Any, list[RewardResult]]]:
    """Send rewards and a decision request together; rewards that do not fit are sent before it."""
    items = _encode_rewards(rewards)
    recorded = [item for item in items if item is not None]
    # The last rewards go with the decision request and the earlier ones before it, so that the
    # agent gets them in the order of the caller.
    first = max(0, len(recorded) - MAX_BATCH_ITEMS)
    results = yield from _send_first(items, first)
    answer = yield "POST", "/steps", {"rewards": recorded[first:], "decide": decide}
    return answer, _insert_skipped(items, [*results, *map(_decode_result, answer["rewards"])])


def _encode_rewards(rewards: Iterable[Reward]) -> list[dict[str, Any] | None]:
    """Encode rewards; None in place of those of fallback decisions, which no agent knows."""
    items: list[dict[str, Any] | None] = []
    for decision, reward in rewards:
        value = validate_number("reward", reward)
        id_ = _recorded_id(decision)
        items.append({"decision": id_, "reward": value} if id_ else None)
    return items


def _send_first(items: Sequence[dict[str, Any] | None], count: int) -> Call[list[RewardResult]]:
    """Send the first of some rewards."""
    recorded = [item for item in items if item is not None][:count]
    results: list[RewardResult] = []
    for first in range(0, len(recorded), MAX_BATCH_ITEMS):
        answer = yield "POST", "/rewards", {"rewards": recorded[first : first + MAX_BATCH_ITEMS]}
        results += map(_decode_result, answer["rewards"])
    return results


def _insert_skipped(
    items: Sequence[dict[str, Any] | None], results: Sequence[RewardResult]
) -> list[RewardResult]:
    """Insert False for the rewards that were not sent."""
    answers = iter(results)
    return [False if item is None else next(answers) for item in items]


def _decision_request(
    allowed: Sequence[str] | None,
    decision: str | None = None,
    context: Context | None = None,
    visitor: str | None = None,
    activate: bool = True,
) -> dict[str, Any]:
    """Build a decision request, with an id that makes it idempotent and so safe to retry."""
    if isinstance(allowed, str):
        raise ValueError(f"allowed must be a list of arms, got {allowed!r}")
    # 128 random bits: no two clients draw the same id. A retry with the id gets the stored
    # decision.
    request: dict[str, Any] = {"decision": secrets.token_hex(16) if decision is None else decision}
    if allowed is not None:
        request["allowed"] = list(allowed)
    if context is not None:
        request["context"] = dict(context)
    if visitor is not None:
        request["visitor"] = visitor
    if not activate:
        request["activate"] = False
    return request


def _decision_requests(
    count: int,
    allowed: Sequence[str] | None,
    contexts: Sequence[Context] | None,
    visitors: Sequence[str] | None,
    activate: bool,
) -> list[dict[str, Any]]:
    """Build so many decision requests."""
    for name, values in (("contexts", contexts), ("visitors", visitors)):
        if isinstance(values, str):
            raise ValueError(f"{name} must be a list, one for each decision, got {values!r}")
        if values is not None and len(values) != count:
            raise ValueError(f"{name} must be {count}, one for each decision, got {len(values)}")
    return [
        _decision_request(
            allowed,
            context=None if contexts is None else contexts[place],
            visitor=None if visitors is None else visitors[place],
            activate=activate,
        )
        for place in range(count)
    ]


def _recorded_id(decision: Decision | str) -> str:
    """Return the id of a decision; empty for a fallback, which no agent knows."""
    if isinstance(decision, Decision):
        return validate_text("decision", decision.id) if decision.recorded else ""
    return validate_text("decision", decision)


def _decision_path(decision: Decision | str) -> str:
    """Return the path of a decision; empty for a fallback, which no agent knows."""
    id_ = _recorded_id(decision)
    # such an id would be normalised away as a path segment
    if id_ in (".", ".."):
        raise Unknown(f"there is no decision {id_!r}: check the id")
    return f"/decisions/{quote(id_, safe='')}" if id_ else ""


def _decode_decision(item: Any) -> Decision:
    if "error" in item:
        raise refusal_error(item["status"], item["error"])
    return Decision(item["decision"], item["arm"], item["probability"])


def _decode_result(item: Any) -> RewardResult:
    return refusal_error(item["status"], item["error"]) if "error" in item else not item["repeated"]


# The arm that a client plays when no agent answers in time: recorded nowhere.

MAX_REMEMBERED_IDS = 100_000  # ids of decisions, of which the oldest is forgotten first
UNAVAILABLE = (ConnectionError, RuntimeError)  # such as a StoreError


log = logging.getLogger(__name__)


class Fallback:
    """Decisions without an agent, for callers that cannot wait; arm None: there are none."""

    def __init__(self, arm: str | None, after: float) -> None:
        self.arm = None if arm is None else validate_text("fallback", arm)
        self._after = validation.validate_number("fallback_after", after, above=0)
        self.agent_away = False  # when last asked: then it is tried only once
        self._ids: dict[str | None, None] = {}
        self._lock = threading.Lock()  # of changes to them: threads share a client

    @property
    def deadline_seconds(self) -> float | None:
        """The seconds after which a decision is needed; None: there is no deadline."""
        return None if self.arm is None else self._after

    def wrap_decision(
        self, call: Call[Decision], allowed: Sequence[str] | None, id_: str | None
    ) -> Call[Decision]:
        """Wrap a call for a decision, with the fallback in its place."""
        return (yield from self._run_or_fall_back(call, allowed, id_, lambda decision: decision))

    def wrap_decisions(
        self, call: Call[list[Decision]], allowed: Sequence[str] | None, count: int
    ) -> Call[list[Decision]]:
        """Wrap a call for some decisions, with fallbacks in their place."""
        return (
            yield from self._run_or_fall_back(
                call, allowed, None, lambda decision: [decision] * count
            )
        )

    def resolve_decision(self, decision: Decision | str) -> Decision | str:
        """Return the decision, or the fallback that was played under this id."""
        if self.arm is None or not isinstance(decision, str):
            return decision
        return self._fallback_decision() if decision == "" or decision in self._ids else decision

    def resolve_rewards(self, rewards: Iterable[Reward]) -> list[Reward]:
        """Resolve the decisions of many rewards."""
        return [(self.resolve_decision(decision), reward) for decision, reward in rewards]

    def _run_or_fall_back(
        self,
        call: Call[T],
        allowed: Sequence[str] | None,
        id_: str | None,
        convert: Callable[[Decision], T],
    ) -> Call[T]:
        try:
            result = yield from call
        except UNAVAILABLE as error:
            if self.arm is None or (allowed is not None and self.arm not in allowed):
                raise
            self._log_absence(error)
            # The agent may have decided under this id and answered too late: its reward must
            # not be sent, for the visitor was shown the fallback.
            if id_ is not None:
                with self._lock:
                    self._ids[id_] = None
                    # Bounded: an agent that is away for days must not exhaust the memory of the
                    # client.
                    if len(self._ids) > MAX_REMEMBERED_IDS:
                        del self._ids[next(iter(self._ids))]
            return convert(self._fallback_decision())
        if self.agent_away:
            log.warning("the agent answers again")
        self.agent_away = False
        # The agent has decided under this id after all, so its reward may be sent.
        if id_ in self._ids:
            with self._lock:
                self._ids.pop(id_, None)
        return result

    def _log_absence(self, error: Exception) -> None:
        """Log it once: every visitor is served like this until the agent is back."""
        if not self.agent_away:
            log.warning("%s; %r is played meanwhile, and recorded nowhere", error, self.arm)
        self.agent_away = True

    def _fallback_decision(self) -> Decision:
        return Decision("", self.arm or "", 1.0, recorded=False)
