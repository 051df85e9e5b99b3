"""Clients of an agent's HTTP interface: pull, play, update."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx

from posse.live.agent import Decision
from posse.live.store.records import Conflict, Unknown, number, text
from posse.live.store.writer import StoreError

__all__ = ["AsyncClient", "Client", "Conflict", "Decision", "StoreError", "Unknown"]

LONGEST = 5.0  # seconds between two attempts


class _Settings:
    """What both clients share: where the agent is, and how often to ask."""

    def __init__(self, url: str, timeout: float, attempts: int, backoff: float) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ValueError(f"attempts must be a whole number of at least 1, got {attempts!r}")
        self.url, self.attempts = url, attempts
        self.timeout, self.backoff = number("timeout", timeout), number("backoff", backoff)
        self.socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        if self.socket is None and not url.startswith(("http://", "https://")):
            raise ValueError(f"url must be http://HOST:PORT or unix:/PATH, got {url!r}")
        self.base = "http://localhost" if self.socket is not None else url.rstrip("/")

    def pause(self, attempt: int, failure: httpx.TransportError | httpx.Response) -> float:
        """How long to wait before the next attempt, or the error after the last one."""
        if attempt >= self.attempts:
            if isinstance(failure, httpx.Response):
                raise StoreError(_sentence(failure) or f"{self.url} is unavailable: try later")
            raise ConnectionError(
                f"no agent answers at {self.url} ({failure or type(failure).__name__}): "
                "is it running?"
            ) from failure
        asked = 0.0
        if isinstance(failure, httpx.Response):
            seconds = failure.headers.get("Retry-After", "")
            asked = float(seconds) if seconds.isdecimal() else 0.0
        # spread, so that clients who failed together do not come back together
        wait = max(asked, self.backoff * 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.5)
        return min(wait, LONGEST)


class Client:
    """Talks to one agent; threads may share it.

    Attempts that meet no agent, or one whose store fails, are repeated: every request may be.
    """

    def __init__(
        self, url: str, timeout: float = 5.0, *, attempts: int = 5, backoff: float = 0.1
    ) -> None:
        self._settings = _Settings(url, timeout, attempts, backoff)
        self._http = httpx.Client(
            base_url=self._settings.base,
            timeout=self._settings.timeout,
            transport=httpx.HTTPTransport(uds=self._settings.socket),
            trust_env=False,  # a proxy of the environment does not know this machine's agents
        )

    def pull(self, allowed: Sequence[str] | None = None, decision: str | None = None) -> Decision:
        """Which arm to play, of all or of those allowed; the same id gets the same answer."""
        return _decision(self._ask("POST", "/v1/decisions", _wish(allowed, decision)))

    def update(self, decision: Decision | str, reward: float) -> bool:
        """Say how a decision went; False if that was known. When it returns it is on disk."""
        path, body = _outcome(decision, reward)
        return not self._ask("POST", path, body)["repeated"]

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
        self._http.close()

    def __enter__(self) -> Client:
        """Use the client in a `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        attempt = 0
        while True:
            attempt += 1
            failure: httpx.TransportError | httpx.Response
            try:
                failure = self._http.request(method, path, json=body)
                if failure.status_code != 503:
                    return _answer(failure)
            except httpx.TransportError as error:
                failure = error
            time.sleep(self._settings.pause(attempt, failure))


class AsyncClient:
    """`Client` for asyncio."""

    def __init__(
        self, url: str, timeout: float = 5.0, *, attempts: int = 5, backoff: float = 0.1
    ) -> None:
        self._settings = _Settings(url, timeout, attempts, backoff)
        self._http = httpx.AsyncClient(
            base_url=self._settings.base,
            timeout=self._settings.timeout,
            transport=httpx.AsyncHTTPTransport(uds=self._settings.socket),
            trust_env=False,
        )

    async def pull(
        self, allowed: Sequence[str] | None = None, decision: str | None = None
    ) -> Decision:
        """Which arm to play, of all or of those allowed; the same id gets the same answer."""
        return _decision(await self._ask("POST", "/v1/decisions", _wish(allowed, decision)))

    async def update(self, decision: Decision | str, reward: float) -> bool:
        """Say how a decision went; False if that was known. When it returns it is on disk."""
        path, body = _outcome(decision, reward)
        return not (await self._ask("POST", path, body))["repeated"]

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
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        """Use the client in an `async with`."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""
        await self.close()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        attempt = 0
        while True:
            attempt += 1
            failure: httpx.TransportError | httpx.Response
            try:
                failure = await self._http.request(method, path, json=body)
                if failure.status_code != 503:
                    return _answer(failure)
            except httpx.TransportError as error:
                failure = error
            await asyncio.sleep(self._settings.pause(attempt, failure))


def _wish(allowed: Sequence[str] | None, decision: str | None) -> dict[str, Any]:
    """The request of a decision, with an id so that it may be repeated."""
    if isinstance(allowed, str):
        raise ValueError(f"allowed must be a list of arms, got {allowed!r}")
    wish: dict[str, Any] = {"decision": secrets.token_hex(16) if decision is None else decision}
    return wish if allowed is None else {**wish, "allowed": list(allowed)}


def _outcome(decision: Decision | str, reward: float) -> tuple[str, dict[str, float]]:
    """The path and the body of a reward."""
    id_ = text("decision", decision.id if isinstance(decision, Decision) else decision)
    if id_ in (".", ".."):  # they would be taken for a folder
        raise Unknown(f"there is no decision {id_!r}: check the id")
    return f"/v1/decisions/{quote(id_, safe='')}/reward", {"reward": number("reward", reward)}


def _decision(answer: Any) -> Decision:
    return Decision(answer["decision"], answer["arm"], answer["probability"])


def _quanta(answer: Any) -> dict[str, dict[str, tuple[int, ...]]]:
    return {
        whose: {arm: tuple(quanta) for arm, quanta in evidence.items()}
        for whose, evidence in answer.items()
    }


def _answer(response: httpx.Response) -> Any:
    """What the agent said, or the error it means."""
    if response.status_code == 200:
        return response.json()
    sentence, status = _sentence(response), response.status_code
    if sentence is None or status >= 500:
        raise RuntimeError(
            sentence or f"{response.url} answered {status}: is this the address of an agent?"
        )
    raise {404: Unknown, 409: Conflict}.get(status, ValueError)(sentence)


def _sentence(response: httpx.Response) -> str | None:
    """The agent's own words, if it was the agent."""
    try:
        return str(response.json()["error"])
    except (ValueError, TypeError, KeyError):
        return None
