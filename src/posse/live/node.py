"""A node, the agent process: experiments with one durable store and one transport (`posse agent`).

Decisions and rewards come from any thread; one thread ticks, another processes the messages of
neighbours. Without `start` there is no thread: `tick` and `receive` may be called directly.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posse.live.agent import Agent
from posse.live.controls import Control, ControlMessage
from posse.live.counters import Counts
from posse.live.exchange import DEFAULT, FlowsMessage, OriginsMessage
from posse.live.experiment import Kind, LiveExperiment
from posse.live.ledger import Ledger
from posse.live.membership import (
    SIGNATURE_INVALID,
    NetworkAnswer,
    Presence,
    Status,
    StatusMessage,
    describe_network,
)
from posse.live.messaging import Codec, Inbox, MessageLimits, Receive, Transport, WireError
from posse.live.store import Conflict, DecisionRecord, RewardOutcome, Store, StoreError, Unknown

if TYPE_CHECKING:
    from posse.live.config import AgentSettings
    from posse.live.reload import Reloader

DISCONNECTED_SECONDS = 20.0  # seconds


class DisconnectionLog:
    """Decides when to log a disconnected neighbour: once for each absence, with advice."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._logged: set[str] = set()

    def check_neighbours(
        self, connected: Mapping[str, bool], now: float
    ) -> Iterator[tuple[str, str]]:
        """Yield the sentences to log now, each with advice ("": none)."""
        for name, here in connected.items():
            if here:
                self._since.pop(name, None)
                if name in self._logged:
                    self._logged.remove(name)
                    yield f"{name} is connected again", ""
            elif (
                now - self._since.setdefault(name, now) >= DISCONNECTED_SECONDS
                and name not in self._logged
            ):
                self._logged.add(name)
                yield (
                    f"{name} has not been connected for {DISCONNECTED_SECONDS:.0f} seconds",
                    ": does it run and listen at the address in neighbours? does its certificate "
                    "have that name and host? does it list this agent as a neighbour?",
                )


log = logging.getLogger(__name__)

HOLD_SECONDS = 0.005  # seconds for which the network waits when a neighbour sends too much
REST_RATIO = 1.0  # seconds of the inbox's rest, for each of work
# seconds of a neighbour's budget that a second of work costs it
WORK_PRICE = 3.0
WASTE_PRICE = 50.0
MALFORMED_PRICE = 2  # messages that one which is none costs its sender besides
FORGED_PRICE = 10  # or one with a bad signature


class Node:
    """An agent process: durable, idempotent decisions and rewards, and the exchange of evidence."""

    def __init__(
        self,
        name: str,
        experiments: Iterable[LiveExperiment],
        store: Store,
        transport: Transport,
        *,
        neighbours: Sequence[str],
        tick_seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
        limits: MessageLimits = MessageLimits(),  # noqa: B008 (frozen)
        presence: Presence | None = None,  # None: heartbeats without a signature
    ) -> None:
        """A node of some experiments, whose stores are views of the same file."""
        self.name = name
        self.store = store
        self.transport = transport
        self.presence = presence or Presence(name, now=clock())
        self.experiments = {experiment.name: experiment for experiment in experiments}
        self.neighbours = tuple(neighbours)
        self.tick_seconds = tick_seconds
        self.clock = clock
        self.limits = limits
        self.counts = Counts()  # decisions and rewards of all, messages sent and received
        self.refusals = Counts()  # of payloads that are no message
        self.failures = Counts()  # of the store, by what was going on
        self.codec = Codec(OriginsMessage, FlowsMessage, ControlMessage, StatusMessage)
        self._inbox = Inbox(self._message_rates(), clock, self.refusals)
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.reloader: Reloader | None = None  # of a node that was made of settings
        for experiment in self.experiments.values():
            experiment.counts.whole = self.counts
            experiment.agent.exchange.tick_seconds = tick_seconds
            experiment.connect(neighbours)
            if experiment.resumed:
                experiment.recorder.note_event("restart", f"{name} restarted")

    @property
    def listener(self) -> Receive:
        """The function that a transport calls: with threads messages are queued, else processed."""
        return self.enqueue_message if self._threads else self.receive

    def start(self) -> None:
        """Open the transport, and start the threads that tick and process messages."""
        self.transport.start(self.enqueue_message)
        for name, target in (("posse-inbox", self._run_inbox), ("posse-tick", self._run_ticks)):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Shut down gracefully: no more ticks, no more messages, the store closed."""
        self.stopping.set()
        try:
            self._inbox.close()
            for thread in self._threads:
                thread.join(10)
            self.transport.close()
        except Exception:  # such as no thread to close it in: the process ends anyway
            log.exception("the transport of %s could not be closed", self.name)
        finally:
            self.store.close()

    def experiment(self, name: str | None = None) -> LiveExperiment:
        """Return an experiment by its name, or the only one."""
        experiments = self.experiments
        if name is None:
            if len(experiments) == 1:
                return next(iter(experiments.values()))
            raise Unknown(f"there are several experiments: name one of {_list_names(experiments)}")
        if name not in experiments:
            raise Unknown(
                f"unknown experiment {name!r}: this agent runs {_list_names(experiments)}"
            )
        return experiments[name]

    @property
    def agent(self) -> Agent:
        """The agent of the only experiment."""
        return self.experiment().agent

    def decide(
        self,
        id_: str | None = None,
        allowed: Sequence[str] | None = None,
        context: Mapping[str, Any] | None = None,
        visitor: str | None = None,
    ) -> DecisionRecord:
        """Decide in the only experiment; idempotent in the id."""
        return self.experiment().decide(id_, allowed, context, visitor)

    def draw_decision(self, id_: str | None, allowed: Sequence[str] | None) -> DecisionRecord:
        """Draw a decision of the only experiment that is not on disk yet."""
        return self.experiment().draw_decision(id_, allowed)

    def reward(self, decision_id: str, reward: float) -> RewardOutcome:
        """Reward a decision of the only experiment; idempotent, durable when it returns."""
        return self.experiment().reward(decision_id, reward)

    def arms(self) -> dict[str, dict[str, float]]:
        """Return the status of every arm of the only experiment."""
        return self.experiment().arms()

    def evidence(self) -> dict[str, Ledger]:
        """Return own evidence and all evidence of the only experiment, in quanta."""
        return self.experiment().evidence()

    def pin(self, experiment: str | None, arm: str, by: str = "", reason: str = "") -> Control:
        """Play only this arm."""
        return self.experiment(experiment).pin(arm, by, reason)

    def pause(self, experiment: str | None, arm: str, by: str = "", reason: str = "") -> Control:
        """Stop playing this arm."""
        return self.experiment(experiment).pause(arm, by, reason)

    def resume(
        self, experiment: str | None, arm: str | None = None, by: str = "", reason: str = ""
    ) -> Control:
        """Undo pins and pauses of an arm, or of all arms."""
        return self.experiment(experiment).resume(arm, by, reason)

    def forget(self, agent: str, by: str = "", reason: str = "") -> NetworkAnswer:
        """Leave an agent that left out of views of the network; its evidence stays.

        It is there again as soon as a status of it comes that is newer than the last one.
        """
        agents = self.network()["agents"]
        forgotten = any(agent in x.forgotten_agents() for x in self.experiments.values())
        if agent not in agents and not forgotten:
            known = _list_names(agents)
            raise Conflict(f"unknown agent {agent!r}: the agents known here are {known}")
        if agent in agents and agents[agent]["state"] == "up":
            raise Conflict(
                f"{agent} is up, or was two minutes ago: stop it, wait until it is shown as down "
                "or silent, then forget it"
            )
        received = self.presence.statuses().get(agent)
        last_status = 0 if received is None else received.status.time
        for experiment in self.experiments.values():
            experiment.forget(agent, last_status, by, reason)
        return self.network()

    @property
    def certificate_end(self) -> float | None:
        """When this agent's certificate expires, in Unix time; None without a certificate."""
        keys = None if self.reloader is None else self.reloader.network.keys
        return None if keys is None else keys.expires

    def reload(self, settings: AgentSettings) -> str:
        """Adopt other settings, all or, if bad, none; returns the changes in one line."""
        if self.reloader is None:
            raise ValueError("this node was not built from settings: restart it to change them")
        changes = self.reloader.apply_settings(settings)
        done = f"{self.name} reloaded its settings: "
        log.warning("%s%s", done, changes.describe())
        for name, experiment in self.experiments.items():
            # the history of an experiment does not tell of another
            if sentence := changes.describe_for(name):
                experiment.recorder.note_event("settings", done + sentence)
        return changes.describe()

    def replace_experiments(
        self,
        experiments: Mapping[str, LiveExperiment],
        neighbours: tuple[str, ...],
        tick_seconds: float,
        limits: MessageLimits,
    ) -> None:
        """Continue with these experiments and neighbours; requests see the old or the new ones."""
        for experiment in experiments.values():
            experiment.counts.whole = self.counts
            experiment.agent.exchange.tick_seconds = tick_seconds
        # Replaced, never changed: other threads may be iterating over the old one.
        self.experiments = dict(experiments)
        self.neighbours = neighbours
        self.tick_seconds = tick_seconds
        self.limits = limits
        self._inbox.set_rates(self._message_rates())

    def tick(self) -> None:
        """Run one round of upkeep: close windows, delete old decisions, send messages that are due.

        A failure in one experiment does not stop the others.
        """
        now = self.clock()
        failed = None
        experiments = list(self.experiments.values())
        # Statuses first: an agent whose disk fails must not look dead.
        self._send_statuses(now)
        for experiment in experiments:
            try:
                experiment.close_windows(now)
            except StoreError as error:
                failed = error
            except Exception:
                self._log_bug("tick", experiment)
        self.store.check_location()
        self.store.flush()
        for experiment in experiments:
            try:
                self.send_messages(experiment.name, experiment.tick(now))
                self.send_messages(experiment.name, experiment.tick_controls(self.neighbours, now))
                experiment.recorder.record_minute(now)
            except StoreError as error:
                failed = error
            except Exception:
                self._log_bug("tick", experiment)
        if failed is not None:
            raise failed

    def enqueue_message(self, peer: str, payload: bytes) -> None:
        """Queue a message for the inbox thread, or drop it."""
        self.counts.add("received")
        if not self._inbox.put_message(peer, payload):
            # Back-pressure: the transport's thread waits, and with it the sender.
            self.stopping.wait(HOLD_SECONDS)

    def receive(self, peer: str, payload: bytes) -> None:
        """Process a neighbour's message at once, if its sender's budget allows it."""
        self.counts.add("received")
        if self._inbox.admit_message(peer, len(payload)):
            self._handle_message(peer, payload)

    def _handle_message(self, peer: str, payload: bytes) -> bool:
        """Process a message; a bad one is counted and never fatal. Returns whether it was good."""
        now = self.clock()
        try:
            parcel = self.codec.decode(payload)
        except WireError as error:
            self._inbox.charge_neighbour(peer, MALFORMED_PRICE)
            self.refusals.add(error.kind)
            return False
        self.presence.note_message(peer, now)
        if isinstance(parcel.message, StatusMessage):
            return self._receive_statuses(peer, parcel.message, now)
        experiment = self.experiments.get(parcel.experiment)
        if experiment is None:  # neighbours need not run the same ones
            self.refusals.add("unknown_experiment")
            return True
        # The counters tell whether the message was any good, and so what its neighbour pays for it.
        before = experiment.refusal_count
        forged = experiment.forgery_count
        try:
            if isinstance(parcel.message, ControlMessage):
                experiment.receive_controls(peer, parcel.message, now)
            else:
                self.send_messages(experiment.name, experiment.receive(peer, parcel.message, now))
        except StoreError:  # the neighbour will say it again
            self.failures.add("receive")
        except Exception:  # a bug of ours must not end the process
            self._log_bug("receive", experiment)
        if experiment.forgery_count > forged:
            self._inbox.charge_neighbour(peer, FORGED_PRICE)
        return experiment.refusal_count == before

    def _send_statuses(self, now: float) -> None:
        """Send neighbours new statuses of all agents, and of this one."""
        try:
            self._note_connections(now)
            if self.presence.is_due(self.experiments, now):
                self.presence.publish_status(self._make_status(now), self.experiments, now)
            relay = any(experiment.knows_origins for experiment in self.experiments.values())
            self.send_messages(DEFAULT, self.presence.make_messages(self.neighbours, relay, now))
        except Exception:  # a bug of ours must not keep evidence from others
            log.exception("the status of %s was not sent", self.name)
            self.failures.add("tick")

    def _receive_statuses(self, peer: str, message: StatusMessage, now: float) -> bool:
        """Process statuses of other agents; returns whether all were good."""
        try:
            refused = self.presence.receive(peer, message, now)
        except Exception:  # a bug of ours must not end the process
            log.exception("the statuses from %s could not be processed", peer)
            self.failures.add("receive")
            return False
        for reason, number in refused.items():
            self.refusals.add(reason, number)
        if SIGNATURE_INVALID in refused:
            self._inbox.charge_neighbour(peer, FORGED_PRICE)
        return not refused

    def _note_connections(self, now: float) -> dict[str, bool]:
        """Note and return which neighbours are connected."""
        connected = self.transport.connected()
        self.presence.note_connections({name: connected.get(name) for name in self.neighbours}, now)
        return connected

    def _make_status(self, now: float) -> Status:
        """Build the status of this agent."""
        experiments = list(self.experiments.values())
        return self.presence.make_status(
            [experiment.heartbeat_tally() for experiment in experiments],
            self._count_refusals(),
            now,
        )

    def _count_refusals(self) -> Counter[str]:
        """Count refusals by reason, over all experiments."""
        refused: Counter[str] = self.refusals.copy() + self.transport.refusals.copy()
        for experiment in self.experiments.values():
            refused.update(experiment.refusals())
        return refused

    def network(self) -> NetworkAnswer:
        """Describe neighbours, all known agents and links, and refusals by reason."""
        now = self.clock()
        experiments = dict(self.experiments)
        connected = self._note_connections(now)
        refused = self._count_refusals()
        own_status = self._make_status(now)
        return describe_network(experiments, self.presence, own_status, connected, refused, now)

    def _run_ticks(self) -> None:
        absences = DisconnectionLog()
        failing = False
        while not self.stopping.wait(self.tick_seconds):
            try:
                self.tick()
                if failing:
                    log.warning("the store can be written again")
                    failing = False
                for sentence, advice in absences.check_neighbours(
                    self.transport.connected(), time.monotonic()
                ):
                    self._log_event("partition", sentence, advice)
            except StoreError as error:  # such as a full disk: try again later
                self.failures.add("tick")
                # A full disk may hold the log as well: one line, not one a tick.
                if not failing:
                    log.error("%s", error)
                failing = True
            except Exception:  # a bug of ours must not end the thread that ticks
                log.exception("a tick failed")
                self.failures.add("tick")

    def _run_inbox(self) -> None:
        """Process messages of neighbours one by one, for at most half of the time.

        Python runs one thread at a time: without a rest, requests would wait for a neighbour. Work
        is charged to its neighbour, and useless work much more.
        """
        while (message := self._inbox.take_message()) is not None:
            peer, payload = message
            began = time.thread_time()
            useful = self._handle_message(peer, payload)
            # CPU time of this thread alone: a busy machine must not make neighbours pay.
            worked = time.thread_time() - began
            self._inbox.charge_neighbour(
                peer, seconds=worked * (WORK_PRICE if useful else WASTE_PRICE)
            )
            self.stopping.wait(REST_RATIO * worked)

    def _message_rates(self) -> tuple[float, float]:
        return self.limits.rates_for(self.tick_seconds, len(self.experiments))

    def send_messages(self, experiment: str, outgoing: Iterable[tuple[str, object]]) -> None:
        """Send each message to its neighbour."""
        for peer, message in outgoing:
            try:
                self.transport.send(peer, self.codec.encode(message, experiment))
                self.counts.add("sent")
            except ValueError as error:  # too large, or an unknown neighbour
                if not self.failures["send"]:
                    log.warning("message to %s not sent: %s", peer, error)
                self.failures.add("send")

    def _log_event(self, kind: Kind, sentence: str, advice: str = "") -> None:
        """Log an event of the whole agent, and record it in every experiment."""
        log.warning("%s%s", sentence, advice)
        for experiment in self.experiments.values():
            experiment.recorder.note_event(kind, sentence)

    def _log_bug(self, doing: str, experiment: LiveExperiment) -> None:
        """Log a bug in one experiment, which must not stop the others."""
        extra = {"experiment": experiment.name}
        log.exception("experiment %s: %s failed", experiment.name, doing, extra=extra)
        self.failures.add(doing)


def _list_names(experiments: Iterable[str]) -> str:
    return ", ".join(experiments) or "none"
