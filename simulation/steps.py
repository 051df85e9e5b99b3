"""The steps of schedules: what applications, networks, machines, operators and liars do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from posse.live.store import Conflict, Outcome, StoreError, Unknown
from simulation.agents import LIAR
from simulation.bits import MOST_BITS, reward_of
from simulation.disk import Volume
from simulation.freeze import Frozen
from simulation.history import Key, Memory, Violation
from simulation.liar import lie
from simulation.post import Letter
from simulation.world import Backup, Site, Snapshot, World

ALLOWED = (["red"], ["red", "blue"], None, None)


def site_of(world: World, number: int) -> Site:
    """The site that a number means."""
    sites = list(world.sites.values())
    return sites[number % len(sites)]


def experiment_of(site: Site, number: int) -> str:
    """The experiment that a number means."""
    names = list(site.experiments)
    return names[number // 7 % len(names)]


# applications


def decide(world: World, a: int, b: int) -> None:
    """Ask what to play, perhaps of some arms only."""
    site = site_of(world, a)
    allowed, name = ALLOWED[b % len(ALLOWED)], experiment_of(site, b)
    if allowed is not None and not set(allowed) <= set(site.experiments[name]):
        allowed = None
    world.decide(site, world.new_key(site, name), allowed)


def settle(world: World, a: int, b: int) -> None:
    """Reward a decision that is open."""
    site = site_of(world, a)
    if site.node is None:
        return
    known = site.memory.decisions.items()
    here = [(key, each) for key, each in known if key[0] in site.node.experiments]
    if open_ := [key for key, each in here if each.record.settled is None]:
        give(world, site, open_[b % len(open_)])


def give(world: World, site: Site, key: Key) -> None:
    """Give an open decision a reward that nobody gave before; it must be new."""
    arm = site.memory.decisions[key].record.arm
    if world.history.bits.get((key[0], arm), 0) >= MOST_BITS:
        return
    reward = reward_of(world.history.next_bit(key[0], arm))
    got = world.reward(site, key, reward)
    if got is Outcome.NEW:
        world.settled(site, key, reward)
    elif isinstance(got, Outcome | ValueError):
        raise Violation(f"{site.name} answered {got!r} to the first reward of {key}")


def pull(world: World, a: int, b: int) -> None:
    """Decide and reward, some times."""
    site = site_of(world, a)
    for _ in range(1 + b % 3):
        key = world.new_key(site, experiment_of(site, b))
        world.decide(site, key)
        if site.node is not None and key in site.memory.decisions:
            give(world, site, key)


def batch(world: World, a: int, b: int) -> None:
    """Many rewards and decisions in one commit: all of them, or none."""
    for _ in range(1 + b % 4):
        decide(world, a, 3)
    settle(world, a, b)


def again(world: World, a: int, b: int) -> None:
    """Repeat what was asked before, or contradict it."""
    site = site_of(world, a)
    if site.node is None or not site.memory.decisions:
        return
    keys = list(site.memory.decisions)
    repeat(world, site, keys[b % len(keys)])


def repeat(world: World, site: Site, key: Key) -> None:
    """Every acknowledged request may be repeated, and another reward is a conflict."""
    known = site.memory.decisions[key].record
    world.decide(site, key)
    if site.node is None or known.settled is None or key[0] not in site.node.experiments:
        return
    if known.reward is not None:
        got = world.reward(site, key, known.reward)
        if isinstance(got, Outcome | ValueError) and got is not Outcome.REPEATED:
            raise Violation(f"{site.name} answered {got!r} to a repeated reward of {known}")
    if not world.runs(site):
        return
    got = world.reward(site, key, 12345.0)
    if isinstance(got, Outcome | ValueError) and not isinstance(got, Conflict):
        raise Violation(f"{site.name} answered {got!r} to another reward of {known}")


def unknown(world: World, a: int, b: int) -> None:
    """Reward what was never decided, or what a disk has forgotten."""
    site = site_of(world, a)
    if site.node is not None:
        name = list(site.node.experiments)[b % len(site.node.experiments)]
        got = world.reward(site, (name, f"nobody{b}"), 1.0)
        if isinstance(got, Outcome | ValueError) and not isinstance(got, Unknown):
            raise Violation(f"{site.name} answered {got!r} to a reward of no decision")


# the network


def tick(world: World, a: int, b: int) -> None:
    """One round of upkeep at one site."""
    world.tick(site_of(world, a))


def tick_all(world: World, a: int, b: int) -> None:
    """One round of upkeep at all."""
    for site in world.sites.values():
        world.tick(site)


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
    world.deliver(world.post.take(a if b % 2 else 0))


def deliver_to(world: World, a: int, b: int) -> None:
    """Deliver all that waits for one site."""
    name = site_of(world, a).name
    for letter in [each for each in world.post.waiting if each.receiver == name]:
        world.post.waiting.remove(letter)
        world.deliver(letter)


def drop(world: World, a: int, b: int) -> None:
    """Lose messages."""
    for _ in range(1 + b % 5):
        if world.post.waiting:
            world.post.waiting.pop(a % len(world.post.waiting))


def repeat_message(world: World, a: int, b: int) -> None:
    """Deliver a message that will come again."""
    world.deliver(world.post.take(a, repeat=True))


def replay(world: World, a: int, b: int) -> None:
    """Deliver a message that was delivered long ago."""
    if world.post.seen:
        world.deliver(world.post.seen[a % len(world.post.seen)])


def shuffle(world: World, a: int, b: int) -> None:
    """Reorder all that is under way."""
    world.random.shuffle(world.post.waiting)


def partition(world: World, a: int, b: int) -> None:
    """Cut the network in two."""
    world.post.groups = {name: a >> i & 1 for i, name in enumerate(world.sites)}


def cut(world: World, a: int, b: int) -> None:
    """Cut one site off."""
    world.post.groups = {site_of(world, a).name: 1}


def heal(world: World, a: int, b: int) -> None:
    """End a partition."""
    world.post.groups = {}


# machines


def start(world: World, a: int, b: int) -> None:
    """Start the processes that are down, or one of them."""
    for site in [site_of(world, a)] if b % 2 else list(world.sites.values()):
        world.start(site)


def stop(world: World, a: int, b: int) -> None:
    """Stop a process, and start it again at once or not."""
    world.stop(site_of(world, a))
    if b % 2:
        world.start(site_of(world, a))


def kill(world: World, a: int, b: int) -> None:
    """Kill a process that does nothing."""
    world.end(site_of(world, a))
    if b % 2:
        world.start(site_of(world, a))


def power(world: World, a: int, b: int) -> None:
    """The power fails: what was not synced is gone."""
    world.end(site_of(world, a), power=True)
    if b % 2:
        world.start(site_of(world, a))


def bomb(world: World, a: int, b: int) -> None:
    """The process ends at one of its next statements, commits or messages."""
    fault = ("kill", "kill", "power", "torn")[b % 4]
    site_of(world, a).disk.wait_for(fault, b // 4 % 30)


def failing(world: World, a: int, b: int) -> None:
    """After some more events the disk is full, or fails to sync, for some writes."""
    site_of(world, a).disk.wait_for(str(1 + b % 3), b // 3 % 12)


def backup(world: World, a: int, b: int) -> None:
    """Copy a volume while the agent runs, or at rest."""
    site = site_of(world, a)
    if b % 3 == 0:
        world.stop(site)
    held = world.history.held.get(site.name, frozenset())
    site.backups.append(Backup(site.disk.copy(), site.memory.copy(), held))
    if b % 2:
        world.start(site)


def snapshot(world: World, a: int, b: int) -> None:
    """Set a machine aside, with its memory, when its neighbours hold what it observed.

    What it observed in the ticks before can count twice, or not, when the memory is put back.
    """
    site = site_of(world, a)
    mingle(world, a, b)
    if site.node is not None and settled_at(site):
        held = world.history.held.get(site.name, frozenset())
        backup = Backup(site.disk.copy(), site.memory.copy(), held)
        site.snapshots.append(Snapshot(backup, Frozen(site.node), site.clock))


def settled_at(site: Site) -> bool:
    """Whether all neighbours hold what a running site has."""
    assert site.node is not None
    for experiment in site.node.experiments.values():
        for name, status in experiment.neighbours().items():
            if name != LIAR and status.active and status.lag != 0:
                return False
    return True


def rewind(world: World, a: int, b: int) -> None:
    """Put a machine back, with its memory: its process goes on as if nothing had happened.

    What both futures observe may be lost, and nothing else.
    """
    site = site_of(world, a)
    if site.snapshots:
        world.end(site)
        world.look()
        put_back = site.snapshots[b // 2 % len(site.snapshots)]
        before = site.memory.marks(world.plan.experiments)
        restore_disk(world, site, put_back.backup)
        world.history.excused |= before - site.memory.marks(world.plan.experiments)
        site.node, site.rewound = put_back.frozen.thaw(site.disk), True
        site.clock = put_back.clock if b % 2 else site.clock


def set_back(world: World, a: int, b: int) -> None:
    """Put an old copy of a volume back."""
    site = site_of(world, a)
    if site.backups:
        world.end(site) if b % 2 else world.stop(site)
        world.look()
        replace_disk(world, site, site.backups[b // 2 % len(site.backups)])


def lose(world: World, a: int, b: int) -> None:
    """Lose a disk; the agent starts again with an empty one."""
    site = site_of(world, a)
    world.end(site)
    world.look()
    replace_disk(world, site, Backup(Volume(), Memory(), frozenset()))


def replace_disk(world: World, site: Site, backup: Backup) -> None:
    """Another disk in the place of the old one."""
    restore_disk(world, site, backup)
    world.start(site)


def restore_disk(world: World, site: Site, backup: Backup) -> None:
    """Put the files of a backup back, and what must be on them."""
    site.disk.put_back(backup.volume)
    site.memory = backup.memory.copy()
    world.history.held[site.name] = backup.held
    site.set_back = world.history.disks_lost = True


def clock(world: World, a: int, b: int) -> None:
    """A clock jumps, by seconds or by years, to either side."""
    site = site_of(world, a)
    site.clock += (-1, 1)[b % 2] * (3, 30, 3600, 1e8)[b // 2 % 4]


# operators


def link(world: World, a: int, b: int) -> None:
    """Make two agents neighbours, at one end or at both."""
    one, other = site_of(world, a), site_of(world, b)
    if one is not other:
        connect(world, one, other.name, b)
        if b % 3:
            connect(world, other, one.name, b)


def connect(world: World, site: Site, name: str, b: int) -> None:
    """Add a neighbour."""
    if name not in site.neighbours:
        site.neighbours.append(name)
        change(world, site, b)


def unlink(world: World, a: int, b: int) -> None:
    """Remove a neighbour at one end."""
    site = site_of(world, a)
    if site.neighbours:
        site.neighbours.pop(b % len(site.neighbours))
        change(world, site, b)


def arms(world: World, a: int, b: int) -> None:
    """Add an arm, or remove one."""
    site = site_of(world, a)
    experiment = experiment_of(site, b)
    before = site.experiments[experiment]
    arm = ("red", "green", "blue", "grey", "black")[b % 5]
    if arm not in before:
        site.experiments[experiment] = (*before, arm)
    elif len(before) > 1:
        site.experiments[experiment] = tuple(each for each in before if each != arm)
    change(world, site, b)


def experiments(world: World, a: int, b: int) -> None:
    """Add an experiment, or remove one; what it knew must be there when it comes back."""
    site = site_of(world, a)
    name = world.plan.experiments[b % len(world.plan.experiments)]
    if name not in site.experiments:
        site.experiments[name] = world.plan.arms
    elif len(site.experiments) > 1:
        del site.experiments[name]
    change(world, site, b)


def change(world: World, site: Site, b: int) -> None:
    """Let a running process take in its new settings, by reload or by restart."""
    if site.node is None:
        return
    if b // 5 % 3:
        node, settings = site.node, world.settings(site)
        got = world.attempt(site, lambda: node.reload(settings))
        site.stale = isinstance(got, StoreError)
        if site.node is not None:
            world.hurry(site, node)
            world.compare(site)
    else:
        world.stop(site)
        world.start(site)


def rename(world: World, a: int, b: int) -> None:
    """Start a store under another name: it must be refused, with nothing changed."""
    site = site_of(world, a)
    world.stop(site)
    if site.node is not None or site.disk.fault or site.disk.failing or not site.memory.decisions:
        return
    with contextlib.suppress(ValueError):
        world.make(site, world.settings(site, "renamed"))
        raise Violation(f"the store of {site.name} was taken by another name")


def tell_lies(world: World, a: int, b: int) -> None:
    """A neighbour with a certificate of its own sends what it likes."""
    near = [site for site in world.sites.values() if LIAR in site.neighbours]
    if near:
        site = near[a % len(near)]
        for payload in lie(world, site, b):
            world.deliver(Letter(LIAR, site.name, payload))


_PLAIN: tuple[Callable[[World, int, int], None], ...] = (
    *(decide, settle, pull, batch, again, unknown),
    *(tick, tick_all, gossip, deliver, deliver_to, drop, replay, shuffle, partition, heal),
    *(mingle, cut),
    *(start, stop, kill, power, bomb, failing, backup, set_back, lose, clock, snapshot, rewind),
    *(link, unlink, arms, experiments, rename),
)
STEPS = {each.__name__: each for each in _PLAIN} | {"repeat": repeat_message, "lie": tell_lies}


def play(world: World, what: str, a: int, b: int) -> None:
    """Do one step, and look at what came of it."""
    STEPS[what](world, a, b)
    world.look()
