"""Clients of an agent's HTTP interface: pull, play, update."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from posse.live.agent import Decision
from posse.live.store import Conflict, StoreError, Unknown
from posse.live.store.records import number, text

if TYPE_CHECKING:
    import httpcore

LONGEST = 5.0  # seconds between two attempts
BATCH = 500  # items of one request
IDLE = 1.0  # seconds after which a connection is looked at before it is used again

Reward = tuple[Decision | str, float]
Request = tuple[str, str, Any]  # method, path, body


@dataclass(frozen=True)
class _Answer:
    """What came back."""

    status: int
    content: bytes
    retry_after: str = ""  # seconds


class _Settings:
    """What both clients share: where the agent is, and how often to ask."""

    def __init__(self, url: str, timeout: float, attempts: int, backoff: float) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ValueError(f"attempts must be a whole number of at least 1, got {attempts!r}")
        self.url, self.attempts = url, attempts
        self.timeout, self.backoff = number("timeout", timeout), number("backoff", backoff)
        self.socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        self.parts = urlsplit("http://localhost" if self.socket is not None else url)
        if self.parts.scheme not in ("http", "https") or not self.parts.hostname:
            raise ValueError(f"url must be http://HOST:PORT or unix:/PATH, got {url!r}")
        self.host, self.path = self.parts.netloc.rpartition("@")[2], self.parts.path.rstrip("/")
        self._headers = {"Host": self.host, "Content-Type": "application/json"}
        if self.parts.username is not None:  # of a reverse proxy
            user = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def request(self, path: str, body: Any) -> tuple[str, bytes, dict[str, str]]:
        """The path, the content and the headers of a request."""
        content = b"" if body is None else json.dumps(body).encode()
        return self.path + path, content, {**self._headers, "Content-Length": str(len(content))}

    def pause(self, attempt: int, failure: Exception | _Answer) -> float:
        """How long to wait before the next attempt, or the error after the last one."""
        if attempt >= self.attempts:
            if isinstance(failure, _Answer):
                raise StoreError(_sentence(failure) or f"{self.url} is unavailable: try later")
            raise ConnectionError(
                f"no agent answers at {self.url} ({str(failure) or type(failure).__name__}): "
                "is it running?"
            ) from failure
        asked = 0.0
        if isinstance(failure, _Answer) and failure.retry_after.isdecimal():
            asked = float(failure.retry_after)
        # spread, so that clients who failed together do not come back together
        wait = max(asked, self.backoff * 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.5)
        return min(wait, LONGEST)


class _Connection:
    """One connection, of one thread at a time; Python's own is faster than those on top of it."""

    def __init__(self, settings: _Settings) -> None:
        kind = HTTPSConnection if settings.parts.scheme == "https" else HTTPConnection
        address = settings.parts.hostname or "", settings.parts.port
        self._http = kind(*address, timeout=settings.timeout)
        if settings.socket is not None:
            self._http.sock = socket.socket(socket.AF_UNIX)
            self._http.sock.settimeout(settings.timeout)
            self._http.sock.connect(settings.socket)
        self._used = time.monotonic()

    def ask(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> _Answer:
        """Send a request and read the answer."""
        self._http.request(method, path, content, headers)
        answer = self._http.getresponse()
        content = answer.read()
        self._used = time.monotonic()
        return _Answer(answer.status, content, answer.headers.get("Retry-After", ""))

    @property
    def usable(self) -> bool:
        """Whether the agent has not hung up meanwhile: then there would be an end to read."""
        if self._http.sock is None:
            return False
        if time.monotonic() - self._used < IDLE:
            return True
        return not select.select([self._http.sock], [], [], 0)[0]

    def close(self) -> None:
        """Hang up."""
        self._http.close()


class Client:
    """Talks to one agent; threads may share it.

    Attempts that meet no agent, or one whose store fails, are repeated: every request may be.
    """

    def __init__(
        self, url: str, timeout: float = 5.0, *, attempts: int = 5, backoff: float = 0.1
    ) -> None:
        self._settings = _Settings(url, timeout, attempts, backoff)
        self._free: deque[_Connection] = deque()

    def pull(self, allowed: Sequence[str] | None = None, decision: str | None = None) -> Decision:
        """Which arm to play, of all or of those allowed; the same id gets the same answer."""
        return _decision(self._ask("POST", "/v1/decisions", _wish(allowed, decision)))

    def update(self, decision: Decision | str, reward: float) -> bool:
        """Say how a decision went; False if that was known. When it returns it is on disk."""
        return not self._ask("POST", *_outcome(decision, reward))["repeated"]

    def pull_all(self, count: int, allowed: Sequence[str] | None = None) -> list[Decision]:
        """Many decisions at once."""
        asked = _wishes(count, allowed)
        return [_decision(_each(one)) for r in asked for one in self._ask(*r)["decisions"]]

    def update_all(self, rewards: Iterable[Reward]) -> list[bool | ValueError]:
        """Many rewards at once: for each what `update` returns, or the error it would raise."""
        asked = _outcomes(rewards)
        return [_settled(one) for r in asked for one in self._ask(*r)["rewards"]]

    def arms(self) -> dict[str, dict[str, float]]:
        """What is known of every arm."""
        return dict(self._ask("GET", "/v1/arms"))

    def network(self) -> dict[str, Any]:
        """The neighbours, and what was refused and why."""
        return dict(self._ask("GET", "/v1/network"))

    def evidence(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """In quanta: what the agent saw itself, and what it holds of all."""
        return _quanta(self._ask("GET", "/v1/evidence"))

    def close(self) -> None:
        """Close the connections."""
        while self._free:
            self._free.pop().close()

    def __enter__(self) -> Client:
        """Use the client in a `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = self._settings.request(path, body)
        attempt = 0
        while True:
            attempt += 1
            failure: Exception | _Answer
            try:
                failure = self._once(method, *request)
                if failure.status != 503:
                    return _understood(failure, self._settings.url)
            except (OSError, HTTPException) as error:
                failure = error
            time.sleep(self._settings.pause(attempt, failure))

    def _once(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> _Answer:
        connection = self._connection()
        try:
            answer = connection.ask(method, path, content, headers)
        except BaseException:
            connection.close()
            raise
        self._free.append(connection)
        return answer

    def _connection(self) -> _Connection:
        """One that is free, or a new one."""
        while True:
            try:
                connection = self._free.pop()
            except IndexError:
                return _Connection(self._settings)
            if connection.usable:
                return connection
            connection.close()


class AsyncClient:
    """`Client` for asyncio."""

    def __init__(
        self, url: str, timeout: float = 5.0, *, attempts: int = 5, backoff: float = 0.1
    ) -> None:
        import httpcore  # the engine of httpx, without its cookies and redirects

        self._settings = _Settings(url, timeout, attempts, backoff)
        self._pool = httpcore.AsyncConnectionPool(uds=self._settings.socket)

    async def pull(
        self, allowed: Sequence[str] | None = None, decision: str | None = None
    ) -> Decision:
        """Which arm to play, of all or of those allowed; the same id gets the same answer."""
        return _decision(await self._ask("POST", "/v1/decisions", _wish(allowed, decision)))

    async def update(self, decision: Decision | str, reward: float) -> bool:
        """Say how a decision went; False if that was known. When it returns it is on disk."""
        return not (await self._ask("POST", *_outcome(decision, reward)))["repeated"]

    async def pull_all(self, count: int, allowed: Sequence[str] | None = None) -> list[Decision]:
        """Many decisions at once."""
        asked = _wishes(count, allowed)
        return [_decision(_each(one)) for r in asked for one in (await self._ask(*r))["decisions"]]

    async def update_all(self, rewards: Iterable[Reward]) -> list[bool | ValueError]:
        """Many rewards at once: for each what `update` returns, or the error it would raise."""
        asked = _outcomes(rewards)
        return [_settled(one) for r in asked for one in (await self._ask(*r))["rewards"]]

    async def arms(self) -> dict[str, dict[str, float]]:
        """What is known of every arm."""
        return dict(await self._ask("GET", "/v1/arms"))

    async def network(self) -> dict[str, Any]:
        """The neighbours, and what was refused and why."""
        return dict(await self._ask("GET", "/v1/network"))

    async def evidence(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """In quanta: what the agent saw itself, and what it holds of all."""
        return _quanta(await self._ask("GET", "/v1/evidence"))

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def __aenter__(self) -> AsyncClient:
        """Use the client in an `async with`."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""
        await self.close()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        import httpcore

        path, content, headers = self._settings.request(path, body)
        url = f"{self._settings.parts.scheme}://{self._settings.host}{path}"
        waits = dict.fromkeys(("connect", "read", "write", "pool"), self._settings.timeout)
        options: Any = {"headers": headers, "content": content, "extensions": {"timeout": waits}}
        attempt = 0
        while True:
            attempt += 1
            failure: Exception | _Answer
            try:
                failure = _answer(await self._pool.request(method, url, **options))
                if failure.status != 503:
                    return _understood(failure, self._settings.url)
            except (
                httpcore.NetworkError,
                httpcore.TimeoutException,
                httpcore.ProtocolError,
            ) as error:
                failure = error
            await asyncio.sleep(self._settings.pause(attempt, failure))


def _wish(allowed: Sequence[str] | None, decision: str | None = None) -> dict[str, Any]:
    """The request of a decision, with an id so that it may be repeated."""
    if isinstance(allowed, str):
        raise ValueError(f"allowed must be a list of arms, got {allowed!r}")
    wish: dict[str, Any] = {"decision": secrets.token_hex(16) if decision is None else decision}
    return wish if allowed is None else {**wish, "allowed": list(allowed)}


def _wishes(count: int, allowed: Sequence[str] | None) -> Iterator[Request]:
    """Requests of so many decisions."""
    for first in range(0, count, BATCH):
        wishes = [_wish(allowed) for _ in range(min(BATCH, count - first))]
        yield "POST", "/v1/decisions/batch", {"decisions": wishes}


def _outcome(decision: Decision | str, reward: float) -> tuple[str, dict[str, float]]:
    """The path and the body of a reward."""
    id_ = _id(decision)
    if id_ in (".", ".."):  # they would be taken for a folder
        raise Unknown(f"there is no decision {id_!r}: check the id")
    return f"/v1/decisions/{quote(id_, safe='')}/reward", {"reward": number("reward", reward)}


def _outcomes(rewards: Iterable[Reward]) -> Iterator[Request]:
    """Requests with many rewards; all are looked at before the first is sent."""
    items = [{"decision": _id(each), "reward": number("reward", y)} for each, y in rewards]
    for first in range(0, len(items), BATCH):
        yield "POST", "/v1/rewards", {"rewards": items[first : first + BATCH]}


def _id(decision: Decision | str) -> str:
    return text("decision", decision.id if isinstance(decision, Decision) else decision)


def _decision(answer: Any) -> Decision:
    return Decision(answer["decision"], answer["arm"], answer["probability"])


def _each(item: Any) -> Any:
    """One item of a batch, or the error in its place."""
    if "error" in item:
        raise _refusal(item["status"], item["error"])
    return item


def _settled(item: Any) -> bool | ValueError:
    if "error" in item:
        return _refusal(item["status"], item["error"])
    return not item["repeated"]


def _quanta(answer: Any) -> dict[str, dict[str, tuple[int, ...]]]:
    return {
        whose: {arm: tuple(quanta) for arm, quanta in evidence.items()}
        for whose, evidence in answer.items()
    }


def _answer(response: httpcore.Response) -> _Answer:
    headers = {name.lower(): value.decode(errors="replace") for name, value in response.headers}
    return _Answer(response.status, response.content, headers.get(b"retry-after", ""))


def _understood(answer: _Answer, url: str) -> Any:
    """What the agent said, or the error it means."""
    if answer.status == 200:
        with suppress(ValueError):
            return json.loads(answer.content)
    sentence, status = _sentence(answer), answer.status
    if sentence is None or status >= 500:
        raise RuntimeError(sentence or f"{url} answered {status}: is this the address of an agent?")
    raise _refusal(status, sentence)


def _refusal(status: int, sentence: str) -> ValueError:
    return {404: Unknown, 409: Conflict}.get(status, ValueError)(sentence)


def _sentence(answer: _Answer) -> str | None:
    """The agent's own words, if it was the agent."""
    try:
        return str(json.loads(answer.content)["error"])
    except (ValueError, TypeError, KeyError):
        return None
