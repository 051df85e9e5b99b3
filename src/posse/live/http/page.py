"""The page at `/`: its files, its sections, and the server-sent events that feed it.

A viewer is sent the next event when it has taken the last, so that a slow viewer costs no memory; a
viewer that takes none for ten seconds is dropped (a slow reader is the mirror image of slowloris).
When all places are taken, a new viewer displaces the one that has been behind longest.
The page of a demonstration uses the same streams.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from posse import __version__, web
from posse.live.experiment import LiveExperiment
from posse.live.http import handlers as views
from posse.live.http.access_control import Receive, Send
from posse.live.http.health import get_traffic
from posse.live.http.responses import Headers, RequestRefused, Response
from posse.live.node import Node
from posse.live.store import Unknown

MAX_SEND_SECONDS = 10.0  # in which a viewer must take an event
CONTENT_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")


async def stream_events(
    receive: Receive, send: Send, events: AsyncGenerator[bytes, None], headers: Headers = ()
) -> None:
    """Send events until they end or the viewer disconnects; TimeoutError if it is too slow.

    events: encoded, each with its empty line. After an error the server closes the connection,
    because the response has not ended.
    """
    start = {"type": "http.response.start", "status": 200, "headers": [CONTENT_TYPE, *headers]}
    await send(start)
    # Disconnection is watched during the wait for events: a viewer that left would otherwise occupy
    # its place until the next event.
    disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
    upcoming: asyncio.Future[bytes | None] = asyncio.ensure_future(_next_event(events))
    try:
        while True:
            await asyncio.wait((upcoming, disconnected), return_when=asyncio.FIRST_COMPLETED)
            if disconnected.done():
                return
            event = upcoming.result()
            if event is None:
                break
            async with asyncio.timeout(MAX_SEND_SECONDS):
                await send({"type": "http.response.body", "body": event, "more_body": True})
            upcoming = asyncio.ensure_future(_next_event(events))
        await send({"type": "http.response.body", "body": b""})
    finally:
        disconnected.cancel()
        # a generator can be closed only when it is not running
        upcoming.cancel()
        await asyncio.wait((upcoming,))
        await events.aclose()


async def _next_event(events: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(events, None)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until a client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


# --- files of the page: static, the same for everybody, and therefore without a token

# Nothing of another site is loaded, and no inline script runs: names of arms and agents come from
# the network, so injected markup must do no harm (XSS).
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS: Headers = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
CONTENT_TYPES = {
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
    "event-stream.js",
    "format.js",
    "guardrails.js",
    "marks.js",
    "network.js",
    "orders.js",
    "past.js",
    "segments.js",
    "sites.js",
    "states.js",
    "stream.js",
    "theme.js",
    "tips.js",
    "words.js",
)
_FILES_BY_PATH = {"/": PAGE} | {f"/assets/{name}": name for name in ASSETS}


def is_asset(path: str) -> bool:
    """Return whether a path is that of the page or of one of its files."""
    return path in _FILES_BY_PATH


def read_asset(path: str) -> Response:
    """Read the page or one of its files."""
    name = _FILES_BY_PATH[path]
    return Response(200, web.read(name).encode(), CONTENT_TYPES[name.rpartition(".")[2]], HEADERS)


# --- sections of the page of one experiment, encoded once for all viewers
#
# A section is computed while there are viewers, at most once a second, and so rarely that it takes
# no more than a small share of a core: with hundreds of sites it takes long.

REFRESH_SECONDS = 1.0  # between two refreshes
MAX_CORE_SHARE = 0.005  # of a core, for one section

_encode = msgspec.json.Encoder().encode


class Section:
    """One section of the page: its function, and its last value as JSON."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.compute = make
        self._cpu_seconds = 0.0
        self._refreshed_at = float("-inf")
        self.version = 0
        self.encoded = b"null"

    def refresh(self, now: float, version: int) -> bool:
        """Compute the section if it is due; return whether it changed, to this version."""
        # A section that takes 10 ms of CPU is computed every 2 seconds at most.
        if now - self._refreshed_at < max(REFRESH_SECONDS / 2, self._cpu_seconds / MAX_CORE_SHARE):
            return False
        began = time.thread_time()
        encoded = _encode(self.compute())
        self._cpu_seconds = time.thread_time() - began
        self._refreshed_at = now
        if encoded == self.encoded and self.version:
            return False
        self.encoded = encoded
        self.version = version
        return True


class PageSections:
    """The sections of one experiment; any thread may refresh them."""

    def __init__(self, node: Node, experiment: LiveExperiment) -> None:
        self._node = node
        self._experiment = experiment
        self.lock = threading.Lock()
        self._version = 0
        self._refreshed_at = float("-inf")
        self._changes: dict[int, tuple[int, bytes]] = {}  # since a version, up to another
        self.by_name = {
            "agent": Section(self.describe_agent),
            "arms": Section(experiment.arms),
            "experiment": Section(lambda: views.describe_experiment(experiment)),
            "controls": Section(experiment.control_status),
            "verdict": Section(self._compute_verdict),
            "lift": Section(experiment.compare_leader),
            "uplift": Section(self._compute_uplift),
            "guardrails": Section(self._compute_guardrails),
            "audit": Section(experiment.audit),
            "sites": Section(experiment.build_site_map),
            "network": Section(node.network),
            "start": Section(experiment.recorder.find_start),
            "past": Section(experiment.recorder.newest_marks),
        }

    @property
    def version(self) -> int:
        """A number that rises with every change."""
        return self._version

    def refresh(self) -> None:
        """Refresh the sections that are due, unless another thread does so now."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now - self._refreshed_at < REFRESH_SECONDS / 2:
                return
            self._refreshed_at = now
            version = self._version + 1
            changed = [section.refresh(now, version) for section in self.by_name.values()]
            if any(changed):
                self._version = version
            # Changes are cached by the version that a viewer has, and nearly all viewers have the
            # same.
            self._changes = {}
        finally:
            self.lock.release()

    def changes_since(self, version: int) -> tuple[int, bytes]:
        """Return the newest version, and the sections changed since one (0: all) as JSON."""
        change = self._changes.get(version)
        if change is None:
            # read first: a section that changes meanwhile is sent again, never omitted
            newest = self._version
            parts = [
                b'"%b":%b' % (name.encode(), section.encoded)
                for name, section in self.by_name.items()
                if section.version > version
            ]
            head = b'{"now":%.3f,"sections":{' % self._node.clock()
            change = self._changes[version] = newest, head + b",".join(parts) + b"}}"
        return change

    def describe_agent(self) -> dict[str, Any]:
        """Describe the agent at the head of the page: name, version, experiments, reward family."""
        node = self._node
        agent = self._experiment.agent
        return {
            "name": node.name,
            "version": __version__,
            "started": get_traffic(node).started,
            "experiment": self._experiment.name,
            "experiments": list(node.experiments),
            "family": agent.family.name,
            "reward_range": agent.reward_range,
            "error": None if agent.stop is None else agent.stop.error,
        }

    def _compute_uplift(self) -> Any:
        try:
            return self._experiment.uplift()
        except Unknown:  # it has no holdout
            return None

    def _compute_guardrails(self) -> Any:
        try:
            return self._experiment.metrics()
        except Unknown:  # it has no metrics
            return None

    def _compute_verdict(self) -> Any:
        try:
            return self._experiment.verdict()
        except Unknown:  # it has no `stop`
            return None


# --- server-sent events: changed sections once a second, to a bounded number of viewers
#
# Sections are computed once for all viewers, in a thread.

MAX_VIEWERS = 50  # viewers
# A viewer that keeps up has taken everything a moment after each event, that is, every second.
MIN_BEHIND_SECONDS = 5.0  # without such a moment, until a viewer may be displaced
TOO_MANY_VIEWERS = "too many viewers: close some, or poll /v1/page"
AGENT_STOPPING = "this agent is stopping"


class ViewerTransport(Protocol):
    """The transport of a viewer's connection."""

    def count_unread_bytes(self) -> int:
        """Count the bytes sent that the viewer's machine has not acknowledged."""

    def abort(self) -> None:
        """Close the connection at once."""


class Viewer:
    """A viewer, and when it last had taken all that was sent.

    transport: None under another server than ours; then the viewer seems to keep up.
    """

    def __init__(self, transport: ViewerTransport | None) -> None:
        self.transport = transport
        self.caught_up_at = time.monotonic()

    def check_progress(self) -> None:
        """Note the time if the viewer has taken everything."""
        if self.transport is None or not self.transport.count_unread_bytes():
            self.caught_up_at = time.monotonic()


class WatchedExperiment:
    """One experiment with viewers, refreshed once a second."""

    def __init__(self, sections: PageSections) -> None:
        self.sections = sections
        self.viewers = 0
        self.task: asyncio.Task[None] | None = None  # that looks
        self.beat = asyncio.Event()  # replaced at each


class PageStreams:
    """The viewers of a server; for one event loop."""

    def __init__(self, node: Node, pool: Executor) -> None:
        self._node = node
        self._pool = pool
        self._traffic = get_traffic(node)  # which counts them
        self._watched: dict[str, WatchedExperiment] = {}
        self._sections: dict[str, tuple[LiveExperiment, PageSections]] = {}
        self._viewers: set[Viewer] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()

    def get_sections(self, experiment: LiveExperiment) -> PageSections:
        """Return the sections of an experiment, which a reload may replace under the same name."""
        entry = self._sections.get(experiment.name)
        if entry is None or entry[0] is not experiment:
            entry = self._sections[experiment.name] = (
                experiment,
                PageSections(self._node, experiment),
            )
        return entry[1]

    def end_streams(self) -> None:
        """End all streams, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._end.set)

    async def stream_to_viewer(
        self,
        experiment: LiveExperiment,
        receive: Receive,
        send: Send,
        transport: ViewerTransport | None = None,
    ) -> None:
        """Stream to one viewer until it leaves, is too slow, or the experiment or agent ends."""
        self._loop = asyncio.get_running_loop()
        # A stream that begins during the shutdown would delay it.
        if self._end.is_set():
            raise RequestRefused(503, "not_ready", AGENT_STOPPING)
        if len(self._viewers) >= MAX_VIEWERS and not self._displace_viewer():
            raise RequestRefused(503, "too_many_viewers", TOO_MANY_VIEWERS)
        watched = self._watch_experiment(experiment)
        watched.viewers += 1
        viewer = Viewer(transport)
        self._viewers.add(viewer)
        self._traffic.viewers = len(self._viewers)
        try:
            changes = self._list_changes(experiment, watched, viewer)
            await stream_events(receive, send, changes, HEADERS)
        except TimeoutError:  # the connection is closed, for the answer has no end
            self._traffic.refusals.add("too_slow")
        finally:
            watched.viewers -= 1
            self._viewers.discard(viewer)
            self._traffic.viewers = len(self._viewers)

    def _displace_viewer(self) -> bool:
        """Disconnect the viewer that has been behind longest, if one is; return whether so."""
        for viewer in self._viewers:
            viewer.check_progress()
        longest = min(self._viewers, key=lambda viewer: viewer.caught_up_at, default=None)
        if longest is None or longest.transport is None:
            return False
        if time.monotonic() - longest.caught_up_at < MIN_BEHIND_SECONDS:
            return False
        self._traffic.refusals.add("too_slow")
        longest.transport.abort()
        # Its task ends a little later; its place is free now.
        self._viewers.remove(longest)
        return True

    async def _list_changes(
        self, experiment: LiveExperiment, watched: WatchedExperiment, viewer: Viewer
    ) -> AsyncGenerator[bytes, None]:
        """Yield the changes as events, until the experiment or the agent ends."""
        ended = asyncio.ensure_future(self._end.wait())
        sent_version = 0
        try:
            while self._is_running(experiment) and not ended.done():
                # taken before the changes: a beat while they are sent is not missed
                beat = watched.beat
                viewer.check_progress()
                if sent_version or watched.sections.version:
                    sent_version, change = watched.sections.changes_since(sent_version)
                    yield b"data: %b\n\n" % change
                next_beat = asyncio.ensure_future(beat.wait())
                try:
                    await asyncio.wait((next_beat, ended), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    next_beat.cancel()
        finally:
            ended.cancel()

    def _is_running(self, experiment: LiveExperiment) -> bool:
        """Return whether the experiment still runs: a reload may have removed or replaced it."""
        return self._node.experiments.get(experiment.name) is experiment

    def _watch_experiment(self, experiment: LiveExperiment) -> WatchedExperiment:
        watched = self._watched.get(experiment.name)
        sections = self.get_sections(experiment)
        if watched is None or watched.sections is not sections:
            watched = self._watched[experiment.name] = WatchedExperiment(sections)
        if watched.task is None or watched.task.done():
            watched.task = asyncio.ensure_future(self._refresh_periodically(watched))
        return watched

    async def _refresh_periodically(self, watched: WatchedExperiment) -> None:
        """Refresh once a second while there are viewers."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # the first viewer is counted after this task has started
        while watched.viewers and not self._end.is_set():
            began = loop.time()
            await loop.run_in_executor(self._pool, watched.sections.refresh)
            beat = watched.beat
            # The new event is in place before the old one is set: a viewer that wakes waits for the
            # next beat at once.
            watched.beat = asyncio.Event()
            beat.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._end.wait(), max(0.0, began + REFRESH_SECONDS - loop.time())
                )
