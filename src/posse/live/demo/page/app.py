"""Server-sent events: every view of a swarm to its viewers, as it is taken.

A viewer is sent the next views when it has taken the last, so that a slow one costs no memory; one
that takes none for ten seconds is dropped.
"""

from __future__ import annotations

import asyncio
import logging
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
from posse.live.http.page import CONTENT_TYPES, HEADERS
from posse.live.http.protocol import ServerLimits
from posse.live.http.responses import RequestRefused, Response, error_response, json_response
from posse.live.http.server import Server

MOST = 20  # viewers
PATIENCE = 10.0  # seconds in which a viewer must take what it is sent
HEARTBEAT = 2.0  # seconds after which a stream without news says that it is there
CROWDED = f"{MOST} others watch this swarm already: ask for its views once a second"


class Streams:
    """The viewers of a ring; for one event loop."""

    def __init__(self, ring: ViewLog) -> None:
        self._ring = ring
        self._viewers: set[asyncio.Event] = set()  # each is set when there is news
        self._loop: asyncio.AbstractEventLoop | None = None
        ring.subscribe(self._wake)

    def end_streams(self) -> None:
        """Let all viewers go, from any thread."""
        self._ring.close()

    async def serve(self, after: int, receive: Receive, send: Send) -> None:
        """Stream what comes after a view, until the viewer leaves, is too slow, or all ends."""
        self._loop = asyncio.get_running_loop()
        if len(self._viewers) >= MOST:
            raise RequestRefused(503, "too_many_viewers", CROWDED)
        kind = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        news = asyncio.Event()
        left = asyncio.ensure_future(_until_gone(receive))
        left.add_done_callback(lambda _: news.set())
        self._viewers.add(news)
        try:
            await self._stream(after, news, left, send)
        except TimeoutError:
            pass  # too slow: the connection is closed, for the answer has no end
        finally:
            self._viewers.discard(news)
            left.cancel()

    async def _stream(
        self, after: int, news: asyncio.Event, left: asyncio.Future[None], send: Send
    ) -> None:
        ended = False
        while not (ended or left.done()):
            news.clear()
            ended = self._ring.ended  # asked first: the last view comes before the end
            changes, after = self._ring.changes_since(after)
            text = b"".join(b"data: %b\n\n" % change for change in changes) or b":\n\n"
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": text, "more_body": not ended})
            if not ended:
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), HEARTBEAT)

    def _wake(self) -> None:
        """There is news: said by the thread of the swarm."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for news in self._viewers:
            news.set()


async def _until_gone(receive: Receive) -> None:
    """Wait until a client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


# The HTTP server of a swarm's page: assets, views, and the buttons.

ASSETS = (
    "tokens.css", "base.css", "swarm.css", "icon.svg", "swarm.js", "swarm-drawing.js",
    "swarm-feed.js", "swarm-flights.js", "swarm-words.js", "chart.js", "dom.js", "format.js",
    "marks.js", "theme.js", "tips.js",
)  # fmt: skip
CONNECTIONS = 100
ELSEWHERE = "the page of a swarm is for this machine alone: ask 127.0.0.1 or localhost"
FOREIGN = "the buttons are for the page of the swarm alone, which browsers name in Origin"
UNEXPECTED = "the swarm has an error, which its log shows: please report it"

log = logging.getLogger(__name__)


class ButtonPress(msgspec.Struct, forbid_unknown_fields=True):
    """A button that is pressed, and on whom."""

    button: str
    agent: str | None = None
    link: tuple[str, str] | None = None


class PaceChange(msgspec.Struct, forbid_unknown_fields=True):
    """How time is to go on."""

    paused: bool | None = None
    speed: float | None = None


class DemoApp:
    """An ASGI app that answers this machine alone, and takes orders from its own page alone."""

    def __init__(self, show: Demonstration) -> None:
        self._show = show
        self._guard = AccessControl()
        self.streams = Streams(show.ring)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the page of a swarm speaks HTTP only, not {scope['type']}")
        send = _add_headers(send)
        try:
            body = await self._guard.read_admitted_body(scope, receive)
            if body is None:
                return
            if _wants_stream(scope):
                await self.streams.serve(_parse_after(scope), receive, send)
                return
            answer = await self._handle_request(scope, body)
        except RequestRefused as refusal:
            if refusal.reason == "host_not_allowed":
                refusal = RequestRefused(403, refusal.reason, ELSEWHERE)
            await refuse_request(receive, send, refusal)
            return
        except ValueError as problem:  # msgspec's are, too
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
            return json_response({"said": "so it goes on"})
        return error_response(404, "there is nothing here: the page is at /")


def serve_page(show: Demonstration, port: int) -> Server:
    """Serve the page of a swarm on 127.0.0.1, in a thread."""
    return Server(DemoApp(show), f"127.0.0.1:{port}", ServerLimits(CONNECTIONS))


def _check_origin(scope: Scope) -> None:
    """Refuse what a page of somebody else lets its visitors' browsers send."""
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
    """Send with what every answer has."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *HEADERS]}
        await send(message)

    return send_with_headers
