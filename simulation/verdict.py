"""The verdict: what must hold when all is healed and every message has arrived."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from posse.live.exchange.evidence_sums import minus, plus, total
from posse.live.exchange.evidence_sums import PER_UNIT
from simulation import disk as disks
from simulation.agents import LIAR, fold_early
from simulation.applications import repeat_requests
from simulation.bits import Mark, Sums, drop_signs, sums_of_decision
from simulation.fading import judge_fading
from simulation.history import Violation
from simulation.looking import is_void, marks_at
from simulation.schedule import Plan
from simulation.steps import play_step
from simulation.world import World, make_folder, remove_folder

MOST_ROUNDS = 60


def run_plan(plan: Plan) -> str | None:
    """Play a schedule; return None, or the promise that was broken."""
    with open_folder() as path, fold_early(plan.eager, plan.floors):
        disks.install_disks()
        world = World(plan, path)
        try:
            for number, step in enumerate(plan.steps):
                try:
                    play_step(world, *step)
                except Violation as violation:
                    return f"step {number} {step}: {violation}"
            try:
                end_faults(world)
                wait_for_rest(world)
                judge_world(world)
                judge_restart(world)
            except Violation as violation:
                return f"at rest: {violation}"
            return None
        finally:
            world.close()


@contextlib.contextmanager
def open_folder() -> Iterator[Any]:
    """Yield a folder for one run."""
    path = make_folder()
    try:
        yield path
    finally:
        remove_folder(path)


def end_faults(world: World) -> None:
    """End all faults: disks work, links are there at both ends, every process runs."""
    world.post.groups = {}
    for site in world.sites.values():
        site.disk.fault = ""
        site.disk.failing = 0
        near = [b if a == site.name else a for a, b in world.plan.links if site.name in (a, b)]
        added = set(world.plan.experiments) - set(site.experiments)
        if set(near) != set(site.neighbours) or added or site.stale:
            site.neighbours = near
            site.experiments |= dict.fromkeys(added, world.plan.arms)
            world.stop_process(site)
        world.start_process(site)
        if site.node is None:
            raise Violation(f"{site.name} does not start on a disk that works")
    world.check_sites()


def wait_for_rest(world: World) -> None:
    """Let all messages arrive until nothing is lacking, and some rounds more."""
    # one put back with its memory knows of what it was told then, and must first be contradicted
    least = 15 if any(what == "rewind" for what, _, _ in world.plan.steps) else 3
    rounds = least
    for _ in range(MOST_ROUNDS):
        for site in world.sites.values():
            world.tick_site(site)
        world.deliver_all()
        if not at_rest(world):
            rounds = least
        elif not rounds:
            break
        rounds -= 1
    world.check_sites()


def at_rest(world: World) -> bool:
    """Whether no neighbour lacks anything, as far as agents know.

    Of a liar that said two things under one number some keep the one and some the other.
    """
    if not controls_agree(world):
        return False
    lies = world.plan.exchange == "origins" and any(LIAR in link for link in world.plan.links)
    if lies:
        return len({str(site_ledgers(world, name)) for name in world.sites}) == 1
    for site in world.sites.values():
        assert site.node is not None
        for experiment in site.node.experiments.values():
            for name, status in experiment.neighbours().items():
                if name != LIAR and status.active and status.lag != 0:
                    return False
    return not world.post.waiting


def controls_agree(world: World) -> bool:
    """Whether the same arms are pinned and paused at all agents."""
    for name in world.plan.experiments if world.plan.operators else ():
        nodes = [site.node for site in world.sites.values() if site.node is not None]
        all_controls = [
            node.experiment(name).controls.describe_status(world.plan.arms)["network"]
            for node in nodes
        ]
        if any(controls != all_controls[0] for controls in all_controls):
            return False
    return True


def site_ledgers(world: World, name: str) -> list[object]:
    """What a site holds, without a liar's own rewards."""
    node = world.sites[name].node
    assert node is not None
    return [
        sorted(
            (arm, v)
            for arm, v in experiment.evidence()["held"].items()
            if not arm.startswith("lie")
        )
        for experiment in (node.experiments[name] for name in world.plan.experiments)
    ]


def judge_world(world: World) -> None:
    """See that nothing was lost or doubled, and that all agree."""
    world.strict = True
    world.check_sites()
    if not controls_agree(world):
        raise Violation("agents do not agree on what is pinned and paused")
    if not at_rest(world):
        raise Violation("the network does not come to rest: some neighbour lacks something")
    for name in world.plan.experiments:
        if world.plan.half_life is not None:
            judge_fading(world, name)
        elif world.plan.exchange == "origins":
            judge_origins(world, name)
        else:
            judge_flows(world, name)
    for site in world.sites.values():
        for key in list(site.memory.decisions):
            repeat_requests(world, site, key)
    world.check_sites()


def judge_origins(world: World, experiment: str) -> None:
    """Every agent holds the same: all that was acknowledged, once."""
    ledgers = {}
    for site in world.sites.values():
        assert site.node is not None
        evidence = site.node.experiment(experiment).evidence()["held"]
        ledgers[site.name] = drop_signs(evidence, closed=True)
    first_ledger, *further_ledgers = ledgers.values()
    if any(ledger != first_ledger for ledger in further_ledgers):
        raise Violation(f"agents disagree for ever: {ledgers}")
    site = next(iter(world.sites.values()))
    judge_marks(world, experiment, marks_at(world, site, experiment, first_ledger))
    everything = total(site.memory.sum_by_arm(experiment) for site in world.sites.values())
    if not world.history.disks_lost and first_ledger != everything:
        raise Violation(f"all hold {first_ledger}, and not {everything}")
    if not world.history.untold:
        judge_counts(world, experiment, first_ledger)


def judge_marks(world: World, experiment: str, marks: Collection[Mark]) -> None:
    """All acknowledged rewards are there, and of a decision one at most."""
    history = world.history
    if missing := {m for m in history.must_hold() if m[0] == experiment} - set(marks):
        raise Violation(f"all lack acknowledged rewards: {sorted(missing)}")
    if world.history.untold:
        return
    if still_counted := history.void & set(marks):
        raise Violation(f"rewards of void decisions are still counted: {sorted(still_counted)}")
    for key, rewards in history.rewards.items():
        site = next(candidate for name, candidate in world.sites.items() if key[1].startswith(name))
        if site.put_back == 1 and not site.jumped and len(rewards & set(marks)) > 1:
            raise Violation(f"{key} counts twice: {sorted(rewards)}")


def judge_counts(world: World, experiment: str, sums_by_arm: dict[str, Sums]) -> None:
    """No more decisions count, or are closed, than ever were, and all that are on disk.

    But what was taken back of void decisions.
    """
    least: Counter[tuple[str, int]] = Counter()
    for site in world.sites.values():
        assert site.node is not None
        running = site.node.experiment(experiment)
        for key, decision in site.memory.decisions.items():
            record = decision.record
            sums = sums_of_decision(decision.record)
            if key[0] != experiment:
                continue
            void = bool(site.put_back) and is_void(site, running, key, record)
            least[record.arm, 3] += bool(sums[3]) and not (void and record.assumed is None)
            least[record.arm, 2] += bool(sums[2]) and not void
    for arm in {*sums_by_arm, *(arm for arm, _ in least)}:
        row = sums_by_arm.get(arm, (0, 0, 0, 0))
        place = (experiment, arm)
        for at, ever in ((3, world.history.counted[place]), (2, world.history.closed[place])):
            if not least[arm, at] <= row[at] // PER_UNIT <= len(ever):
                raise Violation(
                    f"all count {row} of {arm}, where {least[arm, at]} to {len(ever)} must be"
                )


def judge_flows(world: World, experiment: str) -> None:
    """What flowed out at one end of an edge flowed in at the other: the sum is kept."""
    exchanges: dict[str, Any] = {}
    for site in world.sites.values():
        assert site.node is not None
        exchange: Any = site.node.experiment(experiment).agent.exchange
        exchanges[exchange.identity] = exchange
    flowed = []
    for identity, exchange in exchanges.items():
        for peer, (version, flow) in exchange.records().items():
            if peer not in exchanges:
                flowed.append(flow)  # to a disk that was lost
                continue
            opposite_version, opposite = exchanges[peer].records().get(identity, (0, {}))
            if version != opposite_version or plus(flow, opposite):
                raise Violation(
                    f"ends of an edge differ: {version} {flow} and {opposite_version} {opposite}"
                )
    observed = total(exchange.own() for exchange in exchanges.values())
    level = total(exchange.level() for exchange in exchanges.values())
    if plus(level, total(flowed)) != observed:
        raise Violation(
            f"levels {level} do not sum up to what was observed: {minus(level, observed)}"
        )
    if flowed and not world.history.disks_lost:
        raise Violation("evidence flowed to an identity that nobody has")


def judge_restart(world: World) -> None:
    """After a restart of all every agent knows what it knew."""
    before = {}
    for site in world.sites.values():
        assert site.node is not None
        before[site.name] = {n: e.evidence() for n, e in site.node.experiments.items()}
        world.stop_process(site)
    for site in world.sites.values():
        world.start_process(site)
        assert site.node is not None
        if {n: e.evidence() for n, e in site.node.experiments.items()} != before[site.name]:
            raise Violation(f"{site.name} knows something else after a restart")
        for key in list(site.memory.decisions)[:5]:
            repeat_requests(world, site, key)
    world.check_sites()
