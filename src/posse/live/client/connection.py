"""The connection to an agent: its address, the HTTP connection of `Client`, and retries."""

from __future__ import annotations

import base64
import json
import os
import random
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from posse import validation
from posse.live.client.calls import refusal_error
from posse.live.store import StoreError, validate_text

IDLE = 1.0  # seconds after which a connection is checked before it is used again


@dataclass(frozen=True)
class AgentResponse:
    """A response of an agent."""

    status: int
    content: bytes
    retry_after: str = ""  # seconds

    @property
    def error(self) -> str | None:
        """The agent's error message, if it was the agent that answered."""
        try:
            return str(json.loads(self.content)["error"])
        except (ValueError, TypeError, KeyError):
            return None


class Address:
    """The address of an agent, the experiment, and the credentials."""

    def __init__(
        self,
        url: str,
        timeout: float,
        *,
        experiment: str | None = None,
        token: str | None = None,
        verify: str | Path | None = None,
    ) -> None:
        self.url = url
        self.timeout = validation.validate_number("timeout", timeout, above=0)
        self.socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        try:
            self.parts = urlsplit("http://localhost" if self.socket is not None else url)
            self.hostname = self.parts.hostname or ""
            self.port = self.parts.port
        except ValueError:  # such as a port that is no number
            self.hostname = ""
        if not self.hostname or self.parts.scheme not in ("http", "https"):
            raise ValueError(
                f"url must be http://HOST:PORT, https://HOST:PORT or unix:/PATH, got {url!r}"
            )
        self.host, self.path = self.parts.netloc.rpartition("@")[2], self.parts.path.rstrip("/")
        self.base = self.path + "/v1"
        if experiment is not None:
            self.base += f"/experiments/{quote(validate_text('experiment', experiment), safe='')}"
        self.tls = self._create_tls_context(verify)
        self._headers = {"Host": self.host, "Content-Type": "application/json"}
        if self.parts.username is not None:  # of a reverse proxy
            self.url = url.replace(self.parts.netloc, self.host, 1)  # errors end in logs
            user = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        if token is not None:
            if "Authorization" in self._headers:
                raise ValueError("token must not be given beside a name and password in url")
            # A line end in the token could add further headers to every request (header injection).
            if not (isinstance(token, str) and token.isascii() and token.isprintable() and token):
                raise ValueError("token must be a line of printable ASCII characters")
            self._headers["Authorization"] = f"Bearer {token}"

    def build_request(self, path: str, body: Any) -> tuple[str, bytes, dict[str, str]]:
        """Return the path, the content and the headers of a request."""
        content = b"" if body is None else json.dumps(body).encode()
        below = self.path if path.startswith("/v1/") else self.base
        return below + path, content, {**self._headers, "Content-Length": str(len(content))}

    def _create_tls_context(self, verify: str | Path | None) -> ssl.SSLContext | None:
        """Create the TLS context that verifies the agent; None: no TLS."""
        if self.parts.scheme != "https":
            if verify is not None:
                raise ValueError(f"verify is for https, but url is {self.url!r}")
            return None
        try:
            return ssl.create_default_context(cafile=verify)
        except OSError:  # also of the ssl module
            raise ValueError(
                f"verify must be a file of certificates, got {str(verify)!r}"
            ) from None


class Connection:
    """One HTTP connection, used by one thread at a time, from Python's standard library.

    So `Client` needs no extra, and a request takes 0.11 ms of CPU: half of what it takes through
    httpcore's pool (measured), which is for asyncio.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        host = address.hostname
        port = address.port
        tls = address.tls
        if tls is None:
            self._http = HTTPConnection(host, port, timeout=timeout)
        else:
            self._http = HTTPSConnection(host, port, timeout=timeout, context=tls)
        if address.socket is not None:
            self._http.sock = _connect_unix(address.socket, timeout)
        self._used = time.monotonic()
        self.process_id = os.getpid()

    def send_request(
        self, method: str, path: str, content: bytes, headers: dict[str, str], timeout: float
    ) -> AgentResponse:
        """Send a request and read the answer; each step may take as long as the timeout."""
        # A connection that is used again still has the timeout of its last request.
        if self._http.sock is not None:
            self._http.sock.settimeout(timeout)
        self._http.request(method, path, content, headers)
        answer = self._http.getresponse()
        content = answer.read()
        self._used = time.monotonic()
        return AgentResponse(answer.status, content, answer.headers.get("Retry-After", ""))

    @property
    def timeout(self) -> float | None:
        """The timeout of the last request, in seconds."""
        return None if self._http.sock is None else self._http.sock.gettimeout()

    @property
    def usable(self) -> bool:
        """Whether the agent has not closed the connection: otherwise its end could be read.

        A connection inherited by a forked child belongs to its parent: each would read the other's
        answers.
        """
        if self._http.sock is None or self.process_id != os.getpid():
            return False
        # A connection used a moment ago is trusted: the check takes system calls, and a retry
        # covers the rare failure.
        if time.monotonic() - self._used < IDLE:
            return True
        with selectors.DefaultSelector() as waiting:  # select() refuses files from 1024 on
            waiting.register(self._http.sock, selectors.EVENT_READ)
            return not waiting.select(0)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def _connect_unix(path: str, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


# --- retries, without I/O

# Every request is idempotent: decisions have ids, and repeated rewards are recognised. So a lost
# answer and a lost request need no distinction, and both are sent again.
RETRIED_STATUSES = (
    502,
    503,
    504,
)  # a failing store, or a proxy before an agent that restarts
MAX_BACKOFF = 2.0  # seconds between two attempts


@dataclass(frozen=True)
class RetryPolicy:
    """For how many seconds to retry, or if given how often, with exponential back-off."""

    seconds: float
    attempts: int | None
    backoff: float

    def __post_init__(self) -> None:
        validation.validate_number("patience", self.seconds, at_least=0)
        validation.validate_number("backoff", self.backoff, at_least=0)
        if self.attempts is not None:
            validation.validate_integer("attempts", self.attempts, at_least=1)

    def limit_attempts(self, hurry: float | None, away: bool) -> RetryPolicy:
        """Allow only one attempt if there is a deadline and the agent is known to be away."""
        return replace(self, attempts=1) if hurry is not None and away else self


class RetryState:
    """The attempts of one request.

    deadline_seconds: after which the caller has to go on, whatever the policy.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        policy: RetryPolicy,
        deadline_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._policy = policy
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._started = clock()
        self._attempts = 0

    @property
    def timeout(self) -> float:
        """The seconds that the next attempt may take."""
        if self._deadline_seconds is None:
            return self._timeout
        remaining = self._started + self._deadline_seconds - self._clock()
        return min(self._timeout, max(remaining, 0.001))  # 0 would mean: do not block

    def next_delay(self, failure: Exception | AgentResponse) -> float:
        """Return the back-off before the next attempt, or raise the error after the last one."""
        self._attempts += 1
        wait = self._back_off(failure)
        then = self._clock() - self._started + wait
        enough = then > self._policy.seconds
        # A given number of attempts replaces the time.
        if self._policy.attempts is not None:
            enough = self._attempts >= self._policy.attempts
        if (
            enough
            or _is_certificate_error(failure)
            or (self._deadline_seconds is not None and then >= self._deadline_seconds)
        ):
            raise self._final_error(failure) from (
                failure if isinstance(failure, Exception) else None
            )
        return wait

    def _back_off(self, failure: Exception | AgentResponse) -> float:
        retry_after = 0.0
        if isinstance(failure, AgentResponse) and failure.retry_after.isdecimal():
            retry_after = float(failure.retry_after)
        # The exponent is bounded, as 2.0 ** 1024 would overflow.
        wait = max(retry_after, self._policy.backoff * 2.0 ** min(self._attempts - 1, 60))
        # jitter, so that clients that failed together do not retry together
        return min(wait, MAX_BACKOFF) * random.uniform(1.0, 1.5)

    def _final_error(self, failure: Exception | AgentResponse) -> Exception:
        if isinstance(failure, Exception):
            why = str(failure) or type(failure).__name__
            hint = "is verify (--verify) the file of its authority?"
            if not _is_certificate_error(failure):
                hint = "is it running?"
            return ConnectionError(f"no agent answers at {self._url} ({why}): {hint}")
        if failure.status == 503:
            return StoreError(failure.error or f"{self._url} is unavailable: try later")
        return _unexpected_response(self._url, failure)


def decode_response(url: str, answer: AgentResponse) -> Any:
    """Return the content of an answer, or raise the error that it means."""
    if answer.status == 200:
        # An answer of 200 that is not JSON comes from another server, such as a login page.
        with suppress(ValueError):
            return json.loads(answer.content)
    if answer.error is None:
        raise _unexpected_response(url, answer)
    if answer.status >= 500:
        raise RuntimeError(answer.error)
    raise refusal_error(answer.status, answer.error)


def _unexpected_response(url: str, answer: AgentResponse) -> RuntimeError:
    """Return the error of an answer that no agent gives."""
    return RuntimeError(f"{url} answered {answer.status}: is this the address of an agent?")


def _is_certificate_error(failure: Exception | AgentResponse) -> bool:
    """Return whether a certificate is not trusted, which no retry changes."""
    cause: BaseException | None = failure if isinstance(failure, Exception) else None
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
