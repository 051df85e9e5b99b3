"""Routes without dependency injection, for speed."""

from __future__ import annotations

import json
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send


class StraightRoute(APIRoute):
    """For a function of the `request`, the `body` and parts of the path, or of some of these.

    FastAPI documents it as any other route, but how it would find out what the function wants,
    each time, costs as much as a decision.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        wanted = get_type_hints(endpoint, include_extras=True)
        body = TypeAdapter(wanted["body"]) if "body" in wanted else None
        parts = {name: TypeAdapter(wanted[name]) for name in self.param_convertors}
        waits = not iscoroutinefunction(endpoint)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive, send)
            given = {k: _valid(k, parts[k], v) for k, v in request.path_params.items()}
            if body is not None:
                given["body"] = _valid("body", body, _parsed(await request.body()))
            if "request" in wanted:
                given["request"] = request
            answer = run_in_threadpool(endpoint, **given) if waits else endpoint(**given)
            await (await answer)(scope, receive, send)

        self.app = app


def _valid(name: str, kind: TypeAdapter[Any], value: Any) -> Any:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        errors = [{**each, "loc": (name, *each["loc"])} for each in error.errors()]
        raise RequestValidationError(errors) from error


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # no JSON, or more than Python reads
        raise RequestValidationError([{"type": "json_invalid", "loc": ("body",)}]) from error
