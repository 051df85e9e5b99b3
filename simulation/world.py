"""A world of simulated sites: nodes, disks, clocks, and a network between them."""

from __future__ import annotations

import hashlib
import hmac
import logging
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from posse import families
from posse.live.agent import Agent
from posse.live.node import Node, Silence
from posse.live.store import DecisionRecord, Store, StoreError
from posse.live.store.lock import _held
from simulation import disk as disks
from simulation.bits import RANGE, Garbled, bit_of, marks_of
from simulation.disk import Disk, Killed, Volume
from simulation.history import History, Key, Known, Memory, Violation
from simulation.post import Letter, Mailbox, Post
from simulation.schedule import Plan

T = TypeVar("T")
LIAR = "z"
DEFAULT = "default"
FAMILY = families.Gaussian()


class Even:
    """A policy that costs nothing: every arm alike."""

    name = "even"

    def scores(self, belief: Any, *_: Any) -> Any:
        """No arm is better."""
        return np.zeros(belief.shape[1:])

    def probabilities(self, belief: Any, *_: Any) -> Any:
        """The same for all."""
        return np.full(belief.shape[1], 1 / belief.shape[1])


@dataclass
class Site:
    """One agent's machine: its disk, its clock, its settings, and the process if it runs."""

    name: str
    disk: Disk
    neighbours: list[str]
    arms: list[str]
    clock: float = 1000.0
    node: Node | None = None
    memory: Memory = field(default_factory=Memory)
    backups: list[tuple[Volume, Memory]] = field(default_factory=list)
    set_back: bool = False  # since it was last looked at
    power_failed: bool = False  # since it was last seen what the disk remembers
    identities: list[str] = field(default_factory=list)  # under flows: those of lost disks


def signature(name: str, content: bytes) -> bytes:
    """A signature that only `name` makes: cheap, and the same in every run."""
    return hmac.digest(name.encode(), content, "sha256")


def verify(origin: str, content: bytes, signed: bytes) -> bool:
    """Whether the origin signed it."""
    return hmac.compare_digest(signature(origin, content), signed)


class World:
    """All sites of one run, and its history."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.random = random.Random(plan.seed)  # of the agents; the schedule is already drawn
        self.post, self.history = Post(), History()
        self.ids = 0
        self.logged = _Logged()
        self.sites: dict[str, Site] = {}
        for name in plan.names:
            near = [b if a == name else a for a, b in plan.links if name in (a, b)]
            disk = Disk(folder / f"{name}.db")
            disks.attach(disk)
            self.sites[name] = Site(name, disk, near, list(plan.arms))
        for site in self.sites.values():
            template(site, plan)
            self.start(site)

    def close(self) -> None:
        """End all processes."""
        for site in self.sites.values():
            self.end(site)
            disks.detach(site.disk)
        self.logged.close()

    # processes

    def start(self, site: Site) -> bool:
        """Start the process of a site, if the disk lets it, and see what it remembers."""
        if site.node is not None:
            return True
        failed, locks, fault = site.disk.failed, set(_held), site.disk.fault
        try:
            site.node = self._node(site, site.name)
        except Killed:
            for lock in set(_held) - locks:
                lock.release()
            site.power_failed |= fault == "power"
            self.end(site)
            return False
        except (StoreError, ValueError) as error:
            if site.disk.connections:
                raise Violation(f"{site.name} failed to start and left its file open") from error
            if site.disk.failed == failed:
                raise Violation(f"{site.name} did not start: {error}") from error
            return False
        self._compare(site)
        return True

    def _node(self, site: Site, name: str) -> Node:
        agent = self._agent(name, site.arms)
        store = Store.open(
            site.disk.path, fingerprint=agent.fingerprint, equal=agent.equal_fingerprints
        )
        try:
            return Node(
                agent,
                store,
                Mailbox(name, self.post, lambda: site.disk.event("send", before=False)),
                neighbours=site.neighbours,
                silence=Silence(self.plan.window, self.plan.default_reward),
                remember=self.plan.remember,
                clock=lambda: site.clock,
            )
        except BaseException:
            if not site.disk.dead:
                store.close()
            raise

    def _agent(self, name: str, arms: list[str]) -> Agent:
        options: dict[str, Any] = {"draw": self.random.getrandbits}
        if self.plan.exchange == "origins":
            options |= {
                "identity": name,
                "digest_every": 3,
                "batch": 3,
                "sign": lambda content: signature(name, content),
                "verify": verify,
            }
        return Agent(
            arms,
            FAMILY,
            policy=Even(),
            exchange=self.plan.exchange,
            reward_range=RANGE,
            exchange_options=options,
            seed=self.random.getrandbits(32),
        )

    def stop(self, site: Site) -> None:
        """Stop a process as an operator does."""
        if site.node is not None and self.attempt(site, site.node.stop) is not Killed:
            site.node = None
            site.memory.flush()
            if site.disk.connections:
                raise Violation(f"{site.name} stopped and left its file open")

    def end(self, site: Site, power: bool = False) -> None:
        """End a process without a word."""
        if site.node is None and not site.disk.connections and not site.disk.dead:
            return
        if not site.disk.dead:
            site.disk.end(power)
            site.power_failed |= power
        if site.node is not None:
            site.node.transport.close()
            site.node.store._lock.release()
        site.node = None
        site.disk.abandon()

    def attempt(self, site: Site, work: Callable[[], T]) -> T | type[Killed] | StoreError:
        """Do something at a site; Killed if its process ended in it, or the store's error."""
        assert site.node is not None
        failed = site.disk.failed
        fault = site.disk.fault
        try:
            result = work()
        except Killed:
            site.power_failed |= fault == "power"
            self.end(site)
            return Killed
        except StoreError as error:
            if site.disk.failed == failed:
                raise Violation(f"{site.name}: {error}") from error
            return error
        if self.logged.problems:
            raise Violation(f"{site.name} logged: {self.logged.problems}")
        return result

    # what the application does

    def decide(self, site: Site, id_: str | None = None, allowed: list[str] | None = None) -> None:
        """Ask for a decision, a new one or one that was asked for before."""
        if site.node is None:
            return
        if id_ is None:
            self.ids += 1
            id_ = f"{site.name}{self.ids}"
        key = DEFAULT, id_
        known, node = site.memory.decisions.get(key), site.node
        got = self.attempt(site, lambda: node.decide(id_, allowed))
        if isinstance(got, DecisionRecord):
            if known is not None:
                if got != known.record:
                    raise Violation(f"{site.name} answered {got} after {known.record}")
            else:
                site.memory.decisions[key] = Known(got)
        elif got is Killed:
            if known is None:
                site.memory.maybe.setdefault(key, [])
        else:
            self._compare(site)

    def reward(self, site: Site, key: Key, reward: float) -> object:
        """Give a reward; what came of it, an error included."""
        node = site.node
        assert node is not None
        known = site.memory.decisions.get(key)
        if known is not None and known.record.settled is None:
            self.history.given.add((key[0], known.record.arm, bit_of(reward)))

        def ask() -> object:
            try:
                return node.reward(key[1], reward)
            except StoreError:
                raise
            except ValueError as error:
                return error

        got = self.attempt(site, ask)
        if got is Killed:
            site.memory.maybe.setdefault(key, []).append(reward)
        elif isinstance(got, StoreError):
            self._compare(site)
        return got

    def settled(self, site: Site, key: Key, reward: float) -> None:
        """Note that a reward was acknowledged."""
        known = site.memory.decisions[key]
        record = replace(known.record, reward=reward, settled=site.clock)
        site.memory.decisions[key] = Known(record)
        site.memory.flush()
        self.history.acknowledged.add((key[0], record.arm, bit_of(reward)))

    def tick(self, site: Site) -> None:
        """One round of upkeep."""
        if site.node is None:
            return
        site.clock += 1
        memory, now, window = site.memory, site.clock, self.plan.window
        if window is not None:
            for key, known in memory.decisions.items():
                if known.record.settled is None and known.record.time <= now - window:
                    memory.maybe.setdefault(key, []).append(None)
        got = self.attempt(site, site.node.tick)
        if site.node is not None:
            self._compare(site, done=not isinstance(got, StoreError))
        if got is None:
            memory.flush()

    def deliver(self, letter: Letter | None) -> None:
        """Let a message arrive, if there is a process to take it."""
        if letter is None or letter.receiver not in self.sites:
            return
        site = self.sites[letter.receiver]
        node = site.node
        if node is None or self.post.groups.get(letter.sender, 0) != self.post.groups.get(
            site.name, 0
        ):
            return
        failed, failures = site.disk.failed, node.failures["receive"]
        self.attempt(site, lambda: node.receive(letter.sender, letter.payload))
        if node.failures["receive"] > failures and site.disk.failed == failed:
            raise Violation(f"{site.name} failed at a message of {letter.sender}")

    def deliver_all(self, most: int = 2000) -> None:
        """Deliver what waits, and the answers."""
        while self.post.waiting and most:
            self.deliver(self.post.take(0))
            most -= 1
        if not most:
            raise Violation("the network does not come to rest: answers go round for ever")

    # what is remembered and held

    def _compare(self, site: Site, done: bool = False) -> None:
        """See that the disk of a running site holds what was acknowledged, and nothing else."""
        assert site.node is not None
        memory, after = site.memory, {}
        for key in [*memory.decisions, *(k for k in memory.maybe if k not in memory.decisions)]:
            known, found = memory.decisions.get(key), site.node.store.decision(key[1])
            if done and None in memory.maybe.get(key, ()) and found and found.settled is None:
                raise Violation(f"{site.name} left {found} open when its window closed")
            after[key] = self._remembered(site, key, known, found)
        memory.decisions = {key: known for key, known in after.items() if known is not None}
        memory.maybe.clear()
        site.power_failed = False

    def _remembered(
        self, site: Site, key: Key, known: Known | None, found: DecisionRecord | None
    ) -> Known | None:
        maybe = site.memory.maybe.get(key)
        if known is None:
            assert maybe is not None
            return None if found is None else Known(found)
        if found is None:
            open_ = known.record.settled is None
            if site.power_failed and open_ and not known.flushed:
                return None
            closed = maybe is not None and None in maybe  # and deleted in the same tick
            if self.plan.remember is not None and (closed or not open_):
                if known.record.time < site.clock - self.plan.remember:
                    if known.record.reward:
                        mark = key[0], known.record.arm, bit_of(known.record.reward)
                        site.memory.forgotten |= {mark}
                    return None
            raise Violation(f"{site.name} forgot {known.record}")
        if found == known.record:
            return known
        for reward in maybe or ():
            if reward is None:
                expected = replace(
                    known.record, reward=self.plan.default_reward, settled=found.settled, silent=True
                )
            else:
                expected = replace(known.record, reward=reward, settled=found.settled)
            if found == expected and known.record.settled is None and found.settled is not None:
                if reward is not None:
                    self.history.acknowledged.add((key[0], found.arm, bit_of(reward)))
                return Known(found, flushed=True)
        raise Violation(f"{site.name} has {found} for {known.record}")

    def look(self) -> None:
        """See what every running site holds."""
        for site in self.sites.values():
            if site.node is None:
                continue
            evidence = site.node.evidence()
            own = marks_at(site, evidence["own"])
            here = site.memory.marks()
            if self.plan.exchange == "flows":
                if own[0] != here:
                    raise Violation(f"{site.name} counts {differing(own[0], here)} of its own")
                self.history.hold(site.name, own[0], site.set_back)
            else:
                held = marks_at(site, evidence["held"])
                if missing := here - own[0]:
                    raise Violation(f"{site.name} has rewards on disk only: {sorted(missing)}")
                self.history.hold(site.name, held[0], site.set_back)
            site.set_back = False


def marks_at(site: Site, ledger: Any) -> tuple[frozenset[Any], int]:
    """The rewards in a ledger of a site."""
    try:
        return marks_of(DEFAULT, ledger)
    except Garbled as error:
        raise Violation(f"{site.name}: {error}") from error


def differing(found: frozenset[Any], wanted: frozenset[Any]) -> str:
    """What two sets of rewards differ in, in words."""
    return f"{sorted(found - wanted)} too much, {sorted(wanted - found)} too little"


_templates: dict[tuple[str, str], bytes] = {}


def template(site: Site, plan: Plan) -> None:
    """Put a new store in place: a copy, for making one takes milliseconds."""
    key = plan.exchange, site.name
    if key not in _templates:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve() / "new.db"
            agent = Agent(plan.arms, FAMILY, exchange=plan.exchange, reward_range=RANGE)
            Store.open(path, fingerprint=agent.fingerprint).close()
            _templates[key] = path.read_bytes()
    site.disk.path.write_bytes(_templates[key])


class _Logged(logging.Handler):
    """Exceptions that a node caught and logged: bugs that must not go unseen."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.problems: list[str] = []
        self.logger = logging.getLogger("posse.live")
        self.before = self.logger.propagate
        self.logger.addHandler(self)
        self.logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.problems.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def close(self) -> None:
        self.logger.removeHandler(self)
        self.logger.propagate = self.before
        super().close()


def make_folder() -> Path:
    """A folder in memory, where the system has one."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="posse-", dir=memory if memory.is_dir() else None))


def remove_folder(folder: Path) -> None:
    """Remove what `make_folder` made."""
    shutil.rmtree(folder, ignore_errors=True)


def digest(text: str) -> int:
    """A number that a text always gives."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
