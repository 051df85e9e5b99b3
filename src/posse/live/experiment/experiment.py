"""One experiment of a live agent: its decisions, rewards and evidence, and their audit."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from posse.contexts import Features
from posse.live.agent.action_selection import Choice, Shares
from posse.live.agent.agent import Agent
from posse.live.agent.site_pooling import SiteMap
from posse.live.agent.verdicts import NO_STOP, Judgement, NamedVerdict
from posse.live.controls.answers import ControlsAnswer
from posse.live.controls.controls import FORGED, Control, ControlMessage, Controls, changes
from posse.live.counters import Counts, Oddities, written
from posse.live.exchange.examine import Sign
from posse.live.exchange.layouts import DEFAULT as DEFAULT
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.origins import Origins
from posse.live.exchange.seam import NeighbourStatus, Outgoing
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.experiment.history import History, Past
from posse.live.experiment.reward_window import Kept, Lateness, Mode
from posse.live.experiment.reward_window import Silence as Silence
from posse.live.security.signatures import Vouch
from posse.live.store import (
    Conflict,
    DecisionRecord,
    LateReward,
    RewardOutcome,
    Store,
    StoreError,
    Unknown,
    VoidReward,
)
from posse.live.store.decisions import ARMS, ArmLists, pack_probabilities
from posse.live.store.timeline import Event


@dataclass(frozen=True)
class Audit:
    """Decisions counted by this agent, beside the decisions (open ones included) in the evidence.

    counted: by a durable counter beside the evidence. in_evidence: decisions in this agent's own
    entries, the same number unless evidence was lost or the store was restored from a copy.
    in_network: decisions of all agents as known here; under flows an estimate of their sum.
    """

    counted: int
    in_evidence: float
    in_network: float


# One experiment of a node: an agent, its decisions and rewards in the store, and its exchange.
#
# A lock of its own guards the agent; the store's transactions are taken before it, never after.

log = logging.getLogger(__name__)

CONTROLS = "controls"  # under which the store keeps them
VERDICT = "verdict"  # under which the store has the winner that was named
ALIKE_AGAIN = "sites are no longer found to differ"


class Experiment:
    """Durable, idempotent decisions and rewards of one experiment; its evidence is its own."""

    def __init__(
        self,
        name: str,
        agent: Agent,
        store: Store,
        *,
        silence: Silence = Silence(),  # noqa: B008 (frozen)
        remember: float | None = None,  # seconds; None: settled decisions are kept for ever
        clock: Callable[[], float] = time.time,
        draw: Callable[[int], int] = secrets.randbits,  # for ids
        controls: Controls | None = None,  # None: such that stay here
    ) -> None:
        self.name = name
        self.agent = agent
        self.store = store
        self.remember = remember
        self.clock = clock
        self.counts = Counts()  # decisions and rewards
        self.late = Lateness()  # of rewards after their window
        self.oddities = Oddities(agent.context)  # of contexts
        self._refused: Counter[str] = Counter()  # controls, by reason
        self._draw = draw
        self._lock = threading.RLock()
        self._kept = Kept(agent, self._lock, silence)
        self._swept = False  # whether rewards that waited for a window are seen to without one
        store.attach_participant(self._kept)
        self._void = agent.exchange.void_through  # as far as people were told
        self._offers = ArmLists(store.read_record(ARMS))
        self._keep_arms(agent.arm_names)
        self._offers.use_arms(agent.arm_names)
        self._restore_verdict()
        self.past = Past(
            agent, store, self._offers, self.counts, self._lock, clock, verdict=self.verdict
        )
        self.past.begin()
        self.controls = controls or Controls(DEFAULT, name, agent.exchange.identity)
        self.controls.restore(store.read_record(CONTROLS))

    def configure(self, operators: Iterable[str], sign: Sign | None, vouch: Vouch | None) -> None:
        """Take controls of these agents, and make them as the holder of a certificate."""
        with self._changing_controls():
            self.controls.configure(operators, sign, vouch)

    def set_arms(self, names: Sequence[str], shares: Shares | None = None) -> None:
        """Play these arms from now on, by these shares; the evidence of others is kept."""
        if list(names) == self.agent.arm_names and shares in (None, self.agent.shares):
            return
        self._keep_arms(names)
        before = self.agent.arm_names
        with self._lock:
            self.agent.set_arms(names, shares)
            self._offers.use_arms(names)
        self.past.note_arms(before, names)

    def set_sites(self, sites: str | float) -> None:
        """Read the evidence of other sites in another way from now on."""
        with self._lock:
            if sites != self.agent.sites:
                self.agent.set_sites(sites)

    def _keep_arms(self, names: Sequence[str]) -> None:
        """Keep a list of arms that decisions are going to refer to."""
        if (data := self._offers.encode_with(names)) is not None:
            self.store.write_record(ARMS, data)

    @property
    def silence(self) -> Silence:
        """What a decision without a reward means."""
        return self._kept.silence

    @property
    def mode(self) -> Mode:
        """When a decision counts: with its reward, from the start, or when its window closes."""
        return self._kept.mode

    def set_silence(self, silence: Silence) -> None:
        """Go by another window or default from now on; of open decisions each by what it has."""
        if silence == self.silence:
            return
        with self.store.transaction():  # no decision is kept meanwhile
            before = self.mode
            self._swept = False
            self._kept.follow(silence)
        if self.mode != before:
            self.say_silence()

    def say_silence(self) -> None:
        """Log what a decision without a reward means, where there is a reward window."""
        if self.silence.window is not None:
            log.info("%s", self.silence.sentence(self.agent), extra={"experiment": self.name})

    def connect(self, neighbours: Iterable[str]) -> None:
        """Exchange with these neighbours and no others."""
        wanted = list(neighbours)
        with self.store.transaction(), self._lock:
            for name in self.agent.exchange.neighbours().keys() - set(wanted):
                self.agent.disconnect(name)
            for name in wanted:
                self.agent.connect(name)

    def decide(
        self,
        id_: str | None = None,
        allowed: Sequence[str] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> DecisionRecord:
        """A decision: which arm to play, at a context if there are any; idempotent in its id."""
        ((kept, new),) = self.store.insert_decisions([self.choose(id_, allowed, context)])
        self.count_decisions([kept] if new else [])
        return kept

    def count_decisions(self, new: Sequence[DecisionRecord]) -> None:
        """Count new decisions, once they are kept."""
        self.counts.add("decisions", len(new))
        for decision in new:
            if decision.features is not None:
                self.oddities.add(decision.features)

    def choose(
        self,
        id_: str | None,
        allowed: Sequence[str] | None,
        context: Mapping[str, Any] | None = None,
    ) -> DecisionRecord:
        """A new decision that is not on disk yet, and will not be if its id is taken."""
        visit = self.agent.features(context)
        try:
            with self._lock:
                (choice,) = self.agent.choices([self._allowed(allowed)], [visit])
                offer = self._offer(choice, visit, context)
        except ValueError:  # an arm may be gone since this id was first asked for
            if id_ is not None and (kept := self.store.find_decision(id_)) is not None:
                return kept
            raise
        return self._record(id_, choice, self.clock(), {**self._begun(), **offer})

    def choose_many(self, requests: Sequence[DecisionRequest]) -> list[DecisionRecord | ValueError]:
        """New decisions that are not on disk yet, or why one cannot be made."""
        try:
            visits = [self.agent.features(request.context) for request in requests]
            with self._lock:
                allowed = [self._allowed(request.allowed) for request in requests]
                chosen = self.agent.choices(allowed, visits)
                offers = [
                    self._offer(choice, visit, request.context)
                    for request, choice, visit in zip(requests, chosen, visits, strict=True)
                ]
        except ValueError:  # one of them is wrong: each gets an answer of its own
            return [self._attempt(request) for request in requests]
        now = self.clock()
        begun = self._begun()
        return [
            self._record(request.decision, choice, now, {**begun, **offer})
            for request, choice, offer in zip(requests, chosen, offers, strict=True)
        ]

    def probabilities(self) -> dict[str, float]:
        """With which probability the next decision plays each arm, if all are allowed."""
        with self._lock:
            return self.agent.probabilities()

    def _record(
        self, id_: str | None, choice: Choice, now: float, more: Mapping[str, Any]
    ) -> DecisionRecord:
        return DecisionRecord(id_ or self._new_id(), choice.arm, choice.probability, now, **more)

    def _offer(
        self, choice: Choice, visit: Features | None, context: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Between which arms it was made, with which probabilities, and where, as it is kept."""
        offer: dict[str, Any] = {
            "allowed": self._offers.encode_allowed(choice.allowed),
            "probabilities": pack_probabilities(choice.probabilities),
        }
        if visit is not None and context is not None:
            offer |= {"context": written(context), "features": visit}
        return offer

    def _begun(self) -> dict[str, Any]:
        """What a new decision most likely has when it is kept, which is then done faster."""
        assumed = self.silence.default_reward if self._kept.counting else None
        with self._lock:
            return {"assumed": assumed, "made": self.agent.exchange.incarnation()}

    def _attempt(self, request: DecisionRequest) -> DecisionRecord | ValueError:
        try:
            return self.choose(request.decision, request.allowed, request.context)
        except ValueError as error:
            return error

    def _allowed(self, asked: Sequence[str] | None) -> Sequence[str] | None:
        """The arms that controls leave of those asked for."""
        controls = self.controls
        return controls.allowed(self.agent.arm_names, asked) if controls.acts else asked

    def reward(self, decision_id: str, reward: float) -> RewardOutcome:
        """Settle a decision with its reward; idempotent, and durable when it returns."""
        try:
            outcome = self.store.add_reward(decision_id, reward, self.clock())
        except ValueError as refused:
            self.count_rewards([refused])
            raise
        self.count_rewards([outcome])
        return outcome

    def count_rewards(self, outcomes: Sequence[RewardOutcome | ValueError]) -> None:
        """Count what came of rewards, once that is on disk."""
        self.counts.add("rewards", outcomes.count(RewardOutcome.NEW))
        for outcome in outcomes:
            if isinstance(outcome, LateReward):
                self.late.add(outcome.lateness)
                self.counts.add("late")
            elif isinstance(outcome, Conflict):
                self.counts.add("void" if isinstance(outcome, VoidReward) else "conflicts")

    def pin(self, arm: str) -> Control:
        """Play this arm only; durable when it returns."""
        with self._changing_controls():
            return self.controls.pin(arm, self.agent.arm_names)

    def pause(self, arm: str) -> Control:
        """Do not play this arm; durable when it returns."""
        with self._changing_controls():
            return self.controls.pause(arm, self.agent.arm_names)

    def resume(self, arm: str | None = None) -> Control:
        """Lift what holds for an arm, or for all; durable when it returns."""
        with self._changing_controls():
            return self.controls.resume(arm, self.agent.arm_names)

    def controlled(self) -> ControlsAnswer:
        """What is pinned and paused, and by whom."""
        with self._lock:
            return self.controls.status(self.agent.arm_names)

    def arms(self, context: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """What is known of every arm: of all visitors, or of those at a context."""
        status = self.agent.arms(self._lock, context)
        return {name: asdict(each) for name, each in status.items()}

    def average(self) -> dict[str, float]:
        """The features of the average visitor, by their columns; none without a schema."""
        if self.agent.context is None:
            return {}
        with self._lock:
            x = self.agent.average()
        return dict(zip(self.agent.context.columns[1:], x[1:].tolist(), strict=True))

    def sites(self) -> dict[str, Any]:
        """How the evidence of other sites is read, whether they differ, and what sharing gained."""
        found = self.agent.differences
        gained = self.agent.sharing(self._lock)
        return {
            "read": str(self.agent.sites),
            "alike": found.alike,
            "differ": found.sentence or None,
            "loss_alone": None if gained is None else gained.loss_alone,
            "loss_shared": None if gained is None else gained.loss_shared,
        }

    def site_map(self) -> SiteMap:
        """What each site saw of every arm, where one differs, and what sharing gained it."""
        return self.agent.site_map(self._lock)

    def verdict(self) -> Judgement:
        """Whether the experiment may stop; `Unknown` without `stop`."""
        if self.agent.stop is None:
            raise Unknown(NO_STOP)
        found = self.agent.verdict(self._lock, self.clock())
        self._store_verdict()
        return found

    def _restore_verdict(self) -> None:
        """Continue with the winner that an earlier process named."""
        data = self.store.read_record(VERDICT)
        self._stored_verdict = None if data is None else NamedVerdict.from_json(data)
        self.agent.named_verdict = self._stored_verdict

    def _store_verdict(self) -> None:
        """Write the named winner, so that no restart takes it back."""
        with self._lock:
            named = self.agent.named_verdict
        if named is None:
            if self._stored_verdict is None:
                return
        elif not named.is_news_after(self._stored_verdict):
            return
        # A view must not fail because the disk does: the next look tries again.
        with suppress(StoreError):
            self.store.write_record(VERDICT, None if named is None else named.to_json())
            self._stored_verdict = named

    def evidence(self) -> dict[str, Ledger]:
        """In quanta: what this agent saw itself, and what it holds of all."""
        with self._lock:
            return {"own": self.agent.exchange.own(), "held": self.agent.exchange.evidence()}

    @property
    def resumed(self) -> bool:
        """Whether it went on with what an earlier process had kept."""
        return self._kept.resumed

    @property
    def counted(self) -> int:
        """How many decisions were counted into this agent's evidence, ever; durable."""
        return self._kept.counted

    def audit(self) -> Audit | None:
        """Decisions counted here beside the pulls in the evidence; None with a half-life."""
        if self.agent.half_life is not None:
            return None
        with self._lock:
            exchange = self.agent.exchange
            return Audit(
                self.counted, *map(self.agent.pulls, (exchange.own(), exchange.evidence()))
            )

    def history(self, scale: str) -> History:
        """Pulls and rewards of every arm over a day, a month or a year, and what happened."""
        return self.past.read(scale)

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """The status of every edge of the exchange."""
        with self._lock:
            return self.agent.exchange.neighbours()

    @property
    def knows_origins(self) -> bool:
        """Whether it is known whose evidence is whose."""
        return isinstance(self.agent.exchange, Origins)

    def pulls_by_origin(self) -> dict[str, int]:
        """How many pulls of each agent count here (flows: nobody knows)."""
        with self._lock:
            return self.agent.exchange.pulls_by_origin()

    def tally(self) -> tuple[str, int, int, int]:
        """Its name, own pulls that count, open ones of these, and late rewards: for a status."""
        with self._lock:
            counted, waiting = self.agent.own_pulls()
        return self.name, counted, waiting, self.counts["late"]

    def known(self) -> frozenset[str]:
        """The agents whose evidence is here (flows: heard of)."""
        with self._lock:
            return self.agent.exchange.known()

    def refusals(self) -> dict[str, int]:
        """Messages, entries and controls that were refused, by reason."""
        with self._lock:
            return dict(self.agent.exchange.refusals + self._refused)

    @property
    def refused(self) -> int:
        """How many messages, entries and controls were refused so far."""
        with self._lock:
            return (self.agent.exchange.refusals + self._refused).total()

    @property
    def forged(self) -> int:
        """How many entries and controls had a bad signature so far."""
        return self.agent.exchange.refusals["bad signature"] + self._refused[FORGED]

    def expire(self, now: float) -> None:
        """Close reward windows and delete old decisions."""
        if self.silence.window is not None or not self._swept:
            self.store.expire_decisions(now, self.silence.window, self.silence.default_reward)
            self._swept = True
        if self.remember is not None:
            self.store.delete_old_decisions(now, self.remember)

    def tick(self, now: float) -> Outgoing:
        """The messages that are due, once what they say is on disk."""
        before = self.agent.differences
        with self.store.transaction(), self._lock:
            messages = self.agent.tick(now)
        self._say_differences(before.differ)
        self._say_void()
        return messages

    def _say_void(self) -> None:
        """Once when a neighbour has shown that the disk was set back."""
        through = self.agent.exchange.void_through
        if through > self._void:
            log.warning(
                "the disk was set back or is new, for neighbours know more of this agent: "
                "decisions that are open on it are void, and their rewards are refused",
                extra={"experiment": self.name},
            )
            self.past.note("void", "the disk was set back or is new: what was open on it is void")
        self._void = through

    def _say_differences(self, before: bool) -> None:
        """Once when sites are found to differ, and once when they no longer are."""
        found = self.agent.differences
        more = {"experiment": self.name}
        if found.differ and not before:
            harms = self.agent.sites == "alike"  # else it is as people said
            log.log(logging.WARNING if harms else logging.INFO, "%s", found.sentence, extra=more)
            self.past.note_once("sites", f"sites are found to differ, in {found.arms[0]} at least")
        elif before and not found.differ:
            log.info(ALIKE_AGAIN, extra=more)
            self.past.note("sites", ALIKE_AGAIN)

    def tick_controls(
        self, neighbours: Iterable[str], now: float
    ) -> list[tuple[str, ControlMessage]]:
        """The controls that these neighbours are to be told."""
        with self._lock:
            return self.controls.tick(neighbours, now)

    def receive_controls(self, peer: str, message: ControlMessage, now: float) -> None:
        """Take in a neighbour's controls."""
        with self._changing_controls():
            self._refused.update(self.controls.receive(peer, message, now))

    @contextmanager
    def _changing_controls(self) -> Iterator[None]:
        """Change controls here and on disk, or neither."""
        with self._lock:
            before = self.controls.state()
        try:
            with self.store.transaction(), self._lock:
                before = self.controls.state()
                acted = self.controls.acting()
                yield
                if (after := self.controls.state()) != before:
                    self.store.write_record(CONTROLS, after)
                    now = self.clock()
                    said = changes(acted, self.controls.acting())
                    self.store.events.add_events([Event(now, kind, text) for kind, text in said])
        except BaseException:
            with self._lock:
                self.controls.restore(before)
            raise

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Take in a neighbour's message; the answers, once what they say is on disk."""
        # signatures take long, and nobody who writes or decides waits for them
        message = self.agent.exchange.examine(message)
        with self.store.transaction(), self._lock:
            return self.agent.receive(peer, message, now)

    def _new_id(self) -> str:
        return f"{self._draw(128):032x}"
