"""A node, the agent process: an agent with a durable store and a transport (`posse agent`).

A lock guards the agent; the store's transactions are taken before it, never after.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from posse.live.absences import Absences
from posse.live.agent import Agent
from posse.live.counts import Counts
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.messages import FlowsMessage, OriginsMessage
from posse.live.exchange.seam import Outgoing
from posse.live.store import DecisionRecord, Outcome, Store, StoreError
from posse.live.transport import Transport
from posse.live.wire import Codec, WireError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Silence:
    """The reward window: after `window` seconds without a reward the default counts, or nothing."""

    window: float | None = None
    default_reward: float | None = None


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
    ) -> None:
        self.agent, self.store, self.transport = agent, store, transport
        self.tick_seconds, self.silence, self.clock = tick_seconds, silence, clock
        self.remember = remember
        self.counts = Counts()  # decisions and rewards, messages sent and received
        self.refusals = Counts()  # of payloads that are no message
        self.failures = Counts()  # of the store, by what was going on
        self._codec = Codec(OriginsMessage, FlowsMessage)
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._ticker: threading.Thread | None = None
        agent.go_on_as(store.fingerprint)
        store.attach(_Kept(agent, self._lock, store.clean))
        with store.transaction(), self._lock:
            for name in agent.exchange.neighbours().keys() - set(neighbours):
                agent.disconnect(name)  # it was one when the store was last used
            for name in neighbours:
                agent.connect(name)

    def start(self) -> None:
        """Open the transport and start the thread that ticks."""
        self.transport.start(self.receive)
        self._ticker = threading.Thread(target=self._run, name="posse-tick", daemon=True)
        self._ticker.start()

    def stop(self) -> None:
        """Shut down gracefully: no more ticks, no more messages, the store closed."""
        self._stopping.set()
        if self._ticker is not None:
            self._ticker.join(10)
        self.transport.close()
        self.store.close()

    def decide(
        self, id_: str | None = None, allowed: Sequence[str] | None = None
    ) -> DecisionRecord:
        """A decision: which arm to play; idempotent in its id."""
        chosen = self.choose(id_, allowed)
        kept = self.store.decide(chosen)
        self.counts.add("decisions", kept is chosen)
        return kept

    def choose(self, id_: str | None, allowed: Sequence[str] | None) -> DecisionRecord:
        """A new decision that is not on disk yet, and will not be if its id is taken."""
        try:
            with self._lock:
                arm, probability = self.agent.choose(allowed)
        except ValueError:  # an arm may be gone since this id was first asked for
            if id_ is not None and (kept := self.store.decision(id_)) is not None:
                return kept
            raise
        return DecisionRecord(id_ or secrets.token_hex(16), arm, probability, self.clock())

    def reward(self, decision_id: str, reward: float) -> Outcome:
        """Settle a decision with its reward; idempotent, and durable when it returns."""
        outcome = self.store.reward(decision_id, reward, self.clock())
        self.counts.add("rewards", outcome is Outcome.NEW)
        return outcome

    def tick(self) -> None:
        """One round of upkeep: expire windows, delete old decisions, send messages that are due."""
        now = self.clock()
        if self.silence.window is not None:
            self.store.expire(now, self.silence.window, self.silence.default_reward)
        if self.remember is not None:
            self.store.forget(now - self.remember)
        self.store.flush()
        with self.store.transaction(), self._lock:
            outgoing = self.agent.tick(now)
        self._send(outgoing)

    def receive(self, peer: str, payload: bytes) -> None:
        """Handle a neighbour's message; a malformed one is refused and counted, never fatal."""
        self.counts.add("received")
        try:
            message = self._codec.decode(payload).message
        except WireError as error:
            self.refusals.add(error.kind)
            return
        try:
            with self.store.transaction(), self._lock:
                outgoing = self.agent.receive(peer, message, self.clock())
        except StoreError:  # the neighbour will say it again
            self.failures.add("receive")
            return
        except Exception:  # a bug of ours must not end the process
            log.exception("a message of %s failed", peer)
            self.failures.add("receive")
            return
        self._send(outgoing)

    def arms(self) -> dict[str, dict[str, float]]:
        """What is known of every arm."""
        with self._lock:
            return {name: asdict(status) for name, status in self.agent.arms().items()}

    def network(self) -> dict[str, Any]:
        """The neighbours, and what was refused and why."""
        connected = self.transport.connected()
        with self._lock:
            exchange = self.agent.exchange
            neighbours = {
                name: {**asdict(status), "connected": connected.get(name, False)}
                for name, status in exchange.neighbours().items()
            }
            refused = exchange.refusals + self.refusals.copy()
            known = len(exchange.known())
        return {"neighbours": neighbours, "refused": dict(refused), "agents_known": known}

    def evidence(self) -> dict[str, Ledger]:
        """In quanta: what this agent saw itself, and what it holds of all."""
        with self._lock:
            return {"own": self.agent.exchange.own(), "held": self.agent.exchange.evidence()}

    def _run(self) -> None:
        absences, failing = Absences(), False
        while not self._stopping.wait(self.tick_seconds):
            try:
                self.tick()
                if failing:
                    log.warning("the store is written again")
                    failing = False
                for sentence in absences.look(self.transport.connected(), time.monotonic()):
                    log.warning("%s", sentence)
            except StoreError as error:  # such as a full disk: try again later
                self.failures.add("tick")
                if not failing:  # once: the log may be on the same disk
                    log.error("%s", error)
                failing = True
            except Exception:  # a bug of ours must not end the thread that ticks
                log.exception("a tick failed")
                self.failures.add("tick")

    def _send(self, outgoing: Outgoing) -> None:
        for peer, message in outgoing:
            try:
                self.transport.send(peer, self._codec.encode(message))
                self.counts.add("sent")
            except ValueError as error:  # too large, or an unknown neighbour
                if not self.failures["send"]:
                    log.warning("a message to %s was not sent: %s", peer, error)
                self.failures.add("send")


class _Kept:
    """The agent's evidence as a participant of the store's transactions."""

    def __init__(self, agent: Agent, lock: threading.RLock, clean: bool) -> None:
        self._agent, self._lock, self._clean = agent, lock, clean

    def settle(self, decision: DecisionRecord) -> None:
        """Learn from a reward."""
        assert decision.reward is not None
        with self._lock:
            self._agent.learn(decision.arm, decision.reward)

    def state(self) -> dict[str, Any]:
        """The exchange's durable state."""
        with self._lock:
            return self._agent.exchange.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Roll back to the state on disk: after a start, or when a commit failed."""
        with self._lock:
            self._agent.exchange.restore(state, self._clean)
        self._clean = True  # from now on nothing is forgotten that others may have seen
