"""Checks of running agents: what their disks remember, and which rewards they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from posse.live.exchange import Origins
from posse.live.experiment.experiment import LiveExperiment
from posse.live.store import DecisionRecord
from simulation.bits import (
    ImpossibleSum,
    Mark,
    Sums,
    drop_signs,
    marks_in,
    marks_of,
    sums_of_decision,
)
from simulation.history import (
    Activation,
    Cancellation,
    Erasure,
    Expiry,
    GivenReward,
    Key,
    KnownDecision,
    Measurement,
    Outcome,
    Violation,
)

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
            settled = decision and decision.flushed and decision.before is None
            unsure = decision and memory.power_failed and not settled
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
        audit = each.audit()  # another copy of this agent may have counted what this one has not
        alone = not site.put_back and not world.has_twin(site)
        if audit is not None and alone and audit.counted != audit.in_evidence:
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
        if any(isinstance(outcome, Erasure) for outcome in maybe or ()):
            forget_erased(world, site, key, decision.record)
            return None
        open_ = decision.record.settled is None
        if open_ and (decision.doubtful or (site.memory.power_failed and not decision.flushed)):
            return None
        last = decision.record
        for outcome in maybe or ():  # closed and deleted in the same tick
            if isinstance(outcome, Expiry):
                last = apply_outcome(last, outcome, site.clock)
        if is_old(world, site, decision) and last.closed is not None:
            world.history.note_acknowledged(key, last)
            site.memory.forget_decision(key, last, world.most_bits)
            return None
        raise Violation(f"{site.name} forgot {decision.record}")
    if record == decision.record:
        return replace(decision, doubtful=False)
    reverted = site.memory.power_failed or decision.doubtful
    if reverted and decision.before is not None and record == decision.before:
        return replace(decision, record=record, doubtful=False, before=None)
    for outcome in maybe or ():
        at = record.closed if isinstance(outcome, Expiry) else record.settled
        if at is None and not isinstance(outcome, Activation | Measurement):
            continue
        if record == apply_outcome(decision.record, outcome, at or 0.0):
            world.history.note_acknowledged(key, record)
            if isinstance(outcome, GivenReward) and not in_copy:
                site.memory.since.add(key)
            return KnownDecision(record, flushed=True, made=decision.made)
    raise Violation(f"{site.name} has {record} for {decision.record}")


def forget_erased(world: World, site: Site, key: Key, record: DecisionRecord) -> None:
    """A decision was deleted: with a reward it is final first, and without one it never counted."""
    if record.closed is None and record.settled is None:
        record = apply_outcome(record, Cancellation(), site.clock)
    elif record.closed is None:
        assert site.node is not None
        exchange = site.node.experiment(key[0]).agent.exchange
        superseded = exchange.is_superseded(record.incarnation)
        record = replace(record, closed=site.clock, superseded=superseded)
    world.history.note_acknowledged(key, record)
    site.memory.forget_decision(key, record, world.most_bits)


def apply_outcome(record: DecisionRecord, outcome: Outcome, at: float) -> DecisionRecord:
    """A decision after its reward, its activation or cancellation, or after its window closed."""
    if isinstance(outcome, Activation):
        return replace(record, inactive=False, assumed=outcome.assumed)
    if isinstance(outcome, Measurement):
        if record.inactive:
            record = replace(record, inactive=False, assumed=outcome.assumed)
        return replace(record, metrics=outcome.metrics)
    if isinstance(outcome, Cancellation):
        ended = replace(record, assumed=None, log_odds=None, settled=at, silent=True, closed=at)
        return replace(ended, cancelled=True)
    if isinstance(outcome, GivenReward):
        if record.inactive:
            record = replace(record, inactive=False, assumed=outcome.assumed)
        closed = at if outcome.final else None
        return replace(record, reward=outcome.reward, settled=at, closed=closed)
    if isinstance(outcome, Erasure):
        return record
    if record.settled is None:
        silent = outcome.default if record.assumed is None else record.assumed
        reward = None if outcome.superseded or record.inactive else silent
        record = replace(record, reward=reward, settled=at, silent=True)
    return replace(record, closed=at, superseded=outcome.superseded)


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
    excuse_superseded(world)
    if world.plan.half_life is not None:  # a sum that fades does not tell what is in it
        return
    agents = world.restored_agents() | world.compacted_agents()
    may_fall = world.history.marks_of_agents(agents)
    for site in world.sites.values():
        if site.node is None:
            continue
        running = site.node.experiments
        before = world.history.held.get(site.name, frozenset())
        held_marks = {mark for mark in before if mark[0] not in running}
        for name, experiment in running.items():
            held_marks |= _check_evidence(world, site, name, experiment)
        _check_rewards(world, site, held_marks)
        world.history.note_held(site.name, frozenset(held_marks), site.set_back, may_fall)
        site.set_back = False
    if world.plan.exchange == "origins" and not world.history.disks_lost:
        _check_lags(world)


def _check_lags(world: World) -> None:
    """See that a neighbour at a lag of 0 has all evidence: then a disk may be replaced.

    Of two agents of one name nobody knows which one a neighbour heard.
    """
    if len(world.sites) > len(world.plan.names):
        return
    for site in world.sites.values():
        running = {} if site.node is None else site.node.experiments
        for name, experiment in running.items():
            own = experiment.agent.exchange.own()
            for near, status in experiment.neighbours().items():
                other = world.sites[near].node if near in world.sites else None
                if status.lag != 0 or other is None or name not in other.experiments:
                    continue
                told = other.experiments[name].agent.exchange.by_origin().get(site.agent, {})
                if told != own:
                    raise Violation(f"{near} has {told} at a lag of 0, and not {own}")


def _check_evidence(
    world: World, site: Site, name: str, experiment: LiveExperiment
) -> frozenset[Mark]:
    """See that an agent's own evidence is that of its disk; returns the rewards that it holds."""
    evidence = experiment.evidence()
    closed = experiment.agent.can_count_open
    own_sums = drop_signs(evidence["own"], closed)
    own_marks = marks_at(world, site, name, own_sums)
    if world.plan.exchange == "flows" or not (site.put_back or world.has_twin(site)):
        here = site.memory.sum_by_arm(name)
        if own_sums != here:
            raise Violation(f"{site.name} counts {own_sums} of its own, and not {here}")
        cells = site.memory.sum_side_cells(name, world.most_bits)
        counted = experiment.agent.exchange.side_cells(own=True)
        if counted != cells:
            raise Violation(f"{site.name} counts {counted} in side rows, and not {cells}")
    _check_side_counts(site, experiment)
    missing = site.memory.marks_of_rewards((name,)) - own_marks - world.history.excused
    if site.agent in world.compacted_agents():
        world.history.overruled |= missing
    if site.put_back or site.agent in world.compacted_agents():
        missing -= world.history.overruled
    if missing:
        raise Violation(f"{site.name} has rewards on disk only: {sorted(missing)}")
    if world.plan.exchange == "flows":
        return own_marks
    if world.history.disks_lost:
        _note_rest(site, experiment)
    return marks_at(world, site, name, drop_signs(evidence["held"], closed))


def _check_side_counts(site: Site, experiment: LiveExperiment) -> None:
    """See that no more closed decisions are on the bandit's side than are closed, with any disk."""
    exchange = experiment.agent.exchange
    cells = exchange.side_cells().items()
    bandit = [cell for name, cell in cells if name[1].startswith("bandit ")]
    if not bandit:  # under flows a level may be below nothing
        return
    closed = drop_signs(exchange.evidence(), closed=True).values()
    if sum(cell[2] for cell in bandit) > sum(row[2] for row in closed):
        raise Violation(f"{site.name} has more decisions on the bandit's side than closed ones")


def _note_rest(site: Site, experiment: LiveExperiment) -> None:
    """Note whether a restored agent went on although a neighbour had not answered."""
    exchange = experiment.agent.exchange
    assert isinstance(exchange, Origins)
    site.went_on_alone |= bool(site.put_back) and exchange.rested_alone


def _check_rewards(world: World, site: Site, marks: set[Mark]) -> None:
    """See that of the rewards that one decision got in several copies of a disk one counts."""
    if world.plan.exchange == "flows" or not world.history.disks_lost:
        return
    for key, rewards in world.history.rewards.items():
        if len(rewards) > 1 and len(rewards & marks) > 1:
            raise Violation(f"{site.name} counts {key} twice: {sorted(rewards & marks)}")


def is_superseded(
    world: World, site: Site, experiment: LiveExperiment, key: Key, record: DecisionRecord
) -> bool:
    """Whether a decision is superseded: it was open in a copy of the disk that was restored.

    Without a window those of many restarts ago are as well. Where two agents have one name, so are
    those of one whose windows were open for longer than the other waited before it compacted, and,
    on two copies of a disk, those of a process that went on after the copy was made.
    """
    if record.closed is not None:
        return record.superseded
    if not experiment.agent.exchange.is_superseded(record.incarnation):
        return False
    restored = site.put_back and key in site.memory.copied
    many_starts = world.plan.eager and None in (world.plan.window, *dict(world.plan.silences))
    shared = record.incarnation in site.memory.shared
    if not (restored or shared or many_starts or (world.has_twin(site) and site.closes_late)):
        raise Violation(f"{site.name} has {record} for superseded, which no copy had open")
    return True


def excuse_superseded(world: World) -> None:
    """Excuse the rewards of decisions that were superseded after they had been acknowledged."""
    for site in world.sites.values():
        running = {} if site.node is None else site.node.experiments
        memory = site.memory
        if not (site.put_back or world.has_twin(site)):
            continue
        shared = {k for k, d in memory.decisions.items() if d.record.incarnation in memory.shared}
        for key in memory.since | memory.copied.keys() | shared:
            decision = memory.decisions.get(key)
            record = decision.record if decision else memory.copied.get(key)
            if record is None or key[0] not in running or not record.reward:
                continue
            # also if its window closed while its evidence waited for the rest to end
            exchange = running[key[0]].agent.exchange
            if exchange.is_superseded(record.incarnation):
                world.history.excused |= marks_in(
                    key[0], record.arm, sums_of_decision(replace(record, superseded=False))
                )


def marks_at(world: World, site: Site, experiment: str, ledger: dict[str, Sums]) -> frozenset[Mark]:
    """The rewards in a ledger of a site."""
    try:
        return marks_of(experiment, ledger, world.most_bits)
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
