"""The HTTP protocol class: limits on heads, bodies, times and connections (against slowloris).

All uses of uvicorn's internals are in this file and in listener.py; pyproject.toml bounds its
versions.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from posse.live.counters import Counts
from posse.live.http.access_control import MAX_BODY_BYTES, TRANSPORT_EXTENSION

MAX_HEAD_BYTES = 65_536  # of a request besides its body: head, trailers, chunk extensions
CHUNK_OVERHEAD = 16  # bytes of framing around an ordinary chunk, at most
MAX_HEADERS = 256  # each takes more memory than it has bytes
MAX_PIPELINED = 16  # requests sent ahead of their answers on one connection
FREE_BODY_BYTES = 16_384  # every connection may send so much, whatever the others do
HEAD_TOO_LARGE = f"headers larger than {MAX_HEAD_BYTES} bytes: send less"
TOO_MANY_HEADERS = f"more than {MAX_HEADERS} headers: send fewer"
TOO_MANY_PIPELINED = f"more than {MAX_PIPELINED} pipelined requests: wait for some answers"
NO_BODY_MEMORY = "too many request bytes at once: retry later, or send less"
TOO_MANY_CONNECTIONS = "too many connections: retry later, or close some"
NOT_HTTP = "not an HTTP/1.1 request"
CONTINUE = b"HTTP/1.1 100 "


@dataclass
class BodyMemory:
    """Memory for unanswered request bodies, of all connections together."""

    size: int = 32_000_000  # bytes
    taken: int = 0


@dataclass(frozen=True)
class ServerLimits:
    """What a server accepts from its clients."""

    max_connections: int = 1000
    request_seconds: float = (
        10.0  # seconds from the first byte of a request (or the connection) to its end
    )
    idle_seconds: float = 60.0  # seconds until a connection without requests is closed
    refusals: Counts = field(default_factory=Counts)  # by reason
    body_memory: BodyMemory = field(default_factory=BodyMemory)


class CoalescingTransport:
    """A transport that sends the head of an answer together with its body.

    uvicorn writes them one after the other, and uvloop sends each at once: two system calls, and a
    client that is woken twice.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send data, but delay a head: a body follows it, be it empty."""
        # An interim response (100 Continue) must not wait for a body: the client sends its body
        # only after it.
        if not self._head and data.startswith(b"HTTP/1.1 ") and not data.startswith(CONTINUE):
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def close(self) -> None:
        """Close the transport after all that was written."""
        # If no body followed, for example after an error of the app, the head is sent all the same.
        if self._head:
            self.write(b"")
        self._transport.close()

    def abort(self) -> None:
        """Close the transport at once."""
        self._transport.abort()

    def count_unread_bytes(self) -> int:
        """Count the bytes sent that the client's machine has not acknowledged."""
        if self._transport.is_closing():
            return 0
        unread = self._transport.get_write_buffer_size()
        connection = self._transport.get_extra_info("socket")
        # The kernel's share is megabytes large, and known on Linux only. Without it a client that
        # takes nothing is noticed later.
        with suppress(OSError):
            queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
            unread += int.from_bytes(queued, sys.byteorder)
        return unread


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits; its own has few."""

    limits = ServerLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting_since: float | None = None  # when the wait for the rest of a request began
        self._write_blocked_since: float | None = None  # the client does not receive its answer
        self._segment_bytes = 0  # of the last segment
        self._head_bytes = 0  # of the present request besides its body
        self._idle_since = 0.0  # end of the last request
        self._body_bytes = 0  # of bodies that are not answered yet
        self._refusal = (b"400 Bad Request", NOT_HTTP, "not_http")  # if the parser fails
        self._ignores_input = False  # refused: further data is dropped

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, in place of the longest idle one; refuse it if all are busy."""
        if len(self.connections) >= self.limits.max_connections and not self._drop_longest_idle():
            self.transport = transport
            self._send_refusal(
                b"503 Service Unavailable", TOO_MANY_CONNECTIONS, "too_many_connections"
            )
            return
        super().connection_made(transport)
        self._coalescing: Any = CoalescingTransport(transport)
        # The clock starts with the connection: a slowloris client may connect and send nothing.
        self._waiting_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what the connection used."""
        self._release_body_memory()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start the clock of a request."""
        if self._waiting_since is None:
            self._waiting_since = self.loop.time()
        super().on_message_begin()
        # By this ASGI extension a stream learns whether its client takes what is sent.
        self.scope["extensions"] = {TRANSPORT_EXTENSION: self._coalescing}

    def on_headers_complete(self) -> None:
        """Check the size of a head, which may be too large even if it came in few segments."""
        # The exact size visits every header. It is computed only where the bytes received allow a
        # head that is too large.
        if max(self._segment_bytes, self._head_bytes) > MAX_HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD_BYTES:
                self._abort_parsing(b"400 Bad Request", HEAD_TOO_LARGE, "head_too_large")
        if len(self.headers) > MAX_HEADERS:
            self._abort_parsing(b"400 Bad Request", TOO_MANY_HEADERS, "head_too_large")
        if len(self.pipeline) >= MAX_PIPELINED:
            self._abort_parsing(b"400 Bad Request", TOO_MANY_PIPELINED, "too_many_pipelined")
        super().on_headers_complete()
        if (
            self.cycle is not None and self.parser.get_method() != b"HEAD"
        ):  # its response has no body
            self.cycle.transport = self._coalescing
        self.headers = []  # trailers are not headers of the request

    def on_chunk_header(self) -> None:
        """Subtract the framing of a chunk."""
        # Only ordinary framing is free: a long chunk extension counts as head, otherwise it could
        # be used to send without a limit.
        self._head_bytes -= CHUNK_OVERHEAD

    def on_body(self, body: bytes) -> None:
        """Count some bytes of a body."""
        self._head_bytes -= len(body)
        # uvicorn drops the bytes that arrive after the answer, so they take no memory.
        if self.cycle is not None and not self.cycle.response_complete:
            self._reserve_body_memory(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock of a request."""
        self._waiting_since = None
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Release the memory of answered bodies."""
        self._idle_since = self.loop.time()
        # Bodies of pipelined requests are counted together, and released after the last answer.
        if not self.pipeline:
            self._release_body_memory()
        super().on_response_complete()
        if self.pipeline:  # uvicorn would read on, however many requests wait
            self.flow.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Parse data, up to the largest head."""
        if self._ignores_input:
            return
        self._segment_bytes = len(data)
        self._head_bytes += self._segment_bytes
        super().data_received(data)
        # The free framing of many small chunks may exceed what they took: no credit for later
        # heads.
        self._head_bytes = max(0, self._head_bytes)
        if self._ignores_input or self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refusal = (b"400 Bad Request", HEAD_TOO_LARGE, "head_too_large")
            self.send_400_response(HEAD_TOO_LARGE)
        elif len(self.headers) > MAX_HEADERS:  # of a head or trailers that continue
            self._refusal = (b"400 Bad Request", TOO_MANY_HEADERS, "head_too_large")
            self.send_400_response(TOO_MANY_HEADERS)

    def send_400_response(self, msg: str) -> None:
        """Refuse the request in one sentence and close, after the answers under way."""
        self._ignores_input = True
        if not self._close_after_answer(self._refusal[2]):
            self._send_refusal(*self._refusal)

    def check_deadlines(self, now: float) -> None:
        """Close the connection if its client takes too long; the server calls this every second."""
        # Slowloris protection: neither a request that trickles in nor an answer that is not
        # received may occupy a connection for longer than the limit.
        if self.transport.is_closing() or self.flow.write_paused:
            if self._write_blocked_since is None:
                self._write_blocked_since = now
            elif now - self._write_blocked_since > self.limits.request_seconds:
                self.limits.refusals.add("too_slow")
                self.transport.abort()
            return
        self._write_blocked_since = None
        if self._waiting_since is None:
            return
        if self.flow.read_paused:  # the server is slow, not the client
            self._waiting_since = now
        elif (
            now - self._waiting_since > self.limits.request_seconds
            and not self._close_after_answer("too_slow")
        ):
            if self._head_bytes:
                sentence = (
                    f"the request was not complete after {self.limits.request_seconds:g} seconds"
                )
                self._send_refusal(b"408 Request Timeout", sentence, "too_slow")
            else:  # it never sent a byte
                self.limits.refusals.add("too_slow")
                self.transport.close()

    def shutdown(self) -> None:
        """Close the connection: at once if a request is incomplete, else after its answer."""
        # The rest of a body may never come, so its answer is not worth waiting for.
        if self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body:
            self.transport.close()
        else:
            super().shutdown()

    @property
    def idle_since(self) -> float | None:
        """The time since which the client is waited for; None: a request is being answered."""
        # A client that does not receive its answer is idle, too: otherwise slow readers could
        # occupy all connections.
        if self._write_blocked_since is not None:
            return self._write_blocked_since
        if self.transport.is_closing() or self.pipeline:
            return None
        if self.cycle is None or self.cycle.response_complete:
            return self._idle_since if self._waiting_since is None else self._waiting_since
        return self._waiting_since if self.cycle.more_body else None

    def _drop_longest_idle(self) -> bool:
        """Close the connection that has been idle longest, if there is one.

        Otherwise 1000 silent connections, reopened when closed, would keep all other clients out.
        """
        ours = cast("set[LimitedProtocol]", self.connections)
        waiting = ((connection.idle_since, connection) for connection in ours)
        longest = min(
            ((since, connection) for since, connection in waiting if since is not None),
            key=lambda candidate: candidate[0],
            default=None,
        )
        if longest is None:
            return False
        self.limits.refusals.add("too_many_connections")
        # A closing connection has no idle_since, so it is not chosen a second time.
        longest[1]._write_blocked_since = None
        longest[1].transport.abort()
        return True

    def _reserve_body_memory(self, size: int) -> None:
        """Count bytes of a body; beyond a few they need some of the shared memory."""
        before = self._body_bytes
        # A body beyond the largest size is refused and drained, not stored: it takes no further
        # memory.
        self._body_bytes = min(self._body_bytes + size, MAX_BODY_BYTES + FREE_BODY_BYTES)
        if self._body_bytes <= FREE_BODY_BYTES:
            return
        memory = self.limits.body_memory
        # Invariant: `taken` is the sum over all connections of the bytes beyond the free ones;
        # `_release_body_memory` subtracts exactly what was added here.
        memory.taken += self._body_bytes - max(before, FREE_BODY_BYTES)
        if memory.taken > memory.size:
            self._abort_parsing(b"503 Service Unavailable", NO_BODY_MEMORY, "body_memory_full")

    def _release_body_memory(self) -> None:
        self.limits.body_memory.taken -= max(0, self._body_bytes - FREE_BODY_BYTES)
        self._body_bytes = 0

    def _abort_parsing(self, status: bytes, sentence: str, reason: str) -> NoReturn:
        """Stop the parser and refuse the request."""
        # An exception in a callback is the only way to stop httptools; uvicorn then calls
        # `send_400_response`, which sends this refusal.
        self._refusal = status, sentence, reason
        raise ValueError(sentence)

    def _close_after_answer(self, reason: str) -> bool:
        """Return whether an answer is under way, after which the connection will be closed."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        if not self.cycle.more_body:
            self.cycle.keep_alive = False
            self.limits.refusals.add(reason)
            return True
        self.cycle.disconnected = True  # the rest of its body will be dropped
        self.cycle.message_event.set()
        return False

    def _send_refusal(self, status: bytes, sentence: str, reason: str) -> None:
        self.limits.refusals.add(reason)
        body = json.dumps({"error": sentence}).encode()
        self.transport.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
        )
        self.transport.close()


def make_limited_protocol(given: ServerLimits) -> type[LimitedProtocol]:
    """Create the protocol class of a server with these limits."""

    class Limited(LimitedProtocol):
        limits = given

    return Limited
