"""The steps of schedules: what networks, machines and liars do, and all steps by their names."""

from __future__ import annotations

from collections.abc import Callable

from simulation import applications, lives, operators
from simulation.agents import LIAR
from simulation.applications import site_of
from simulation.bits import marks_in, sums_of_decision
from simulation.disk import Disk, Volume, attach_disk
from simulation.fading import epoch
from simulation.history import Memory
from simulation.liar import make_lies
from simulation.post import Letter
from simulation.turns import turn
from simulation.world import Backup, Site, World

# the network


def tick(world: World, a: int, b: int) -> None:
    """One round of upkeep at one site."""
    world.tick_site(site_of(world, a))


def tick_all(world: World, a: int, b: int) -> None:
    """One round of upkeep at all."""
    for site in world.sites.values():
        world.tick_site(site)


def gossip(world: World, a: int, b: int) -> None:
    """A second in which nothing goes wrong."""
    tick_all(world, a, b)
    world.deliver_all()


def mingle(world: World, a: int, b: int) -> None:
    """Seconds in which nothing goes wrong."""
    for _ in range(4):
        gossip(world, a, b)


def deliver(world: World, a: int, b: int) -> None:
    """Deliver one message, the oldest or any other."""
    world.deliver_letter(world.post.take_letter(a if b % 2 else 0))


def deliver_to(world: World, a: int, b: int) -> None:
    """Deliver all that waits for one site."""
    name = site_of(world, a).agent
    for letter in [waiting for waiting in world.post.waiting if waiting.receiver == name]:
        if letter in world.post.waiting:  # else so many answers came that the oldest are lost
            world.post.waiting.remove(letter)
            world.deliver_letter(letter)


def drop(world: World, a: int, b: int) -> None:
    """Lose messages."""
    for _ in range(1 + b % 5):
        if world.post.waiting:
            world.post.waiting.pop(a % len(world.post.waiting))


def repeat_message(world: World, a: int, b: int) -> None:
    """Deliver a message that will come again."""
    world.deliver_letter(world.post.take_letter(a, repeat=True))


def replay(world: World, a: int, b: int) -> None:
    """Deliver a message that was delivered long ago."""
    if world.post.seen:
        world.deliver_letter(world.post.seen[a % len(world.post.seen)])


def shuffle(world: World, a: int, b: int) -> None:
    """Reorder all that is under way."""
    world.random.shuffle(world.post.waiting)


def partition(world: World, a: int, b: int) -> None:
    """Cut the network in two."""
    world.post.groups = {name: a >> i & 1 for i, name in enumerate(world.plan.names)}


def cut(world: World, a: int, b: int) -> None:
    """Cut one site off."""
    world.post.groups = {site_of(world, a).agent: 1}


def heal(world: World, a: int, b: int) -> None:
    """End a partition."""
    world.post.groups = {}


# machines


def start(world: World, a: int, b: int) -> None:
    """Start the processes that are down, or one of them."""
    for site in [site_of(world, a)] if b % 2 else list(world.sites.values()):
        world.start_process(site)


def stop(world: World, a: int, b: int) -> None:
    """Stop a process, and start it again at once or not."""
    world.stop_process(site_of(world, a))
    if b % 2:
        world.start_process(site_of(world, a))


def kill(world: World, a: int, b: int) -> None:
    """Kill a process that does nothing."""
    world.end_process(site_of(world, a))
    if b % 2:
        world.start_process(site_of(world, a))


def power(world: World, a: int, b: int) -> None:
    """The power fails: what was not synced is gone."""
    world.end_process(site_of(world, a), power=True)
    if b % 2:
        world.start_process(site_of(world, a))


def bomb(world: World, a: int, b: int) -> None:
    """The process ends at one of its next statements, commits or messages."""
    fault = ("kill", "kill", "power", "torn")[b % 4]
    site_of(world, a).disk.schedule_fault(fault, b // 4 % 30)


def failing(world: World, a: int, b: int) -> None:
    """After some more events the disk is full, or fails to sync, for some writes."""
    site_of(world, a).disk.schedule_fault(str(1 + b % 3), b // 3 % 12)


def backup(world: World, a: int, b: int) -> None:
    """Copy a volume while the agent runs, or at rest."""
    site = site_of(world, a)
    if b % 3 == 0:
        world.stop_process(site)
    marks = world.history.held.get(site.name, frozenset())
    site.backups.append(Backup(site.disk.copy_files(), site.memory.copy_memory(), marks))
    if b % 2:
        world.start_process(site)


def set_back(world: World, a: int, b: int) -> None:
    """Put an old copy of a volume back."""
    site = site_of(world, a)
    if site.backups:
        world.end_process(site) if b % 2 else world.stop_process(site)
        world.check_sites()
        replace_disk(world, site, site.backups[b // 2 % len(site.backups)])


def lose(world: World, a: int, b: int) -> None:
    """Lose a disk; the agent starts again with an empty one."""
    site = site_of(world, a)
    world.end_process(site)
    world.check_sites()
    replace_disk(world, site, Backup(Volume(), Memory(), frozenset()))


def replace_disk(world: World, site: Site, backup: Backup) -> None:
    """Another disk in the place of the old one."""
    restore_disk(world, site, backup)
    world.start_process(site)


def restore_disk(world: World, site: Site, backup: Backup) -> None:
    """Put the files of a backup back, and what must be on them."""
    site.disk.restore_files(backup.volume)
    site.memory = backup.memory.copy_memory()
    site.memory.since.clear()
    held_elsewhere = frozenset().union(
        *(marks for name, marks in world.history.held.items() if name != site.name)
    )
    for key, decision in site.memory.decisions.items():
        record = decision.record
        marks = marks_in(key[0], record.arm, sums_of_decision(record))
        # A reward that no neighbour was told of is not safe even if it is closed in the copy:
        # another copy, put back before, may have told them something else of its decision.
        is_untold = site.put_back > 0 and bool(marks) and not held_elsewhere & marks
        site.has_untold |= is_untold
        if record.closed is None or is_untold:
            site.memory.copied[key] = record
    site.memory.copied |= dict.fromkeys(site.memory.maybe)
    world.history.held[site.name] = backup.held
    site.set_back = world.history.disks_lost = True
    site.put_back += 1


def twin(world: World, a: int, b: int) -> None:
    """Start a second agent of one name, with a store of its own or on a clone of the disk."""
    site = site_of(world, a)
    if world.has_twin(site) or site.node is None or site.disk.fault or site.disk.failing:
        return
    name = f"{site.agent}~"
    other = Site(
        *(name, site.agent, Disk(world.folder / f"{name}.db"), list(site.neighbours)),
        dict(site.experiments),
        clock=site.clock,
        steady=site.steady,
        silence=site.silence,
    )
    attach_disk(other.disk)
    world.sites[name] = other
    if b % 3 == 0 and world.plan.exchange == "origins":
        world.check_sites()
        marks = world.history.held.get(site.name, frozenset())
        backup = Backup(site.disk.copy_files(), site.memory.copy_memory(), marks)
        restore_disk(world, other, backup)
        # decisions that are open on both disks may be superseded on either
        site.put_back += 1
        site.memory.copied |= other.memory.copied
        site.memory.shared |= own_incarnations(site)
    world.start_process(other)


def own_incarnations(site: Site) -> set[int]:
    """The incarnations that the disk of a running site may write."""
    assert site.node is not None
    states = [each.store.load_exchange() for each in site.node.experiments.values()]
    return {number for state in states if state is not None for number in state["own"]}


def clock(world: World, a: int, b: int) -> None:
    """A clock jumps, by seconds or by years, to either side."""
    site = site_of(world, a)
    seconds = (-1, 1)[b % 2] * (3, 30, 3600, 1e8)[b // 2 % 4]
    site.clock += seconds
    site.closes_late |= seconds < 0


# liars


def tell_lies(world: World, a: int, b: int) -> None:
    """A neighbour with a certificate of its own sends what it likes."""
    near = [site for site in world.sites.values() if LIAR in site.neighbours]
    if near:
        site = near[a % len(near)]
        for payload in make_lies(world, site, b):
            world.deliver_letter(Letter(LIAR, site.name, payload))


_PLAIN: tuple[Callable[[World, int, int], None], ...] = (
    *(applications.decide, applications.settle, applications.pull, applications.again),
    *(applications.unknown, turn),
    *(tick, tick_all, gossip, deliver, deliver_to, drop, replay, shuffle, partition, heal),
    *(mingle, cut),
    *(start, stop, kill, power, bomb, failing, backup, set_back, lose, clock, twin),
    *(operators.link, operators.unlink, operators.arms, operators.experiments, operators.rename),
    *(operators.control, operators.silence, epoch),
    *(lives.ask, lives.activate, lives.cancel, lives.erase, lives.moment, lives.measure),
)
# a schedule names a step by the name of its function
STEPS = {function.__name__: function for function in _PLAIN} | {
    "repeat": repeat_message,
    "lie": tell_lies,
}


def play_step(world: World, step: str, a: int, b: int) -> None:
    """Play one step of a schedule, then check all sites."""
    STEPS[step](world, a, b)
    world.check_sites()
