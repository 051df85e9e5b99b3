"""The HTTP protocol class: malformed requests get a JSON error, and headers have a limit."""

from __future__ import annotations

import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 65_536  # bytes
ALONE = "posse.alone"  # in the scope of a request: whether there is no other connection


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol with a limit on headers and errors in JSON; its own has neither."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._head = 0  # bytes of the head that is under way

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        super().on_message_begin()
        self.scope[ALONE] = len(self.connections) == 1  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        """It has ended."""
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take in what came, up to the largest head."""
        super().data_received(data)
        self._head = self._head + len(data) if self._in_head else 0
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"the headers are larger than {LARGEST_HEAD} bytes: send less")

    def send_400_response(self, msg: str) -> None:
        """Refuse it in one sentence, and hang up; answers that are under way go out first."""
        if self.cycle is not None and not self.cycle.response_complete:
            if not self.cycle.more_body:
                self.cycle.keep_alive = False
                return
            self.cycle.disconnected = True  # the rest of its body will never come
            self.cycle.message_event.set()
        body = json.dumps({"error": msg}).encode()
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()
