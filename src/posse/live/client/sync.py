"""An HTTP client of an agent, with retries: pull, play, update."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from posse.live.agent.agent import Decision
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

    Attempts that meet no agent, or one whose store fails, are repeated, for every request may be:
    for `patience` seconds, in which an agent has started again, or if it is given `attempts` times.
    experiment: which one of several; token: of the application, or for pin, pause, resume and
    reload of the operator; verify: a file of the authorities that https believes. fallback: the
    arm that `pull` returns after `fallback_after` seconds without an agent; it is recorded nowhere.
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
        self._free: deque[Connection] = deque()

    def pull(
        self,
        allowed: Sequence[str] | None = None,
        decision: str | None = None,
        context: Context | None = None,
    ) -> Decision:
        """Which arm to play, of all or of those allowed; the same id gets the same answer.

        context: what is known of the visitor, where the experiment has a schema of it.
        """
        pull_call = calls.pull_arm(allowed, decision, context)
        call = self._fallback.wrap_decision(pull_call, allowed, decision)
        return self._run_call(call, self._fallback.deadline_seconds)

    def update(self, decision: Decision | str, reward: float) -> bool:
        """Say how a decision went; when it returns it is on disk.

        False if that was known, or the decision is a fallback: then nothing is sent.
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
        """What is known of every arm: on average, or at a context, which may leave fields out."""
        return self._run_call(calls.get_arms(context))

    def verdict(self) -> dict[str, Any]:
        """Whether the experiment may stop, and why; `Unknown` if its settings have no `stop`."""
        return self._run_call(calls.get_verdict())

    def network(self) -> dict[str, Any]:
        """The neighbours, and what was refused and why."""
        return self._run_call(calls.get_view("/network"))

    def experiments(self) -> dict[str, Any]:
        """The experiments of the agent."""
        return self._run_call(calls.get_view("/experiments"))

    def evidence(self) -> Quanta:
        """In quanta: what the agent saw itself, and what it holds of all."""
        return self._run_call(calls.get_evidence())

    def audit(self) -> dict[str, Any]:
        """Decisions counted here beside the pulls in the evidence; `Unknown` with a half-life."""
        return self._run_call(calls.get_audit())

    def history(self, scale: str = "day") -> dict[str, Any]:
        """Pulls and rewards of every arm over a "day", a "month" or a "year", and what happened."""
        return self._run_call(calls.get_history(scale))

    def controls(self) -> dict[str, Any]:
        """What is pinned and paused, and by whom."""
        return self._run_call(calls.get_controls())

    def pin(self, arm: str) -> dict[str, Any]:
        """Let this arm alone be played, until it is resumed; for operators. What now holds."""
        return self._run_call(calls.send_command("pin", arm))

    def pause(self, arm: str) -> dict[str, Any]:
        """Let an arm not be played, until it is resumed; for operators. What now holds."""
        return self._run_call(calls.send_command("pause", arm))

    def resume(self, arm: str | None = None) -> dict[str, Any]:
        """Lift what was pinned or paused, for an arm or for all; for operators. What now holds."""
        return self._run_call(calls.send_command("resume", arm))

    def reload(self) -> dict[str, Any]:
        """Let the agent read its agent.toml again; for operators."""
        return self._run_call(calls.reload_settings())

    def close(self) -> None:
        """Close the connections."""
        while self._free:
            self._free.pop().close()

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
            try:
                answer = self._request(*request, self._start_attempts(deadline_seconds))
            except Exception as error:  # for the call to take, or to let pass
                answer = error

    def _start_attempts(self, deadline_seconds: float | None) -> RetryState:
        patience = self._patience.limit_attempts(deadline_seconds, self._fallback.agent_away)
        return RetryState(self.url, self._address.timeout, patience, deadline_seconds)

    def _request(self, method: str, path: str, body: Any, attempts: RetryState) -> Any:
        request = self._address.build_request(path, body)
        while True:
            outcome: Exception | AgentResponse
            try:
                outcome = self._once(method, *request, attempts.timeout)
                if outcome.status not in RETRIED_STATUSES:
                    return decode_response(self.url, outcome)
            except (OSError, HTTPException) as error:
                outcome = error
            time.sleep(attempts.next_delay(outcome))

    def _once(
        self, method: str, path: str, content: bytes, headers: dict[str, str], timeout: float
    ) -> AgentResponse:
        connection = self._connection(timeout)
        try:
            answer = connection.ask(method, path, content, headers, timeout)
        except BaseException:
            connection.close()
            raise
        self._free.append(connection)
        return answer

    def _connection(self, timeout: float) -> Connection:
        """One that is free, or a new one."""
        while True:
            try:
                connection = self._free.pop()
            except IndexError:
                return Connection(self._address, timeout)
            if connection.usable:
                return connection
            connection.close()
