"""A world of simulated sites: nodes, disks, clocks, and a network between them."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from posse.live.config.agent_settings import AgentSettings
from posse.live.node import Node
from posse.live.node_factory import NetworkAccess
from posse.live.process import assemble_node
from posse.live.store import Conflict, DecisionRecord, StoreError, schema
from posse.live.store.file_lock import _open_locks
from simulation import disk as disks
from simulation.agents import FakeKeys, settings_of, shorten_periods
from simulation.bits import CONTEXT_BITS, MOST_BITS, Mark, bit_of, nth_bit
from simulation.disk import Disk, Killed, Volume
from simulation.history import Expiry, GivenReward, History, Key, KnownDecision, Memory, Violation
from simulation.looking import apply_outcome, check_sites, compare_disk, is_superseded
from simulation.post import Letter, Mailbox, Post
from simulation.schedule import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Backup:
    """A copy of a volume, and what must be on it."""

    volume: Volume
    memory: Memory
    held: frozenset[Mark]


@dataclass
class Site:
    """One agent's machine: its disk, its clock, its settings, and the process if it runs."""

    name: str
    agent: str  # its agent's name: that of another site, if it is a twin
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
    set_back: bool = False  # since it was last looked at
    stale: bool = False  # whether a reload failed: the process runs by other settings
    silence: tuple[float | None, float | None] = (None, None)  # reward window and default reward
    put_back: int = 0  # how often its disk was set back, lost or cloned
    went_on_alone: bool = False  # whether it did after that, when a neighbour had not answered
    has_untold: bool = False  # a copy with rewards that no neighbour was told of was put back
    closes_late: bool = False  # was down or cut off, its clock set back, or its window changed


class World:
    """All sites of one run, and its history."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.random = random.Random(plan.seed)  # of the agents; the schedule is already drawn
        self.post = Post()
        self.history = History()
        self.ids = 0
        self.most_bits = CONTEXT_BITS if plan.contexts else MOST_BITS
        self.logged = _Logged()
        self.sites: dict[str, Site] = {}
        for name in plan.names:
            near = [b if a == name else a for a, b in plan.links if name in (a, b)]
            disk = Disk(folder / f"{name}.db")
            disks.attach_disk(disk)
            experiments = dict.fromkeys(plan.experiments, plan.arms)
            silence = plan.window, plan.default_reward
            self.sites[name] = Site(name, name, disk, near, experiments, silence=silence)
        for site in self.sites.values():
            copy_template(site, plan)
            self.start_process(site)

    def close(self) -> None:
        """End all processes."""
        for site in self.sites.values():
            self.end_process(site)
            disks.detach_disk(site.disk)
        self.logged.close()

    # processes

    def start_process(self, site: Site) -> bool:
        """Start the process of a site, if the disk lets it, and see what it remembers."""
        if site.node is not None:
            return True
        failed = site.disk.failed
        fault = site.disk.fault
        try:
            site.node = self.create_node(site, self.settings_of(site))
        except Killed:
            site.memory.power_failed |= fault == "power"
            self.end_process(site)
            return False
        except (StoreError, ValueError) as error:
            if site.disk.connections:
                raise Violation(f"{site.name} failed to start and left its file open") from error
            if site.disk.failed == failed:
                raise Violation(f"{site.name} did not start: {error}") from error
            return False
        site.stale = False
        site.started = site.steady
        times = [decision.record.time for decision in site.memory.decisions.values()]
        for key in site.memory.maybe:  # made when the last process ended
            if key[0] in site.node.experiments:
                record = site.node.experiment(key[0]).store.find_decision(key[1])
                times += [record.time] if record else []
        site.newest = max([*times, -1e18])
        self.compare_disk(site)
        site.memory.mark_synced(site.node.experiments)
        return True

    def create_node(self, site: Site, settings: AgentSettings) -> Node:
        """A process of these settings on the disk of a site."""

        def open_mailbox(_: AgentSettings) -> Mailbox:
            return Mailbox(
                site.agent, self.post, lambda: site.disk.note_event("send", before=False)
            )

        node = assemble_node(
            settings,
            self.folder,
            NetworkAccess(open_mailbox, cast(Any, FakeKeys(settings.name))),
            clock=lambda: site.clock,
            draw=self.random.getrandbits,
            monotonic=lambda: site.steady,
        )
        self.shorten_periods(site, node)
        return node

    def shorten_periods(self, site: Site, node: Node) -> None:
        """Let everything that a process does periodically take fewer ticks."""
        for experiment in node.experiments.values():
            shorten_periods(experiment.agent.exchange, self.plan.eager)

    def settings_of(self, site: Site, name: str | None = None) -> AgentSettings:
        """The settings of a site, under its name or another one."""
        return settings_of(
            name or site.agent,
            site.disk.path.name,
            tuple(site.neighbours),
            tuple(site.experiments.items()),
            *(self.plan.exchange, *site.silence, self.plan.remember),
            *(self.plan.operators, self.plan.half_life, self.plan.contexts, self.plan.measures),
        )

    def is_running(self, site: Site) -> bool:
        """Whether a process of the site runs now."""
        return site.node is not None

    def stop_process(self, site: Site) -> None:
        """Stop a process as an operator does."""
        if site.node is not None and self.try_at_site(site, site.node.stop) is not Killed:
            site.node = None
            site.closes_late = True
            site.memory.mark_flushed()
            if site.disk.connections:
                raise Violation(f"{site.name} stopped and left its file open")

    def end_process(self, site: Site, power: bool = False) -> None:
        """End a process without a clean stop."""
        if site.node is None and not site.disk.connections and not site.disk.dead:
            return
        if not site.disk.dead:
            site.disk.end_process(power)
            site.memory.power_failed |= power
        if site.node is not None:
            site.node.transport.close()
        site.node = None
        site.closes_late = True
        site.disk.release_files()
        for place in list(_open_locks):
            if place.path == site.disk.path:
                place.release()

    def try_at_site(self, site: Site, work: Callable[[], T]) -> T | type[Killed] | StoreError:
        """Do something at a site; Killed if its process ended in it, or the store's error."""
        assert site.node is not None
        failed = site.disk.failed
        fault = site.disk.fault
        try:
            result = work()
        except Killed:
            site.memory.power_failed |= fault == "power"
            self.end_process(site)
            return Killed
        except StoreError as error:
            if site.disk.failed == failed:
                raise Violation(f"{site.name}: {error}") from error
            return error
        if self.logged.problems:
            raise Violation(f"{site.name} logged: {self.logged.problems}")
        return result

    # what the checker knows of sites

    def has_twin(self, site: Site) -> bool:
        """Whether another site runs an agent of the same name."""
        return sum(other.agent == site.agent for other in self.sites.values()) > 1

    def restored_agents(self) -> set[str]:
        """The agents of which a disk was set back, lost or cloned."""
        return {site.agent for site in self.sites.values() if site.put_back}

    def compacted_agents(self) -> set[str]:
        """The agents of which one of two may have compacted what the other went on with."""
        sites = self.sites.values()
        return {site.agent for site in sites if site.closes_late and self.has_twin(site)}

    def has_bits(self, experiment: str, arm: str) -> bool:
        """Whether there are rewards of an arm that nobody gave."""
        return nth_bit(self.history.bits.get((experiment, arm), 0)) < self.most_bits

    def context_of(self, decision: str) -> dict[str, bool] | None:
        """The visitor of a decision, if visitors have contexts."""
        return {"member": len(decision) % 2 == 0} if self.plan.contexts else None

    # what the application does

    def new_key(self, site: Site, experiment: str) -> Key:
        """An id that nobody used."""
        self.ids += 1
        return experiment, f"{site.name}{self.ids}"

    def request_decision(
        self, site: Site, key: Key, allowed: list[str] | None = None, activate: bool = True
    ) -> None:
        """Ask for a decision, a new one or one that was asked for before."""
        if site.node is None or key[0] not in site.node.experiments:
            return
        decision = site.memory.decisions.get(key)
        experiment = site.node.experiments[key[0]]

        def send_request() -> DecisionRecord | None:
            with contextlib.suppress(Conflict):  # nothing is left to play
                return experiment.decide(
                    key[1], allowed, self.context_of(key[1]), activate=activate
                )
            return None

        answer = self.try_at_site(site, send_request)
        if answer is None and decision is not None:
            raise Violation(f"{site.name} did not answer again with {decision.record}")
        if isinstance(answer, DecisionRecord):
            if decision is not None:
                if answer != decision.record:
                    raise Violation(f"{site.name} answered {answer} after {decision.record}")
            else:
                if answer.inactive is activate:
                    raise Violation(f"{site.name} answered {answer} to activate = {activate}")
                site.memory.decisions[key] = KnownDecision(answer, made=site.steady)
                self.history.note_acknowledged(key, answer)
        elif answer is Killed:
            if decision is None:
                site.memory.maybe.setdefault(key, [])
        elif answer is not None:
            self.compare_disk(site)

    def give_reward(self, site: Site, key: Key, reward: float) -> object:
        """Give a reward; what came of it, an error included."""
        assert site.node is not None
        experiment = site.node.experiment(key[0])
        decision = site.memory.decisions.get(key)
        if decision is not None and decision.record.settled is None:
            self.history.give(site.agent, (key[0], decision.record.arm, bit_of(reward)))
        outcome = self.outcome_of(site, key, reward)

        def send_reward() -> object:
            try:
                return experiment.reward(key[1], reward)
            except StoreError:
                raise
            except ValueError as error:
                return error

        answer = self.try_at_site(site, send_reward)
        if answer is Killed:
            site.memory.maybe.setdefault(key, []).append(outcome)
        elif isinstance(answer, StoreError):
            self.compare_disk(site)
            if decision is not None and decision.record.settled is None:
                # nothing of it was kept, so that nobody may ever hold it
                self.history.given.discard((key[0], decision.record.arm, bit_of(reward)))
        return answer

    def note_reward(self, site: Site, key: Key, reward: float) -> None:
        """Note that a reward was acknowledged."""
        decision = site.memory.decisions[key]
        outcome = self.outcome_of(site, key, reward)
        record = apply_outcome(decision.record, outcome, site.clock)
        site.memory.decisions[key] = KnownDecision(record, made=decision.made)
        site.memory.since.add(key)
        site.memory.mark_flushed()
        self.history.note_acknowledged(key, record)

    def outcome_of(self, site: Site, key: Key, reward: float) -> GivenReward:
        """A reward, and whether it is final: what counts from the start waits for its window.

        So does what counts at the end of it.
        """
        assert site.node is not None
        silence = site.node.experiment(key[0]).reward_window
        decision = site.memory.decisions.get(key)
        if decision is None:  # decided in the same moment
            return GivenReward(reward, silence.default_reward is None)
        assumed = decision.record.assumed
        if decision.record.inactive:
            assumed = self.assumed_reward(site, key)
        counts_from_start = assumed is not None
        return GivenReward(
            reward,
            (silence.window if counts_from_start else silence.default_reward) is None,
            assumed,
        )

    def assumed_reward(self, site: Site, key: Key) -> float | None:
        """The reward with which a decision counts from the start, if it does."""
        assert site.node is not None
        experiment = site.node.experiment(key[0])
        held_out = key in site.memory.decisions and site.memory.decisions[key].record.holdout
        counting = experiment.counting_mode == "count" and not held_out
        return experiment.reward_window.default_reward if counting else None

    def tick_site(self, site: Site) -> None:
        """One round of upkeep."""
        if site.node is None:
            return
        site.clock += 1
        site.steady += 1
        memory = site.memory
        failed = site.disk.failed
        for key, decision in memory.decisions.items():
            experiment = site.node.experiments.get(key[0])
            if experiment is None or decision.record.closed is not None:
                continue
            window = experiment.reward_window.window
            rewarded = decision.record.settled is not None
            if rewarded if window is None else decision.record.time <= site.clock - window:
                superseded = is_superseded(self, site, experiment, key, decision.record)
                expiry = Expiry(experiment.reward_window.default_reward, superseded)
                memory.maybe.setdefault(key, []).append(expiry)
                self.history.may_close(key, decision.record)
        outcome = self.try_at_site(site, site.node.tick)
        if site.node is not None:
            self.compare_disk(site, complete=site.disk.failed == failed)
        if outcome is None:
            memory.mark_flushed()

    def deliver_letter(self, letter: Letter | None) -> None:
        """Let a message arrive, if there is a process to take it."""
        if letter is None:
            return
        groups = self.post.groups
        if groups.get(letter.sender, 0) != groups.get(letter.receiver, 0):
            return
        for site in list(self.sites.values()):
            if site.agent == letter.receiver:
                self._deliver_to(site, letter)

    def _deliver_to(self, site: Site, letter: Letter) -> None:
        node = site.node
        if node is None:
            return
        failed = site.disk.failed
        failures = node.failures["receive"]
        self.try_at_site(site, lambda: node.receive(letter.sender, letter.payload))
        if node.failures["receive"] > failures and site.disk.failed == failed:
            raise Violation(f"{site.name} failed at a message of {letter.sender}")

    def deliver_all(self, most: int = 2000) -> None:
        """Deliver what waits, and the answers."""
        while self.post.waiting and most:
            self.deliver_letter(self.post.take_letter(0))
            most -= 1
        if not most:
            raise Violation("the network does not come to rest: answers go round for ever")

    def compare_disk(self, site: Site, complete: bool = False) -> None:
        """See that the disk of a running site holds what was acknowledged, and nothing else."""
        compare_disk(self, site, complete)

    def check_sites(self) -> None:
        """See what every running site holds."""
        check_sites(self)


_templates: dict[tuple[str, str], bytes] = {}


def copy_template(site: Site, plan: Plan) -> None:
    """Copy an empty store into place: creating one takes milliseconds."""
    key = plan.exchange, site.agent
    if key not in _templates:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve() / "new.db"
            schema.create_file(path)
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
