"""Checks of running agents: what their disks remember, and which rewards they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from posse.live.exchange.own_incarnations import UNTOLD
from posse.live.experiment.experiment import LiveExperiment
from posse.live.store import DecisionRecord
from simulation.bits import (
    CLOSED,
    ImpossibleSum,
    Sums,
    drop_signs,
    marks_in,
    marks_of,
    sums_of_decision,
)
from simulation.history import Expiry, GivenReward, Key, KnownDecision, Violation

if TYPE_CHECKING:
    from simulation.world import Site, World


def compare_disk(world: World, site: Site, complete: bool = False) -> None:
    """See that the disk of a running site holds what was acknowledged, and nothing else."""
    assert site.node is not None
    memory = site.memory
    after = {}
    running = site.node.experiments
    for key in [*memory.decisions, *(k for k in memory.maybe if k not in memory.decisions)]:
        decision = memory.decisions.get(key)
        if key[0] not in running:
            unsure = decision and memory.power_failed and not decision.flushed
            after[key] = replace(decision, doubtful=True) if decision and unsure else decision
            continue
        record = running[key[0]].store.find_decision(key[1])
        due = any(isinstance(each, Expiry) for each in memory.maybe.get(key, ()))
        if complete and due and record and record.closed is None:
            raise Violation(f"{site.name} left {record} open when its window closed")
        after[key] = _check_record(world, site, key, decision, record)
    memory.decisions = {key: decision for key, decision in after.items() if decision is not None}
    memory.maybe = {k: outcomes for k, outcomes in memory.maybe.items() if k[0] not in running}
    check_whole(site)
    for name in running.keys() & memory.controls.keys():
        present = running[name].controls.network_record
        if present is None or present.rank < memory.controls[name]:
            raise Violation(f"{site.name} forgot what is pinned and paused")
    for each in running.values():
        audit = each.audit()  # another future of this agent may have counted what this one has not
        if audit is not None and not site.put_back and audit.counted != audit.in_evidence:
            raise Violation(f"{site.name} has an audit that does not balance: {audit}")
    site.memory.power_failed = False


def _check_record(
    world: World,
    site: Site,
    key: Key,
    decision: KnownDecision | None,
    record: DecisionRecord | None,
) -> KnownDecision | None:
    maybe = site.memory.maybe.get(key)
    copied = site.memory.copied
    in_copy = key in copied and copied[key] is None  # what came of it is in the copy
    if in_copy:
        copied[key] = record
    if decision is None:
        assert maybe is not None
        if record is None:
            return None
        world.history.note_acknowledged(key, record)
        return KnownDecision(record, made=site.steady)
    if record is None:
        open_ = decision.record.settled is None
        if open_ and (decision.doubtful or (site.memory.power_failed and not decision.flushed)):
            return None
        last = decision.record
        for outcome in maybe or ():  # closed and deleted in the same tick
            if isinstance(outcome, Expiry):
                last = apply_outcome(world, site, key, last, outcome, site.clock)
        if is_old(world, site, decision) and last.closed is not None:
            world.history.note_acknowledged(key, last)
            site.memory.forget_decision(key, last)
            return None
        raise Violation(f"{site.name} forgot {decision.record}")
    if record == decision.record:
        return replace(decision, doubtful=False)
    for outcome in maybe or ():
        at = record.closed if isinstance(outcome, Expiry) else record.settled
        if at is not None and record == apply_outcome(
            world, site, key, decision.record, outcome, at
        ):
            world.history.note_acknowledged(key, record)
            if isinstance(outcome, GivenReward) and not in_copy:
                site.memory.since.add(key)
            return KnownDecision(record, flushed=True, made=decision.made)
    raise Violation(f"{site.name} has {record} for {decision.record}")


def apply_outcome(
    world: World,
    site: Site,
    key: Key,
    record: DecisionRecord,
    outcome: GivenReward | Expiry,
    at: float,
) -> DecisionRecord:
    """A decision after its reward, or after its window closed."""
    if isinstance(outcome, GivenReward):
        closed = at if outcome.final else None
        return replace(record, reward=outcome.reward, settled=at, closed=closed)
    assert site.node is not None
    void = is_void(site, site.node.experiment(key[0]), key, record)
    if record.settled is None:
        silent = outcome.default if record.assumed is None else record.assumed
        reward = None if void else silent
        record = replace(record, reward=reward, settled=at, silent=True)
    return replace(record, closed=at, void=void)


def is_old(world: World, site: Site, decision: KnownDecision) -> bool:
    """Whether a decision may be deleted: so much time has gone by, whatever clocks say.

    One from before the start, of which only times are known, also if the newest was so much
    later.
    """
    remember = world.plan.remember
    if remember is None:
        return False
    latest = site.newest + site.steady - site.started
    older = decision.made <= site.started and decision.record.time <= latest - remember
    return decision.made <= site.steady - remember or older


def check_sites(world: World) -> None:
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
        held_marks = {mark for mark in before if mark[0] not in running}
        for name, experiment in running.items():
            evidence = experiment.evidence()
            closed = experiment.agent.can_count_open
            own_sums = drop_signs(evidence["own"], closed)
            if world.plan.exchange == "flows" or not (site.put_back or world.history.untold):
                here = site.memory.sum_by_arm(name)
                if own_sums != here:
                    raise Violation(f"{site.name} counts {own_sums} of its own, and not {here}")
            if world.plan.exchange == "flows":
                held_marks |= marks_at(world, site, name, own_sums)
                continue
            if site.put_back:
                missing = site.memory.marks_of_rewards((name,)) - marks_at(
                    world, site, name, own_sums
                )
                if missing := missing - world.history.excused:
                    raise Violation(f"{site.name} has rewards on disk only: {sorted(missing)}")
            if not world.strict and folded_twice(experiment.agent.exchange):
                held_marks |= {mark for mark in before if mark[0] == name}
                continue
            marks = marks_at(world, site, name, drop_signs(evidence["held"], closed))
            if world.history.disks_lost and not world.strict and marks - world.history.given:
                # both futures of a disk closed one decision: twice a reward looks like another
                marks = frozenset(mark for mark in before if mark[0] == name)
            held_marks |= marks
        world.history.note_held(site.name, frozenset(held_marks), site.set_back)
        site.set_back = False


def is_void(site: Site, experiment: LiveExperiment, key: Key, record: DecisionRecord) -> bool:
    """Whether a decision is void: not final in a copy that was put back, and a neighbour said so.

    Only such a decision may be, for others are of a past that nobody forgot.
    """
    if not 0 < experiment.agent.exchange.void_through >= record.made:
        return False
    # numbers of incarnations rise with time, unless a clock goes back
    may_be = key in site.memory.copied or record.time <= site.put_back_at or site.jumped
    if not (site.put_back and may_be):
        raise Violation(f"{site.name} has {record} for void, which no copy had open")
    return True


def excuse_void(world: World) -> None:
    """What decisions that became void had added since their disk was set back is taken back."""
    for site in world.sites.values():
        running = {} if site.node is None else site.node.experiments
        memory = site.memory
        for key in memory.since | memory.copied.keys() if site.put_back else ():
            decision = memory.decisions.get(key)
            record = decision.record if decision else memory.copied.get(key)
            if record is None or key[0] not in running or not record.reward:
                continue
            if is_void(site, running[key[0]], key, record):
                marks = marks_in(key[0], record.arm, sums_of_decision(record))
                final = {mark for mark in marks if mark[2] >= CLOSED}
                world.history.excused |= marks if key in site.memory.since else final
                if key in site.memory.since and site.put_back == 1 and not site.jumped:
                    world.history.void |= marks - final


def marks_at(world: World, site: Site, experiment: str, ledger: dict[str, Sums]) -> frozenset[Any]:
    """The rewards in a ledger of a site."""
    # a disk that was set back may have been given rewards again, until it hears of the first
    twice = world.history.disks_lost and not world.strict
    try:
        return marks_of(experiment, ledger, twice)
    except ImpossibleSum as error:
        raise Violation(f"{site.name}: {error}") from error


def check_whole(site: Site) -> None:
    """See that of each commit in which a process ended all is there or nothing."""
    memory = site.memory
    undecided = []
    assert site.node is not None
    running = site.node.experiments
    for parts in memory.turns:
        if any(key[0] not in running for key, _ in parts):
            undecided.append(parts)
            continue
        present = set()
        for key, reward in parts:
            record = memory.decisions[key].record if key in memory.decisions else None
            present.add(record is not None and reward in (None, record.reward))
        if len(present) > 1:
            raise Violation(f"{site.name} kept some of one commit: {parts}")
    memory.turns = undecided


def folded_twice(exchange: Any) -> bool:
    """Whether two entries of one origin absorbed the same, and the origin has not said so yet.

    Its disk was set back, and with it the only neighbour that could have told it what it had
    folded before; others count twice what is in both until the origin hears of the first.
    """
    for origin in exchange._books.origins():
        absorbed = exchange._books.absorbed(origin)
        if any(absorbed.holds(each.incarnation) for each in exchange._books.of(origin)):
            return True  # more of an absorbed one, which counts when the origin has added it
        incarnations: set[int] = set()
        for entry in exchange._books.of(origin):
            folded = {incarnation for incarnation, _ in entry.folded}
            below = {each for each in incarnations if each < entry.floor}
            if incarnations & folded or below:
                return True
            incarnations |= folded
    return False
