"""A world of simulated sites: nodes, disks, clocks, and a network between them."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from posse.live.exchange.own import UNTOLD
from posse.live.node import Node
from posse.live.setup.making import Outside
from posse.live.setup.process import assemble
from posse.live.setup.settings import Settings
from posse.live.store import Conflict, DecisionRecord, StoreError, schema
from posse.live.store.place import _held
from simulation import disk as disks
from simulation.agents import Seal, hurry, settings_of
from simulation.bits import Garbled, Mark, bit_of, marks_of
from simulation.disk import Disk, Killed, Volume
from simulation.freeze import Frozen
from simulation.history import History, Key, Known, Memory, Violation
from simulation.post import Letter, Mailbox, Post
from simulation.schedule import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Backup:
    """A copy of a volume, and what must be on it."""

    volume: Volume
    memory: Memory
    held: frozenset[Mark]


@dataclass(frozen=True)
class Snapshot:
    """A copy of a machine with its memory."""

    backup: Backup
    frozen: Frozen
    clock: float


@dataclass
class Site:
    """One agent's machine: its disk, its clock, its settings, and the process if it runs."""

    name: str
    disk: Disk
    neighbours: list[str]
    experiments: dict[str, tuple[str, ...]]  # its arms
    clock: float = 1000.0
    steady: float = 0.0  # the clock that never jumps
    started: float = 0.0  # by it
    newest: float = -1e18  # the time of the newest decision that was on disk then
    node: Node | None = None
    memory: Memory = field(default_factory=Memory)
    backups: list[Backup] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    set_back: bool = False  # since it was last looked at
    rewound: bool = False  # whether the process is another future of one that went on
    stale: bool = False  # whether a reload failed: the process runs by other settings


class World:
    """All sites of one run, and its history."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.random = random.Random(plan.seed)  # of the agents; the schedule is already drawn
        self.post, self.history = Post(), History()
        self.ids = 0
        self.strict = False  # whether all have heard of all
        self.logged = _Logged()
        self.sites: dict[str, Site] = {}
        for name in plan.names:
            near = [b if a == name else a for a, b in plan.links if name in (a, b)]
            disk = Disk(folder / f"{name}.db")
            disks.attach(disk)
            experiments = dict.fromkeys(plan.experiments, plan.arms)
            self.sites[name] = Site(name, disk, near, experiments)
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
        failed, fault = site.disk.failed, site.disk.fault
        try:
            site.node = self.make(site, self.settings(site))
        except Killed:
            site.memory.power_failed |= fault == "power"
            self.end(site)
            return False
        except (StoreError, ValueError) as error:
            if site.disk.connections:
                raise Violation(f"{site.name} failed to start and left its file open") from error
            if site.disk.failed == failed:
                raise Violation(f"{site.name} did not start: {error}") from error
            return False
        site.rewound = site.stale = False
        site.started = site.steady
        times = [known.record.time for known in site.memory.decisions.values()]
        site.newest = max([*times, -1e18])
        self.compare(site)
        return True

    def make(self, site: Site, settings: Settings) -> Node:
        """A process of these settings on the disk of a site."""

        def mailbox(_: Settings) -> Mailbox:
            old = site.name in self.plan.old
            return Mailbox(site.name, self.post, lambda: site.disk.event("send", before=False), old)

        node = assemble(
            settings,
            self.folder,
            Outside(mailbox, cast(Any, Seal(settings.name))),
            clock=lambda: site.clock,
            draw=self.random.getrandbits,
            monotonic=lambda: site.steady,
        )
        self.hurry(site, node)
        return node

    def hurry(self, site: Site, node: Node) -> None:
        """Let all that a process does take fewer ticks."""
        for each in node.experiments.values():
            hurry(each.agent.exchange, lambda: site.clock)

    def settings(self, site: Site, name: str | None = None) -> Settings:
        """The settings of a site, under its name or another one."""
        return settings_of(
            name or site.name,
            site.disk.path.name,
            tuple(site.neighbours),
            tuple(site.experiments.items()),
            *(self.plan.exchange, self.plan.window, self.plan.default_reward, self.plan.remember),
            self.plan.operators,
        )

    def runs(self, site: Site) -> bool:
        """Whether a process of the site runs now."""
        return site.node is not None

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
            site.memory.power_failed |= power
        if site.node is not None:
            site.node.transport.close()
        site.node = None
        site.disk.abandon()
        for place in list(_held):
            if place.path == site.disk.path:
                place.release()

    def attempt(self, site: Site, work: Callable[[], T]) -> T | type[Killed] | StoreError:
        """Do something at a site; Killed if its process ended in it, or the store's error."""
        assert site.node is not None
        failed = site.disk.failed
        fault = site.disk.fault
        try:
            result = work()
        except Killed:
            site.memory.power_failed |= fault == "power"
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

    def new_key(self, site: Site, experiment: str) -> Key:
        """An id that nobody used."""
        self.ids += 1
        return experiment, f"{site.name}{self.ids}"

    def decide(self, site: Site, key: Key, allowed: list[str] | None = None) -> None:
        """Ask for a decision, a new one or one that was asked for before."""
        if site.node is None or key[0] not in site.node.experiments:
            return
        known, experiment = site.memory.decisions.get(key), site.node.experiments[key[0]]

        def ask() -> DecisionRecord | None:
            with contextlib.suppress(Conflict):  # nothing is left to play
                return experiment.decide(key[1], allowed)
            return None

        got = self.attempt(site, ask)
        if got is None and known is not None:
            raise Violation(f"{site.name} did not answer again with {known.record}")
        if isinstance(got, DecisionRecord):
            if known is not None:
                if got != known.record:
                    raise Violation(f"{site.name} answered {got} after {known.record}")
            else:
                site.memory.decisions[key] = Known(got, made=site.steady)
        elif got is Killed:
            if known is None:
                site.memory.maybe.setdefault(key, [])
        elif got is not None:
            self.compare(site)

    def reward(self, site: Site, key: Key, reward: float) -> object:
        """Give a reward; what came of it, an error included."""
        assert site.node is not None
        experiment = site.node.experiment(key[0])
        known = site.memory.decisions.get(key)
        if known is not None and known.record.settled is None:
            self.history.given.add((key[0], known.record.arm, bit_of(reward)))

        def ask() -> object:
            try:
                return experiment.reward(key[1], reward)
            except StoreError:
                raise
            except ValueError as error:
                return error

        got = self.attempt(site, ask)
        if got is Killed:
            site.memory.maybe.setdefault(key, []).append(reward)
        elif isinstance(got, StoreError):
            self.compare(site)
            if known is not None and known.record.settled is None:
                # nothing of it was kept, so that nobody may ever hold it
                self.history.given.discard((key[0], known.record.arm, bit_of(reward)))
        return got

    def settled(self, site: Site, key: Key, reward: float) -> None:
        """Note that a reward was acknowledged."""
        known = site.memory.decisions[key]
        record = replace(known.record, reward=reward, settled=site.clock)
        if site.rewound:
            self.history.excused.add((key[0], record.arm, bit_of(reward)))
        site.memory.decisions[key] = Known(record, made=known.made)
        site.memory.flush()
        self.history.acknowledged.add((key[0], record.arm, bit_of(reward)))

    def tick(self, site: Site) -> None:
        """One round of upkeep."""
        if site.node is None:
            return
        site.clock += 1
        site.steady += 1
        memory, now, window = site.memory, site.clock, self.plan.window
        if window is not None:
            for key, known in memory.decisions.items():
                if known.record.settled is None and known.record.time <= now - window:
                    memory.maybe.setdefault(key, []).append(None)
        got = self.attempt(site, site.node.tick)
        if site.node is not None:
            self.compare(site, done=not isinstance(got, StoreError))
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
        if site.name in self.plan.old and letter.payload[:1] != b"\x01":
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

    def compare(self, site: Site, done: bool = False) -> None:
        """See that the disk of a running site holds what was acknowledged, and nothing else."""
        assert site.node is not None
        memory, after = site.memory, {}
        running = site.node.experiments
        for key in [*memory.decisions, *(k for k in memory.maybe if k not in memory.decisions)]:
            known = memory.decisions.get(key)
            if key[0] not in running:
                unsure = known and memory.power_failed and not known.flushed
                after[key] = replace(known, doubtful=True) if known and unsure else known
                continue
            found = running[key[0]].store.decision(key[1])
            if done and None in memory.maybe.get(key, ()) and found and found.settled is None:
                raise Violation(f"{site.name} left {found} open when its window closed")
            after[key] = self._remembered(site, key, known, found)
        memory.decisions = {key: known for key, known in after.items() if known is not None}
        memory.maybe = {k: what for k, what in memory.maybe.items() if k[0] not in running}
        check_whole(site)
        for name in running.keys() & memory.controls.keys():
            held = running[name].controls._held
            if held is None or held.rank < memory.controls[name]:
                raise Violation(f"{site.name} forgot what is pinned and paused")
        site.memory.power_failed = False

    def _remembered(
        self, site: Site, key: Key, known: Known | None, found: DecisionRecord | None
    ) -> Known | None:
        maybe = site.memory.maybe.get(key)
        if known is None:
            assert maybe is not None
            return None if found is None else Known(found, made=site.steady)
        if found is None:
            open_ = known.record.settled is None
            if open_ and (known.doubtful or (site.memory.power_failed and not known.flushed)):
                return None
            closed = maybe is not None and None in maybe  # and deleted in the same tick
            if self.is_old(site, known) and (closed or not open_):
                if known.record.reward:
                    mark = key[0], known.record.arm, bit_of(known.record.reward)
                    site.memory.forgotten |= {mark}
                return None
            raise Violation(f"{site.name} forgot {known.record}")
        if found == known.record:
            return replace(known, doubtful=False)
        for reward in maybe or ():
            if reward is None:
                expected = replace(
                    known.record,
                    reward=self.plan.default_reward,
                    settled=found.settled,
                    silent=True,
                )
            else:
                expected = replace(known.record, reward=reward, settled=found.settled)
            if found == expected and known.record.settled is None and found.settled is not None:
                if reward is not None:
                    self.history.acknowledged.add((key[0], found.arm, bit_of(reward)))
                return Known(found, flushed=True, made=known.made)
        raise Violation(f"{site.name} has {found} for {known.record}")

    def is_old(self, site: Site, known: Known) -> bool:
        """Whether a decision may be deleted: so much time has gone by, whatever clocks say.

        One from before the start, of which only times are known, also if the newest was so much
        later.
        """
        remember = self.plan.remember
        if remember is None:
            return False
        latest = site.newest + site.steady - site.started
        older = known.made <= site.started and known.record.time <= latest - remember
        return known.made <= site.steady - remember or older

    def look(self) -> None:
        """See what every running site holds."""
        running_now = [site.node for site in self.sites.values() if site.node is not None]
        experiments = [each for node in running_now for each in node.experiments.values()]
        if any(each.agent.exchange.refusals[UNTOLD] for each in experiments):
            self.history.untold = True
            self.history.excused |= self.history.acknowledged
        for site in self.sites.values():
            if site.node is None:
                continue
            running = site.node.experiments
            before = self.history.held.get(site.name, frozenset())
            held = {mark for mark in before if mark[0] not in running}
            for name, experiment in running.items():
                evidence = experiment.evidence()
                own = marks_at(site, name, evidence["own"])[0]
                here = site.memory.marks((name,))
                if self.plan.exchange == "flows":
                    if own != here:
                        raise Violation(f"{site.name} counts {differing(own, here)} of its own")
                    held |= own
                else:
                    if missing := here - own - self.history.excused:
                        raise Violation(f"{site.name} has rewards on disk only: {sorted(missing)}")
                    if not self.strict and folded_twice(experiment.agent.exchange):
                        held |= {mark for mark in before if mark[0] == name}
                        continue
                    held |= marks_at(site, name, evidence["held"])[0]
            self.history.hold(site.name, frozenset(held), site.set_back)
            site.set_back = False


def marks_at(site: Site, experiment: str, ledger: Any) -> tuple[frozenset[Any], int]:
    """The rewards in a ledger of a site."""
    try:
        return marks_of(experiment, ledger)
    except Garbled as error:
        raise Violation(f"{site.name}: {error}") from error


def check_whole(site: Site) -> None:
    """See that of each commit in which a process ended all is there or nothing."""
    memory, left = site.memory, []
    assert site.node is not None
    running = site.node.experiments
    for parts in memory.turns:
        if any(key[0] not in running for key, _ in parts):
            left.append(parts)
            continue
        found = set()
        for key, reward in parts:
            record = memory.decisions[key].record if key in memory.decisions else None
            found.add(record is not None and reward in (None, record.reward))
        if len(found) > 1:
            raise Violation(f"{site.name} kept some of one commit: {parts}")
    memory.turns = left


def folded_twice(exchange: Any) -> bool:
    """Whether two entries of one origin absorbed the same, and the origin has not said so yet.

    Its disk was set back, and with it the only neighbour that could have told it what it had
    folded before; others count twice what is in both until the origin hears of the first.
    """
    for origin in exchange._books.origins():
        seen: set[int] = set()
        for entry in exchange._books.of(origin):
            folded = {incarnation for incarnation, _ in entry.folded}
            below = {each for each in seen if each < entry.floor}
            if seen & folded or below:
                return True
            seen |= folded
    return False


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
            schema.create(path)
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
