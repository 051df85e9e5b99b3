"""An HTTP client of an agent, with retries: pull, play, update."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
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
        visitor: str | None = None,
        activate: bool = True,
    ) -> Decision:
        """Choose an arm, of all or of those allowed; the same id gets the same answer.

        context: the visitor's features, where the experiment has a schema of them. visitor: the
        visitor's id, which gets the same arm at every agent while the probabilities are the same.
        activate: False if it is not certain that the arm is shown: then call `activate` when it is.
        """
        pull_call = calls.pull_arm(allowed, decision, context, visitor, activate)
        call = self._fallback.wrap_decision(pull_call, allowed, decision)
        return self._run_call(call, self._fallback.deadline_seconds)

    def update(
        self,
        decision: Decision | str,
        reward: float,
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Send the reward of a decision; when this returns, it is on disk.

        metrics: further numbers of it, by the names in the settings of the experiment.
        False if it was sent before, or the decision is a fallback: then nothing is sent.
        """
        resolved = self._fallback.resolve_decision(decision)
        return self._run_call(calls.send_reward(resolved, reward, metrics))

    def pull_all(
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
        visitor: str | None = None,
        activate: bool = True,
    ) -> tuple[Decision, list[RewardResult]]:
        """Rewards and the next decision in one request and one commit; there is no fallback."""
        resolved = self._fallback.resolve_rewards(rewards)
        call = calls.send_and_pull(resolved, allowed, decision, context, visitor, activate)
        return self._run_call(call)

    def step_all(
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
        return self._run_call(call)

    def measure(self, decision: Decision | str, metrics: Mapping[str, float]) -> bool:
        """Send metrics of a decision, before or after its reward; when this returns, on disk.

        False if all were sent before, or the decision is a fallback.
        """
        resolved = self._fallback.resolve_decision(decision)
        return self._run_call(calls.send_metrics(resolved, metrics))

    def activate(self, decision: Decision | str) -> bool:
        """Say that the arm of an inactive decision was shown: it counts from now on.

        False if it was active before, or the decision is a fallback: then nothing is sent.
        """
        resolved = self._fallback.resolve_decision(decision)
        return self._run_call(calls.send_transition(resolved, "activate"))

    def cancel(self, decision: Decision | str) -> bool:
        """Say that the arm of a decision was not shown: what it counted is taken back.

        `Conflict` once it has a reward or is closed; False if it was cancelled before, or is a
        fallback.
        """
        resolved = self._fallback.resolve_decision(decision)
        return self._run_call(calls.send_transition(resolved, "cancel"))

    def decision(self, decision: Decision | str) -> dict[str, Any]:
        """Get a decision: its arm, state, times, context and reward."""
        resolved = self._fallback.resolve_decision(decision)
        return self._run_call(calls.get_decision(resolved))

    def erase(self, decision: Decision | str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Delete a decision from the store of the agent; sums of closed decisions stay.

        An open one is cancelled first. `log_emptied` is false if another program was reading the
        store: then its log still has the decision. by, reason: who wants it and why, for events.
        """
        resolved = self._fallback.resolve_decision(decision)
        return self._run_call(calls.erase_decision(resolved, by, reason))

    def erase_visitor(self, visitor: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Delete all decisions for a visitor from the store of the agent, as `erase` does."""
        return self._run_call(calls.erase_visitor(visitor, by, reason))

    def arms(self, context: Context | None = None) -> dict[str, dict[str, float]]:
        """Get the estimate of every arm: on average, or at a context, which may omit fields."""
        return self._run_call(calls.get_arms(context))

    def verdict(self) -> dict[str, Any]:
        """Get whether the experiment may stop, and why; `Unknown` if it has no `stop`."""
        return self._run_call(calls.get_verdict())

    def uplift(self) -> dict[str, Any]:
        """Get what the bandit earned beyond the control arm; `Unknown` without a holdout."""
        return self._run_call(calls.get_uplift())

    def guardrails(self) -> list[dict[str, Any]]:
        """Get every metric of every arm, and which limits are breached."""
        return self._run_call(calls.get_guardrails())

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

    def pin(self, arm: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Play only this arm, until it is resumed; for operators. Returns the controls.

        by, reason: who gives the command, and why; events keep both.
        """
        return self._run_call(calls.send_command("pin", arm, by, reason))

    def pause(self, arm: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Stop playing an arm, until it is resumed; for operators. Returns the controls."""
        return self._run_call(calls.send_command("pause", arm, by, reason))

    def resume(self, arm: str | None = None, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Undo pins and pauses, of an arm or of all; for operators. Returns the controls."""
        return self._run_call(calls.send_command("resume", arm, by, reason))

    def forget(self, agent: str, *, by: str = "", reason: str = "") -> dict[str, Any]:
        """Leave an agent that left out of views of the network; for operators.

        Its evidence stays, and if it comes back, it is there again. Returns the network.
        """
        return self._run_call(calls.forget_agent(agent, by, reason))

    def events(self) -> list[dict[str, Any]]:
        """Get the newest events, oldest first: time, kind and a sentence."""
        return self._run_call(calls.get_events())

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
