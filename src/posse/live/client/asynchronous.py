"""The client for asyncio: the same calls as `Client`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
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
        visitor: str | None = None,
        activate: bool = True,
    ) -> Decision:
        """Choose an arm, as `Client.pull`."""
        pull_call = calls.pull_arm(allowed, decision, context, visitor, activate)
        call = self._fallback.wrap_decision(pull_call, allowed, decision)
        return await self._run_call(call, self._fallback.deadline_seconds)

    async def update(
        self,
        decision: Decision | str,
        reward: float,
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Send the reward of a decision, as `Client.update`."""
        resolved = self._fallback.resolve_decision(decision)
        return await self._run_call(calls.send_reward(resolved, reward, metrics))

    async def pull_all(
        self,
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
        visitors: Sequence[str] | None = None,
        activate: bool = True,
    ) -> list[Decision]:
        """Many decisions at once; contexts, visitors: one for each."""
        pull_call = calls.pull_arms(count, allowed, contexts, visitors, activate)
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
        visitor: str | None = None,
        activate: bool = True,
    ) -> tuple[Decision, list[RewardResult]]:
        """Rewards and the next decision in one request and one commit; there is no fallback."""
        resolved = self._fallback.resolve_rewards(rewards)
        call = calls.send_and_pull(resolved, allowed, decision, context, visitor, activate)
        return await self._run_call(call)

    async def step_all(
        self,
        rewards: Iterable[Reward],
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
        visitors: Sequence[str] | None = None,
        activate: bool = True,
    ) -> tuple[list[Decision], list[RewardResult]]:
        """Rewards and many new decisions."""
        resolved = self._fallback.resolve_rewards(rewards)
        call = calls.send_and_pull_all(resolved, count, allowed, contexts, visitors, activate)
        return await self._run_call(call)

    async def measure(self, decision: Decision | str, metrics: Mapping[str, float]) -> bool:
        """Send metrics of a decision, before or after its reward; when this returns, on disk.

        False if all were sent before, or the decision is a fallback.
        """
        resolved = self._fallback.resolve_decision(decision)
        return await self._run_call(calls.send_metrics(resolved, metrics))

    async def activate(self, decision: Decision | str) -> bool:
        """Say that the arm of an inactive decision was shown: it counts from now on.

        False if it was active before, or the decision is a fallback: then nothing is sent.
        """
        resolved = self._fallback.resolve_decision(decision)
        return await self._run_call(calls.send_transition(resolved, "activate"))

    async def cancel(self, decision: Decision | str) -> bool:
        """Say that the arm of a decision was not shown: what it counted is taken back.

        `Conflict` once it has a reward or is closed; False if it was cancelled before, or is a
        fallback.
        """
        resolved = self._fallback.resolve_decision(decision)
        return await self._run_call(calls.send_transition(resolved, "cancel"))

    async def decision(self, decision: Decision | str) -> dict[str, Any]:
        """Get a decision: its arm, state, times, context and reward."""
        resolved = self._fallback.resolve_decision(decision)
        return await self._run_call(calls.get_decision(resolved))

    async def erase(
        self, decision: Decision | str, *, by: str = "", reason: str = ""
    ) -> dict[str, Any]:
        """Delete a decision from the store of the agent; sums of closed decisions stay.

        An open one is cancelled first. `log_emptied` is false if another program was reading the
        store: then its log still has the decision. by, reason: who wants it and why, for events.
        """
        resolved = self._fallback.resolve_decision(decision)
        return await self._run_call(calls.erase_decision(resolved, by, reason))

    async def erase_visitor(
        self, visitor: str, *, by: str = "", reason: str = ""
    ) -> dict[str, Any]:
        """Delete all decisions for a visitor from the store of the agent, as `erase` does."""
        return await self._run_call(calls.erase_visitor(visitor, by, reason))

    async def arms(self, context: Context | None = None) -> dict[str, dict[str, float]]:
        """Get the estimate of every arm: on average, or at a context, which may omit fields."""
        return await self._run_call(calls.get_arms(context))

    async def verdict(self) -> dict[str, Any]:
        """Get whether the experiment may stop, and why; `Unknown` if it has no `stop`."""
        return await self._run_call(calls.get_verdict())

    async def uplift(self) -> dict[str, Any]:
        """Get what the bandit earned beyond the control arm; `Unknown` without a holdout."""
        return await self._run_call(calls.get_uplift())

    async def guardrails(self) -> list[dict[str, Any]]:
        """Get every metric of every arm, and which limits are breached."""
        return await self._run_call(calls.get_guardrails())

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

    async def pin(self, arm: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Play only this arm, until it is resumed; for operators. Returns the controls.

        by, reason: who gives the command, and why; events keep both.
        """
        return await self._run_call(calls.send_command("pin", arm, by, reason))

    async def pause(self, arm: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Stop playing an arm, until it is resumed; for operators. Returns the controls."""
        return await self._run_call(calls.send_command("pause", arm, by, reason))

    async def resume(
        self, arm: str | None = None, *, by: str = "", reason: str = ""
    ) -> dict[str, Any]:
        """Undo pins and pauses, of an arm or of all; for operators. Returns the controls."""
        return await self._run_call(calls.send_command("resume", arm, by, reason))

    async def forget(self, agent: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Leave an agent that left out of views of the network; for operators.

        Its evidence stays, and if it comes back, it is there again. Returns the network.
        """
        return await self._run_call(calls.forget_agent(agent, by, reason))

    async def events(self) -> list[dict[str, Any]]:
        """Get the newest events, oldest first: time, kind and a sentence."""
        return await self._run_call(calls.get_events())

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
