"""An HTTP client of an agent, with retries: pull, play, update."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from posse.live.agent import Decision
from posse.live.client import calls
from posse.live.client.calls import Call, Context, Fallback, Quanta, Reward, RewardResult
from posse.live.client.connection import (
    RETRIED_STATUSES,
    Address,
    AgentResponse,
    Connection,
    RetryPolicy,
    RetryState,
    decode_response,
)

T = TypeVar("T")


class Client:
    """A thread-safe client of one agent, with a connection pool and retries.

    Requests that reach no agent, or one whose store fails, are repeated, as every request is
    idempotent: for `patience` seconds, in which an agent restarts, or if given `attempts` times.
    experiment: which one of several; token: the application's, or for pin, pause, resume and reload
    the operators'; verify: a file of the authorities that https trusts. fallback: the arm that
    `pull` returns after `fallback_after` seconds without an agent; it is recorded nowhere.
    """

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
        self._address = Address(url, timeout, experiment=experiment, token=token, verify=verify)
        self._patience = RetryPolicy(patience, attempts, backoff)
        self._fallback = Fallback(fallback, fallback_after)
        self.url = self._address.url  # without a password
        self.idle_connections: deque[Connection] = deque()

    def pull(
        self,
        allowed: Sequence[str] | None = None,
        decision: str | None = None,
        context: Context | None = None,
    ) -> Decision:
        """Choose an arm, of all or of those allowed; the same id gets the same answer.

        context: the visitor's features, where the experiment has a schema of them.
        """
        pull_call = calls.pull_arm(allowed, decision, context)
        call = self._fallback.wrap_decision(pull_call, allowed, decision)
        return self._run_call(call, self._fallback.deadline_seconds)

    def update(self, decision: Decision | str, reward: float) -> bool:
        """Send the reward of a decision; when this returns, it is on disk.

        False if it was sent before, or the decision is a fallback: then nothing is sent.
        """
        return self._run_call(calls.send_reward(self._fallback.resolve_decision(decision), reward))

    def pull_all(
        self,
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
    ) -> list[Decision]:
        """Many decisions at once; contexts: one for each."""
        pull_call = calls.pull_arms(count, allowed, contexts)
        call = self._fallback.wrap_decisions(pull_call, allowed, count)
        return self._run_call(call, self._fallback.deadline_seconds)

    def update_all(self, rewards: Iterable[Reward]) -> list[RewardResult]:
        """Many rewards at once: for each what `update` returns, or the error it would raise."""
        return self._run_call(calls.send_rewards(self._fallback.resolve_rewards(rewards)))

    def step(
        self,
        rewards: Iterable[Reward],
        allowed: Sequence[str] | None = None,
        decision: str | None = None,
        context: Context | None = None,
    ) -> tuple[Decision, list[RewardResult]]:
        """Rewards and the next decision in one request and one commit; there is no fallback."""
        resolved = self._fallback.resolve_rewards(rewards)
        return self._run_call(calls.send_and_pull(resolved, allowed, decision, context))

    def step_all(
        self,
        rewards: Iterable[Reward],
        count: int,
        allowed: Sequence[str] | None = None,
        contexts: Sequence[Context] | None = None,
    ) -> tuple[list[Decision], list[RewardResult]]:
        """Rewards and many new decisions."""
        resolved = self._fallback.resolve_rewards(rewards)
        return self._run_call(calls.send_and_pull_all(resolved, count, allowed, contexts))

    def arms(self, context: Context | None = None) -> dict[str, dict[str, float]]:
        """Get the estimate of every arm: on average, or at a context, which may omit fields."""
        return self._run_call(calls.get_arms(context))

    def verdict(self) -> dict[str, Any]:
        """Get whether the experiment may stop, and why; `Unknown` if it has no `stop`."""
        return self._run_call(calls.get_verdict())

    def network(self) -> dict[str, Any]:
        """Get the neighbours, all known agents and links, and refusals by reason."""
        return self._run_call(calls.get_view("/network"))

    def experiments(self) -> dict[str, Any]:
        """Get the experiments of the agent."""
        return self._run_call(calls.get_view("/experiments"))

    def evidence(self) -> Quanta:
        """Get the evidence in quanta: the agent's own, and that of all agents."""
        return self._run_call(calls.get_evidence())

    def audit(self) -> dict[str, Any]:
        """Compare decisions counted with those in the evidence; `Unknown` with a half-life."""
        return self._run_call(calls.get_audit())

    def history(self, scale: str = "day") -> dict[str, Any]:
        """Get decisions and rewards of every arm over a "day", "month" or "year", and events."""
        return self._run_call(calls.get_history(scale))

    def controls(self) -> dict[str, Any]:
        """Get pinned and paused arms, and whose controls they are."""
        return self._run_call(calls.get_controls())

    def pin(self, arm: str) -> dict[str, Any]:
        """Play only this arm, until it is resumed; for operators. Returns the controls."""
        return self._run_call(calls.send_command("pin", arm))

    def pause(self, arm: str) -> dict[str, Any]:
        """Stop playing an arm, until it is resumed; for operators. Returns the controls."""
        return self._run_call(calls.send_command("pause", arm))

    def resume(self, arm: str | None = None) -> dict[str, Any]:
        """Undo pins and pauses, of an arm or of all; for operators. Returns the controls."""
        return self._run_call(calls.send_command("resume", arm))

    def reload(self) -> dict[str, Any]:
        """Make the agent read its agent.toml again; for operators."""
        return self._run_call(calls.reload_settings())

    def close(self) -> None:
        """Close the connections."""
        while self.idle_connections:
            self.idle_connections.pop().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run_call(self, call: Call[T], deadline_seconds: float | None = None) -> T:
        answer: Any = None
        while True:
            try:
                request = calls.next_request(call, answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            # Errors are thrown into the generator at its `yield`, so both clients share one error
            # handling.
            try:
                answer = self._request(*request, self._start_attempts(deadline_seconds))
            except Exception as error:  # the call may handle it, e.g. by a fallback
                answer = error

    def _start_attempts(self, deadline_seconds: float | None) -> RetryState:
        patience = self._patience.limit_attempts(deadline_seconds, self._fallback.agent_away)
        return RetryState(self.url, self._address.timeout, patience, deadline_seconds)

    def _request(self, method: str, path: str, body: Any, attempts: RetryState) -> Any:
        request = self._address.build_request(path, body)
        while True:
            outcome: Exception | AgentResponse
            try:
                outcome = self._send_once(method, *request, attempts.timeout)
                if outcome.status not in RETRIED_STATUSES:
                    return decode_response(self.url, outcome)
            except (OSError, HTTPException) as error:
                outcome = error
            time.sleep(attempts.next_delay(outcome))

    def _send_once(
        self, method: str, path: str, content: bytes, headers: dict[str, str], timeout: float
    ) -> AgentResponse:
        # A connection returns to the idle ones only after a complete answer: one that failed
        # could deliver a late answer to the next request.
        connection = self._get_connection(timeout)
        try:
            answer = connection.send_request(method, path, content, headers, timeout)
        except BaseException:
            connection.close()
            raise
        self.idle_connections.append(connection)
        return answer

    def _get_connection(self, timeout: float) -> Connection:
        """Return an idle connection that is usable, or a new one."""
        while True:
            try:
                # The most recently used one first: the least likely to have been closed by the
                # agent.
                connection = self.idle_connections.pop()
            except IndexError:
                return Connection(self._address, timeout)
            if connection.usable:
                return connection
            connection.close()
