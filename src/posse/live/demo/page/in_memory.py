"""The demonstration in memory: real nodes on a stepped clock, the same from the same seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from posse.live.config.agent_settings import Settings, from_data
from posse.live.demo.fault_injection import Faults, Glance, Interference, glance
from posse.live.demo.memory import MemorySite
from posse.live.demo.page.stage import TICK_SECONDS, VISITS_PER_SECOND, agent_data
from posse.live.demo.site import Site
from posse.live.demo.visitors import Audience
from posse.live.experiment.experiment import DEFAULT
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node import Node
from posse.live.node_factory import Outside
from posse.live.process import assemble

T = TypeVar("T")

STEP = 0.1  # seconds
DELAY = (0, 4)  # further steps that a message takes
BEGINNING = 1.7e9  # by the agents' clocks: any time will do, so long as it is the same


@dataclass
class Actor:
    """One agent, and when it acts next."""

    site: MemorySite
    interference: Interference
    random: random.Random
    next_visit: float
    next_tick: float
    still: bool = False


class MemoryCrew:
    """Agents that act one after the other in steps of a tenth of a second."""

    stepped = True

    def __init__(self, folder: Path, audience: Audience, seed: int) -> None:
        self._folder = folder
        self._audience = audience
        self._seed = seed
        self._steps = 0
        self._network = MemoryNetwork([], seed=seed, delay=DELAY, reorder=True)
        self._turn = threading.Lock()
        self._actors: dict[str, Actor] = {}
        self._arms: list[str] = []

    @property
    def now(self) -> float:
        """Seconds that were stepped through."""
        return self._steps * STEP

    def begin(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[Site]:
        """Start agents that play these arms."""
        self._arms = list(arms)
        for a, b in links:
            self._network.link(a, b)
        return [self._enter(name) for name in names]

    def join(self, name: str, neighbours: Sequence[str]) -> Site:
        """Start one more agent, and let its neighbours know it."""
        for near in neighbours:
            self._network.link(near, name)
        site = self._enter(name)
        for near in neighbours:
            self._actors[near].site.change(self._settings(near))
        return site

    def start(self, name: str) -> None:
        """Start an agent that was killed."""
        self._actors[name].site.start()

    def kill(self, name: str) -> None:
        """Go on from what is on disk at this moment."""
        self.go_on(name)
        self._actors[name].site.kill()

    def stop(self, name: str) -> None:
        """Let it neither tick nor hear."""
        self._set_still(name, True)

    def go_on(self, name: str) -> None:
        """Let it go on."""
        self._set_still(name, False)

    def interfere(self, name: str, faults: Faults) -> None:
        """Let these faults befall its messages."""
        actor = self._actors[name]
        actor.interference.faults = Faults(faults.cut, faults.loss, actor.still)

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""
        self._arms = list(arms)
        for name, actor in self._actors.items():
            actor.site.change(self._settings(name))

    def look(self, names: Iterable[str]) -> dict[str, Glance]:
        """What those of these agents hold that are there, all at the same moment."""
        found = {}
        for name in names:
            actor = self._actors[name]
            if actor.site.node is not None and not actor.still:
                found[name] = glance(actor.site.node, actor.interference)
        return found

    def problem(self, name: str) -> str | None:
        """Nothing ends by itself here."""
        return None

    def advance(self, visits: bool) -> None:
        """Visitors first, then ticks, then the messages that are due."""
        self._steps += 1
        for actor in self._actors.values():
            if actor.still or actor.site.node is None:
                actor.next_visit = max(actor.next_visit, self.now)  # nobody waits at its door
                actor.next_tick = max(actor.next_tick, self.now)
                continue
            while actor.next_visit <= self.now:
                if visits:
                    with actor.site.visitor(DEFAULT) as visitor:
                        self._audience.visit(actor.site, DEFAULT, visitor, actor.random, _at_once)
                actor.next_visit += actor.random.expovariate(VISITS_PER_SECOND)
            if actor.next_tick <= self.now:
                actor.site.tick()
                actor.next_tick += TICK_SECONDS
        self._network.step()

    def _enter(self, name: str) -> MemorySite:
        number = len(self._actors)
        generator = random.Random(f"{self._seed} {name}")
        interference = Interference(generator)

        def make(settings: Settings, folder: Path) -> Node:
            outside = Outside(lambda _: interference.around(self._network.transport(name)))
            return assemble(
                settings,
                folder,
                outside,
                clock=lambda: BEGINNING + self.now,
                draw=generator.getrandbits,
                monotonic=lambda: self.now,
            )

        site = MemorySite(
            self._settings(name), self._folder, self._network, self._turn, make, by_hand=True
        )
        site.start()
        # not all in the same step
        tick = self.now + TICK_SECONDS * (0.37 * number % 1.0)
        visit = self.now + generator.expovariate(VISITS_PER_SECOND)
        self._actors[name] = Actor(site, interference, generator, visit, tick)
        return site

    def _settings(self, name: str) -> Settings:
        return from_data(agent_data(name, self._arms))

    def _set_still(self, name: str, still: bool) -> None:
        actor = self._actors[name]
        actor.still = still
        self.interfere(name, actor.interference.faults)


def _at_once(ask: Callable[[], T]) -> T:
    return ask()
