"""Responses in JSON: an answer, or an error in one sentence."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from posse.live.http.models import DecisionAnswer, Error, ItemError, RewardAnswer
from posse.live.store import Conflict, DecisionRecord, RewardOutcome, Unknown

RETRY_AFTER = 1  # seconds
MAX_ERROR_LENGTH = 500  # characters of an error
JSON = b"application/json"

Headers = tuple[tuple[bytes, bytes], ...]


class Response(NamedTuple):
    """A response before it is sent."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: Headers = ()


class RequestRefused(Exception):
    """A request that is refused whatever its body, and the reason under which it is counted."""

    def __init__(self, status: int, reason: str, sentence: str, headers: Headers = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.headers = headers


def answer_decision(decision: DecisionRecord | ValueError) -> DecisionAnswer | ItemError:
    """Encode a decision, or the error in its place."""
    if isinstance(decision, ValueError):
        return _item_error(decision)
    return DecisionAnswer(decision.id, decision.arm, decision.probability)


def answer_reward(
    item: tuple[str, float] | ValueError, outcome: RewardOutcome | ValueError
) -> RewardAnswer | ItemError:
    """Confirm that the reward of a decision is on disk, or give the error in its place."""
    if isinstance(item, ValueError):  # it was not well formed, and never tried
        return _item_error(item)
    if isinstance(outcome, ValueError):
        return _item_error(outcome)
    return RewardAnswer(*item, outcome is RewardOutcome.REPEATED)


_encode = msgspec.json.Encoder().encode


def json_response(value: Any, status: int = 200, headers: Headers = ()) -> Response:
    """Encode any value; JSON has no infinity, and null takes its place."""
    try:
        return Response(status, _encode(value), JSON, headers)
    except UnicodeEncodeError:  # half a character: in ASCII it can be said
        return Response(status, json.dumps(msgspec.to_builtins(value)).encode(), JSON, headers)


def error_response(status: int, sentence: str, headers: Headers = ()) -> Response:
    """Create the response of an error."""
    return json_response(Error(sentence[:MAX_ERROR_LENGTH]), status, error_headers(status, headers))


def error_headers(status: int, headers: Headers = ()) -> Headers:
    """Return the headers of an error; one that may pass says when to retry."""
    return ((b"retry-after", b"%d" % RETRY_AFTER), *headers) if status == 503 else headers


def http_status(error: ValueError) -> int:
    """Return the status of an error of the client."""
    return 404 if isinstance(error, Unknown) else 409 if isinstance(error, Conflict) else 422


def _item_error(error: ValueError) -> ItemError:
    return ItemError(str(error)[:MAX_ERROR_LENGTH], http_status(error))
