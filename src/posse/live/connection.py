"""One HTTP connection of a client: the address, timeouts and retries, and the response."""

from __future__ import annotations

import base64
import json
import os
import random
import selectors
import socket
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from posse import checks
from posse.live.store import StoreError

LONGEST = 5.0  # seconds between two attempts
IDLE = 1.0  # seconds after which a connection is looked at before it is used again


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    content: bytes
    retry_after: str = ""  # seconds

    @property
    def error(self) -> str | None:
        """The agent's own words for what is wrong, if it was the agent."""
        try:
            return str(json.loads(self.content)["error"])
        except (ValueError, TypeError, KeyError):
            return None


class Address:
    """Where an agent is, the timeout, and the number of attempts."""

    def __init__(self, url: str, timeout: float, attempts: int, backoff: float) -> None:
        self.url, self.attempts = url, checks.whole("attempts", attempts, at_least=1)
        self.timeout = checks.number("timeout", timeout, above=0)
        self.backoff = checks.number("backoff", backoff, at_least=0)
        self.socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        try:
            self.parts = urlsplit("http://localhost" if self.socket is not None else url)
            self.hostname, self.port = self.parts.hostname or "", self.parts.port
        except ValueError:  # such as a port that is no number
            self.hostname = ""
        if not self.hostname or self.parts.scheme not in ("http", "https"):
            raise ValueError(f"url must be http://HOST:PORT or unix:/PATH, got {url!r}")
        self.host, self.path = self.parts.netloc.rpartition("@")[2], self.parts.path.rstrip("/")
        self._headers = {"Host": self.host, "Content-Type": "application/json"}
        if self.parts.username is not None:  # of a reverse proxy
            self.url = url.replace(self.parts.netloc, self.host, 1)  # errors end in logs
            user = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def request(self, path: str, body: Any) -> tuple[str, bytes, dict[str, str]]:
        """The path, the content and the headers of a request."""
        content = b"" if body is None else json.dumps(body).encode()
        return self.path + path, content, {**self._headers, "Content-Length": str(len(content))}

    def pause(self, attempt: int, failure: Exception | Answer) -> float:
        """The back-off before the next attempt, or the error after the last one."""
        if attempt >= self.attempts:
            if isinstance(failure, Answer):
                raise StoreError(failure.error or f"{self.url} is unavailable: try later")
            raise ConnectionError(
                f"no agent answers at {self.url} ({str(failure) or type(failure).__name__}): "
                "is it running?"
            ) from failure
        asked = 0.0
        if isinstance(failure, Answer) and failure.retry_after.isdecimal():
            asked = float(failure.retry_after)
        # spread, so that clients who failed together do not come back together
        wait = max(asked, self.backoff * 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.5)
        return min(wait, LONGEST)


class Connection:
    """One connection, of one thread at a time; Python's own is faster than those on top of it."""

    def __init__(self, address: Address) -> None:
        kind = HTTPSConnection if address.parts.scheme == "https" else HTTPConnection
        self._http = kind(address.hostname, address.port, timeout=address.timeout)
        if address.socket is not None:
            self._http.sock = _unix(address.socket, address.timeout)
        self._used, self._process = time.monotonic(), os.getpid()

    def ask(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> Answer:
        """Send a request and read the answer."""
        self._http.request(method, path, content, headers)
        answer = self._http.getresponse()
        content = answer.read()
        self._used = time.monotonic()
        return Answer(answer.status, content, answer.headers.get("Retry-After", ""))

    @property
    def usable(self) -> bool:
        """Whether the agent has not hung up meanwhile: then there would be an end to read.

        One that a forked child inherited is its parent's: each would get the other's answers.
        """
        if self._http.sock is None or self._process != os.getpid():
            return False
        if time.monotonic() - self._used < IDLE:
            return True
        with selectors.DefaultSelector() as waiting:  # select() refuses files from 1024 on
            waiting.register(self._http.sock, selectors.EVENT_READ)
            return not waiting.select(0)

    def close(self) -> None:
        """Hang up."""
        self._http.close()


def _unix(path: str, timeout: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    try:
        made.settimeout(timeout)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made
