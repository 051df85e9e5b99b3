"""Group commit on the event loop: all requests of one turn of the loop share one commit.

No thread, no lock, no timer: while the disk syncs, the next requests gather in the buffers of their
sockets, so the busier the agent, the larger its commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from posse.live.counters import same
from posse.live.experiment.experiment import Experiment, Wish
from posse.live.http.health import Traffic
from posse.live.node import Node
from posse.live.store import Conflict, DecisionRecord, RewardOutcome, StoreError, Unknown

MAX_COMMIT_ITEMS = (
    1000  # rewards and decisions in one commit, beyond which it takes no further request
)
SLOW_COMMIT_SECONDS = 0.005  # slower commits are worth waiting for more requests
QUIET_TURNS = 3  # turns of the loop without a new request, after which the batch is complete
RewardPair = tuple[str, float]  # a decision and its reward


@dataclass(eq=False, slots=True)
class BatchRequest:
    """Rewards to store and decisions to make in one experiment; items may already be errors."""

    experiment: Experiment
    rewards: Sequence[RewardPair | ValueError] = ()
    decision_requests: Sequence[Wish | ValueError] = ()
    outcomes: list[RewardOutcome | ValueError] = field(default_factory=list)  # of the rewards
    decisions: list[DecisionRecord | ValueError] = field(default_factory=list)  # of the wishes
    new_decisions: list[DecisionRecord] = field(default_factory=list)  # those made now
    answered: asyncio.Future[None] | None = None


class RequestBatcher:
    """Collects requests and answers them together; for one event loop."""

    def __init__(self, node: Node, traffic: Traffic) -> None:
        self._node = node
        self._traffic = traffic
        self._pending: list[BatchRequest] = []
        self._disk_is_slow = False  # the disk, when last written
        self._pending_before = self._quiet_turns = (
            0  # questions so far, and turns since the last of them
        )

    async def submit(self, request: BatchRequest) -> None:
        """Have a request answered at the end of this turn; its rewards are then on disk."""
        if (
            not self._pending and self._traffic.connections() == 1
        ):  # no other client to share a commit with
            self.commit_batch([request])
            return
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self._run_turn)
        request.answered = loop.create_future()
        self._pending.append(request)
        await request.answered

    def _run_turn(self) -> None:
        """Answer the pending requests; if very many, the first of them, then yield to others.

        A request takes some turns of the loop until it is pending, a new connection more. If each
        of these had a commit of a slow disk in it, clients would wait for many commits instead of
        one.
        """
        if self._disk_is_slow and self._expects_more():
            asyncio.get_running_loop().call_soon(self._run_turn)
            return
        items = accumulate(
            len(request.rewards) + len(request.decision_requests) for request in self._pending
        )
        enough = next(
            (place for place, n in enumerate(items, 1) if n >= MAX_COMMIT_ITEMS), len(self._pending)
        )
        batch = self._pending[:enough]
        self._pending = self._pending[enough:]
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
                for request in batch:
                    self._answer_batch([request])
        else:
            _resolve_futures(batch, None)

    def commit_batch(self, batch: Sequence[BatchRequest]) -> None:
        """Answer requests in one commit, or none of them.

        Rewards come first, so that all decisions of a turn use one belief; then decisions; then
        rewards of decisions made in this very turn.
        """
        now = self._node.clock()
        began = time.monotonic()
        rewarding = [question for question in batch if question.rewards]
        deciding = [question for question in batch if question.decision_requests]
        # decisions alone do not wait for the disk: their rewards will, and then both are on disk
        with self._node.store.reward_transaction(durable=bool(rewarding)):
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
                for question in rewarding if new_ids else ():
                    _retry_unknown_rewards(question, new_ids, now)
        if rewarding:
            self._disk_is_slow = time.monotonic() - began > SLOW_COMMIT_SECONDS
        self._count_batch(rewarding, deciding)  # only after the commit

    def _count_batch(
        self, rewarding: Sequence[BatchRequest], deciding: Sequence[BatchRequest]
    ) -> None:
        for question in rewarding:
            question.experiment.count_rewards(question.outcomes)
        for question in deciding:
            question.experiment.count_decisions(question.new_decisions)
            decisions_by_arm = self._traffic.decisions_by_arm[question.experiment.name]
            for decision in question.new_decisions:
                decisions_by_arm[decision.arm] += 1


def _store_rewards(batch: Sequence[BatchRequest], now: float) -> None:
    """Store all rewards, those of one experiment at once."""
    for experiment, questions in _group_by_experiment(batch):
        pairs = [
            i for request in questions for i in request.rewards if not isinstance(i, ValueError)
        ]
        outcomes = iter(experiment.store.add_rewards(pairs, now))
        for question in questions:
            question.outcomes = [
                item if isinstance(item, ValueError) else next(outcomes)
                for item in question.rewards
            ]


def _store_decisions(batch: Sequence[BatchRequest]) -> None:
    """Make and store all decisions, those of one experiment at once."""
    for experiment, questions in _group_by_experiment(batch):
        wishes = [
            w for each in questions for w in each.decision_requests if not isinstance(w, ValueError)
        ]
        chosen = experiment.choose_many(wishes)
        made = [each for each in chosen if not isinstance(each, ValueError)]
        # an id may exist (deduplication), even from this turn: then the stored decision counts
        pairs = iter(experiment.store.insert_decisions(made))
        choices = iter(chosen)
        for question in questions:
            question.decisions = []
            question.new_decisions = []
            for wish in question.decision_requests:
                choice = wish if isinstance(wish, ValueError) else next(choices)
                if isinstance(choice, ValueError) or isinstance(wish, ValueError):
                    question.decisions.append(choice)
                    continue
                stored, new = next(pairs)
                if new:
                    question.new_decisions.append(stored)
                question.decisions.append(stored if new else _check_repeat(stored, wish))


def _group_by_experiment(
    batch: Sequence[BatchRequest],
) -> Iterable[tuple[Experiment, Sequence[BatchRequest]]]:
    if len(batch) == 1:
        return ((batch[0].experiment, batch),)
    together: dict[Experiment, list[BatchRequest]] = {}
    for question in batch:
        together.setdefault(question.experiment, []).append(question)
    return together.items()


def _retry_unknown_rewards(
    question: BatchRequest, new_ids: set[tuple[Experiment, str]], now: float
) -> None:
    """Retry rewards that were unknown because their decision was made later in this turn."""
    experiment = question.experiment
    for place, (item, outcome) in enumerate(zip(question.rewards, question.outcomes, strict=True)):
        if (
            isinstance(outcome, Unknown)
            and not isinstance(item, ValueError)
            and (experiment, item[0]) in new_ids
        ):
            (question.outcomes[place],) = experiment.store.add_rewards([item], now)


def _check_repeat(decision: DecisionRecord, wish: Wish) -> DecisionRecord | Conflict:
    """Return an earlier decision if its arm is allowed and its context is the same."""
    if wish.allowed is not None and decision.arm not in wish.allowed:
        return Conflict(
            f"decision {decision.id!r} has the arm {decision.arm!r}, which is not allowed now: "
            "use a new id"
        )
    if not same(wish.context, decision.context):
        return Conflict(f"decision {decision.id!r} was made at another context: use a new id")
    return decision


def _resolve_futures(batch: Sequence[BatchRequest], error: Exception | None) -> None:
    for question in batch:
        answered = question.answered
        if answered is not None and not answered.done():  # else the client has disconnected
            if error is None:
                answered.set_result(None)
            else:
                answered.set_exception(error)
