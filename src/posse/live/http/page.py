"""The page at `/`: its files, what it shows section by section, and the streams that feed it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import msgspec

from posse import __version__, web
from posse.live.experiment.experiment import Experiment
from posse.live.http import handlers as views
from posse.live.http.access_control import Receive, Send
from posse.live.http.health import traffic_of
from posse.live.http.responses import Answer, Headers, Refusal
from posse.live.node import Node
from posse.live.store import Unknown

# The files of the page: static, the same for everybody, and therefore without a token.

POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS: Headers = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
KINDS = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
PAGE = "agent.html"
ASSETS = (
    "tokens.css",
    "base.css",
    "agent.css",
    "icon.svg",
    "agent.js",
    "arms.js",
    "chart.js",
    "dom.js",
    "format.js",
    "marks.js",
    "network.js",
    "past.js",
    "segments.js",
    "sites.js",
    "states.js",
    "stream.js",
    "theme.js",
    "tips.js",
    "words.js",
)
_NAMES = {"/": PAGE} | {f"/assets/{name}": name for name in ASSETS}


def is_asset(path: str) -> bool:
    """Whether a path is that of the page or of one of its files."""
    return path in _NAMES


def asset(path: str) -> Answer:
    """The page or one of its files."""
    name = _NAMES[path]
    return Answer(200, web.read(name).encode(), KINDS[name.rpartition(".")[2]], HEADERS)


# What the page of one experiment shows, in sections that are encoded once for all viewers.
#
# A section is computed again when somebody looks, once a second at most and not so often that it
# takes more than a small share of a core: with hundreds of sites a look at all of them takes
# long.

PERIOD = 1.0  # seconds between two looks
SHARE = 0.005  # of a core, that one section may take

_encode = msgspec.json.Encoder().encode


class _Section:
    """One part of the page: how it is made, and as it last was."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._cost = 0.0
        self._made = float("-inf")
        self.version = 0
        self.encoded = b"null"

    def look(self, now: float, version: int) -> bool:
        """Compute it if it is due; whether it is another, of this version then."""
        if now - self._made < max(PERIOD / 2, self._cost / SHARE):
            return False
        began = time.thread_time()
        encoded = _encode(self._make())
        self._cost = time.thread_time() - began
        self._made = now
        if encoded == self.encoded and self.version:
            return False
        self.encoded = encoded
        self.version = version
        return True


class Sections:
    """The sections of one experiment; any thread may look."""

    def __init__(self, node: Node, experiment: Experiment) -> None:
        self._node = node
        self._experiment = experiment
        self._lock = threading.Lock()
        self._version = 0
        self._looked = float("-inf")
        self._changes: dict[int, tuple[int, bytes]] = {}  # since a version, up to another
        self._sections = {
            "agent": _Section(self._agent),
            "arms": _Section(experiment.arms),
            "experiment": _Section(lambda: views.shown(experiment)),
            "controls": _Section(experiment.controlled),
            "verdict": _Section(self._verdict),
            "books": _Section(experiment.books),
            "sites": _Section(experiment.site_map),
            "network": _Section(node.network),
            "past": _Section(experiment.past.newest),
        }

    @property
    def version(self) -> int:
        """A number that rises with every change."""
        return self._version

    def look(self) -> None:
        """Bring up to date what is due, unless another thread is at it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now - self._looked < PERIOD / 2:
                return
            self._looked = now
            version = self._version + 1
            changed = [each.look(now, version) for each in self._sections.values()]
            if any(changed):
                self._version = version
            self._changes = {}
        finally:
            self._lock.release()

    def since(self, version: int) -> tuple[int, bytes]:
        """Up to which version, and what changed since one (0: all) in JSON, encoded once."""
        found = self._changes.get(version)
        if found is None:
            # read first: what changes meanwhile is said again, and never left out
            newest = self._version
            parts = [
                b'"%b":%b' % (name.encode(), each.encoded)
                for name, each in self._sections.items()
                if each.version > version
            ]
            head = b'{"now":%.3f,"sections":{' % self._node.clock()
            found = self._changes[version] = newest, head + b",".join(parts) + b"}}"
        return found

    def _agent(self) -> dict[str, Any]:
        node = self._node
        agent = self._experiment.agent
        return {
            "name": node.name,
            "version": __version__,
            "started": traffic_of(node).started,
            "experiment": self._experiment.name,
            "experiments": list(node.experiments),
            "family": agent.family.name,
            "reward_range": agent.reward_range,
            "error": None if agent.stop is None else agent.stop.error,
        }

    def _verdict(self) -> Any:
        try:
            return self._experiment.verdict()
        except Unknown:  # it has no `stop`
            return None


# Server-sent events: once a second what changed, to as many viewers as an agent can spare.
#
# A viewer is sent the next change when it has taken the last, so that a slow one costs no memory;
# one that takes none for ten seconds is dropped. The work is done in a thread of the views, once
# for all.

MOST = 50  # viewers
PATIENCE = 10.0  # seconds in which a viewer must take what it is sent
CROWDED = "this agent streams to as many viewers as it takes: ask for /v1/page now and then"
ENDING = "this agent is about to stop"


class Watched:
    """One experiment that somebody watches: looked at once a second while there are viewers."""

    def __init__(self, sections: Sections) -> None:
        self.sections = sections
        self.viewers = 0
        self.task: asyncio.Task[None] | None = None  # that looks
        self.beat = asyncio.Event()  # replaced at each


class Streams:
    """The viewers of a server; for one event loop."""

    def __init__(self, node: Node, pool: Executor) -> None:
        self._node = node
        self._pool = pool
        self._traffic = traffic_of(node)  # which counts them
        self._watched: dict[str, Watched] = {}
        self._sections: dict[str, tuple[Experiment, Sections]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()

    def sections(self, experiment: Experiment) -> Sections:
        """Those of an experiment, which a reload may replace under the same name."""
        known = self._sections.get(experiment.name)
        if known is None or known[0] is not experiment:
            known = self._sections[experiment.name] = experiment, Sections(self._node, experiment)
        return known[1]

    def end(self) -> None:
        """Let all viewers go, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._end.set)

    async def serve(self, experiment: Experiment, receive: Receive, send: Send) -> None:
        """Stream to one viewer until it leaves or is too slow, or the experiment or agent ends."""
        self._loop = asyncio.get_running_loop()
        if self._end.is_set():
            raise Refusal(503, "not ready", ENDING)
        if self._traffic.viewers >= MOST:
            raise Refusal(503, "too many viewers", CROWDED)
        watched = self._watch(experiment)
        watched.viewers += 1
        self._traffic.viewers += 1
        left = asyncio.ensure_future(_until_gone(receive))
        try:
            await self._stream(experiment, watched, left, send)
        except TimeoutError:  # the connection is closed, for the answer has no end
            self._traffic.refused.add("too slow")
        finally:
            watched.viewers -= 1
            self._traffic.viewers -= 1
            left.cancel()

    async def _stream(
        self, experiment: Experiment, watched: Watched, left: asyncio.Future[None], send: Send
    ) -> None:
        kind = (b"content-type", b"text/event-stream; charset=utf-8")
        start = {"type": "http.response.start", "status": 200, "headers": [kind, *HEADERS]}
        await send(start)
        ended = asyncio.ensure_future(self._end.wait())
        seen = 0
        try:
            while self._runs(experiment) and not (left.done() or ended.done()):
                beat = asyncio.ensure_future(watched.beat.wait())
                if seen or watched.sections.version:
                    seen, change = watched.sections.since(seen)
                    body = b"data: %b\n\n" % change
                    async with asyncio.timeout(PATIENCE):
                        await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.wait((beat, left, ended), return_when=asyncio.FIRST_COMPLETED)
                beat.cancel()
            if not left.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            ended.cancel()

    def _runs(self, experiment: Experiment) -> bool:
        """Whether it is one of the agent's still: a reload may have removed or replaced it."""
        return self._node.experiments.get(experiment.name) is experiment

    def _watch(self, experiment: Experiment) -> Watched:
        watched = self._watched.get(experiment.name)
        sections = self.sections(experiment)
        if watched is None or watched.sections is not sections:
            watched = self._watched[experiment.name] = Watched(sections)
        if watched.task is None or watched.task.done():
            watched.task = asyncio.ensure_future(self._beat(watched))
        return watched

    async def _beat(self, watched: Watched) -> None:
        """Look once a second while somebody watches."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # the first viewer is counted after this began
        while watched.viewers and not self._end.is_set():
            began = loop.time()
            await loop.run_in_executor(self._pool, watched.sections.look)
            beat = watched.beat
            watched.beat = asyncio.Event()
            beat.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), max(0.0, began + PERIOD - loop.time()))


async def _until_gone(receive: Receive) -> None:
    """Wait until a client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
