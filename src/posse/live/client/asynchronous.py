"""The client for asyncio: the same calls as `Client`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from posse.live.agent import Decision
from posse.live.client import calls
from posse.live.client.calls import Call, Context, Fallback, Quanta, Reward, RewardResult
from posse.live.client.connection import (
    RETRIED_STATUSES,
    Address,
    AgentResponse,
    RetryPolicy,
    RetryState,
    decode_response,
)

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
        self._patience = RetryPolicy(patience, attempts, backoff)
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
        """Choose an arm, as `Client.pull`."""
        pull_call = calls.pull_arm(allowed, decision, context)
        call = self._fallback.wrap_decision(pull_call, allowed, decision)
        return await self._run_call(call, self._fallback.deadline_seconds)

    async def update(self, decision: Decision | str, reward: float) -> bool:
        """Send the reward of a decision, as `Client.update`."""
        return await self._run_call(
            calls.send_reward(self._fallback.resolve_decision(decision), reward)
        )

    async def pull_all(
        self,
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
    ) -> list[Decision]:
        """Many decisions at once; contexts: one for each."""
        pull_call = calls.pull_arms(count, allowed, contexts)
        call = self._fallback.wrap_decisions(pull_call, allowed, count)
        return await self._run_call(call, self._fallback.deadline_seconds)

    async def update_all(self, rewards: Iterable[Reward]) -> list[RewardResult]:
        """Many rewards at once: for each what `update` returns, or the error it would raise."""
        return await self._run_call(calls.send_rewards(self._fallback.resolve_rewards(rewards)))

    async def step(
        self,
        rewards: Iterable[Reward],
        allowed: Sequence[str] | None = None,
        decision: str | None = None,
        context: Context | None = None,
    ) -> tuple[Decision, list[RewardResult]]:
        """Rewards and the next decision in one request and one commit; there is no fallback."""
        resolved = self._fallback.resolve_rewards(rewards)
        return await self._run_call(calls.send_and_pull(resolved, allowed, decision, context))

    async def step_all(
        self,
        rewards: Iterable[Reward],
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
    ) -> tuple[list[Decision], list[RewardResult]]:
        """Rewards and many new decisions."""
        resolved = self._fallback.resolve_rewards(rewards)
        return await self._run_call(calls.send_and_pull_all(resolved, count, allowed, contexts))

    async def arms(self, context: Context | None = None) -> dict[str, dict[str, float]]:
        """Get the estimate of every arm: on average, or at a context, which may omit fields."""
        return await self._run_call(calls.get_arms(context))

    async def verdict(self) -> dict[str, Any]:
        """Get whether the experiment may stop, and why; `Unknown` if it has no `stop`."""
        return await self._run_call(calls.get_verdict())

    async def network(self) -> dict[str, Any]:
        """Get the neighbours, all known agents and links, and refusals by reason."""
        return await self._run_call(calls.get_view("/network"))

    async def experiments(self) -> dict[str, Any]:
        """Get the experiments of the agent."""
        return await self._run_call(calls.get_view("/experiments"))

    async def evidence(self) -> Quanta:
        """Get the evidence in quanta: the agent's own, and that of all agents."""
        return await self._run_call(calls.get_evidence())

    async def audit(self) -> dict[str, Any]:
        """Compare decisions counted with those in the evidence; `Unknown` with a half-life."""
        return await self._run_call(calls.get_audit())

    async def history(self, scale: str = "day") -> dict[str, Any]:
        """Get decisions and rewards of every arm over a "day", "month" or "year", and events."""
        return await self._run_call(calls.get_history(scale))

    async def controls(self) -> dict[str, Any]:
        """Get pinned and paused arms, and whose controls they are."""
        return await self._run_call(calls.get_controls())

    async def pin(self, arm: str) -> dict[str, Any]:
        """Play only this arm, until it is resumed; for operators. Returns the controls."""
        return await self._run_call(calls.send_command("pin", arm))

    async def pause(self, arm: str) -> dict[str, Any]:
        """Stop playing an arm, until it is resumed; for operators. Returns the controls."""
        return await self._run_call(calls.send_command("pause", arm))

    async def resume(self, arm: str | None = None) -> dict[str, Any]:
        """Undo pins and pauses, of an arm or of all; for operators. Returns the controls."""
        return await self._run_call(calls.send_command("resume", arm))

    async def reload(self) -> dict[str, Any]:
        """Make the agent read its agent.toml again; for operators."""
        return await self._run_call(calls.reload_settings())

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _run_call(self, call: Call[T], deadline_seconds: float | None = None) -> T:
        answer: Any = None
        while True:
            try:
                request = calls.next_request(call, answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                answer = await self._request(*request, self._start_attempts(deadline_seconds))
            except Exception as error:  # the call may handle it, e.g. by a fallback
                answer = error

    def _start_attempts(self, deadline_seconds: float | None) -> RetryState:
        patience = self._patience.limit_attempts(deadline_seconds, self._fallback.agent_away)
        return RetryState(self.url, self._address.timeout, patience, deadline_seconds)

    async def _request(self, method: str, path: str, body: Any, attempts: RetryState) -> Any:
        import httpcore

        path, content, headers = self._address.build_request(path, body)
        url = f"{self._address.parts.scheme}://{self._address.host}{path}"
        options: Any = {"headers": headers, "content": content}
        while True:
            outcome: Exception | AgentResponse
            # Computed anew for every attempt, because the deadline of a fallback comes closer.
            waits = dict.fromkeys(("connect", "read", "write", "pool"), attempts.timeout)
            try:
                response = await self._pool.request(
                    method, url, **options, extensions={"timeout": waits}
                )
                outcome = _read_response(response)
                if outcome.status not in RETRIED_STATUSES:
                    return decode_response(self.url, outcome)
            except (
                httpcore.NetworkError,
                httpcore.TimeoutException,
                httpcore.ProtocolError,
            ) as error:
                outcome = error
            await asyncio.sleep(attempts.next_delay(outcome))


def _read_response(response: httpcore.Response) -> AgentResponse:
    headers = {name.lower(): value.decode(errors="replace") for name, value in response.headers}
    return AgentResponse(response.status, response.content, headers.get(b"retry-after", ""))
