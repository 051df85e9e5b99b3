"""Server-sent events to one viewer; the pages of agents and of demonstrations use it.

A viewer is sent the next event when it has taken the last, so that a slow viewer costs no memory; a
viewer that takes none for ten seconds is dropped (a slow reader is the mirror image of slowloris).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from posse.live.http.access_control import Receive, Send
from posse.live.http.responses import Headers

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
