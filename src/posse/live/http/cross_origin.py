"""Cross-origin requests (CORS): pages of the origins in `http_origins` may ask from a browser."""

from __future__ import annotations

from collections.abc import Sequence

from posse.live.http.access_control import Message, Scope, Send
from posse.live.http.responses import Headers, Response

METHODS = b"GET, POST, DELETE"
REQUEST_HEADERS = b"authorization, content-type, if-none-match"
RESPONSE_HEADERS = b"etag, retry-after"  # which scripts may read besides the usual ones
MAX_AGE = b"600"  # seconds for which a browser may remember a preflight


class CrossOrigin:
    """Answers preflights and marks responses, for requests of allowed origins alone.

    Without such marks a browser hides every answer from the page, and refuses to send JSON at all.
    """

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def find_headers(self, scope: Scope) -> Headers:
        """Return the headers that allow the origin of a request; none if it is not allowed."""
        if not self._origins:
            return ()
        vary = ((b"vary", b"origin"),)  # a cache must not give one origin's answer to another
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(origins) != 1 or origins[0] not in self._origins:
            return vary
        return (
            *vary,
            (b"access-control-allow-origin", origins[0]),
            (b"access-control-expose-headers", RESPONSE_HEADERS),
        )

    def answer_preflight(self, scope: Scope, headers: Headers) -> Response | None:
        """Answer a preflight, which has no token; None if this is none, or is not allowed."""
        if scope["method"] != "OPTIONS" or len(headers) < 2:
            return None
        if not any(name == b"access-control-request-method" for name, _ in scope["headers"]):
            return None
        allowed = (
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", REQUEST_HEADERS),
            (b"access-control-max-age", MAX_AGE),
        )
        return Response(204, b"", headers=allowed)


def add_headers(send: Send, headers: Headers) -> Send:
    """Return a `send` that adds headers to the response."""
    if not headers:
        return send

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *headers]}
        await send(message)

    return send_with_headers
