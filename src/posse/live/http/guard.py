"""ASGI middleware: a limit on bodies, JSON only, allowed hosts, and a response to every error."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BYTES = 1_000_000  # the largest body
TOO_LARGE = f"the body is larger than {BYTES} bytes: send less at once"
NOT_JSON = "the body must be JSON, with Content-Type: application/json"
ELSEWHERE = (
    "this agent does not go by the name in the Host header: ask 127.0.0.1, or add the name to "
    "http_hosts in agent.toml"
)
UNEXPECTED = "the agent has an error, which its log shows: please report it"
DROPPED, LINGER = 8_000_000, 1.0  # bytes and seconds for which a refused client is heard out

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(\[[^]]*\]|[^:]*)(:[0-9]*)?", re.ASCII)

log = logging.getLogger(__name__)


class Guard:
    """Middleware: limits request bodies, checks the Host header, turns errors into responses.

    hosts: names under which it may be asked, besides those of this machine itself.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self.app = app
        self._hosts = frozenset(name.lower() for name in (*LOOPBACK, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not self._is_for_us(scope):
            await _refuse(receive, send, 403, ELSEWHERE)
            return
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

    def _is_for_us(self, scope: Scope) -> bool:
        """Against DNS rebinding: whether the Host header is one of ours; Unix sockets need none."""
        server = scope.get("server")
        if server is not None and server[1] is None:
            return True
        hosts = [value.decode("latin-1") for key, value in scope["headers"] if key == b"host"]
        name = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        return name is not None and name[1].lower() in self._hosts


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
