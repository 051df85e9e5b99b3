"""The HTTP server of the page: assets, a stream of views (server-sent events), and the buttons."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from urllib.parse import parse_qs

import msgspec

from posse import web
from posse.live.http.answers import Answer, Refusal, error, in_json
from posse.live.http.guard import Guard, Message, Receive, Scope, Send, refuse, send_answer
from posse.live.http.page.assets import HEADERS, KINDS
from posse.live.http.protocol import Limits
from posse.live.http.server import Server
from posse.live.swarm.page.show import Show

ASSETS = (
    "swarm.html", "swarm.css", "swarm.js", "swarm-network.js", "swarm-feed.js", "swarm-panels.js",
    "tokens.css", "base.css", "dom.js", "format.js", "tips.js", "theme.js", "marks.js", "chart.js",
    "icon.svg",
)  # fmt: skip
VIEWERS = 20
CONNECTIONS = 100
HEARTBEAT = 5.0  # seconds after which a stream without news says that it is there
ELSEWHERE = "the page of this swarm is asked for on this machine only: at 127.0.0.1 or localhost"
FOREIGN = "buttons are pressed on the page of the swarm only: send its address as Origin"
CROWDED = f"{VIEWERS} others watch already: ask for /v1/views?after=0 once a second instead"

log = logging.getLogger(__name__)


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """A button that is pressed, and on whom."""

    button: str
    agent: str | None = None
    link: tuple[str, str] | None = None


class Pace(msgspec.Struct, forbid_unknown_fields=True):
    """How time is to go on."""

    paused: bool | None = None
    speed: float | None = None


class App:
    """An ASGI app that answers this machine alone, and takes orders from its own page alone."""

    def __init__(self, show: Show) -> None:
        self._show, self._guard = show, Guard()
        self._streams: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        show.ring.tell(self._wake)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the page of a swarm speaks HTTP only, not {scope['type']}")
        self._loop = asyncio.get_running_loop()
        send = _with_headers(send)
        try:
            body = await self._guard.admit(scope, receive)
            if body is None:
                return
            if (scope["method"], scope["path"]) == ("GET", "/v1/views"):
                await self._views(scope, receive, send)
                return
            answer = await self._answer(scope, body)
        except Refusal as refusal:
            if refusal.reason == "another host":
                refusal = Refusal(403, refusal.reason, ELSEWHERE)
            await refuse(receive, send, refusal)
            return
        except ValueError as problem:  # msgspec's are, too
            answer = error(422, str(problem))
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            answer = error(500, "the swarm has an error, which its log shows: please report it")
        await send_answer(send, answer)

    async def _answer(self, scope: Scope, body: bytes) -> Answer:
        method, path = scope["method"], scope["path"]
        name = "swarm.html" if path == "/" else path.removeprefix("/")
        if method == "GET" and name in ASSETS:
            return Answer(200, web.read(name).encode(), KINDS[name.rpartition(".")[2]])
        if (method, path) == ("GET", "/v1/view"):
            return in_json(self._show.ring.newest)
        if (method, path) == ("POST", "/v1/press"):
            _check_origin(scope)
            order = msgspec.json.decode(body, type=Order)
            future = self._show.press(order.button, order.agent, order.link)
            return in_json({"said": await asyncio.wrap_future(future)})
        if (method, path) == ("POST", "/v1/pace"):
            _check_origin(scope)
            pace = msgspec.json.decode(body, type=Pace)
            await asyncio.wrap_future(self._show.set_pace(pace.paused, pace.speed))
            return in_json({})
        return error(404, "there is nothing here: the page is at /")

    async def _views(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What changed after a view: at once, or by a stream that goes on until the swarm ends."""
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        after = int(asked.get("after", ["0"])[0])
        if "text/event-stream" not in _header(scope, b"accept"):
            changes, _ = self._show.ring.since(after)
            await send_answer(send, Answer(200, b"[" + b",".join(changes) + b"]"))
        elif len(self._streams) >= VIEWERS:
            await send_answer(send, error(503, CROWDED))
        else:
            await self._stream(after, receive, send)

    async def _stream(self, after: int, receive: Receive, send: Send) -> None:
        """One write at a time: a reader who is slow is waited for, and after a while hung up on."""
        kind = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        ring, news = self._show.ring, asyncio.Event()
        gone = asyncio.ensure_future(receive())
        self._streams.add(news)
        try:
            while not gone.done():
                news.clear()
                ended = ring.ended  # before the last changes are read
                changes, after = ring.since(after)
                text = b"".join(b"data: %b\n\n" % change for change in changes) or b":\n\n"
                await send({"type": "http.response.body", "body": text, "more_body": not ended})
                if ended:
                    return
                waits = asyncio.ensure_future(news.wait())
                await asyncio.wait(
                    {waits, gone}, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
                )
                waits.cancel()
        finally:
            self._streams.discard(news)
            gone.cancel()

    def _wake(self) -> None:
        """There is something new: called by the thread of the swarm."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for news in self._streams:
            news.set()


def serve(show: Show, port: int) -> Server:
    """Serve the page of a swarm on 127.0.0.1, in a thread."""
    return Server(App(show), f"127.0.0.1:{port}", Limits(CONNECTIONS))


def _check_origin(scope: Scope) -> None:
    """Refuse what another page has its visitors' browsers send: they name it in Origin."""
    if _header(scope, b"origin") != f"http://{_header(scope, b'host')}":
        raise Refusal(403, "another origin", FOREIGN)


def _header(scope: Scope, name: bytes) -> str:
    found = [value.decode("latin-1") for each, value in scope["headers"] if each == name]
    return found[0] if len(found) == 1 else ""


def _with_headers(send: Send) -> Send:
    """Send, with what every answer has."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *HEADERS]}
        await send(message)

    return sent
