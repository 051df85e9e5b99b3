"""JSON answers: what was asked for, or an error in one sentence."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from posse.live.http.models import DecisionAnswer, Error, ItemError, RewardAnswer
from posse.live.store import Conflict, DecisionRecord, Outcome, Unknown

RETRY_AFTER = 1  # seconds
LONGEST = 500  # characters of an error
JSON = b"application/json"

Headers = tuple[tuple[bytes, bytes], ...]


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes
    kind: bytes = JSON
    headers: Headers = ()


class Refusal(Exception):
    """A request that is refused whatever is in its body, and the reason by which it is counted."""

    def __init__(self, status: int, reason: str, sentence: str, headers: Headers = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.headers = headers


def decided(decision: DecisionRecord | ValueError) -> DecisionAnswer | ItemError:
    """Which arm to play, or why that is refused."""
    if isinstance(decision, ValueError):
        return _refused(decision)
    return DecisionAnswer(decision.id, decision.arm, decision.probability)


def rewarded(
    item: tuple[str, float] | ValueError, outcome: Outcome | ValueError
) -> RewardAnswer | ItemError:
    """That the reward of a decision is on disk, or why it is refused."""
    if isinstance(item, ValueError):  # it was not well formed, and never tried
        return _refused(item)
    if isinstance(outcome, ValueError):
        return _refused(outcome)
    return RewardAnswer(*item, outcome is Outcome.REPEATED)


_encode = msgspec.json.Encoder().encode


def in_json(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """An answer that holds any text; JSON knows no infinity, and has null in its place."""
    try:
        return Answer(status, _encode(value), JSON, headers)
    except UnicodeEncodeError:  # half a character: in ASCII it can be said
        return Answer(status, json.dumps(msgspec.to_builtins(value)).encode(), JSON, headers)


def error(status: int, sentence: str, headers: Headers = ()) -> Answer:
    """What is wrong, in one sentence."""
    if status == 503:
        headers = ((b"retry-after", b"%d" % RETRY_AFTER), *headers)
    return in_json(Error(sentence[:LONGEST]), status, headers)


def status_of(error: ValueError) -> int:
    """The status of what a client asked wrongly."""
    return 404 if isinstance(error, Unknown) else 409 if isinstance(error, Conflict) else 422


def _refused(error: ValueError) -> ItemError:
    return ItemError(str(error)[:LONGEST], status_of(error))
