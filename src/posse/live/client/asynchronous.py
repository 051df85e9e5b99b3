"""The client for asyncio: the same calls as `Client`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from posse.live.agent.agent import Decision
from posse.live.client import calls
from posse.live.client.calls import Call, Context, Fallback, Quanta, Reward, Told
from posse.live.client.connection import AWAY, Address, Answer, Attempts, Patience, understood

if TYPE_CHECKING:
    import httpcore

T = TypeVar("T")


class AsyncClient:
    """`Client` for asyncio: the same options, the same methods, to be awaited."""

    def __init__(
        self,
        url: str,
        timeout: float = 5.0,
        *,
        attempts: int | None = None,
        patience: float = 15.0,
        backoff: float = 0.1,
        experiment: str | None = None,
        token: str | None = None,
        verify: str | Path | None = None,
        fallback: str | None = None,
        fallback_after: float = 1.0,
    ) -> None:
        import httpcore  # the engine of httpx, without its cookies and redirects

        self._address = Address(url, timeout, experiment=experiment, token=token, verify=verify)
        self._patience = Patience(patience, attempts, backoff)
        self._fallback = Fallback(fallback, fallback_after)
        self.url = self._address.url  # without a password
        address = self._address
        self._pool = httpcore.AsyncConnectionPool(uds=address.socket, ssl_context=address.tls)

    async def pull(
        self,
        allowed: Sequence[str] | None = None,
        decision: str | None = None,
        context: Context | None = None,
    ) -> Decision:
        """Which arm to play, as `Client.pull`."""
        asked = calls.pull(allowed, decision, context)
        call = self._fallback.decision(asked, allowed, decision)
        return await self._run(call, self._fallback.hurry)

    async def update(self, decision: Decision | str, reward: float) -> bool:
        """Say how a decision went, as `Client.update`."""
        return await self._run(calls.update(self._fallback.known(decision), reward))

    async def pull_all(
        self,
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
    ) -> list[Decision]:
        """Many decisions at once; contexts: one for each."""
        asked = calls.pull_all(count, allowed, contexts)
        call = self._fallback.decisions(asked, allowed, count)
        return await self._run(call, self._fallback.hurry)

    async def update_all(self, rewards: Iterable[Reward]) -> list[Told]:
        """Many rewards at once: for each what `update` returns, or the error it would raise."""
        return await self._run(calls.update_all(self._fallback.known_of(rewards)))

    async def step(
        self,
        rewards: Iterable[Reward],
        allowed: Sequence[str] | None = None,
        decision: str | None = None,
        context: Context | None = None,
    ) -> tuple[Decision, list[Told]]:
        """Rewards and the next decision in one request and one commit; there is no fallback."""
        known = self._fallback.known_of(rewards)
        return await self._run(calls.step(known, allowed, decision, context))

    async def step_all(
        self,
        rewards: Iterable[Reward],
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
    ) -> tuple[list[Decision], list[Told]]:
        """Rewards and many new decisions."""
        known = self._fallback.known_of(rewards)
        return await self._run(calls.step_all(known, count, allowed, contexts))

    async def arms(self, context: Context | None = None) -> dict[str, dict[str, float]]:
        """What is known of every arm: on average, or at a context, which may leave fields out."""
        return await self._run(calls.arms(context))

    async def verdict(self) -> dict[str, Any]:
        """Whether the experiment may stop, and why; `Unknown` if its settings have no `stop`."""
        return await self._run(calls.verdict())

    async def network(self) -> dict[str, Any]:
        """The neighbours, and what was refused and why."""
        return await self._run(calls.show("/network"))

    async def experiments(self) -> dict[str, Any]:
        """The experiments of the agent."""
        return await self._run(calls.show("/experiments"))

    async def evidence(self) -> Quanta:
        """In quanta: what the agent saw itself, and what it holds of all."""
        return await self._run(calls.evidence())

    async def books(self) -> dict[str, Any]:
        """Decisions counted here beside the pulls in the evidence; `Unknown` with a half-life."""
        return await self._run(calls.books())

    async def history(self, scale: str = "day") -> dict[str, Any]:
        """Pulls and rewards of every arm over a "day", a "month" or a "year", and what happened."""
        return await self._run(calls.history(scale))

    async def controls(self) -> dict[str, Any]:
        """What is pinned and paused, and by whom."""
        return await self._run(calls.controls())

    async def pin(self, arm: str) -> dict[str, Any]:
        """Let this arm alone be played, until it is resumed; for operators. What now holds."""
        return await self._run(calls.order("pin", arm))

    async def pause(self, arm: str) -> dict[str, Any]:
        """Let an arm not be played, until it is resumed; for operators. What now holds."""
        return await self._run(calls.order("pause", arm))

    async def resume(self, arm: str | None = None) -> dict[str, Any]:
        """Lift what was pinned or paused, for an arm or for all; for operators. What now holds."""
        return await self._run(calls.order("resume", arm))

    async def reload(self) -> dict[str, Any]:
        """Let the agent read its agent.toml again; for operators."""
        return await self._run(calls.reload())

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _run(self, call: Call[T], hurry: float | None = None) -> T:
        answer: Any = None
        while True:
            try:
                request = calls.advance(call, answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                answer = await self._ask(*request, self._attempts(hurry))
            except Exception as error:  # for the call to take, or to let pass
                answer = error

    def _attempts(self, hurry: float | None) -> Attempts:
        patience = self._patience.of(hurry, self._fallback.away)
        return Attempts(self.url, self._address.timeout, patience, hurry)

    async def _ask(self, method: str, path: str, body: Any, attempts: Attempts) -> Any:
        import httpcore

        path, content, headers = self._address.request(path, body)
        url = f"{self._address.parts.scheme}://{self._address.host}{path}"
        options: Any = {"headers": headers, "content": content}
        while True:
            outcome: Exception | Answer
            waits = dict.fromkeys(("connect", "read", "write", "pool"), attempts.timeout)
            try:
                response = await self._pool.request(
                    method, url, **options, extensions={"timeout": waits}
                )
                outcome = _answer(response)
                if outcome.status not in AWAY:
                    return understood(self.url, outcome)
            except (
                httpcore.NetworkError,
                httpcore.TimeoutException,
                httpcore.ProtocolError,
            ) as error:
                outcome = error
            await asyncio.sleep(attempts.pause(outcome))


def _answer(response: httpcore.Response) -> Answer:
    headers = {name.lower(): value.decode(errors="replace") for name, value in response.headers}
    return Answer(response.status, response.content, headers.get(b"retry-after", ""))
