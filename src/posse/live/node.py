"""Log lines for neighbours that stay disconnected: one for each absence, with what to look at."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posse.live.agent.agent import Agent
from posse.live.controls.controls import Control, ControlMessage
from posse.live.counters import Counts
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.messages import FlowsMessage, OriginsMessage
from posse.live.experiment.experiment import DEFAULT as DEFAULT
from posse.live.experiment.experiment import Experiment
from posse.live.experiment.experiment import Silence as Silence
from posse.live.experiment.history import Kind
from posse.live.membership import heartbeats as statuses
from posse.live.membership.answers import NetworkAnswer
from posse.live.membership.heartbeats import Presence
from posse.live.membership.network_view import network
from posse.live.membership.records import Status, StatusMessage
from posse.live.messaging.inbox import Inbox, Limits
from posse.live.messaging.transport import Receive, Transport
from posse.live.messaging.wire import Codec, WireError
from posse.live.store import DecisionRecord, RewardOutcome, Store, StoreError, Unknown

if TYPE_CHECKING:
    from posse.live.config.agent_settings import Settings
    from posse.live.config.reload import Reloading

PATIENCE = 20.0  # seconds


class Absences:
    """How long each neighbour has been disconnected, and whether it was logged."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._said: set[str] = set()

    def look(self, connected: Mapping[str, bool], now: float) -> Iterator[tuple[str, str]]:
        """The sentences to log now, each with what else may help ("": nothing)."""
        for name, here in connected.items():
            if here:
                self._since.pop(name, None)
                if name in self._said:
                    self._said.remove(name)
                    yield f"{name} is connected again", ""
            elif now - self._since.setdefault(name, now) >= PATIENCE and name not in self._said:
                self._said.add(name)
                yield (
                    f"{name} has not been connected for {PATIENCE:.0f} seconds",
                    ": does it run, and answer at the address given here? does its certificate "
                    "have that name and that host? has it this agent among its neighbours?",
                )


# A node, the agent process: experiments with one durable store and one transport (`posse agent`).
#
# Decisions and rewards come from any thread; a thread of its own ticks, another works off what
# neighbours say. Without `start` there is no thread: `tick` and `receive` may be called by hand.

log = logging.getLogger(__name__)

HOLD = 0.005  # seconds for which the network waits when a neighbour sends too much
REST = 1.0  # seconds of the inbox's rest, for each of work
# seconds of a neighbour's budget that a second of work costs it
WORK = 3.0
WASTE = 50.0
MALFORMED = 2  # messages that one which is none costs its sender besides
FORGED = 10  # or one with a bad signature


class Node:
    """An agent process: durable, idempotent decisions and rewards, and the exchange of evidence."""

    def __init__(
        self,
        agent: Agent,
        store: Store,
        transport: Transport,
        *,
        neighbours: Sequence[str],
        tick_seconds: float = 1.0,
        silence: Silence = Silence(),  # noqa: B008 (frozen)
        remember: float | None = None,  # seconds; None: settled decisions are kept for ever
        clock: Callable[[], float] = time.time,
        draw: Callable[[int], int] = secrets.randbits,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        only = Experiment(
            DEFAULT, agent, store, silence=silence, remember=remember, clock=clock, draw=draw
        )
        name = agent.exchange.identity
        presence = Presence(name, now=clock())
        self._make(
            name, [only], store, transport, neighbours, tick_seconds, clock, limits, presence
        )

    @classmethod
    def of(
        cls,
        name: str,
        experiments: Iterable[Experiment],
        store: Store,
        transport: Transport,
        *,
        neighbours: Sequence[str],
        tick_seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        presence: Presence | None = None,  # None: without a certificate
    ) -> Node:
        """A node of several experiments, whose stores are views of the same file."""
        node = cls.__new__(cls)
        presence = presence or Presence(name, now=clock())
        node._make(
            name, experiments, store, transport, neighbours, tick_seconds, clock, limits, presence
        )
        return node

    def _make(
        self,
        name: str,
        experiments: Iterable[Experiment],
        store: Store,
        transport: Transport,
        neighbours: Sequence[str],
        tick_seconds: float,
        clock: Callable[[], float],
        limits: Limits,
        presence: Presence,
    ) -> None:
        self.name = name
        self.store = store
        self.transport = transport
        self.presence = presence
        self.experiments = {each.name: each for each in experiments}
        self.neighbours = tuple(neighbours)
        self.tick_seconds = tick_seconds
        self.clock = clock
        self.limits = limits
        self.counts = Counts()  # decisions and rewards of all, messages sent and received
        self.refusals = Counts()  # of payloads that are no message
        self.failures = Counts()  # of the store, by what was going on
        self._codec = Codec(OriginsMessage, FlowsMessage, ControlMessage, StatusMessage)
        self._inbox = Inbox(self._rates(), clock, self.refusals)
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.reloading: Reloading | None = None  # of a node that was made of settings
        for each in self.experiments.values():
            each.counts.whole = self.counts
            each.connect(neighbours)
            if each.resumed:
                each.past.note("restart", f"{name} was started again")

    @property
    def listener(self) -> Receive:
        """What a transport calls: with threads messages wait for one, else they are handled."""
        return self.arrived if self._threads else self.receive

    def start(self) -> None:
        """Open the transport, and start the threads that tick and work off messages."""
        self.transport.start(self.arrived)
        for name, target in (("posse-inbox", self._work), ("posse-tick", self._run)):
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

    def experiment(self, name: str | None = None) -> Experiment:
        """An experiment by its name, or the only one."""
        experiments = self.experiments
        if name is None:
            if len(experiments) == 1:
                return next(iter(experiments.values()))
            raise Unknown(f"there are several experiments, name one of {_listed(experiments)}")
        if name not in experiments:
            raise Unknown(
                f"there is no experiment {name!r} here, name one of {_listed(experiments)}"
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
    ) -> DecisionRecord:
        """A decision of the only experiment; idempotent in its id."""
        return self.experiment().decide(id_, allowed, context)

    def choose(self, id_: str | None, allowed: Sequence[str] | None) -> DecisionRecord:
        """A new decision of the only experiment that is not on disk yet."""
        return self.experiment().choose(id_, allowed)

    def reward(self, decision_id: str, reward: float) -> RewardOutcome:
        """Settle a decision of the only experiment; idempotent, durable when it returns."""
        return self.experiment().reward(decision_id, reward)

    def arms(self) -> dict[str, dict[str, float]]:
        """What is known of every arm of the only experiment."""
        return self.experiment().arms()

    def evidence(self) -> dict[str, Ledger]:
        """In quanta, of the only experiment: its own, and what it holds of all."""
        return self.experiment().evidence()

    def pin(self, experiment: str | None, arm: str) -> Control:
        """Play this arm only."""
        return self.experiment(experiment).pin(arm)

    def pause(self, experiment: str | None, arm: str) -> Control:
        """Do not play this arm."""
        return self.experiment(experiment).pause(arm)

    def resume(self, experiment: str | None, arm: str | None = None) -> Control:
        """Lift what holds for an arm, or for all."""
        return self.experiment(experiment).resume(arm)

    def reload(self, settings: Settings) -> str:
        """Take in other settings, all or, if bad, none; what changed, in one line."""
        if self.reloading is None:
            raise ValueError("this node was not made of settings: restart it with others")
        said = self.reloading.take(settings)
        self._say("settings", f"{self.name} reloaded its settings: {said}")
        return said

    def take_over(
        self,
        experiments: Mapping[str, Experiment],
        neighbours: tuple[str, ...],
        tick_seconds: float,
        limits: Limits,
    ) -> None:
        """Go on with these experiments and neighbours; requests see one or the other."""
        for each in experiments.values():
            each.counts.whole = self.counts
        self.experiments = dict(experiments)
        self.neighbours = neighbours
        self.tick_seconds = tick_seconds
        self.limits = limits
        self._inbox.limit(self._rates())

    def tick(self) -> None:
        """One round of upkeep: expire windows, delete old decisions, send messages that are due.

        A fault in one experiment does not keep the others from theirs.
        """
        now = self.clock()
        failed = None
        experiments = list(self.experiments.values())
        self._show_presence(now)  # first: an agent whose disk fails is there all the same
        for each in experiments:
            try:
                each.expire(now)
            except StoreError as error:
                failed = error
            except Exception:
                self._bug("tick", each)
        self.store.check_location()
        self.store.flush()
        for each in experiments:
            try:
                self._send(each.name, each.tick(now))
                self._send(each.name, each.tick_controls(self.neighbours, now))
                each.past.turn(now)
            except StoreError as error:
                failed = error
            except Exception:
                self._bug("tick", each)
        if failed is not None:
            raise failed

    def arrived(self, peer: str, payload: bytes) -> None:
        """Take a message off the transport's hands; it waits for its turn, or is dropped."""
        self.counts.add("received")
        if not self._inbox.put(peer, payload):
            # the network's thread waits, and with it who sends too much
            self.stopping.wait(HOLD)

    def receive(self, peer: str, payload: bytes) -> None:
        """Handle a neighbour's message at once, if it is within its sender's budget."""
        self.counts.add("received")
        if self._inbox.admit(peer, len(payload)):
            self._handle(peer, payload)

    def _handle(self, peer: str, payload: bytes) -> bool:
        """Take in a message, a bad one is counted and never fatal; whether it was a good one."""
        now = self.clock()
        try:
            parcel = self._codec.decode(payload)
        except WireError as error:
            self._inbox.charge(peer, MALFORMED)
            self.refusals.add(error.kind)
            return False
        self.presence.hear(peer, now)
        if isinstance(parcel.message, StatusMessage):
            return self._take_statuses(peer, parcel.message, now)
        experiment = self.experiments.get(parcel.experiment)
        if experiment is None:  # neighbours need not run the same ones
            self.refusals.add("an experiment not run here")
            return True
        before = experiment.refused
        forged = experiment.forged
        try:
            if isinstance(parcel.message, ControlMessage):
                experiment.receive_controls(peer, parcel.message, now)
            else:
                self._send(experiment.name, experiment.receive(peer, parcel.message, now))
        except StoreError:  # the neighbour will say it again
            self.failures.add("receive")
        except Exception:  # a bug of ours must not end the process
            self._bug("receive", experiment)
        if experiment.forged > forged:
            self._inbox.charge(peer, FORGED)
        return experiment.refused == before

    def _show_presence(self, now: float) -> None:
        """Tell neighbours what is new of all agents, and of this one."""
        try:
            self._look(now)
            if self.presence.is_due(self.experiments, now):
                self.presence.say(self._status(now), self.experiments, now)
            relay = any(each.knows_origins for each in self.experiments.values())
            self._send(DEFAULT, self.presence.messages(self.neighbours, relay, now))
        except Exception:  # a bug of ours must not keep evidence from others
            log.exception("the status of %s was not told", self.name)
            self.failures.add("tick")

    def _take_statuses(self, peer: str, message: StatusMessage, now: float) -> bool:
        """Take in what is new of other agents; whether all of it was good."""
        try:
            refused = self.presence.receive(peer, message, now)
        except Exception:  # a bug of ours must not end the process
            log.exception("what %s said of others was not taken in", peer)
            self.failures.add("receive")
            return False
        for reason, number in refused.items():
            self.refusals.add(reason, number)
        if statuses.FORGED in refused:
            self._inbox.charge(peer, FORGED)
        return not refused

    def _look(self, now: float) -> dict[str, bool]:
        """Which neighbours are connected."""
        connected = self.transport.connected()
        self.presence.look({name: connected.get(name) for name in self.neighbours}, now)
        return connected

    def _status(self, now: float) -> Status:
        """What this agent says of itself."""
        experiments = list(self.experiments.values())
        return self.presence.status([each.tally() for each in experiments], self._refused(), now)

    def _refused(self) -> Counter[str]:
        """What was refused, by reason, over all experiments."""
        refused: Counter[str] = self.refusals.copy() + self.transport.refusals.copy()
        for each in self.experiments.values():
            refused.update(each.refusals())
        return refused

    def network(self) -> NetworkAnswer:
        """The neighbours, all agents and links that are known, and what was refused and why."""
        now = self.clock()
        experiments = dict(self.experiments)
        connected = self._look(now)
        refused = self._refused()
        own = self._status(now)
        return network(experiments, self.presence, own, connected, refused, now)

    def _run(self) -> None:
        absences = Absences()
        failing = False
        while not self.stopping.wait(self.tick_seconds):
            try:
                self.tick()
                if failing:
                    log.warning("the store is written again")
                    failing = False
                for sentence, advice in absences.look(self.transport.connected(), time.monotonic()):
                    self._say("partition", sentence, advice)
            except StoreError as error:  # such as a full disk: try again later
                self.failures.add("tick")
                if not failing:  # once: the log may be on the same disk
                    log.error("%s", error)
                failing = True
            except Exception:  # a bug of ours must not end the thread that ticks
                log.exception("a tick failed")
                self.failures.add("tick")

    def _work(self) -> None:
        """Work off what neighbours say, one message at a time and for half of the time at most.

        Python runs one thread at a time: without a rest, requests would wait for a neighbour.
        Work is charged to its neighbour, and work for nothing much more.
        """
        while (taken := self._inbox.take()) is not None:
            peer, payload = taken
            began = time.thread_time()
            useful = self._handle(peer, payload)
            worked = time.thread_time() - began
            self._inbox.charge(peer, seconds=worked * (WORK if useful else WASTE))
            self.stopping.wait(REST * worked)

    def _rates(self) -> tuple[float, float]:
        return self.limits.of(self.tick_seconds, len(self.experiments))

    def _send(self, experiment: str, outgoing: Iterable[tuple[str, object]]) -> None:
        """Send to each neighbour what is for it."""
        for peer, message in outgoing:
            try:
                self.transport.send(peer, self._codec.encode(message, experiment))
                self.counts.add("sent")
            except ValueError as error:  # too large, or an unknown neighbour
                if not self.failures["send"]:
                    log.warning("a message to %s was not sent: %s", peer, error)
                self.failures.add("send")

    def _say(self, kind: Kind, sentence: str, advice: str = "") -> None:
        """Log what concerns the agent as a whole, and keep it in the past of every experiment."""
        log.warning("%s%s", sentence, advice)
        for each in self.experiments.values():
            each.past.note(kind, sentence)

    def _bug(self, doing: str, experiment: Experiment) -> None:
        """Note a fault of ours in one experiment, which must not end the others."""
        named = {"experiment": experiment.name}
        log.exception("experiment %s: %s failed", experiment.name, doing, extra=named)
        self.failures.add(doing)


def _listed(experiments: Iterable[str]) -> str:
    return ", ".join(experiments) or "none at all"
