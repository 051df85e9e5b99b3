"""Schedules in which evidence fades: epochs pass between the steps, and what is left is checked.

A sum that fades no longer tells which rewards are in it. So what is seen is that all copies of an
entry are equal, that both ends of every edge are opposite, and that everybody's counts are those of
the decisions on disk, each by its own time.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from posse.live.ledger.half_life import shift_ledger
from posse.live.ledger.sums import PER_UNIT, minus, plus, total
from simulation.agents import LIAR
from simulation.bits import sums_of_decision
from simulation.history import Violation
from simulation.schedule import Plan, plan_of
from simulation.world import World

HALF_LIFE = 500.0  # seconds: no clock comes to be an epoch ahead by the ticks of a schedule
# seconds from tick to tick while an epoch passes: less than a jump
STRIDE = 15.0
EPOCHS = 3  # at most, in one schedule
# a clock that is years ahead at a start is believed (docs/live.md), and what a liar said of an
# epoch is read differently by clocks that differ; of an erased decision nobody knows the weight
LEFT_OUT = "clock", "lie", "erase"


def fading_plan_of(seed: int, exchange: str) -> Plan:
    """The schedule of a seed, with a half-life and epochs that pass."""
    plan = plan_of(seed, exchange)
    draw = random.Random(f"{seed} {exchange} fading")
    steps = [step for step in plan.steps if step[0] not in LEFT_OUT]
    for _ in range(draw.randint(1, EPOCHS)):
        epoch = "epoch", draw.randrange(10_000), draw.randrange(10_000)
        steps.insert(draw.randint(0, len(steps)), epoch)
    return replace(
        plan,
        steps=tuple(steps),
        links=tuple(link for link in plan.links if LIAR not in link),
        remember=None,
        half_life=HALF_LIFE,
        contexts=False,
        measures=False,
    )


def epoch(world: World, a: int, b: int) -> None:
    """A half-life passes for all, with or without messages."""
    if world.plan.half_life is None:
        return
    for _ in range(math.ceil(world.plan.half_life / STRIDE)):
        for site in world.sites.values():
            ticks = site.node is not None  # which is a second by itself
            site.clock += STRIDE - ticks
            site.steady += STRIDE - ticks
            world.tick_site(site)
        if b % 2:
            world.deliver_all()
        else:  # one of two agents of a name may take the other for gone, and compact its evidence
            for site in world.sites.values():
                site.closes_late |= world.has_twin(site)


def judge_fading(world: World, experiment: str) -> None:
    """See that all agree on what is left."""
    exchanges: dict[str, Any] = {}
    for site in world.sites.values():
        assert site.node is not None
        exchanges[site.name] = site.node.experiment(experiment).agent.exchange
    if world.plan.exchange == "origins":
        _judge_copies(exchanges)
    else:
        _judge_edges(exchanges)
    if world.history.disks_lost:
        return
    for site in world.sites.values():
        position = exchanges[site.name]._epochs.position
        own_evidence = exchanges[site.name].own()
        twins = [name for name, other in world.sites.items() if other.agent == site.agent]
        remaining = _remaining_weights(world, twins, experiment, position)
        _compare_weights(f"{site.name} itself", own_evidence, remaining)
        if world.plan.exchange == "origins":
            all_of = _remaining_weights(world, list(world.sites), experiment, position)
            _compare_weights(site.name, exchanges[site.name].evidence(), all_of)


def _judge_copies(exchanges: dict[str, Any]) -> None:
    """Under origins every copy of an entry is the same."""
    (first_name, first), *rest_of_exchanges = exchanges.items()
    for name, exchange in rest_of_exchanges:
        if _list_entries(exchange) != _list_entries(first):
            raise Violation(
                f"{first_name} holds {_list_entries(first)}, and {name} {_list_entries(exchange)}"
            )


def _list_entries(exchange: Any) -> dict[Any, Any]:
    entries = exchange.replica.entries.items()
    return {key: (e.version, e.epoch, e.ledger(), e.covers) for key, e in entries}


def _judge_edges(exchanges: dict[str, Any]) -> None:
    """Under flows what flowed out at one end flowed in at the other, in the same epoch."""
    by_identity = {exchange.identity: exchange for exchange in exchanges.values()}
    last = max(exchange._records.epoch for exchange in by_identity.values())
    observed = []
    levels = []
    flowed = []
    for identity, exchange in by_identity.items():
        passed = last - exchange._records.epoch
        records = exchange.records()
        flows = {peer: shift_ledger(flow, passed) for peer, (_, flow) in records.items()}
        if exchange.level() != minus(exchange._records.own, total(f for _, f in records.values())):
            raise Violation(f"the level of {identity} is not what it observed less what flowed")
        observed.append(shift_ledger(exchange._records.own, passed))
        levels.append(minus(observed[-1], total(flows.values())))
        for peer, flow in flows.items():
            if peer not in by_identity:
                flowed.append(flow)  # to a disk that was lost
                continue
            opposite_end = by_identity[peer]
            version, opposite = opposite_end.records().get(identity, (0, {}))
            back = shift_ledger(opposite, last - opposite_end._records.epoch)
            if records[peer][0] != version or plus(flow, back):
                raise Violation(f"ends of an edge differ: {records[peer][0]} {flow}, {back}")
    if plus(total(levels), total(flowed)) != total(observed):
        raise Violation("levels do not sum up to what was observed")


@dataclass
class Weight:
    """The decisions of an arm that count, and how many: each worth what its time says."""

    worth: float = 0.0
    decisions: int = 0
    superseded: float = 0.0  # the part of `worth` that a twin may have compacted without


def _remaining_weights(
    world: World, names: list[str], experiment: str, position: float
) -> dict[str, Weight]:
    """What is left of the decisions of some sites, by arm."""
    weights: dict[str, Weight] = defaultdict(Weight)
    for name in names:
        site = world.sites[name]
        assert site.node is not None
        exchange = site.node.experiment(experiment).agent.exchange
        for (of, _), decision in site.memory.decisions.items():
            record = decision.record
            if of == experiment and sums_of_decision(record)[3]:
                weight = weights[record.arm]
                worth = 2.0 ** (record.time / HALF_LIFE - position)
                weight.worth += worth
                weight.decisions += 1
                if site.closes_late and world.has_twin(site):
                    weight.superseded += worth * exchange.is_superseded(record.incarnation)
    return weights


def _compare_weights(name: str, evidence: dict[str, Any], weights: dict[str, Weight]) -> None:
    for arm in evidence.keys() | weights.keys():
        count = evidence[arm][-1] / PER_UNIT if arm in evidence else 0.0
        weight = weights.get(arm, Weight())
        # a quantum for each decision that was weighed, and for each halving of a sum
        slack = (4 * weight.decisions + 200) / PER_UNIT
        if not weight.worth - weight.superseded - slack <= count <= weight.worth + slack:
            raise Violation(f"{name} counts {count} of {arm}, and {weight.worth} are left")
