"""The HTTP server of a demonstration's page: assets, views as server-sent events, buttons."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress
from urllib.parse import parse_qs

import msgspec

from posse import web
from posse.live.demo.page.demonstration import Demonstration
from posse.live.demo.page.views import ViewLog
from posse.live.http.access_control import (
    AccessControl,
    Message,
    Receive,
    Scope,
    Send,
    refuse_request,
    send_response,
)
from posse.live.http.event_stream import stream_events
from posse.live.http.page import CONTENT_TYPES, HEADERS
from posse.live.http.protocol import ServerLimits
from posse.live.http.responses import RequestRefused, Response, error_response, json_response
from posse.live.http.server import Server

MAX_VIEWERS = 20
HEARTBEAT_SECONDS = 2.0  # a stream without changes sends a comment after this time
TOO_MANY_VIEWERS = f"{MAX_VIEWERS} viewers watch this swarm already: request /v1/views every second"


class ViewStreams:
    """Streams of the views to all viewers; for one event loop."""

    def __init__(self, views: ViewLog) -> None:
        self._views = views
        self._wakeups: set[asyncio.Event] = set()  # one of each viewer, set after a new view
        self._loop: asyncio.AbstractEventLoop | None = None
        views.subscribe(self._wake_viewers)

    def end_streams(self) -> None:
        """End all streams, from any thread."""
        self._views.close()

    async def stream_to_viewer(self, after: int, receive: Receive, send: Send) -> None:
        """Stream the views after a number until the viewer leaves, is too slow, or all ends."""
        self._loop = asyncio.get_running_loop()
        if len(self._wakeups) >= MAX_VIEWERS:
            raise RequestRefused(503, "too_many_viewers", TOO_MANY_VIEWERS)
        wakeup = asyncio.Event()
        self._wakeups.add(wakeup)
        try:
            # too slow: the connection is closed, for the response has not ended
            with suppress(TimeoutError):
                await stream_events(receive, send, self._list_views(after, wakeup))
        finally:
            self._wakeups.discard(wakeup)

    async def _list_views(self, after: int, wakeup: asyncio.Event) -> AsyncGenerator[bytes, None]:
        ended = False
        while not ended:
            # Cleared before the views are read: a view recorded while they are sent wakes this
            # viewer again.
            wakeup.clear()
            # read before the changes: the last view comes before the end
            ended = self._views.ended
            changes, after = self._views.changes_since(after)
            # The empty comment is a heartbeat: it reveals a viewer that has disconnected.
            yield b"".join(b"data: %b\n\n" % change for change in changes) or b":\n\n"
            if not ended:
                with suppress(TimeoutError):
                    await asyncio.wait_for(wakeup.wait(), HEARTBEAT_SECONDS)

    def _wake_viewers(self) -> None:
        """Wake all viewers; called by the thread of the demonstration."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._set_wakeups)

    def _set_wakeups(self) -> None:
        for wakeup in self._wakeups:
            wakeup.set()


# The app.

ASSETS = (
    "tokens.css", "base.css", "swarm.css", "icon.svg", "swarm.js", "swarm-drawing.js",
    "swarm-feed.js", "swarm-flights.js", "swarm-words.js", "chart.js", "dom.js",
    "event-stream.js", "format.js", "marks.js", "theme.js", "tips.js",
)  # fmt: skip
CONNECTIONS = 100
ELSEWHERE = (
    "the page of a swarm is for this machine only: open http://127.0.0.1 or http://localhost"
)
FOREIGN = "buttons work on the page of the swarm only: the Origin header names another page"
UNEXPECTED = "internal error: see the log of the swarm, and please report it"

log = logging.getLogger(__name__)


class ButtonPress(msgspec.Struct, forbid_unknown_fields=True):
    """A pressed button, and its agent or link."""

    button: str
    agent: str | None = None
    link: tuple[str, str] | None = None


class PaceChange(msgspec.Struct, forbid_unknown_fields=True):
    """A change of the speed of time."""

    paused: bool | None = None
    speed: float | None = None


class DemoApp:
    """An ASGI app that answers only this machine, and obeys only its own page."""

    def __init__(self, show: Demonstration) -> None:
        self._show = show
        self._guard = AccessControl()
        self.streams = ViewStreams(show.ring)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the page of a swarm serves HTTP only, not {scope['type']}")
        send = _add_headers(send)
        try:
            body = await self._guard.read_admitted_body(scope, receive)
            if body is None:
                return
            if _wants_stream(scope):
                await self.streams.stream_to_viewer(_parse_after(scope), receive, send)
                return
            answer = await self._handle_request(scope, body)
        except RequestRefused as refusal:
            if refusal.reason == "host_not_allowed":
                refusal = RequestRefused(403, refusal.reason, ELSEWHERE)
            await refuse_request(receive, send, refusal)
            return
        except ValueError as problem:  # msgspec's errors are ValueErrors, too
            answer = error_response(422, str(problem))
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            answer = error_response(500, UNEXPECTED)
        await send_response(send, answer)

    async def _handle_request(self, scope: Scope, body: bytes) -> Response:
        method = scope["method"]
        path = scope["path"]
        name = "swarm.html" if path == "/" else path.removeprefix("/assets/")
        if method == "GET" and (path == "/" or (name != path and name in ASSETS)):
            return Response(200, web.read(name).encode(), CONTENT_TYPES[name.rpartition(".")[2]])
        if (method, path) == ("GET", "/v1/view"):
            return json_response(self._show.ring.newest)
        if (method, path) == ("GET", "/v1/views"):
            changes, _ = self._show.ring.changes_since(_parse_after(scope))
            return Response(200, b"[%b]" % b",".join(changes))
        if (method, path) == ("POST", "/v1/press"):
            _check_origin(scope)
            order = msgspec.json.decode(body, type=ButtonPress)
            outcome = self._show.press_button(order.button, order.agent, order.link)
            return json_response({"said": await asyncio.wrap_future(outcome)})
        if (method, path) == ("POST", "/v1/pace"):
            _check_origin(scope)
            pace = msgspec.json.decode(body, type=PaceChange)
            await asyncio.wrap_future(self._show.set_pace(pace.paused, pace.speed))
            return json_response({"said": "pace changed"})
        return error_response(404, "unknown path: the page is at /")


def serve_page(show: Demonstration, port: int) -> Server:
    """Serve the page of a demonstration on 127.0.0.1, in a thread."""
    return Server(DemoApp(show), f"127.0.0.1:{port}", ServerLimits(CONNECTIONS))


def _check_origin(scope: Scope) -> None:
    """Refuse requests that a browser sends on behalf of another page (CSRF)."""
    if _read_header(scope, b"origin") != f"http://{_read_header(scope, b'host')}":
        raise RequestRefused(403, "origin_not_allowed", FOREIGN)


def _wants_stream(scope: Scope) -> bool:
    request = scope["method"], scope["path"]
    return request == ("GET", "/v1/views") and "text/event-stream" in _read_header(scope, b"accept")


def _parse_after(scope: Scope) -> int:
    return int(parse_qs(scope["query_string"].decode("latin-1")).get("after", ["0"])[0])


def _read_header(scope: Scope, name: bytes) -> str:
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else ""


def _add_headers(send: Send) -> Send:
    """Add the headers of every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *HEADERS]}
        await send(message)

    return send_with_headers
