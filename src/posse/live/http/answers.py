"""JSON responses: what was asked for, or an error in one sentence."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from posse.live.http import models
from posse.live.http.health import Health
from posse.live.store import Conflict, DecisionRecord, Outcome, StoreError, Unknown

RETRY_AFTER = 1  # seconds
LONGEST = 500  # characters of an error

log = logging.getLogger(__name__)


def decided(decision: DecisionRecord | ValueError) -> dict[str, Any]:
    """Which arm to play, or why that is refused."""
    if isinstance(decision, ValueError):
        return _refusal(decision)
    return {
        "decision": decision.id,
        "arm": decision.arm,
        "probability": decision.probability,
    }


def rewarded(item: tuple[str, float] | ValueError, outcome: Outcome | ValueError) -> dict[str, Any]:
    """That the reward of a decision is on disk, or why it is refused."""
    if isinstance(item, ValueError):  # it was not well formed, and never tried
        return _refusal(item)
    if isinstance(outcome, ValueError):
        return _refusal(outcome)
    decision, reward = item
    return {"decision": decision, "reward": reward, "repeated": outcome is Outcome.REPEATED}


def in_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in ASCII, which holds any text."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False)
    return Response(text, status, headers, "application/json")


def answer_errors(made: FastAPI, health: Health) -> None:
    """Answer whatever goes wrong with one sentence."""

    @made.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _error(422, models.sentence(error.errors()))

    @made.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if error.status_code in (404, 405):
            path = request.url.path[:100]
            return _error(
                error.status_code,
                f"there is no {request.method} {path}: see /openapi.json",
                error.headers,
            )
        return _error(error.status_code, error.detail, error.headers)

    @made.exception_handler(ValueError)
    async def refused(_: Request, error: ValueError) -> Response:
        return _error(_status(error), str(error))

    @made.exception_handler(StoreError)
    async def failing(_: Request, error: StoreError) -> Response:
        if health.failed():  # once, not for every request
            log.error("%s", error)  # it names files, which are not the client's business
        return _error(503, "the store fails, nothing was kept: ask again later")


def _status(error: ValueError) -> int:
    return 404 if isinstance(error, Unknown) else 409 if isinstance(error, Conflict) else 422


def _error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    if status == 503:
        headers = {"Retry-After": str(RETRY_AFTER)}
    return in_json({"error": sentence[:LONGEST]}, status, headers)


def _refusal(error: ValueError) -> dict[str, Any]:
    return {"error": str(error)[:LONGEST], "status": _status(error)}


def _finite(value: Any) -> Any:
    """JSON knows no infinity: null in its place."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
