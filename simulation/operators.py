"""What operators do: neighbours, arms and experiments come and go, arms are pinned and paused."""

from __future__ import annotations

import contextlib

from posse.live.experiment.experiment import LiveExperiment
from posse.live.store import Conflict, StoreError
from simulation.agents import CONTROL
from simulation.applications import experiment_of, site_of
from simulation.disk import Killed
from simulation.history import Violation
from simulation.world import Site, World


def link(world: World, a: int, b: int) -> None:
    """Make two agents neighbours, at one end or at both."""
    first = site_of(world, a)
    second = site_of(world, b)
    if first is not second:
        add_neighbour(world, first, second.name, b)
        if b % 3:
            add_neighbour(world, second, first.name, b)


def add_neighbour(world: World, site: Site, name: str, b: int) -> None:
    """Add a neighbour."""
    if name not in site.neighbours:
        site.neighbours.append(name)
        apply_settings(world, site, b)


def unlink(world: World, a: int, b: int) -> None:
    """Remove a neighbour at one end."""
    site = site_of(world, a)
    if site.neighbours:
        site.neighbours.pop(b % len(site.neighbours))
        apply_settings(world, site, b)


def arms(world: World, a: int, b: int) -> None:
    """Add an arm, or remove one."""
    site = site_of(world, a)
    experiment = experiment_of(site, b)
    before = site.experiments[experiment]
    arm = ("red", "green", "blue", "grey", "black")[b % 5]
    if arm not in before:
        site.experiments[experiment] = (*before, arm)
    elif len(before) > 1 and not (world.plan.measures and arm == CONTROL):
        site.experiments[experiment] = tuple(name for name in before if name != arm)
    apply_settings(world, site, b)


def silence(world: World, a: int, b: int) -> None:
    """Another reward window, or another meaning of silence."""
    site = site_of(world, a)
    if world.plan.silences:
        site.silence = world.plan.silences[b % len(world.plan.silences)]
        for twin in world.sites.values():  # their windows differ now
            twin.closes_late |= twin.agent == site.agent
        apply_settings(world, site, b)


def experiments(world: World, a: int, b: int) -> None:
    """Add an experiment, or remove one; what it knew must be there when it comes back."""
    site = site_of(world, a)
    name = world.plan.experiments[b % len(world.plan.experiments)]
    if name not in site.experiments:
        site.experiments[name] = world.plan.arms
    elif len(site.experiments) > 1:
        del site.experiments[name]
    apply_settings(world, site, b)


def apply_settings(world: World, site: Site, b: int) -> None:
    """Let a running process take in its new settings, by reload or by restart."""
    if site.node is None:
        return
    if b // 5 % 3:
        node = site.node
        settings = world.settings_of(site)
        outcome = world.try_at_site(site, lambda: node.reload(settings))
        site.stale = isinstance(outcome, StoreError)
        if site.node is not None:
            world.shorten_periods(site, node)
            world.compare_disk(site)
            follow = {
                (e.reward_window.window, e.reward_window.default_reward)
                for e in experiments_of(site)
            }
            if not site.stale and follow != {site.silence}:
                raise Violation(f"{site.name} goes by {follow} in place of {site.silence}")
    else:
        world.stop_process(site)
        world.start_process(site)


def experiments_of(site: Site) -> list[LiveExperiment]:
    """The experiments that run at a site."""
    return [] if site.node is None else list(site.node.experiments.values())


def rename(world: World, a: int, b: int) -> None:
    """Start a store under another name: it must be refused, with nothing changed."""
    site = site_of(world, a)
    world.stop_process(site)
    if site.node is not None or site.disk.fault or site.disk.failing or not site.memory.decisions:
        return
    with contextlib.suppress(ValueError):
        world.create_node(site, world.settings_of(site, "renamed"))
        raise Violation(f"the store of {site.name} was taken by another name")


def control(world: World, a: int, b: int) -> None:
    """Pin an arm, pause one or resume; what was answered stays, whatever ends the process."""
    site = site_of(world, a)
    node = site.node
    name = experiment_of(site, b)
    if node is None or name not in node.experiments:
        return
    experiment = node.experiments[name]
    arm = world.plan.arms[b % len(world.plan.arms)]

    def send_control() -> object:
        with contextlib.suppress(Conflict):
            if b % 4 == 0:
                return experiment.resume()
            return (experiment.pin if b % 4 == 1 else experiment.pause)(arm)
        return None

    outcome = world.try_at_site(site, send_control)
    if (
        outcome is not Killed
        and not isinstance(outcome, StoreError)
        and experiment.controls.is_operator
    ):
        site.memory.note_control(name, experiment.controls)
