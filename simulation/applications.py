"""What applications do: they decide, reward, repeat, contradict."""

from __future__ import annotations

from posse.live.store import Conflict, LateReward, RewardOutcome, Unknown, VoidReward
from simulation.bits import MOST_BITS, reward_of
from simulation.history import Key, Violation
from simulation.looking import is_void
from simulation.world import Site, World

ALLOWED = (["red"], ["red", "blue"], None, None)


def site_of(world: World, number: int) -> Site:
    """The site that a number means."""
    sites = list(world.sites.values())
    return sites[number % len(sites)]


def experiment_of(site: Site, number: int) -> str:
    """The experiment that a number means."""
    names = list(site.experiments)
    return names[number // 7 % len(names)]


def decide(world: World, a: int, b: int) -> None:
    """Ask what to play, perhaps of some arms only."""
    site = site_of(world, a)
    allowed = ALLOWED[b % len(ALLOWED)]
    name = experiment_of(site, b)
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
    if isinstance(got, RewardOutcome | ValueError):
        first(world, site, key, reward, got)


def first(world: World, site: Site, key: Key, reward: float, got: object) -> None:
    """The first reward of an open decision is new, unless a disk set back made it void."""
    assert site.node is not None
    record = site.memory.decisions[key].record
    void = is_void(site, site.node.experiment(key[0]), key, record)
    if not (isinstance(got, VoidReward) if void else got is RewardOutcome.NEW):
        raise Violation(f"{site.name} answered {got!r} to the first reward of {record}")
    if not void:
        world.settled(site, key, reward)


def pull(world: World, a: int, b: int) -> None:
    """Decide and reward, some times."""
    site = site_of(world, a)
    for _ in range(1 + b % 3):
        key = world.new_key(site, experiment_of(site, b))
        world.decide(site, key)
        if site.node is not None and key in site.memory.decisions:
            give(world, site, key)


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
        if isinstance(got, RewardOutcome | ValueError) and got is not RewardOutcome.REPEATED:
            raise Violation(f"{site.name} answered {got!r} to a repeated reward of {known}")
    if not world.runs(site):
        return
    got = world.reward(site, key, 12345.0)
    wanted = (VoidReward if known.void else LateReward) if known.silent else Conflict
    if isinstance(got, RewardOutcome | ValueError) and type(got) is not wanted:
        raise Violation(f"{site.name} answered {got!r} to another reward of {known}")


def unknown(world: World, a: int, b: int) -> None:
    """Reward what was never decided, or what a disk has forgotten."""
    site = site_of(world, a)
    if site.node is not None:
        name = list(site.node.experiments)[b % len(site.node.experiments)]
        got = world.reward(site, (name, f"nobody{b}"), 1.0)
        if isinstance(got, RewardOutcome | ValueError) and not isinstance(got, Unknown):
            raise Violation(f"{site.name} answered {got!r} to a reward of no decision")
