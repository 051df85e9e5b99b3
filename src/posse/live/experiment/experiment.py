"""One experiment of a node: its decisions, exchange, controls and history, and reports of them."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from posse.live.agent import (
    Agent,
    Judgement,
    MetricStatus,
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
    describe_person,
)
from posse.live.exchange import DEFAULT, NeighbourStatus, Origins, Outgoing, Sign
from posse.live.experiment.decision_book import CONTROLS, DecisionBook
from posse.live.experiment.history import History, HistoryRecorder
from posse.live.experiment.leading_arm import LeaderLift, LeadingArm
from posse.live.experiment.reward_window import RewardWindow
from posse.live.ledger import Ledger
from posse.live.security import Vouch
from posse.live.store import Event, Store, Unknown

log = logging.getLogger(__name__)

NO_HOLDOUT = "this experiment has no holdout: set holdout and control_arm to measure an uplift"
NO_METRICS = "this experiment has no metrics: describe them in tables such as [metrics.latency]"
SITES_ALIKE_AGAIN = "sites no longer differ"


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


class LiveExperiment(DecisionBook):
    """One running experiment: its decisions and rewards, and its part in the network."""

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
        super().__init__(
            agent,
            store,
            controls or Controls(DEFAULT, name, agent.exchange.identity),
            reward_window,
            remember,
            clock,
            draw,
        )
        self.name = name
        self.payload = payload
        self._control_refusals: Counter[str] = Counter()  # controls, by reason
        self._leading_arm = LeadingArm(self.agent, self.store, self._lock)
        self.recorder = HistoryRecorder(
            *(self.agent, self.store, self._offers, self.counts, self._lock, self.clock),
            verdict=self.verdict,
        )
        # The settings may have changed while no process ran: the history says so.
        self.recorder.note_missed_changes()

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

    def note_erasure(self, erased: int, by: str, reason: str) -> None:
        """Record that decisions were erased, if somebody says who wanted it or why.

        The event names no visitor. Erasures by a program, which says neither, would drive out all
        other events.
        """
        if erased and (by or reason):
            decisions = "1 decision was" if erased == 1 else f"{erased:,} decisions were"
            self.recorder.note_event("erase", f"{decisions} erased{describe_person(by, reason)}")

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
        judgement = self._leading_arm.judge(self.clock())
        return add_forecast(judgement, self.recorder.closed_per_second())

    def compare_leader(self) -> LeaderLift | None:
        """Compare the leading arm with the next one; None where there is too little to compare."""
        return self._leading_arm.compare(self.control_status()["paused"], self.clock())

    def evidence(self) -> dict[str, Ledger]:
        """Return own evidence and all evidence stored here, in quanta."""
        with self._lock:
            return {"own": self.agent.exchange.own(), "held": self.agent.exchange.evidence()}

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

    def tick(self, now: float) -> Outgoing:
        """Return the messages that are due, once their content is on disk."""
        before = self.agent.differences
        with self.store.transaction(), self._lock:
            messages = self.agent.tick(now)
        self.store.flush()  # a commit that wrote nothing itself has synced nothing before it
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
            open_incarnations = self.store.find_open_incarnations(self._measurable_since())
            with self._lock:
                self.agent.exchange.compact(open_incarnations)

    def _measurable_since(self) -> float | None:
        """Return the time since which decisions accept metrics, though a reward closed them."""
        window = self.reward_window.window
        if not self.agent.measures.metrics:
            return None
        return -math.inf if window is None else self.clock() - window

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
            harms = self.agent.sites == "alike"
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
            return self.agent.exchange.receive(peer, message, now)
