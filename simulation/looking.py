"""What is seen of agents: what their disks remember, and which rewards they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from posse.live.exchange.own import UNTOLD
from posse.live.experiment import Experiment
from posse.live.store import DecisionRecord
from simulation.bits import Garbled, bit_of, marks_of
from simulation.history import Key, Known, Violation, same

if TYPE_CHECKING:
    from simulation.world import Site, World


def compare(world: World, site: Site, done: bool = False) -> None:
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
        after[key] = _remembered(world, site, key, known, found)
    memory.decisions = {key: known for key, known in after.items() if known is not None}
    memory.maybe = {k: what for k, what in memory.maybe.items() if k[0] not in running}
    check_whole(site)
    for name in running.keys() & memory.controls.keys():
        held = running[name].controls._held
        if held is None or held.rank < memory.controls[name]:
            raise Violation(f"{site.name} forgot what is pinned and paused")
    site.memory.power_failed = False


def _remembered(
    world: World, site: Site, key: Key, known: Known | None, found: DecisionRecord | None
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
        if is_old(world, site, known) and (closed or not open_):
            if known.record.reward:
                mark = key[0], known.record.arm, bit_of(known.record.reward)
                site.memory.forgotten |= {mark}
            return None
        raise Violation(f"{site.name} forgot {known.record}")
    if same(found, known.record):
        return replace(known, doubtful=False)
    for reward in maybe or ():
        if reward is None:
            default = None if found.void else world.plan.default_reward
            settled = found.settled
            expected = replace(known.record, reward=default, settled=settled, silent=True)
        else:
            expected = replace(known.record, reward=reward, settled=found.settled)
        if same(found, expected) and known.record.settled is None and found.settled is not None:
            if reward is not None:
                world.history.acknowledged.add((key[0], found.arm, bit_of(reward)))
                site.memory.since.add(key)
            return Known(found, flushed=True, made=known.made)
    raise Violation(f"{site.name} has {found} for {known.record}")


def is_old(world: World, site: Site, known: Known) -> bool:
    """Whether a decision may be deleted: so much time has gone by, whatever clocks say.

    One from before the start, of which only times are known, also if the newest was so much
    later.
    """
    remember = world.plan.remember
    if remember is None:
        return False
    latest = site.newest + site.steady - site.started
    older = known.made <= site.started and known.record.time <= latest - remember
    return known.made <= site.steady - remember or older


def look(world: World) -> None:
    """See what every running site holds."""
    running_now = [site.node for site in world.sites.values() if site.node is not None]
    experiments = [each for node in running_now for each in node.experiments.values()]
    if any(each.agent.exchange.refusals[UNTOLD] for each in experiments):
        world.history.untold = True
        world.history.excused |= world.history.acknowledged
    excuse_void(world)
    if world.plan.half_life is not None:  # a sum that fades does not tell what is in it
        return
    for site in world.sites.values():
        if site.node is None:
            continue
        running = site.node.experiments
        before = world.history.held.get(site.name, frozenset())
        held = {mark for mark in before if mark[0] not in running}
        for name, experiment in running.items():
            evidence = experiment.evidence()
            own = marks_at(site, name, evidence["own"])[0]
            here = site.memory.marks((name,))
            if world.plan.exchange == "flows":
                if own != here:
                    raise Violation(f"{site.name} counts {differing(own, here)} of its own")
                held |= own
            else:
                if missing := here - own - world.history.excused:
                    raise Violation(f"{site.name} has rewards on disk only: {sorted(missing)}")
                if not world.strict and folded_twice(experiment.agent.exchange):
                    held |= {mark for mark in before if mark[0] == name}
                    continue
                held |= marks_at(site, name, evidence["held"])[0]
        world.history.hold(site.name, frozenset(held), site.set_back)
        site.set_back = False


def is_void(experiment: Experiment, record: DecisionRecord) -> bool:
    """Whether a decision, if it is open, may have been counted by another future of its agent."""
    return 0 < experiment.agent.exchange.void_through >= record.made


def excuse_void(world: World) -> None:
    """What decisions that became void had added since their disk was set back is taken back."""
    for site in world.sites.values():
        running = {} if site.node is None else site.node.experiments
        for key in site.memory.since & site.memory.then:
            known = site.memory.decisions.get(key)
            if known and key[0] in running and is_void(running[key[0]], known.record):
                assert known.record.reward is not None
                bit = bit_of(known.record.reward)
                world.history.excused.add((key[0], known.record.arm, bit))


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
        absorbed = exchange._books.absorbed(origin)
        if any(absorbed.holds(each.incarnation) for each in exchange._books.of(origin)):
            return True  # more of an absorbed one, which counts when the origin has added it
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
