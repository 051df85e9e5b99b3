"""The listening sockets of the HTTP server: bounds on the number and time of TLS handshakes.

asyncio's servers accept sockets without a limit, and a protocol learns of a connection only after
its handshake. A half-open handshake takes 50 kB: 9000 silent sockets would take 480 MB. Here the
sockets are counted as soon as they are accepted. A silent one takes 5 kB, because TLS begins with
the first byte of its client.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sized
from contextlib import suppress
from functools import partial

import uvicorn

from posse.live.http.protocol import ServerLimits

MIN_PENDING = 16  # sockets before the end of their handshake, however many connections there are
HANDSHAKE_SHARE = 0.25  # handshakes under way, of the connections allowed
ACCEPTS_PER_TURN = 100  # of the event loop, in which other connections want to be served, too
RETRY_SECONDS = 1.0  # after the kernel refused to accept, mostly for want of file descriptors

log = logging.getLogger(__name__)


class TlsListener:
    """Accepts sockets, and makes those connections whose TLS handshake succeeds in time.

    Sockets before the end of their handshake take the places that connections leave, at least
    `MIN_PENDING`. Beyond them the oldest is closed, so that new clients always have a chance.

    connections: the present ones, which are counted. `close` and `wait_closed` are those of
    asyncio's servers.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        create_protocol: Callable[[], asyncio.Protocol],
        limits: ServerLimits,
        connections: Sized,
    ) -> None:
        self._listener = listener
        self._context = context
        self._create_protocol = create_protocol
        self._limits = limits
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        # Both in order of arrival. A displaced task is removed at once and ends a little later.
        self._silent: dict[asyncio.Task[None], None] = {}
        self._handshakes: dict[asyncio.Task[None], None] = {}

    def start(self, backlog: int) -> None:
        """Listen; at most `backlog` sockets wait in the kernel."""
        self._listener.setblocking(False)
        self._listener.listen(backlog)
        self._loop.add_reader(self._listener, self._accept_clients)

    def close(self) -> None:
        """Accept no more sockets, and close those without a finished handshake."""
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        for task in (*self._silent, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait for the end of all handshakes."""
        await asyncio.gather(*self._silent, *self._handshakes, return_exceptions=True)

    def _accept_clients(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted (%s): retrying soon", error)
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(
                    RETRY_SECONDS, self._loop.add_reader, self._listener, self._accept_clients
                )
                return
            client.setblocking(False)
            self._make_room()
            task = self._loop.create_task(self._admit_client(client))
            self._silent[task] = None
            task.add_done_callback(partial(self._finish_client, client))

    def _make_room(self) -> None:
        """Close the oldest pending sockets if there are too many."""
        free = self._limits.max_connections - len(self._connections)
        while len(self._silent) + len(self._handshakes) >= max(MIN_PENDING, free):
            # Of the larger group: neither sockets without a word, nor those that began a handshake,
            # can take the places of all others.
            self._displace_oldest(max(self._silent, self._handshakes, key=len))

    def _displace_oldest(self, group: dict[asyncio.Task[None], None]) -> None:
        oldest = next(iter(group))
        del group[oldest]
        oldest.cancel()
        self._limits.refusals.add("too_many_connections")

    async def _admit_client(self, client: socket.socket) -> None:
        """Perform a handshake; the new connection is then in the hands of its protocol."""
        task = asyncio.current_task()
        assert task is not None
        async with asyncio.timeout(self._limits.request_seconds):
            await self._wait_for_data(client)
            # A client that has left needs no handshake, and none of its memory.
            if not client.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("the client has left")
            allowed = max(MIN_PENDING, round(HANDSHAKE_SHARE * self._limits.max_connections))
            if len(self._handshakes) >= allowed:
                self._displace_oldest(self._handshakes)
            del self._silent[task]
            self._handshakes[task] = None
            await self._loop.connect_accepted_socket(
                self._create_protocol,
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.request_seconds,  # else it is a minute
            )

    async def _wait_for_data(self, client: socket.socket) -> None:
        arrived = asyncio.Event()
        self._loop.add_reader(client, arrived.set)
        try:
            await arrived.wait()
        finally:
            self._loop.remove_reader(client)

    def _finish_client(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._silent.pop(task, None)
        self._handshakes.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        # also if the task was cancelled before it began
        client.close()
        if isinstance(error, TimeoutError):
            self._limits.refusals.add("too_slow")
        elif error is not None and not isinstance(error, OSError):  # TLS errors are OSErrors
            raise error


class LimitedServer(uvicorn.Server):
    """uvicorn's server with limits on TLS handshakes.

    It checks its clients every second, and exits at once on request.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exit_requested = asyncio.Event()
        self.servers = []

    def request_exit(self) -> None:
        """Ask the server to exit, from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._exit_requested.set)

    async def main_loop(self) -> None:
        """Run the periodic checks every second until the exit."""
        # uvicorn's own loop sleeps for 0.1 s at a time. Tick 0 is the one that runs the checks, and
        # the event ends the wait as soon as an exit is requested.
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exit_requested.wait(), 1.0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the given sockets."""
        self._loop = loop = asyncio.get_running_loop()
        config = self.config
        create_protocol = partial(
            config.http_protocol_class,
            config=config,  # type: ignore[call-arg]
            server_state=self.server_state,
            app_state={},
        )
        limits: ServerLimits = config.http_protocol_class.limits  # type: ignore[attr-defined]
        for listener in sockets or ():
            if config.ssl is None:
                server = await loop.create_server(
                    create_protocol, sock=listener, backlog=config.backlog
                )
                self.servers.append(server)
            else:
                handshakes = TlsListener(
                    listener, config.ssl, create_protocol, limits, self.server_state.connections
                )
                handshakes.start(config.backlog)
                self.servers.append(handshakes)  # type: ignore[arg-type]  # has the two methods
        self.started = True
