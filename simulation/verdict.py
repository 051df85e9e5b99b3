"""The verdict: what must hold when all is healed and every message has arrived."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from posse.live.exchange import Origins
from posse.live.ledger import PER_UNIT, is_side_row
from posse.live.ledger.sums import minus, plus, total
from simulation import disk as disks
from simulation.agents import LIAR
from simulation.applications import repeat_requests
from simulation.bits import CLOSED, Mark, Sums, add_cells, drop_signs, marks_in, sums_of_decision
from simulation.fading import judge_fading
from simulation.history import Violation
from simulation.looking import is_superseded, marks_at
from simulation.schedule import Plan
from simulation.steps import play_step
from simulation.world import World, make_folder, remove_folder

MOST_ROUNDS = 130


def run_plan(plan: Plan) -> str | None:
    """Play a schedule; return None, or the promise that was broken."""
    with open_folder() as path, disks.simulate_disks():
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
        links = [link for link in world.plan.links if site.agent in link]
        near = [b if a == site.agent else a for a, b in links]
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
    least = 3
    rounds = least
    for _ in range(MOST_ROUNDS):
        for site in world.sites.values():
            world.tick_site(site)
        world.deliver_all()
        if not at_rest(world) or has_abandoned(world):
            rounds = least
        elif not rounds:
            break
        rounds -= 1
    world.check_sites()


def has_abandoned(world: World) -> bool:
    """Whether decisions are open in entries of a disk that is gone: they leave in two windows."""
    if not world.history.disks_lost or not leaves_nothing_open(world):
        return False
    for site in world.sites.values():
        assert site.node is not None
        for experiment in site.node.experiments.values():
            exchange = experiment.agent.exchange
            assert isinstance(exchange, Origins)
            for entry in exchange.replica.of_origin(site.agent):
                rows = [row for arm, row in entry.ledger().items() if not is_side_row(arm)]
                open_counts = (row[-1] - row[-2] for row in rows)
                if exchange.is_superseded(entry.incarnation) and any(open_counts):
                    return True
    return False


def leaves_nothing_open(world: World) -> bool:
    """Whether a decision of a disk that is gone is not open for ever.

    It is where an agent has no window, or where a liar says that it holds more of an origin than
    there is: then the origin cannot know that no other copy of its disk is in use.
    """
    lies = any(LIAR in link for link in world.plan.links)
    windows = all(site.silence[0] is not None for site in world.sites.values())
    return world.plan.exchange == "origins" and windows and not lies


def at_rest(world: World) -> bool:
    """Whether no neighbour lacks anything, as far as agents know.

    Of a liar that said two things under one number some keep the one and some the other.
    """
    if not controls_agree(world):
        return False
    lies = world.plan.exchange == "origins" and any(LIAR in link for link in world.plan.links)
    # neighbours know what a name holds: one of two twins may lack what the other has
    twins = len(world.sites) > len(world.plan.names)
    if twins and len({str(site_versions(world, name)) for name in world.sites}) > 1:
        return lies and len({str(site_ledgers(world, name)) for name in world.sites}) == 1
    if lies:
        return len({str(site_ledgers(world, name)) for name in world.sites}) == 1
    for site in world.sites.values():
        assert site.node is not None
        for experiment in site.node.experiments.values():
            exchange = experiment.agent.exchange
            if isinstance(exchange, Origins) and exchange.incarnations.resting:
                return False
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


def site_versions(world: World, name: str) -> list[object]:
    """The entries that a site holds, by their versions."""
    node = world.sites[name].node
    assert node is not None
    holdings = []
    for experiment in (node.experiments[name] for name in world.plan.experiments):
        exchange = experiment.agent.exchange
        assert isinstance(exchange, Origins)
        holdings.append(sorted(entry.holding for entry in exchange.replica.entries.values()))
    return list(holdings)


def site_ledgers(world: World, name: str) -> list[object]:
    """What a site holds, without a liar's own rewards."""
    node = world.sites[name].node
    assert node is not None
    ledgers: list[object] = []
    for experiment in (node.experiments[name] for name in world.plan.experiments):
        rows = experiment.evidence()["held"].items()
        ledgers.append(sorted((arm, v) for arm, v in rows if not arm.startswith("lie")))
        ledgers.append(sorted(experiment.agent.exchange.side_cells().items()))
    return ledgers


def judge_world(world: World) -> None:
    """See that nothing was lost or doubled, and that all agree."""
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
    judge_side_rows(world, experiment)
    judge_counts(world, experiment, first_ledger)


def judge_side_rows(world: World, experiment: str) -> None:
    """All hold the same side rows: if no disk was lost, those of all decisions."""
    nodes = [site.node for site in world.sites.values() if site.node is not None]
    held = [node.experiment(experiment).agent.exchange.side_cells() for node in nodes]
    if any(cells != held[0] for cells in held):
        raise Violation(f"agents disagree for ever on side rows: {held}")
    everything: dict[tuple[str, ...], Sums] = {}
    for site in world.sites.values():
        cells = site.memory.sum_side_cells(experiment, world.most_bits)
        everything = add_cells(everything, cells)
    if not world.history.disks_lost and held[0] != everything:
        raise Violation(f"all hold the side rows {held[0]}, and not {everything}")


def judge_marks(world: World, experiment: str, marks: Collection[Mark]) -> None:
    """All acknowledged rewards are there, but those that the table of promises gives up."""
    history = world.history
    missing = {m for m in history.must_hold() if m[0] == experiment} - set(marks)
    # of a decision that was open on a disk that is gone, what is not final leaves the belief
    for agent in world.restored_agents():
        open_marks = {m for m in missing if history.owners[m] == agent and m[2] < CLOSED}
        missing -= open_marks - on_disk(world, agent, experiment)
    if missing:
        raise Violation(f"all lack acknowledged rewards: {sorted(missing)}")
    final = {mark for mark in history.overruled if mark[2] >= CLOSED and mark[0] == experiment}
    for mark in final:
        if not may_overrule(world, history.owners[mark]):
            raise Violation(f"what neighbours held as closed was overruled: {sorted(final)}")


def on_disk(world: World, agent: str, experiment: str) -> set[Mark]:
    """The rewards of decisions on the disks of an agent that are not superseded."""
    marks: set[Mark] = set()
    for site in world.sites.values():
        if site.agent != agent:
            continue
        assert site.node is not None
        running = site.node.experiment(experiment)
        for key, decision in site.memory.decisions.items():
            record = decision.record
            if key[0] != experiment or is_superseded(world, site, running, key, record):
                continue
            marks |= marks_in(experiment, record.arm, sums_of_decision(record))
    return marks


def may_overrule(world: World, agent: str) -> bool:
    """Whether two copies of an agent's disk can have been in use before one heard of the other.

    Its rest ended before a neighbour had answered, a copy was put back whose rewards it had told
    nobody, a neighbour's disk was restored as well, it was cloned, or its neighbours or experiments
    were others meanwhile.
    """
    sites = [site for site in world.sites.values() if site.agent == agent]
    changed = any(what in ("unlink", "link", "experiments") for what, _, _ in world.plan.steps)
    return (
        any(site.went_on_alone or site.has_untold for site in sites)
        or len(world.restored_agents()) > 1
        or len(sites) > 1
        or changed
    )


def judge_counts(world: World, experiment: str, sums_by_arm: dict[str, Sums]) -> None:
    """No more decisions count, or are closed, than ever were, and all that are on disk.

    Nothing is open but what is open on a disk: no decision stays as a failure for ever.
    """
    least: Counter[tuple[str, int]] = Counter()
    still_open: Counter[str] = Counter()
    records = {}  # by key: two disks may have the same decision, if one is a clone
    for site in world.sites.values():
        assert site.node is not None
        running = site.node.experiment(experiment)
        for key, decision in site.memory.decisions.items():
            record = decision.record
            superseded = running.agent.exchange.is_superseded(record.incarnation)
            if key[0] == experiment and not superseded:
                records[key] = record
    for record in records.values():
        sums = sums_of_decision(record)
        least[record.arm, 3] += bool(sums[3])
        least[record.arm, 2] += bool(sums[2])
        still_open[record.arm] += bool(sums[3]) and not sums[2]
    for arm in {*sums_by_arm, *(arm for arm, _ in least)}:
        row = sums_by_arm.get(arm, (0, 0, 0, 0))
        place = (experiment, arm)
        for at, ever in ((3, world.history.counted[place]), (2, world.history.closed[place])):
            most = len(ever)
            if not least[arm, at] <= row[at] // PER_UNIT <= most and not world.history.overruled:
                raise Violation(
                    f"all count {row} of {arm}, where {least[arm, at]} to {most} must be"
                )
        if (row[3] - row[2]) // PER_UNIT > still_open[arm] and leaves_nothing_open(world):
            raise Violation(f"all count {row} of {arm}, where {still_open[arm]} are open")


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
