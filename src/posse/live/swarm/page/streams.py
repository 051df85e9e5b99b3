"""Server-sent events: every view of a swarm to its viewers, as it is taken.

A viewer is sent the next views when it has taken the last, so that a slow one costs no memory; one
that takes none for ten seconds is dropped.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from posse.live.http.answers import Refusal
from posse.live.http.guard import Receive, Send
from posse.live.swarm.page.ring import Ring

MOST = 20  # viewers
PATIENCE = 10.0  # seconds in which a viewer must take what it is sent
HEARTBEAT = 2.0  # seconds after which a stream without news says that it is there
CROWDED = f"{MOST} others watch this swarm already: ask for its views once a second"


class Streams:
    """The viewers of a ring; for one event loop."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._viewers: set[asyncio.Event] = set()  # each is set when there is news
        self._loop: asyncio.AbstractEventLoop | None = None
        ring.tell(self._wake)

    def end(self) -> None:
        """Let all viewers go, from any thread."""
        self._ring.end()

    async def serve(self, after: int, receive: Receive, send: Send) -> None:
        """Stream what comes after a view, until the viewer leaves, is too slow, or all ends."""
        self._loop = asyncio.get_running_loop()
        if len(self._viewers) >= MOST:
            raise Refusal(503, "too many viewers", CROWDED)
        kind = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        news, left = asyncio.Event(), asyncio.ensure_future(_until_gone(receive))
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
            changes, after = self._ring.since(after)
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
