"""The verdict: what must hold when all is healed and every message has arrived."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from posse.live.exchange.ledger import minus, plus, total
from posse.live.exchange.quanta import PER_UNIT
from simulation import disk as disks
from simulation.agents import LIAR, folding
from simulation.applications import repeat
from simulation.bits import Mark, Sums, narrow, worth
from simulation.fading import judge_fading
from simulation.history import Violation
from simulation.looking import is_void, marks_at
from simulation.schedule import Plan
from simulation.steps import play
from simulation.world import World, make_folder, remove_folder

MOST_ROUNDS = 60


def run(plan: Plan) -> str | None:
    """Play a schedule: None, or what was broken."""
    with folder() as path, folding(plan.eager, plan.floors):
        disks.install()
        world = World(plan, path)
        try:
            for number, step in enumerate(plan.steps):
                try:
                    play(world, *step)
                except Violation as violation:
                    return f"step {number} {step}: {violation}"
            try:
                heal(world)
                settle(world)
                judge(world)
                restarted(world)
            except Violation as violation:
                return f"at rest: {violation}"
            return None
        finally:
            world.close()


@contextlib.contextmanager
def folder() -> Iterator[Any]:
    """A folder for one run."""
    path = make_folder()
    try:
        yield path
    finally:
        remove_folder(path)


def heal(world: World) -> None:
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
            world.stop(site)
        world.start(site)
        if site.node is None:
            raise Violation(f"{site.name} does not start on a disk that works")
    world.look()


def settle(world: World) -> None:
    """Let all messages arrive until nothing is lacking, and some rounds more."""
    # one put back with its memory knows of what it was told then, and must first be contradicted
    least = 15 if any(what == "rewind" for what, _, _ in world.plan.steps) else 3
    more = least
    for _ in range(MOST_ROUNDS):
        for site in world.sites.values():
            world.tick(site)
        world.deliver_all()
        if not at_rest(world):
            more = least
        elif not more:
            break
        more -= 1
    world.look()


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
        held = [node.experiment(name).controls.status(world.plan.arms)["network"] for node in nodes]
        if any(each != held[0] for each in held):
            return False
    return True


def site_ledgers(world: World, name: str) -> list[object]:
    """What a site holds, without a liar's own rewards."""
    node = world.sites[name].node
    assert node is not None
    return [
        sorted((arm, v) for arm, v in each.evidence()["held"].items() if not arm.startswith("lie"))
        for each in (node.experiments[name] for name in world.plan.experiments)
    ]


def judge(world: World) -> None:
    """See that nothing was lost or doubled, and that all agree."""
    world.strict = True
    world.look()
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
            repeat(world, site, key)
    world.look()


def judge_origins(world: World, experiment: str) -> None:
    """Every agent holds the same: all that was acknowledged, once."""
    ledgers = {}
    for site in world.sites.values():
        assert site.node is not None
        held = site.node.experiment(experiment).evidence()["held"]
        ledgers[site.name] = narrow(held, closed=True)
    one, *others = ledgers.values()
    if any(other != one for other in others):
        raise Violation(f"agents disagree for ever: {ledgers}")
    site = next(iter(world.sites.values()))
    judge_marks(world, experiment, marks_at(world, site, experiment, one))
    everything = total(site.memory.ledger(experiment) for site in world.sites.values())
    if not world.history.disks_lost and one != everything:
        raise Violation(f"all hold {one}, and not {everything}")
    if not world.history.untold:
        judge_counts(world, experiment, one)


def judge_marks(world: World, experiment: str, marks: Collection[Mark]) -> None:
    """All acknowledged rewards are there, and of a decision one at most."""
    history = world.history
    if missing := {m for m in history.must_hold() if m[0] == experiment} - set(marks):
        raise Violation(f"all lack acknowledged rewards: {sorted(missing)}")
    if world.history.untold:
        return
    if kept := history.void & set(marks):
        raise Violation(f"rewards of void decisions are still counted: {sorted(kept)}")
    for key, rewards in history.rewards.items():
        site = next(each for name, each in world.sites.items() if key[1].startswith(name))
        if site.put_back == 1 and not site.jumped and len(rewards & set(marks)) > 1:
            raise Violation(f"{key} counts twice: {sorted(rewards)}")


def judge_counts(world: World, experiment: str, held: dict[str, Sums]) -> None:
    """No more decisions count, or are closed, than ever were, and all that are on disk.

    But what was taken back of void decisions.
    """
    least: Counter[tuple[str, int]] = Counter()
    for site in world.sites.values():
        assert site.node is not None
        running = site.node.experiment(experiment)
        for key, known in site.memory.decisions.items():
            record = known.record
            sums = worth(known.record)
            if key[0] != experiment:
                continue
            void = bool(site.put_back) and is_void(site, running, key, record)
            least[record.arm, 3] += bool(sums[3]) and not (void and record.assumed is None)
            least[record.arm, 2] += bool(sums[2]) and not void
    for arm in {*held, *(arm for arm, _ in least)}:
        row = held.get(arm, (0, 0, 0, 0))
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
            other, opposite = exchanges[peer].records().get(identity, (0, {}))
            if version != other or plus(flow, opposite):
                raise Violation(f"ends of an edge differ: {version} {flow} and {other} {opposite}")
    own = total(exchange.own() for exchange in exchanges.values())
    level = total(exchange.level() for exchange in exchanges.values())
    if plus(level, total(flowed)) != own:
        raise Violation(f"levels {level} do not sum up to what was observed: {minus(level, own)}")
    if flowed and not world.history.disks_lost:
        raise Violation("evidence flowed to an identity that nobody has")


def restarted(world: World) -> None:
    """After a restart of all every agent knows what it knew."""
    before = {}
    for site in world.sites.values():
        assert site.node is not None
        before[site.name] = {n: e.evidence() for n, e in site.node.experiments.items()}
        world.stop(site)
    for site in world.sites.values():
        world.start(site)
        assert site.node is not None
        if {n: e.evidence() for n, e in site.node.experiments.items()} != before[site.name]:
            raise Violation(f"{site.name} knows something else after a restart")
        for key in list(site.memory.decisions)[:5]:
            repeat(world, site, key)
    world.look()
