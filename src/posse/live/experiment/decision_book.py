"""The decisions of a live experiment: drawn, stored, rewarded, measured, cancelled and erased.

A lock of its own guards the agent; transactions of the store are opened before it, never after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posse.contexts import Features
from posse.live.agent import Agent, Choice
from posse.live.controls import Controls
from posse.live.counters import ContextOddities, Counts, serialize_context
from posse.live.experiment.decision_request import FLAG_PREFIX, FLAG_SECONDS, DecisionRequest
from posse.live.experiment.reward_window import (
    EvidenceParticipant,
    LatenessCounter,
    Mode,
    RewardWindow,
)
from posse.live.store import (
    ARMS,
    ArmLists,
    Conflict,
    DecisionRecord,
    LateReward,
    RewardOutcome,
    Store,
    SupersededReward,
    Transition,
    Unknown,
    pack_probabilities,
)
from posse.randomness import FloatArray

CONTROLS = "controls"  # the name of a durable record in the store
INACTIVE = {"assumed": None, "inactive": True}  # fields of a decision that is not shown yet


class DecisionBook:
    """Durable, idempotent decisions and rewards of one agent in one experiment."""

    def __init__(
        self,
        agent: Agent,
        store: Store,
        controls: Controls,
        reward_window: RewardWindow,
        remember: float | None,  # seconds; None: decisions are stored for ever
        clock: Callable[[], float],
        draw: Callable[[int], int],  # for ids
    ) -> None:
        self.agent = agent
        self.store = store
        self.remember = remember
        self.clock = clock
        self.counts = Counts()  # decisions and rewards
        self.late = LatenessCounter()  # of rewards after their window
        self.oddities = ContextOddities(agent.context)  # of contexts
        self._draw = draw
        self._lock = threading.RLock()
        self._participant = EvidenceParticipant(agent, self._lock, reward_window)
        self._swept = False  # whether rewards that waited for a window are seen to without one
        store.attach_participant(self._participant)
        self._packed = np.empty(0), b""  # the last propensities, as they are stored
        self._offers = ArmLists(store.read_record(ARMS))
        self._store_arms(agent.arm_names)
        self._offers.use_arms(agent.arm_names)
        self.controls = controls
        controls.restore(store.read_record(CONTROLS))

    @property
    def reward_window(self) -> RewardWindow:
        """The attribution window: how long a reward may take, and what a missing one means."""
        return self._participant.reward_window

    @property
    def counting_mode(self) -> Mode:
        """When a decision counts: with its reward, from the start, or when its window closes."""
        return self._participant.counting_mode

    def decide(
        self,
        id_: str | None = None,
        allowed: Sequence[str] | None = None,
        context: Mapping[str, Any] | None = None,
        visitor: str | None = None,
        activate: bool = True,
    ) -> DecisionRecord:
        """Decide which arm to play, at a context if there is a schema; idempotent in the id.

        activate: whether the arm will surely be shown; else `activate` says when it is.
        """
        drawn = self.draw_decision(id_, allowed, context, visitor, activate)
        ((record, new),) = self.store.insert_decisions([drawn])
        self.count_decisions([record] if new else [])
        return record

    def count_decisions(self, new: Sequence[DecisionRecord]) -> None:
        """Count new decisions, once they are on disk."""
        self.counts.add("decisions", len(new))
        for decision in new:
            if decision.features is not None:
                self.oddities.count_context(decision.features)

    def draw_decision(
        self,
        id_: str | None,
        allowed: Sequence[str] | None,
        context: Mapping[str, Any] | None = None,
        visitor: str | None = None,
        activate: bool = True,
    ) -> DecisionRecord:
        """Draw a decision that is not on disk yet; a stored one of the same id goes first."""
        # Validated before the lock is taken: a bad context must not hold up other requests.
        visit = self.agent.encode_context(context)
        id_ = self._find_key(id_, visitor)
        try:
            with self._lock:
                playable, bucket = self._apply_holdout(
                    self._apply_controls(allowed), visitor or id_
                )
                (choice,) = self.agent.draw_choices([playable], [visit], [visitor])
                offer = self._describe_offer(choice, visit, context, visitor, bucket)
        except ValueError:  # an arm may be gone since this id was first asked for
            if id_ is not None and (record := self.store.find_decision(id_)) is not None:
                return record
            raise
        initial = self._initial_fields() if activate else self._initial_fields() | INACTIVE
        return self._make_record(id_, choice, self.clock(), {**initial, **offer})

    def draw_decisions(
        self, requests: Sequence[DecisionRequest]
    ) -> list[DecisionRecord | ValueError]:
        """Draw decisions that are not on disk yet; an impossible one is its ValueError."""
        try:
            visits = [self.agent.encode_context(request.context) for request in requests]
            with self._lock:
                allowed = [self._apply_controls(request.allowed) for request in requests]
                visitors = [request.visitor for request in requests]
                ids = [request.decision for request in requests]
                buckets: list[int | None] = [None] * len(requests)
                if self._has_holdout:
                    for place, visitor in enumerate(visitors):
                        ids[place] = self._find_key(ids[place], visitor)
                        allowed[place], buckets[place] = self._apply_holdout(
                            allowed[place], visitor or ids[place]
                        )
                choices = self.agent.draw_choices(allowed, visits, visitors)
                offers = [
                    self._describe_offer(choice, visit, request.context, request.visitor, bucket)
                    for request, choice, visit, bucket in zip(
                        requests, choices, visits, buckets, strict=True
                    )
                ]
        except ValueError:  # one of them is wrong: each gets an answer of its own
            return [self._try_draw(request) for request in requests]
        now = self.clock()
        # Most likely values; the participant corrects them if the incarnation changed meanwhile.
        initial = self._initial_fields()
        inactive = initial | INACTIVE
        return [
            self._make_record(
                id_, choice, now, {**(initial if request.activate else inactive), **offer}
            )
            for id_, request, choice, offer in zip(ids, requests, choices, offers, strict=True)
        ]

    def probabilities(self) -> dict[str, float]:
        """Return the propensity of each arm in the next decision, if all arms are allowed."""
        with self._lock:
            return self.agent.probabilities()

    def _make_record(
        self, id_: str | None, choice: Choice, now: float, fields: Mapping[str, Any]
    ) -> DecisionRecord:
        return DecisionRecord(id_ or self._new_id(), choice.arm, choice.probability, now, **fields)

    def _describe_offer(
        self,
        choice: Choice,
        visit: Features | None,
        context: Mapping[str, Any] | None,
        visitor: str | None,
        bucket: int | None,
    ) -> dict[str, Any]:
        """Return the allowed arms, their propensities, context and visitor as they are stored."""
        offer: dict[str, Any] = {
            "allowed": self._offers.encode_allowed(choice.allowed),
            "probabilities": self._pack_probabilities(choice.probabilities),
            "visitor": visitor,
        }
        if bucket is not None:
            offer["uplift"] = bucket
        if visit is not None and context is not None:
            offer |= {"context": serialize_context(context), "features": visit}
        return offer

    def _pack_probabilities(self, probabilities: FloatArray) -> bytes:
        """Pack propensities, (K,), once for all decisions of a belief: they share an array."""
        if probabilities is not self._packed[0]:
            self._packed = probabilities, pack_probabilities(probabilities)
        return self._packed[1]

    @property
    def _has_holdout(self) -> bool:
        return self.agent.measures.holdout is not None

    def _find_key(self, id_: str | None, visitor: str | None) -> str | None:
        """Return the id of a decision; one is drawn now if a holdout is chosen by it."""
        return self._new_id() if id_ is None and visitor is None and self._has_holdout else id_

    def _apply_holdout(
        self, allowed: Sequence[str] | None, key: str | None
    ) -> tuple[Sequence[str] | None, int | None]:
        """Return the arms that are left to a visitor, and the bucket of its reward in an uplift."""
        side = self.agent.side
        if side is None or key is None or not self._has_holdout:
            return allowed, None
        playable = self.agent.arm_names if allowed is None else allowed
        bucket = side.assign_bucket(key, playable)
        control = self.agent.measures.control_arm
        if bucket is not None and bucket < 0 and control is not None:
            return [control], bucket
        return allowed, bucket

    def _initial_fields(self) -> dict[str, Any]:
        """Return the assumed reward and the incarnation that a new decision most likely gets."""
        assumed = self.reward_window.default_reward if self._participant.counting else None
        with self._lock:
            return {"assumed": assumed, "incarnation": self.agent.exchange.incarnation()}

    def _try_draw(self, request: DecisionRequest) -> DecisionRecord | ValueError:
        try:
            return self.draw_decision(
                *(request.decision, request.allowed, request.context, request.visitor),
                request.activate,
            )
        except ValueError as error:
            return error

    def playable_arms(self) -> tuple[str, ...]:
        """Return the arms that controls leave; `Conflict` if there is none."""
        with self._lock:
            arms = self._apply_controls(None)
            return tuple(self.agent.arm_names if arms is None else arms)

    def _apply_controls(self, requested: Sequence[str] | None) -> Sequence[str] | None:
        """Return the requested arms that controls leave."""
        controls = self.controls
        return (
            controls.filter_arms(self.agent.arm_names, requested)
            if controls.has_effect
            else requested
        )

    def reward(self, decision_id: str, reward: float) -> RewardOutcome:
        """Reward a decision; idempotent, and durable when it returns."""
        try:
            outcome = self.store.add_reward(decision_id, reward, self.clock())
        except ValueError as refused:
            self.count_rewards([refused])
            raise
        self.count_rewards([outcome])
        return outcome

    def count_rewards(self, outcomes: Sequence[RewardOutcome | ValueError]) -> None:
        """Count the outcomes of rewards, once they are on disk."""
        self.counts.add("rewards", outcomes.count(RewardOutcome.NEW))
        for outcome in outcomes:
            if isinstance(outcome, LateReward):
                self.late.add_delay(outcome.lateness)
                self.counts.add("late")
            elif isinstance(outcome, Conflict):
                superseded = isinstance(outcome, SupersededReward)
                self.counts.add("superseded" if superseded else "conflicts")

    def activate(self, decision_id: str) -> DecisionRecord:
        """Count an inactive decision from now on, because its arm was shown; idempotent."""
        return self._change_decision("activate", decision_id)

    def cancel(self, decision_id: str) -> DecisionRecord:
        """Take back a decision without a reward, because its arm was not shown; idempotent."""
        return self._change_decision("cancel", decision_id)

    def _change_decision(self, transition: Transition, decision_id: str) -> DecisionRecord:
        (outcome,) = self.store.change_decisions([(transition, decision_id)], self.clock())
        self.count_transitions([(transition, outcome)])
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome[0]

    def count_transitions(
        self, outcomes: Iterable[tuple[Transition, tuple[DecisionRecord, bool] | ValueError]]
    ) -> None:
        """Count decisions that were activated and cancelled, once that is stored."""
        for transition, outcome in outcomes:
            if not isinstance(outcome, ValueError) and outcome[1]:
                self.counts.add("activated" if transition == "activate" else "cancelled")

    def measure(self, decision_id: str, metrics: Mapping[str, Any]) -> bool:
        """Add metrics to a decision; idempotent, and durable when it returns."""
        values = self.validate_metrics(metrics)
        (outcome,) = self.store.add_metrics([(decision_id, values)], self.clock())
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    def validate_metrics(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Return the metrics of a decision, or refuse them with one sentence."""
        return self.agent.measures.validate_metrics(metrics)

    def find_decision(self, decision_id: str) -> DecisionRecord:
        """Find a decision by its id; `Unknown` if there is none."""
        record = self.store.find_decision(decision_id)
        if record is None:
            raise Unknown(f"there is no decision {decision_id!r}: check the id, or its age")
        if record.closed is None and self._participant.is_superseded(record):
            return replace(record, superseded=True)
        return record

    def erase_decision(self, decision_id: str) -> bool:
        """Delete a decision from the store and its log; its closed evidence stays.

        One that is open is cancelled first, and one with a reward is closed with it. Returns
        whether no byte of it is left: another process that reads the store prevents that, and then
        the rest is removed when that has ended.
        """
        removed = self.store.erase_decision(decision_id)
        self.counts.add("erased")
        return removed

    def erase_visitor(self, visitor: str) -> tuple[int, bool]:
        """Delete all decisions for a visitor, as `erase_decision` does; also returns how many."""
        erased, removed = self.store.erase_visitor(visitor)
        self.counts.add("erased", erased)
        return erased, removed

    @property
    def resumed(self) -> bool:
        """Whether it continued from the state of an earlier process."""
        return self._participant.resumed

    @property
    def counted_decisions(self) -> int:
        """The number of decisions ever counted into this agent's evidence; durable."""
        return self._participant.counted

    def close_windows(self, now: float) -> None:
        """Close reward windows that ended, and delete old decisions."""
        self.store.retry_removal()
        # Flags that were evaluated and never shown: clients poll, so there may be very many.
        flag_seconds = self.reward_window.window or FLAG_SECONDS
        self.store.delete_unshown_decisions(now - flag_seconds, FLAG_PREFIX)
        # Without a window one sweep is enough, for decisions that waited for an earlier window.
        if self.reward_window.window is not None or not self._swept:
            self.store.expire_decisions(
                now, self.reward_window.window, self.reward_window.default_reward
            )
            self._swept = True
        if self.remember is not None:
            self.store.delete_old_decisions(now, self.remember)

    def _store_arms(self, names: Sequence[str]) -> None:
        """Write a list of arms before decisions refer to it."""
        if (data := self._offers.encode_with(names)) is not None:
            self.store.write_record(ARMS, data)

    def _new_id(self) -> str:
        return f"{self._draw(128):032x}"
