"""HTTP clients of an agent, with retries: pull, play, update."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from posse.live.agent import Decision
from posse.live.connection import Address, Answer, Connection
from posse.live.store import Conflict, Unknown
from posse.live.store.records import number, text

if TYPE_CHECKING:
    import httpcore

BATCH = 500  # items of one request

Reward = tuple[Decision | str, float]
Request = tuple[str, str, Any]  # method, path, body


class Client:
    """A thread-safe client of one agent, with a connection pool and retries.

    Attempts that meet no agent, or one whose store fails, are repeated: every request may be.
    """

    def __init__(
        self, url: str, timeout: float = 5.0, *, attempts: int = 5, backoff: float = 0.1
    ) -> None:
        self._address = Address(url, timeout, attempts, backoff)
        self.url = self._address.url  # without a password
        self._free: deque[Connection] = deque()

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
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = self._address.request(path, body)
        attempt = 0
        while True:
            attempt += 1
            outcome: Exception | Answer
            try:
                outcome = self._once(method, *request)
                if outcome.status != 503:
                    return _understood(outcome, self.url)
            except (OSError, HTTPException) as error:
                outcome = error
            time.sleep(self._address.pause(attempt, outcome))

    def _once(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> Answer:
        connection = self._connection()
        try:
            answer = connection.ask(method, path, content, headers)
        except BaseException:
            connection.close()
            raise
        self._free.append(connection)
        return answer

    def _connection(self) -> Connection:
        """One that is free, or a new one."""
        while True:
            try:
                connection = self._free.pop()
            except IndexError:
                return Connection(self._address)
            if connection.usable:
                return connection
            connection.close()


class AsyncClient:
    """`Client` for asyncio."""

    def __init__(
        self, url: str, timeout: float = 5.0, *, attempts: int = 5, backoff: float = 0.1
    ) -> None:
        import httpcore  # the engine of httpx, without its cookies and redirects

        self._address = Address(url, timeout, attempts, backoff)
        self.url = self._address.url  # without a password
        self._pool = httpcore.AsyncConnectionPool(uds=self._address.socket)

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
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        import httpcore

        path, content, headers = self._address.request(path, body)
        url = f"{self._address.parts.scheme}://{self._address.host}{path}"
        waits = dict.fromkeys(("connect", "read", "write", "pool"), self._address.timeout)
        options: Any = {"headers": headers, "content": content, "extensions": {"timeout": waits}}
        attempt = 0
        while True:
            attempt += 1
            outcome: Exception | Answer
            try:
                outcome = _answer(await self._pool.request(method, url, **options))
                if outcome.status != 503:
                    return _understood(outcome, self.url)
            except (
                httpcore.NetworkError,
                httpcore.TimeoutException,
                httpcore.ProtocolError,
            ) as error:
                outcome = error
            await asyncio.sleep(self._address.pause(attempt, outcome))


def _wish(allowed: Sequence[str] | None, decision: str | None = None) -> dict[str, Any]:
    """The request of a decision, with an id that makes it idempotent, so that it may be retried."""
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
    return _refusal(item["status"], item["error"]) if "error" in item else not item["repeated"]


def _quanta(answer: Any) -> dict[str, dict[str, tuple[int, ...]]]:
    return {
        whose: {arm: tuple(quanta) for arm, quanta in evidence.items()}
        for whose, evidence in answer.items()
    }


def _answer(response: httpcore.Response) -> Answer:
    headers = {name.lower(): value.decode(errors="replace") for name, value in response.headers}
    return Answer(response.status, response.content, headers.get(b"retry-after", ""))


def _understood(answer: Answer, url: str) -> Any:
    """What the agent said, or the error it means."""
    if answer.status == 200:
        with suppress(ValueError):
            return json.loads(answer.content)
    sentence, status = answer.error, answer.status
    if sentence is None or status >= 500:
        raise RuntimeError(sentence or f"{url} answered {status}: is this the address of an agent?")
    raise _refusal(status, sentence)


def _refusal(status: int, sentence: str) -> ValueError:
    return {404: Unknown, 409: Conflict}.get(status, ValueError)(sentence)
