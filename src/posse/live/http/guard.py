"""What stands around the HTTP interface: JSON in, not too much of it, and always an answer."""

from __future__ import annotations

import json
import logging

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BYTES = 1_000_000  # the largest body
TOO_LARGE = f"the body is larger than {BYTES} bytes: send less at once"
NOT_JSON = "the body must be JSON, with Content-Type: application/json"
UNEXPECTED = "the agent has an error, which its log shows: please report it"
DROPPED, LINGER = 8_000_000, 1.0  # bytes and seconds for which a refused client is heard out

log = logging.getLogger(__name__)


class Guard:
    """Reads bodies up to the limit, refuses the others without reading on, survives errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 12 or int(length) > BYTES:
            await _refuse(receive, send, 413, TOO_LARGE)
            return
        # browsers send other types across sites without asking, this one they do not
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if scope["method"] == "POST" and kind != b"application/json":
            await _refuse(receive, send, 415, NOT_JSON)
            return
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":  # the client left
                return
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > BYTES:
                await _refuse(receive, send, 413, TOO_LARGE)
                return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, _replay(b"".join(parts), receive), sending)
        except Exception:
            if started:
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            await _answer(send, 500, UNEXPECTED, [])


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then what comes after it."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


async def _refuse(receive: Receive, send: Send, status: int, sentence: str) -> None:
    """Answer at once, then linger: who is cut off while it sends would not see the answer."""
    await _answer(send, status, sentence, [(b"connection", b"close")], more=True)
    dropped, more = 0, True
    with anyio.move_on_after(LINGER):
        while more and dropped < DROPPED:
            message = await receive()
            more = message.get("more_body", False)
            dropped += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})


async def _answer(
    send: Send, status: int, sentence: str, headers: list[tuple[bytes, bytes]], more: bool = False
) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})
