"""Decisions and rewards over HTTP: requests that arrive together share one commit (group commit).

No thread, no lock, no timer: while the disk syncs, the next requests gather in the buffers of their
sockets, so the busier the agent, the larger its commits. Even on a fast disk a commit costs as much
as several requests, so it waits for those that are on their way through the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from msgspec import UNSET

from posse.live.counters import is_same_context
from posse.live.experiment import DecisionRequest, LiveExperiment
from posse.live.http.health import Traffic
from posse.live.http.models import (
    DecisionsAnswer,
    DecisionsRequest,
    EmptyRequest,
    MetricsAnswer,
    MetricsRequest,
    RewardItem,
    RewardRequest,
    RewardsAnswer,
    RewardsRequest,
    StepsAnswer,
    StepsRequest,
    TransitionAnswer,
)
from posse.live.http.responses import answer_decision, answer_reward
from posse.live.node import Node
from posse.live.store import (
    Conflict,
    DecisionRecord,
    RewardOutcome,
    StoreError,
    Transition,
    Unknown,
)

MAX_COMMIT_ITEMS = (
    1000  # rewards and decisions in one commit, beyond which it takes no further request
)
QUIET_TURNS = 3  # turns of the loop without a new request, after which the batch is complete
RewardPair = tuple[str, float]  # a decision and its reward
Metrics = Mapping[str, float]


@dataclass(eq=False, slots=True)
class BatchRequest:
    """Rewards to store and decisions to make in one experiment; items may already be errors.

    metrics: of each reward, None for those without. measurements: metrics without a reward.
    transitions: decisions to activate or to cancel.
    """

    experiment: LiveExperiment
    rewards: Sequence[RewardPair | ValueError] = ()
    decision_requests: Sequence[DecisionRequest | ValueError] = ()
    transitions: Sequence[tuple[Transition, str]] = ()
    metrics: Sequence[Metrics | None] = ()
    measurements: Sequence[tuple[str, Metrics]] = ()
    outcomes: list[RewardOutcome | ValueError] = field(default_factory=list)  # of the rewards
    decisions: list[DecisionRecord | ValueError] = field(
        default_factory=list
    )  # of the decision requests
    new_decisions: list[DecisionRecord] = field(default_factory=list)  # those made now
    changed: list[tuple[DecisionRecord, bool] | ValueError] = field(
        default_factory=list
    )  # of the transitions
    measured: list[bool | ValueError] = field(default_factory=list)  # of the measurements
    answered: asyncio.Future[None] | None = None


class RequestBatcher:
    """Collects requests and answers them together; for one event loop."""

    def __init__(self, node: Node, traffic: Traffic) -> None:
        self._node = node
        self._traffic = traffic
        self._pending: list[BatchRequest] = []
        self._pending_before = 0  # requests at the last turn of the loop
        self._quiet_turns = 0  # turns since the last new request

    async def submit(self, *requests: BatchRequest) -> None:
        """Have requests answered with others of this moment; their rewards are then on disk."""
        if not requests:
            return
        if (
            not self._pending and self._traffic.connections() == 1
        ):  # no other client to share a commit with
            self.commit_batch(requests)
            return
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self._run_turn)
        for request in requests:
            request.answered = loop.create_future()
            self._pending.append(request)
        answers = [request.answered for request in requests if request.answered is not None]
        await (answers[0] if len(answers) == 1 else asyncio.gather(*answers))

    def _run_turn(self) -> None:
        """Answer the pending requests; if very many, the first of them, then yield to others.

        A request takes some turns of the loop until it is pending, a new connection more. If each
        of these had a commit in it, clients would wait for many commits instead of one.
        """
        if self._expects_more():
            asyncio.get_running_loop().call_soon(self._run_turn)
            return
        items = accumulate(
            len(request.rewards)
            + len(request.decision_requests)
            + len(request.transitions)
            + len(request.measurements)
            for request in self._pending
        )
        enough = next(
            (place for place, n in enumerate(items, 1) if n >= MAX_COMMIT_ITEMS), len(self._pending)
        )
        batch = self._pending[:enough]
        self._pending = self._pending[enough:]
        # The next turn is scheduled first: the rest is answered whatever happens to this batch.
        if self._pending:
            asyncio.get_running_loop().call_soon(self._run_turn)
        self._answer_batch(batch)

    def _expects_more(self) -> bool:
        """Return whether new requests came a moment ago, so that more may follow."""
        self._quiet_turns = (
            0 if len(self._pending) > self._pending_before else self._quiet_turns + 1
        )
        self._pending_before = len(self._pending)
        if self._quiet_turns < QUIET_TURNS and self._pending_before < MAX_COMMIT_ITEMS:
            return True
        self._pending_before = self._quiet_turns = 0
        return False

    def _answer_batch(self, batch: Sequence[BatchRequest]) -> None:
        try:
            self.commit_batch(batch)
        except StoreError as error:  # nothing of it was stored
            _resolve_futures(batch, error)
        except Exception as error:
            if len(batch) == 1:
                _resolve_futures(batch, error)
            else:  # a bug: only the request that causes it should fail
                # The failed commit stored nothing, so every request can be tried again alone.
                for request in batch:
                    self._answer_batch([request])
        else:
            _resolve_futures(batch, None)

    def commit_batch(self, batch: Sequence[BatchRequest]) -> None:
        """Answer requests in one commit, or none of them.

        Rewards come first, so that all decisions of a turn use one belief; then decisions; then
        rewards of decisions made in this very turn.
        """
        # Invariant: a request is answered only after its rewards are on disk, and counters are
        # raised only after the commit, so that a failed commit leaves no trace.
        now = self._node.clock()
        rewarding = [request for request in batch if request.rewards]
        deciding = [request for request in batch if request.decision_requests]
        changing = [request for request in batch if request.transitions]
        # decisions alone do not wait for the disk: their rewards will, and then both are on disk
        durable = bool(rewarding) or any(map(_must_reach_disk, batch))
        with self._node.store.reward_transaction(durable=durable):
            for request in changing:
                request.changed = request.experiment.store.decisions.change_decisions(
                    request.transitions, now
                )
            for request in batch:
                if request.measurements:
                    request.measured = request.experiment.store.decisions.measure_decisions(
                        request.measurements, now
                    )
            if rewarding:
                _store_rewards(rewarding, now)
            if deciding:
                _store_decisions(deciding)
            if rewarding and deciding:
                new_ids = {
                    (request.experiment, decision.id)
                    for request in deciding
                    for decision in request.new_decisions
                }
                for request in rewarding if new_ids else ():
                    _retry_unknown_rewards(request, new_ids, now)
        self._count_batch(rewarding, deciding)  # only after the commit
        for request in changing:
            names = (transition for transition, _ in request.transitions)
            request.experiment.count_transitions(zip(names, request.changed, strict=True))

    def _count_batch(
        self, rewarding: Sequence[BatchRequest], deciding: Sequence[BatchRequest]
    ) -> None:
        for experiment, requests in _group_by_experiment(rewarding):
            experiment.count_rewards([o for request in requests for o in request.outcomes])
        for experiment, requests in _group_by_experiment(deciding):
            new = [decision for request in requests for decision in request.new_decisions]
            experiment.count_decisions(new)
            self._traffic.decisions_by_arm[experiment.name].update(d.arm for d in new)


def _must_reach_disk(request: BatchRequest) -> bool:
    """Whether a request without rewards is answered only when it is on disk."""
    cancels = request.transitions and any(name == "cancel" for name, _ in request.transitions)
    return bool(request.measurements or cancels)


def _store_rewards(batch: Sequence[BatchRequest], now: float) -> None:
    """Store all rewards, those of one experiment at once."""
    for experiment, requests in _group_by_experiment(batch):
        for request in requests:
            if request.metrics:
                request.rewards = _store_metrics_of_rewards(request, now)
        pairs = [
            item
            for request in requests
            for item in request.rewards
            if not isinstance(item, ValueError)
        ]
        outcomes = iter(experiment.store.decisions.settle_rewards(pairs, now))
        for request in requests:
            request.outcomes = [
                item if isinstance(item, ValueError) else next(outcomes) for item in request.rewards
            ]


def _store_metrics_of_rewards(request: BatchRequest, now: float) -> list[RewardPair | ValueError]:
    """Store the metrics that came with rewards; an error takes the place of its reward.

    Metrics come first: a reward may be the last that its decision accepts.
    """
    items = list(request.rewards)
    for place, (item, metrics) in enumerate(zip(items, request.metrics, strict=True)):
        if metrics is None or isinstance(item, ValueError):
            continue
        (outcome,) = request.experiment.store.decisions.measure_decisions([(item[0], metrics)], now)
        # Of an unknown decision the reward is tried: perhaps it is made later in this turn.
        if isinstance(outcome, ValueError) and not isinstance(outcome, Unknown):
            items[place] = outcome
    return items


def _store_decisions(batch: Sequence[BatchRequest]) -> None:
    """Make and store all decisions, those of one experiment at once."""
    for experiment, requests in _group_by_experiment(batch):
        valid = [
            item
            for request in requests
            for item in request.decision_requests
            if not isinstance(item, ValueError)
        ]
        chosen = experiment.draw_decisions(valid)
        records = [choice for choice in chosen if not isinstance(choice, ValueError)]
        # an id may exist (deduplication), even from this turn: then the stored decision counts
        pairs = iter(experiment.store.decisions.insert_decisions(records))
        choices = iter(chosen)
        for request in requests:
            request.decisions = []
            request.new_decisions = []
            for item in request.decision_requests:
                choice = item if isinstance(item, ValueError) else next(choices)
                if isinstance(choice, ValueError) or isinstance(item, ValueError):
                    request.decisions.append(choice)
                    continue
                stored, new = next(pairs)
                if new:
                    request.new_decisions.append(stored)
                request.decisions.append(stored if new else _check_repeat(stored, item))


def _group_by_experiment(
    batch: Sequence[BatchRequest],
) -> Iterable[tuple[LiveExperiment, Sequence[BatchRequest]]]:
    if len(batch) == 1:
        return ((batch[0].experiment, batch),)
    together: dict[LiveExperiment, list[BatchRequest]] = {}
    for request in batch:
        together.setdefault(request.experiment, []).append(request)
    return together.items()


def _retry_unknown_rewards(
    request: BatchRequest, new_ids: set[tuple[LiveExperiment, str]], now: float
) -> None:
    """Retry rewards that were unknown because their decision was made later in this turn."""
    experiment = request.experiment
    for place, (item, outcome) in enumerate(zip(request.rewards, request.outcomes, strict=True)):
        # Only ids of this turn are tried again: any other unknown id is an error of the client.
        if (
            isinstance(outcome, Unknown)
            and not isinstance(item, ValueError)
            and (experiment, item[0]) in new_ids
        ):
            metrics = request.metrics[place] if request.metrics else None
            if metrics is not None:
                experiment.store.decisions.measure_decisions([(item[0], metrics)], now)
            (request.outcomes[place],) = experiment.store.decisions.settle_rewards([item], now)


def _check_repeat(decision: DecisionRecord, request: DecisionRequest) -> DecisionRecord | Conflict:
    """Return an earlier decision if its arm is allowed, and context and visitor are the same."""
    # The same id gets the same answer (idempotence). A different request under a used id is a bug
    # of the application, which an old answer would hide.
    if request.allowed is not None and decision.arm not in request.allowed:
        return Conflict(
            f"decision {decision.id!r} has the arm {decision.arm!r}, which is not allowed now: "
            "use a new id"
        )
    if not is_same_context(request.context, decision.context):
        return Conflict(f"decision {decision.id!r} was made at another context: use a new id")
    if request.visitor != decision.visitor:
        return Conflict(f"decision {decision.id!r} was made for another visitor: use a new id")
    if request.activate and decision.inactive:
        return Conflict(
            f"decision {decision.id!r} was asked for with activate = false: activate it, or use a "
            "new id"
        )
    return decision


def _resolve_futures(batch: Sequence[BatchRequest], error: Exception | None) -> None:
    for request in batch:
        answered = request.answered
        if answered is not None and not answered.done():  # else the client has disconnected
            if error is None:
                answered.set_result(None)
            else:
                answered.set_exception(error)


# --- handlers of routes: from a body to a batch request, and from its results to an answer


async def make_decision(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: DecisionRequest
) -> Any:
    """Choose an arm."""
    request = BatchRequest(experiment, decision_requests=[body])
    await turns.submit(request)
    (decision,) = request.decisions
    if isinstance(decision, ValueError):
        raise decision
    return answer_decision(decision)


async def make_decisions(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: DecisionsRequest
) -> Any:
    """Make many decisions, each with an answer or an error."""
    request = BatchRequest(experiment, decision_requests=body.decisions)
    await turns.submit(request)
    return DecisionsAnswer([answer_decision(decision) for decision in request.decisions])


async def record_reward(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, body: RewardRequest
) -> Any:
    """Record the reward of a decision."""
    request = BatchRequest(experiment, rewards=((decision, body.reward),))
    if body.metrics is not None:
        request.metrics = (experiment.validate_metrics(body.metrics),)
    await turns.submit(request)
    (outcome,) = request.outcomes
    if isinstance(outcome, ValueError):
        raise outcome
    return answer_reward((decision, body.reward), outcome)


async def record_rewards(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: RewardsRequest
) -> Any:
    """Record many rewards in one commit, each with an answer or an error."""
    request = BatchRequest(experiment)
    _add_rewards(request, body.rewards)
    await turns.submit(request)
    return RewardsAnswer(_answer_rewards(request))


async def record_and_decide(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: StepsRequest
) -> Any:
    """Record rewards and make the next decisions in one commit."""
    requested = body.decide
    requests = (
        [] if requested is None else requested if isinstance(requested, list) else [requested]
    )
    request = BatchRequest(experiment, decision_requests=requests)
    _add_rewards(request, body.rewards)
    await turns.submit(request)
    decisions = [answer_decision(decision) for decision in request.decisions]
    # The answer has the form of the request: one decision, or a list.
    many = isinstance(requested, list)
    return StepsAnswer(
        _answer_rewards(request),
        decision=UNSET if many or not decisions else decisions[0],
        decisions=decisions if many else UNSET,
    )


async def activate_decision(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, _: EmptyRequest
) -> Any:
    """Count an inactive decision from now on."""
    return await _change_decision(turns, experiment, "activate", decision)


async def cancel_decision(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, _: EmptyRequest
) -> Any:
    """Take back a decision without a reward."""
    return await _change_decision(turns, experiment, "cancel", decision)


async def _change_decision(
    turns: RequestBatcher, experiment: LiveExperiment, transition: Transition, decision: str
) -> TransitionAnswer:
    request = BatchRequest(experiment, transitions=[(transition, decision)])
    await turns.submit(request)
    (outcome,) = request.changed
    if isinstance(outcome, ValueError):
        raise outcome
    record, changed = outcome
    return TransitionAnswer(decision, record.state, not changed)


async def record_metrics(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, body: MetricsRequest
) -> Any:
    """Record metrics of a decision."""
    metrics = experiment.validate_metrics(body.metrics)
    request = BatchRequest(experiment, measurements=[(decision, metrics)])
    await turns.submit(request)
    (outcome,) = request.measured
    if isinstance(outcome, ValueError):
        raise outcome
    return MetricsAnswer(decision, metrics, not outcome)


def _add_rewards(request: BatchRequest, items: Sequence[RewardItem | ValueError]) -> None:
    """Add rewards to a request, with the metrics of those that have some."""
    request.rewards = [i if isinstance(i, ValueError) else (i.decision, i.reward) for i in items]
    if any(not isinstance(item, ValueError) and item.metrics is not None for item in items):
        _add_metrics(request, items)


def _add_metrics(request: BatchRequest, items: Sequence[RewardItem | ValueError]) -> None:
    rewards: list[RewardPair | ValueError] = list(request.rewards)
    metrics: list[dict[str, float] | None] = [None] * len(items)
    for place, item in enumerate(items):
        if isinstance(item, ValueError) or item.metrics is None:
            continue
        try:
            metrics[place] = request.experiment.validate_metrics(item.metrics)
        except ValueError as error:  # of this item alone
            rewards[place] = error
    request.rewards = rewards
    request.metrics = metrics


def _answer_rewards(request: BatchRequest) -> list[Any]:
    return [answer_reward(*pair) for pair in zip(request.rewards, request.outcomes, strict=True)]
