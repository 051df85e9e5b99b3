"""The demonstration in memory: real nodes on a stepped clock, the same from the same seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from posse.live.config.agent_settings import Settings, from_data
from posse.live.demo.fault_injection import AgentSnapshot, FaultInjector, Faults, take_snapshot
from posse.live.demo.memory import MemorySite
from posse.live.demo.page.stage import TICK_SECONDS, VISITS_PER_SECOND, agent_data
from posse.live.demo.site import AgentSite
from posse.live.demo.visitors import Audience
from posse.live.experiment.experiment import DEFAULT
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node import Node
from posse.live.node_factory import Outside
from posse.live.process import assemble

T = TypeVar("T")

STEP_SECONDS = 0.1  # seconds
DELAY = (0, 4)  # further steps that a message takes
START_TIME = 1.7e9  # by the agents' clocks: any time will do, so long as it is the same


@dataclass
class SteppedAgent:
    """One agent, and when it acts next."""

    site: MemorySite
    injector: FaultInjector
    random: random.Random
    next_visit: float
    next_tick: float
    paused: bool = False


class MemoryBackend:
    """Agents that act one after the other in steps of a tenth of a second."""

    stepped = True

    def __init__(self, folder: Path, audience: Audience, seed: int) -> None:
        self._folder = folder
        self._audience = audience
        self._seed = seed
        self._steps = 0
        self._network = MemoryNetwork([], seed=seed, delay=DELAY, reorder=True)
        self._turn = threading.Lock()
        self._agents: dict[str, SteppedAgent] = {}
        self._arms: list[str] = []

    @property
    def now(self) -> float:
        """Seconds that were stepped through."""
        return self._steps * STEP_SECONDS

    def start_agents(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[AgentSite]:
        """Start agents that play these arms."""
        self._arms = list(arms)
        for a, b in links:
            self._network.link(a, b)
        return [self._open_site(name) for name in names]

    def add_agent(self, name: str, neighbours: Sequence[str]) -> AgentSite:
        """Start one more agent, and let its neighbours know it."""
        for neighbour in neighbours:
            self._network.link(neighbour, name)
        site = self._open_site(name)
        for neighbour in neighbours:
            self._agents[neighbour].site.change_settings(self._settings_of(neighbour))
        return site

    def start_agent(self, name: str) -> None:
        """Start an agent that was killed."""
        self._agents[name].site.start()

    def kill_agent(self, name: str) -> None:
        """Go on from what is on disk at this moment."""
        self.resume_agent(name)
        self._agents[name].site.kill()

    def pause_agent(self, name: str) -> None:
        """Let it neither tick nor hear."""
        self._set_paused(name, True)

    def resume_agent(self, name: str) -> None:
        """Let it go on."""
        self._set_paused(name, False)

    def set_faults(self, name: str, faults: Faults) -> None:
        """Let these faults befall its messages."""
        actor = self._agents[name]
        actor.injector.faults = Faults(faults.cut, faults.loss, actor.paused)

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""
        self._arms = list(arms)
        for name, actor in self._agents.items():
            actor.site.change_settings(self._settings_of(name))

    def take_snapshots(self, names: Iterable[str]) -> dict[str, AgentSnapshot]:
        """What those of these agents hold that are there, all at the same moment."""
        snapshots = {}
        for name in names:
            actor = self._agents[name]
            if actor.site.node is not None and not actor.paused:
                snapshots[name] = take_snapshot(actor.site.node, actor.injector)
        return snapshots

    def find_problem(self, name: str) -> str | None:
        """Nothing ends by itself here."""
        return None

    def advance_time(self, visits: bool) -> None:
        """Visitors first, then ticks, then the messages that are due."""
        self._steps += 1
        for actor in self._agents.values():
            if actor.paused or actor.site.node is None:
                actor.next_visit = max(actor.next_visit, self.now)  # nobody waits at its door
                actor.next_tick = max(actor.next_tick, self.now)
                continue
            while actor.next_visit <= self.now:
                if visits:
                    with actor.site.open_visitor(DEFAULT) as visitor:
                        self._audience.visit(actor.site, DEFAULT, visitor, actor.random, _call_once)
                actor.next_visit += actor.random.expovariate(VISITS_PER_SECOND)
            if actor.next_tick <= self.now:
                actor.site.tick()
                actor.next_tick += TICK_SECONDS
        self._network.step()

    def _open_site(self, name: str) -> MemorySite:
        number = len(self._agents)
        generator = random.Random(f"{self._seed} {name}")
        injector = FaultInjector(generator)

        def make_node(settings: Settings, folder: Path) -> Node:
            outside = Outside(lambda _: injector.wrap_transport(self._network.transport(name)))
            return assemble(
                settings,
                folder,
                outside,
                clock=lambda: START_TIME + self.now,
                draw=generator.getrandbits,
                monotonic=lambda: self.now,
            )

        site = MemorySite(
            self._settings_of(name),
            self._folder,
            self._network,
            self._turn,
            make_node,
            by_hand=True,
        )
        site.start()
        # not all in the same step
        tick = self.now + TICK_SECONDS * (0.37 * number % 1.0)
        visit = self.now + generator.expovariate(VISITS_PER_SECOND)
        self._agents[name] = SteppedAgent(site, injector, generator, visit, tick)
        return site

    def _settings_of(self, name: str) -> Settings:
        return from_data(agent_data(name, self._arms))

    def _set_paused(self, name: str, paused: bool) -> None:
        actor = self._agents[name]
        actor.paused = paused
        self.set_faults(name, actor.injector.faults)


def _call_once(ask: Callable[[], T]) -> T:
    return ask()
