"""OpenFeature Remote Evaluation Protocol (OFREP 0.3): an experiment is a flag, an arm a variant.

Clients evaluate a flag often, and poll all flags. Therefore the decision of a visitor is the same
during a reward window: its id is a hash of visitor, window, context and playable arms. It is stored
once and answered again, which also lets an ETag hold.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from msgspec import UNSET, Meta, Struct, UnsetType

from posse.live.agent import MAX_VISITOR_LENGTH
from posse.live.experiment import (
    FLAG_PREFIX,
    FLAG_SECONDS,
    Arm,
    DecisionRequest,
    LiveExperiment,
)
from posse.live.http.models import Id, MalformedBody, Probability
from posse.live.http.request_batches import BatchRequest, RequestBatcher
from posse.live.http.request_bodies import NOT_JSON
from posse.live.http.responses import (
    MAX_ERROR_LENGTH,
    Headers,
    RequestRefused,
    Response,
    answer_reward,
    error_headers,
    json_response,
)
from posse.live.node import Node
from posse.live.store import Conflict, DecisionRecord, Unknown

MAX_INACTIVE = 100_000  # decisions of an experiment that were evaluated and not shown
COUNT_SECONDS = 1.0  # after which they are counted anew
TOO_MANY_FLAGS = (
    f"{MAX_INACTIVE} visitors of an experiment have flags that were not shown yet: retry later"
)
RETRY_LATER = ((b"retry-after", b"60"),)
MAX_ATTEMPTS = 10  # to find a decision of a visitor and a window that was not cancelled
TARGETING_KEY = "targetingKey"
NO_TARGETING_KEY = "context.targetingKey is missing: send the visitor's id"
BAD_TARGETING_KEY = (
    f"context.targetingKey must be a text of 1 to {MAX_VISITOR_LENGTH} characters, the visitor's id"
)

Key = Annotated[str, Meta(min_length=1, max_length=200, description="the experiment's name")]
EvaluationContext = Annotated[
    dict[str, Any],
    Meta(
        description="targetingKey is the visitor's id; fields of the experiment's context are "
        "used, others are ignored"
    ),
]


class EvaluationRequest(Struct):
    """The context of a visitor, of whom `targetingKey` is the id."""

    context: EvaluationContext


class FlagMetadata(Struct):
    """The decision behind the value of a flag, to which a reward can be sent."""

    decision: Id
    probability: Probability


class FlagAnswer(Struct):
    """The value of a flag for a visitor: the payload of an arm, or its name."""

    key: Key
    value: Any
    variant: Arm
    metadata: FlagMetadata
    reason: str = "SPLIT"


class FlagError(Struct, omit_defaults=True):
    """Why a flag has no value, as an OpenFeature error code and in one sentence."""

    errorCode: str  # in the protocol's spelling
    errorDetails: str
    key: str | UnsetType = UNSET


class FlagsAnswer(Struct):
    """The value of each flag for a visitor, or why it has none."""

    flags: list[Any]


class TrackingDetails(Struct, frozen=True):
    """Details of an event, of which the value is the reward."""

    value: float = 1.0


class TrackingRequest(Struct):
    """An event of a visitor: the reward of the visitor's newest decision in the experiment."""

    event: Annotated[Key, Meta(description="the experiment's name")]
    context: EvaluationContext
    details: TrackingDetails = TrackingDetails()


class TrackingAnswer(Struct):
    """The decision that got the reward."""

    key: Key
    decision: Id
    reward: float
    repeated: Annotated[bool, Meta(description="whether it had this reward before")]


class FlagRefused(ValueError):
    """An evaluation that is refused with an error code of OpenFeature."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class FlagUnknown(FlagRefused, Unknown):
    """A flag, or a decision of a visitor, that this agent does not have."""


async def evaluate_flag(
    turns: RequestBatcher, node: Node, _: Headers, key: str, body: EvaluationRequest
) -> Any:
    """Evaluate one flag, which is then shown: the decision of this visitor in this window."""
    experiment = find_flag(node, key)
    (record,) = await decide_flags(turns, [experiment], body.context, activate=True)
    if isinstance(record, ValueError):
        raise record
    return describe_flag(experiment, record)


async def evaluate_flags(
    turns: RequestBatcher, node: Node, headers: Headers, _: str, body: EvaluationRequest
) -> Any:
    """Evaluate all flags, which may be shown: decisions that do not count until activated."""
    experiments = list(node.experiments.values())
    records = await decide_flags(turns, experiments, body.context, activate=False)
    pairs = zip(experiments, records, strict=True)
    response = json_response(FlagsAnswer([describe_result(*pair) for pair in pairs]))
    tag = b'"%s"' % blake2b(response.body, digest_size=16).hexdigest().encode()
    tagged = ((b"etag", tag),)
    known = b",".join(value for name, value in headers if name == b"if-none-match")
    if tag in [text.strip().removeprefix(b"W/") for text in known.split(b",")]:
        return Response(304, b"", headers=tagged)
    return response._replace(headers=tagged)


async def track_event(
    turns: RequestBatcher, node: Node, _: Headers, __: str, body: TrackingRequest
) -> Any:
    """Reward the newest decision of a visitor in the experiment named like the event."""
    experiment = find_flag(node, body.event)
    visitor = read_visitor(body.context)
    record = experiment.store.find_newest_decision(visitor)
    if record is None:
        raise FlagUnknown("GENERAL", f"this agent has no decision of the visitor in {body.event!r}")
    pair = record.id, body.details.value
    request = BatchRequest(experiment, rewards=(pair,))
    await turns.submit(request)
    (outcome,) = request.outcomes
    if isinstance(outcome, ValueError):
        raise outcome
    answer: Any = answer_reward(pair, outcome)
    return TrackingAnswer(body.event, answer.decision, answer.reward, answer.repeated)


def find_flag(node: Node, key: str) -> LiveExperiment:
    """Find the experiment of a flag."""
    experiment = node.experiments.get(key)
    if experiment is None:
        names = ", ".join(list(node.experiments)[:5])
        raise FlagUnknown("FLAG_NOT_FOUND", f"no experiment {key[:100]!r}: there is {names}")
    return experiment


def read_visitor(context: Mapping[str, Any]) -> str:
    """Return the id of a visitor, the targeting key of a context."""
    visitor = context.get(TARGETING_KEY)
    if visitor is None or visitor == "":
        raise FlagRefused("TARGETING_KEY_MISSING", NO_TARGETING_KEY)
    if not isinstance(visitor, str) or len(visitor) > MAX_VISITOR_LENGTH:
        raise FlagRefused("INVALID_CONTEXT", BAD_TARGETING_KEY)
    return visitor


async def decide_flags(
    turns: RequestBatcher,
    experiments: Sequence[LiveExperiment],
    context: Mapping[str, Any],
    activate: bool,
) -> list[DecisionRecord | ValueError]:
    """Return the decision of a visitor and the present window in each experiment, or its error.

    activate: whether they count from now on, because they are shown.
    """
    visitor = read_visitor(context)
    results: list[DecisionRecord | ValueError | BatchRequest] = []
    for experiment in experiments:
        try:
            results.append(find_or_request(experiment, visitor, context, activate))
        except Conflict as error:  # no arm is left to play
            results.append(FlagRefused("GENERAL", str(error)))
        except ValueError as error:  # the context is wrong
            results.append(error)
    requests = [item for item in results if isinstance(item, BatchRequest)]
    await turns.submit(*requests)
    for request in requests:
        if not activate and (known := _inactive_counts.get(request.experiment)) is not None:
            known.count += len(request.new_decisions)
    records = [read_result(item) if isinstance(item, BatchRequest) else item for item in results]
    if activate:
        await activate_decisions(turns, experiments, records)
    return records


def find_or_request(
    experiment: LiveExperiment, visitor: str, context: Mapping[str, Any], activate: bool
) -> DecisionRecord | BatchRequest:
    """Find the decision of a visitor and the present window, or build the request for it."""
    used = select_fields(experiment, context)
    experiment.agent.encode_context(used)  # which refuses what is no value of a field
    for attempt in range(MAX_ATTEMPTS):
        id_ = make_flag_id(experiment, visitor, used, attempt)
        record = experiment.store.find_decision(id_)
        # one that was cancelled was not shown: then there is another chance
        if record is None or not record.cancelled:
            break
    if record is not None:
        return record
    if not activate:
        check_inactive_decisions(experiment)
    request = DecisionRequest(decision=id_, context=used, visitor=visitor, activate=activate)
    return BatchRequest(experiment, decision_requests=[request])


def read_result(request: BatchRequest) -> DecisionRecord | ValueError:
    """Return the decision of a request, or its error."""
    (result,) = request.decisions
    if isinstance(result, Conflict):
        # Another request of this moment may have made the decision, as an inactive one.
        (requested,) = request.decision_requests
        assert isinstance(requested, DecisionRequest)
        return request.experiment.store.find_decision(requested.decision or "") or result
    return result


async def activate_decisions(
    turns: RequestBatcher,
    experiments: Sequence[LiveExperiment],
    records: list[DecisionRecord | ValueError],
) -> None:
    """Count the decisions among these that were not shown before."""
    requests = {
        place: BatchRequest(experiment, transitions=[("activate", record.id)])
        for place, (experiment, record) in enumerate(zip(experiments, records, strict=True))
        if not isinstance(record, ValueError) and record.inactive
    }
    await turns.submit(*requests.values())
    for place, request in requests.items():
        (outcome,) = request.changed
        records[place] = outcome if isinstance(outcome, ValueError) else outcome[0]


def check_inactive_decisions(experiment: LiveExperiment) -> None:
    """Refuse a further inactive decision where there are very many."""
    known = _inactive_counts.get(experiment)
    if known is None or time.monotonic() - known.time > COUNT_SECONDS:
        count = experiment.store.count_inactive_decisions()
        known = _inactive_counts[experiment] = InactiveCount(time.monotonic(), count)
    if known.count >= MAX_INACTIVE:
        raise RequestRefused(429, "too_many_flags", TOO_MANY_FLAGS, RETRY_LATER)


@dataclass
class InactiveCount:
    """Inactive decisions as of a moment ago, as to count 100,000 rows takes milliseconds."""

    time: float  # monotonic
    count: int


_inactive_counts: WeakKeyDictionary[LiveExperiment, InactiveCount] = WeakKeyDictionary()


def select_fields(experiment: LiveExperiment, context: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields that the experiment's schema has, and count those that it has not."""
    schema = experiment.agent.context
    used = {} if schema is None else {n: context[n] for n, _ in schema if n in context}
    experiment.counts.add("ignored_fields", len(context.keys() - used.keys() - {TARGETING_KEY}))
    return None if schema is None else used


def make_flag_id(
    experiment: LiveExperiment, visitor: str, context: Mapping[str, Any] | None, attempt: int
) -> str:
    """Make the id of the decision of a visitor in the present window.

    Playable arms are part of it, so that nobody gets a paused arm until the window ends. Windows of
    visitors begin at different times, so that not all of them need a new decision at one moment.
    """
    hashed = experiment.agent.visitor_hash
    window = experiment.reward_window.window or FLAG_SECONDS
    number = math.floor(experiment.clock() / window + hashed.uniform(visitor))
    fields = json.dumps(context, sort_keys=True)
    arms = experiment.playable_arms()
    return FLAG_PREFIX + hashed.make_id(visitor, str(number), str(attempt), fields, *arms)


def describe_flag(experiment: LiveExperiment, record: DecisionRecord) -> FlagAnswer:
    """Describe a decision as the value of a flag."""
    payload = experiment.payload
    return FlagAnswer(
        key=experiment.name,
        value=record.arm if payload is None else payload.get(record.arm, record.arm),
        variant=record.arm,
        metadata=FlagMetadata(record.id, record.probability),
    )


def describe_result(
    experiment: LiveExperiment, result: DecisionRecord | ValueError
) -> FlagAnswer | FlagError:
    """Describe a decision as the value of a flag, or the error in its place."""
    if isinstance(result, DecisionRecord):
        return describe_flag(experiment, result)
    code = find_error_code(result, str(result))
    return FlagError(code, str(result)[:MAX_ERROR_LENGTH], experiment.name)


def find_error_code(error: Exception, sentence: str) -> str:
    """Return the error code of OpenFeature for an error."""
    if isinstance(error, FlagRefused):
        return error.code
    if isinstance(error, MalformedBody) and sentence == NOT_JSON:
        return "PARSE_ERROR"
    if isinstance(error, ValueError) and not isinstance(error, Conflict | Unknown):
        return "INVALID_CONTEXT"
    return "GENERAL"


def flag_error_response(
    key: str, error: Exception, status: int, sentence: str, headers: Headers
) -> Response:
    """Create the response of an error in the form of the protocol."""
    code = find_error_code(error, sentence)
    status = 400 if status == 422 else status  # which the protocol does not have
    body = FlagError(code, sentence[:MAX_ERROR_LENGTH], key or UNSET)
    return json_response(body, status, error_headers(status, headers))
