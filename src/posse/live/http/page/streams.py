"""Server-sent events: once a second what changed, to as many viewers as an agent can spare.

A viewer is sent the next change when it has taken the last, so that a slow one costs no memory; one
that takes none for ten seconds is dropped. The work is done in a thread of the views, once for all.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import suppress

from posse.live.experiment import Experiment
from posse.live.http.answers import Refusal
from posse.live.http.guard import Receive, Send
from posse.live.http.page.assets import HEADERS
from posse.live.http.page.sections import PERIOD, Sections
from posse.live.http.traffic import traffic_of
from posse.live.node import Node

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
        self._node, self._pool = node, pool
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
            beat, watched.beat = watched.beat, asyncio.Event()
            beat.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), max(0.0, began + PERIOD - loop.time()))


async def _until_gone(receive: Receive) -> None:
    """Wait until a client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
