"""One experiment of a node: an agent, its decisions and rewards in the store, and its exchange.

A lock of its own guards the agent; transactions of the store are opened before it, never after.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from posse.contexts import Features
from posse.live.agent import (
    NO_STOP,
    Agent,
    Choice,
    Judgement,
    MetricStatus,
    NamedVerdict,
    Shares,
    SiteMap,
    Uplift,
    add_forecast,
)
from posse.live.controls import (
    SIGNATURE_INVALID,
    Control,
    ControlMessage,
    Controls,
    ControlsAnswer,
    describe_changes,
)
from posse.live.counters import ContextOddities, Counts, serialize_context
from posse.live.exchange import DEFAULT, Ledger, NeighbourStatus, Origins, Outgoing, Sign
from posse.live.experiment.decision_request import FLAG_PREFIX, FLAG_SECONDS, DecisionRequest
from posse.live.experiment.history import History, HistoryRecorder
from posse.live.experiment.reward_window import (
    EvidenceParticipant,
    LatenessCounter,
    Mode,
    RewardWindow,
)
from posse.live.security import Vouch
from posse.live.store import (
    ARMS,
    ArmLists,
    Conflict,
    DecisionRecord,
    Event,
    LateReward,
    RewardOutcome,
    Store,
    StoreError,
    SupersededReward,
    Transition,
    Unknown,
    pack_probabilities,
)
from posse.summary import Lift


@dataclass(frozen=True)
class Audit:
    """Audit: decisions counted by this agent, beside those (open ones included) in the evidence.

    counted: a durable counter beside the evidence. in_evidence: decisions in this agent's own
    entries, the same number unless evidence was lost or the store was restored from a copy.
    in_network: decisions of all agents as known here; under flows an estimate of their sum.
    """

    counted: int
    in_evidence: float
    in_network: float


@dataclass(frozen=True)
class LeaderLift:
    """By how much the leading arm is better than the next, with a 95% interval of one look."""

    arm: str
    over: str
    lift: Lift


log = logging.getLogger(__name__)

# Names of durable records in the store.
CONTROLS = "controls"
VERDICT = "verdict"
MIN_CLOSED_FOR_LIFT = 30  # decisions of each of the two arms: with fewer it is mostly the prior
NO_HOLDOUT = "this experiment has no holdout: set holdout and control_arm to measure an uplift"
NO_METRICS = "this experiment has no metrics: describe them in tables such as [metrics.latency]"
INACTIVE = {"assumed": None, "inactive": True}  # fields of a decision that is not shown yet
SITES_ALIKE_AGAIN = "sites no longer differ"


class LiveExperiment:
    """Durable, idempotent decisions and rewards of one running experiment."""

    def __init__(
        self,
        name: str,
        agent: Agent,
        store: Store,
        *,
        reward_window: RewardWindow = RewardWindow(),  # noqa: B008 (frozen)
        remember: float | None = None,  # seconds; None: decisions are stored for ever
        payload: Mapping[str, Any] | None = None,  # the value of each arm; None: its name
        clock: Callable[[], float] = time.time,
        draw: Callable[[int], int] = secrets.randbits,  # for ids
        controls: Controls | None = None,  # None: such that stay here
    ) -> None:
        self.name = name
        self.agent = agent
        self.store = store
        self.remember = remember
        self.payload = payload
        self.clock = clock
        self.counts = Counts()  # decisions and rewards
        self.late = LatenessCounter()  # of rewards after their window
        self.oddities = ContextOddities(agent.context)  # of contexts
        self._control_refusals: Counter[str] = Counter()  # controls, by reason
        self._draw = draw
        self._lock = threading.RLock()
        self._participant = EvidenceParticipant(agent, self._lock, reward_window)
        self._swept = False  # whether rewards that waited for a window are seen to without one
        store.attach_participant(self._participant)
        self._offers = ArmLists(store.read_record(ARMS))
        self._store_arms(agent.arm_names)
        self._offers.use_arms(agent.arm_names)
        # A winner named before a restart stays named (confidence sequences are valid at any time),
        # so it is restored before anything can judge again.
        self._restore_verdict()
        self.recorder = HistoryRecorder(
            agent, store, self._offers, self.counts, self._lock, clock, verdict=self.verdict
        )
        # The settings may have changed while no process ran: the history says so.
        self.recorder.note_missed_changes()
        self.controls = controls or Controls(DEFAULT, name, agent.exchange.identity)
        self.controls.restore(store.read_record(CONTROLS))

    def configure_operators(
        self, operators: Iterable[str], sign: Sign | None, vouch: Vouch | None
    ) -> None:
        """Accept controls of these agents, and sign own controls as the holder of a certificate."""
        with self._changing_controls():
            self.controls.configure_operators(operators, sign, vouch)

    def set_arms(self, names: Sequence[str], shares: Shares | None = None) -> None:
        """Play these arms from now on, by these shares; evidence of removed arms is kept."""
        if list(names) == self.agent.arm_names and shares in (None, self.agent.shares):
            return
        self._store_arms(names)
        before = self.agent.arm_names
        with self._lock:
            self.agent.set_arms(names, shares)
            self._offers.use_arms(names)
        self.recorder.note_arms(before, names)

    def set_sites(self, sites: str | float) -> None:
        """Read the evidence of other sites in another way from now on."""
        with self._lock:
            if sites != self.agent.sites:
                self.agent.set_sites(sites)

    def _store_arms(self, names: Sequence[str]) -> None:
        """Write a list of arms before decisions refer to it."""
        if (data := self._offers.encode_with(names)) is not None:
            self.store.write_record(ARMS, data)

    @property
    def reward_window(self) -> RewardWindow:
        """The attribution window: how long a reward may take, and what a missing one means."""
        return self._participant.reward_window

    @property
    def counting_mode(self) -> Mode:
        """When a decision counts: with its reward, from the start, or when its window closes."""
        return self._participant.counting_mode

    def set_reward_window(self, reward_window: RewardWindow) -> None:
        """Change the window or the default reward; open decisions keep what they assumed."""
        if reward_window == self.reward_window:
            return
        with self.store.transaction():  # no decision is kept meanwhile
            before = self.counting_mode
            self._swept = False
            self._participant.set_reward_window(reward_window)
        if self.counting_mode != before:
            self.log_reward_window()

    def log_reward_window(self) -> None:
        """Log what a decision without a reward means, if there is a reward window."""
        if self.reward_window.window is not None:
            log.info("%s", self.reward_window.describe(self.agent), extra={"experiment": self.name})

    def connect(self, neighbours: Iterable[str]) -> None:
        """Exchange with these neighbours and no others."""
        names = list(neighbours)
        with self.store.transaction(), self._lock:
            for name in self.agent.exchange.neighbours().keys() - set(names):
                self.agent.disconnect(name)
            for name in names:
                self.agent.connect(name)

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
            "probabilities": pack_probabilities(choice.probabilities),
            "visitor": visitor,
        }
        if bucket is not None:
            offer["uplift"] = bucket
        if visit is not None and context is not None:
            offer |= {"context": serialize_context(context), "features": visit}
        return offer

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

    def uplift(self) -> Uplift:
        """Compare the bandit with the control arm; `Unknown` without a holdout."""
        if self.agent.side is None or not self._has_holdout:
            raise Unknown(NO_HOLDOUT)
        return self.agent.side.report_uplift(self._lock)

    def metrics(self) -> list[MetricStatus]:
        """Describe every metric of every arm; `Unknown` if there are none."""
        if self.agent.side is None or not self.agent.measures.metrics:
            raise Unknown(NO_METRICS)
        return self.agent.side.report_metrics(self.agent.arm_names, self._lock)

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

    def pin(self, arm: str, by: str = "", reason: str = "") -> Control:
        """Play only this arm; durable when it returns. by, reason: who says so, and why."""
        with self._changing_controls():
            return self.controls.pin(arm, self.agent.arm_names, by, reason)

    def pause(self, arm: str, by: str = "", reason: str = "") -> Control:
        """Stop playing this arm; durable when it returns."""
        with self._changing_controls():
            return self.controls.pause(arm, self.agent.arm_names, by, reason)

    def resume(self, arm: str | None = None, by: str = "", reason: str = "") -> Control:
        """Undo pins and pauses of an arm, or of all arms; durable when it returns."""
        with self._changing_controls():
            return self.controls.resume(arm, self.agent.arm_names, by, reason)

    def forget(self, agent: str, last_status: int, by: str = "", reason: str = "") -> Control:
        """Leave an agent that left out of views of the network; durable when it returns."""
        with self._changing_controls():
            return self.controls.forget(agent, last_status, by, reason)

    def forgotten_agents(self) -> dict[str, int]:
        """Return the agents to leave out of views, each with the time of its last status."""
        with self._lock:
            return self.controls.forgotten_agents()

    def events(self) -> list[Event]:
        """Return the newest events, oldest first: at most `MAX_EVENTS`."""
        return self.store.events.read_between(-math.inf, math.inf)

    def control_status(self) -> ControlsAnswer:
        """Describe which arms are pinned and paused, and by whom."""
        with self._lock:
            return self.controls.describe_status(self.agent.arm_names)

    def arms(self, context: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """Return the status of every arm: for all visitors, or for those at a context."""
        status = self.agent.arms(self._lock, context)
        return {name: asdict(arm_status) for name, arm_status in status.items()}

    def average_features(self) -> dict[str, float]:
        """Return the features of the average visitor by column; empty without a schema."""
        if self.agent.context is None:
            return {}
        with self._lock:
            x = self.agent.average_features()
        return dict(zip(self.agent.context.columns[1:], x[1:].tolist(), strict=True))

    def site_status(self) -> dict[str, Any]:
        """Describe how other sites are read, whether sites differ, and what sharing gained."""
        differences = self.agent.differences
        sharing = self.agent.measure_sharing(self._lock)
        return {
            "read": str(self.agent.sites),
            "alike": differences.alike,
            "differ": differences.sentence or None,
            "loss_alone": None if sharing is None else sharing.loss_alone,
            "loss_shared": None if sharing is None else sharing.loss_shared,
        }

    def build_site_map(self) -> SiteMap:
        """Return the evidence of each site for every arm, the outliers, and what sharing gained."""
        return self.agent.build_site_map(self._lock)

    def verdict(self) -> Judgement:
        """Judge whether the experiment may stop; `Unknown` without `stop`."""
        if self.agent.stop is None:
            raise Unknown(NO_STOP)
        judgement = self.agent.verdict(self._lock, self.clock())
        self._store_verdict()
        return add_forecast(judgement, self.recorder.closed_per_second())

    def compare_leader(self) -> LeaderLift | None:
        """Compare the leading arm with the next one; None where there is too little to compare.

        The leader is the arm of the verdict, or else the one with the highest mean. Paused arms do
        not compete, unless all arms are paused.
        """
        paused = self.control_status()["paused"]
        status = self.agent.arms(self._lock)
        names = [name for name in status if name not in paused] or list(status)
        names = [name for name in names if status[name].pulls_in_network > 0]
        names.sort(key=lambda name: -status[name].mean)
        if self.agent.stop is not None:
            judged = self.agent.verdict(self._lock, self.clock()).arm
            names.sort(key=lambda name: name != judged)
        if len(names) < 2:
            return None
        (first, second) = names[:2]
        fewest = min(status[first].pulls_in_network, status[second].pulls_in_network)
        if fewest < MIN_CLOSED_FOR_LIFT:
            return None
        lift = self.agent.estimate_lift(first, second, self._lock)
        return None if lift is None else LeaderLift(first, second, lift)

    def _restore_verdict(self) -> None:
        """Continue with the winner that an earlier process named."""
        data = self.store.read_record(VERDICT)
        self._stored_verdict = None if data is None else NamedVerdict.from_json(data)
        self.agent.named_verdict = self._stored_verdict

    def _store_verdict(self) -> None:
        """Write the named winner, so that no restart takes it back."""
        with self._lock:
            named_verdict = self.agent.named_verdict
        if named_verdict is None:
            if self._stored_verdict is None:
                return
        elif not named_verdict.differs_from(self._stored_verdict):
            return
        # A view must not fail because the disk does: the next look tries again.
        with suppress(StoreError):
            self.store.write_record(
                VERDICT, None if named_verdict is None else named_verdict.to_json()
            )
            self._stored_verdict = named_verdict

    def evidence(self) -> dict[str, Ledger]:
        """Return own evidence and all evidence stored here, in quanta."""
        with self._lock:
            return {"own": self.agent.exchange.own(), "held": self.agent.exchange.evidence()}

    @property
    def resumed(self) -> bool:
        """Whether it continued from the state of an earlier process."""
        return self._participant.resumed

    @property
    def counted_decisions(self) -> int:
        """The number of decisions ever counted into this agent's evidence; durable."""
        return self._participant.counted

    def audit(self) -> Audit | None:
        """Compare counted decisions with the pulls in the evidence; None with a half-life."""
        if self.agent.half_life is not None:
            return None
        with self._lock:
            exchange = self.agent.exchange
            return Audit(
                self.counted_decisions,
                *map(self.agent.count_pulls, (exchange.own(), exchange.evidence())),
            )

    def history(self, scale: str) -> History:
        """Return pulls and rewards of every arm over a day, a month or a year, with events."""
        return self.recorder.read_history(scale)

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """Return the status of every edge of the exchange."""
        with self._lock:
            return self.agent.exchange.neighbours()

    @property
    def knows_origins(self) -> bool:
        """Whether evidence is known by origin."""
        return isinstance(self.agent.exchange, Origins)

    def pulls_by_origin(self) -> dict[str, int]:
        """Count the pulls of each agent in the evidence here (flows: unknown)."""
        with self._lock:
            return self.agent.exchange.pulls_by_origin()

    def heartbeat_tally(self) -> tuple[str, int, int, int]:
        """Return name, own pulls, open ones among them, and late rewards, for a heartbeat."""
        with self._lock:
            pulls, open_pulls = self.agent.own_pulls()
        return self.name, pulls, open_pulls, self.counts["late"]

    def known_agents(self) -> frozenset[str]:
        """Return the agents whose evidence is here (flows: all agents seen)."""
        with self._lock:
            return self.agent.exchange.known()

    def refusals(self) -> dict[str, int]:
        """Count refused messages, entries and controls, by reason."""
        with self._lock:
            return dict(self.agent.exchange.refusals + self._control_refusals)

    @property
    def refusal_count(self) -> int:
        """The number of refused messages, entries and controls so far."""
        with self._lock:
            return (self.agent.exchange.refusals + self._control_refusals).total()

    @property
    def forgery_count(self) -> int:
        """The number of entries and controls with an invalid signature so far."""
        return (
            self.agent.exchange.refusals["signature_invalid"]
            + self._control_refusals[SIGNATURE_INVALID]
        )

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

    def tick(self, now: float) -> Outgoing:
        """Return the messages that are due, once their content is on disk."""
        before = self.agent.differences
        with self.store.transaction(), self._lock:
            messages = self.agent.tick(now)
        self._compact_evidence()
        self._log_differences(before.differ)
        self._log_warnings()
        return messages

    def _compact_evidence(self) -> None:
        """Compact the evidence of earlier processes whose decisions are all closed."""
        with self._lock:
            if not self.agent.exchange.needs_compaction():
                return
        with self.store.transaction():
            # Read within the transaction: no decision of an old process can open any more.
            open_incarnations = self.store.find_open_incarnations()
            with self._lock:
                self.agent.exchange.compact(open_incarnations)

    def _log_warnings(self) -> None:
        """Log once what the exchange noticed: a restored copy, or a second agent of this name."""
        with self._lock:
            sentences = self.agent.exchange.warnings()
        for sentence in sentences:
            log.warning("%s", sentence, extra={"experiment": self.name})
            self.recorder.note_event("superseded", sentence)

    def _log_differences(self, before: bool) -> None:
        """Log once that sites differ, and once that they no longer do."""
        differences = self.agent.differences
        extra = {"experiment": self.name}
        if differences.differ and not before:
            # Under full pooling differing sites bias every estimate; otherwise it is expected.
            harms = self.agent.sites == "alike"  # else it is as people said
            log.log(
                logging.WARNING if harms else logging.INFO, "%s", differences.sentence, extra=extra
            )
            self.recorder.note_once("sites", f"sites differ, at least in {differences.arms[0]}")
        elif before and not differences.differ:
            log.info(SITES_ALIKE_AGAIN, extra=extra)
            self.recorder.note_event("sites", SITES_ALIKE_AGAIN)

    def tick_controls(
        self, neighbours: Iterable[str], now: float
    ) -> list[tuple[str, ControlMessage]]:
        """Return the controls that are due to these neighbours."""
        with self._lock:
            return self.controls.tick(neighbours, now)

    def receive_controls(self, peer: str, message: ControlMessage, now: float) -> None:
        """Process the controls of a neighbour."""
        with self._changing_controls():
            self._control_refusals.update(self.controls.receive(peer, message, now))

    @contextmanager
    def _changing_controls(self) -> Iterator[None]:
        """Change controls in memory and on disk, or neither."""
        with self._lock:
            before = self.controls.state()
        try:
            with self.store.transaction(), self._lock:
                before = self.controls.state()
                active_before = self.controls.active_settings()
                records_before = self.controls.records()
                yield
                # The record and its event are in one commit: no control without a trace, no trace
                # without a control.
                if (after := self.controls.state()) != before:
                    self.store.write_record(CONTROLS, after)
                    now = self.clock()
                    fresh = [
                        record
                        for record, old in zip(self.controls.records(), records_before, strict=True)
                        if record is not None and record != old
                    ]
                    events = describe_changes(
                        active_before,
                        self.controls.active_settings(),
                        fresh[0].note if fresh else "",
                    )
                    self.store.events.add_events([Event(now, kind, text) for kind, text in events])
        except BaseException:
            with self._lock:
                self.controls.restore(before)
            raise

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Process a message of a neighbour; returns the answers, once their content is on disk."""
        # Signatures take long to verify: outside of the transaction and the lock, so that neither
        # requests nor writes wait for them.
        message = self.agent.exchange.examine(message)
        with self.store.transaction(), self._lock:
            return self.agent.receive(peer, message, now)

    def _new_id(self) -> str:
        return f"{self._draw(128):032x}"
