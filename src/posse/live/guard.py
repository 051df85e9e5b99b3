"""What stands before the HTTP interface: only JSON comes in, and not too much of it."""

from __future__ import annotations

import json

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BYTES = 1_000_000  # the largest body
TOO_LARGE = f"the body is larger than {BYTES} bytes: send less at once"
NOT_JSON = "the body must be JSON, with Content-Type: application/json"
DROPPED, LINGER = 8_000_000, 1.0  # bytes and seconds for which a refused client is heard out


class Guard:
    """Reads bodies up to the limit, and refuses the others without reading on."""

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
        await self.app(scope, _replay(b"".join(parts), receive), send)


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
    body = json.dumps({"error": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    dropped, more = 0, True
    with anyio.move_on_after(LINGER):
        while more and dropped < DROPPED:
            message = await receive()
            more = message.get("more_body", False)
            dropped += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})
