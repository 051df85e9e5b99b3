"""What applications do: they decide, reward, repeat, contradict."""

from __future__ import annotations

from posse.live.store import Conflict, LateReward, RewardOutcome, SupersededReward, Unknown
from simulation.bits import reward_of
from simulation.history import Key, Violation
from simulation.looking import is_superseded
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
    world.request_decision(site, world.new_key(site, name), allowed)


def settle(world: World, a: int, b: int) -> None:
    """Reward a decision that is open."""
    site = site_of(world, a)
    if site.node is None:
        return
    decisions = site.memory.decisions.items()
    here = [
        (key, known_decision)
        for key, known_decision in decisions
        if key[0] in site.node.experiments
    ]
    if open_ := [key for key, known_decision in here if known_decision.record.settled is None]:
        give_first_reward(world, site, open_[b % len(open_)])


def give_first_reward(world: World, site: Site, key: Key) -> None:
    """Give an open decision a reward that nobody gave before; it must be new."""
    arm = site.memory.decisions[key].record.arm
    if not world.has_bits(key[0], arm):
        return
    reward = reward_of(world.history.next_bit(key[0], arm))
    outcome = world.give_reward(site, key, reward)
    if isinstance(outcome, RewardOutcome | ValueError):
        check_first_reward(world, site, key, reward, outcome)


def check_first_reward(world: World, site: Site, key: Key, reward: float, outcome: object) -> None:
    """The first reward of an open decision is new, unless a restored disk superseded it."""
    assert site.node is not None
    record = site.memory.decisions[key].record
    superseded = is_superseded(world, site, site.node.experiment(key[0]), key, record)
    if not (isinstance(outcome, SupersededReward) if superseded else outcome is RewardOutcome.NEW):
        raise Violation(f"{site.name} answered {outcome!r} to the first reward of {record}")
    if not superseded:
        world.note_reward(site, key, reward)


def pull(world: World, a: int, b: int) -> None:
    """Decide and reward, some times."""
    site = site_of(world, a)
    for _ in range(1 + b % 3):
        key = world.new_key(site, experiment_of(site, b))
        world.request_decision(site, key)
        if site.node is not None and key in site.memory.decisions:
            give_first_reward(world, site, key)


def again(world: World, a: int, b: int) -> None:
    """Repeat what was asked before, or contradict it."""
    site = site_of(world, a)
    if site.node is None or not site.memory.decisions:
        return
    keys = list(site.memory.decisions)
    repeat_requests(world, site, keys[b % len(keys)])


def repeat_requests(world: World, site: Site, key: Key) -> None:
    """Every acknowledged request may be repeated, and another reward is a conflict."""
    record = site.memory.decisions[key].record
    world.request_decision(site, key)
    if site.node is None or record.settled is None or key[0] not in site.node.experiments:
        return
    experiment = site.node.experiments[key[0]]
    # rewarded in the rest after a restore, before neighbours were heard: the client is told
    dropped = record.closed is None and is_superseded(world, site, experiment, key, record)
    if record.reward is not None:
        outcome = world.give_reward(site, key, record.reward)
        right = (
            isinstance(outcome, SupersededReward) if dropped else outcome is RewardOutcome.REPEATED
        )
        if isinstance(outcome, RewardOutcome | ValueError) and not right:
            raise Violation(f"{site.name} answered {outcome!r} to a repeated reward of {record}")
    if not world.is_running(site):
        return
    outcome = world.give_reward(site, key, 12345.0)
    late = SupersededReward if record.superseded else LateReward
    too_late = record.silent and not record.cancelled
    expected = SupersededReward if dropped else late if too_late else Conflict
    if isinstance(outcome, RewardOutcome | ValueError) and type(outcome) is not expected:
        raise Violation(f"{site.name} answered {outcome!r} to another reward of {record}")


def unknown(world: World, a: int, b: int) -> None:
    """Reward what was never decided, or what a disk has forgotten."""
    site = site_of(world, a)
    if site.node is not None:
        name = list(site.node.experiments)[b % len(site.node.experiments)]
        outcome = world.give_reward(site, (name, f"nobody{b}"), 1.0)
        if isinstance(outcome, RewardOutcome | ValueError) and not isinstance(outcome, Unknown):
            raise Violation(f"{site.name} answered {outcome!r} to a reward of no decision")
