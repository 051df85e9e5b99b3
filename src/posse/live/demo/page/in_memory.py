"""The demonstration in memory: nodes of a fleet on a stepped clock, reproducible from a seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from posse.live.config import AgentSettings, settings_from_data
from posse.live.demo.fault_injection import AgentSnapshot, FaultInjector, Faults, take_snapshot
from posse.live.demo.fleet import Fleet, MemorySite
from posse.live.demo.page.stage import TICK_SECONDS, VISITS_PER_SECOND, agent_data
from posse.live.demo.site import AgentSite
from posse.live.demo.visitors import Audience
from posse.live.exchange import DEFAULT

T = TypeVar("T")

STEP_SECONDS = 0.1
DELAY = (0, 4)  # further steps that a message takes
START_TIME = 1.7e9  # by the agents' clocks: any fixed time will do


@dataclass
class SteppedAgent:
    """One agent, and when its next visitor and its next tick are due."""

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
        self._audience = audience
        self._seed = seed
        self._steps = 0
        self._fleet = Fleet(
            folder,
            seed=seed,
            now=START_TIME,
            monotonic=lambda: self.now,
            delay=DELAY,
            reorder=True,
        )
        self._network_lock = threading.Lock()
        self._agents: dict[str, SteppedAgent] = {}
        self._arms: list[str] = []

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._steps * STEP_SECONDS

    def start_agents(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[AgentSite]:
        """Start agents that play these arms."""
        self._arms = list(arms)
        for a, b in links:
            self._fleet.network.link(a, b)
        return [self._open_site(name) for name in names]

    def add_agent(self, name: str, neighbours: Sequence[str]) -> AgentSite:
        """Start one more agent and reload its neighbours."""
        for neighbour in neighbours:
            self._fleet.network.link(neighbour, name)
        site = self._open_site(name)
        for neighbour in neighbours:
            self._agents[neighbour].site.change_settings(self._settings_of(neighbour))
        return site

    def start_agent(self, name: str) -> None:
        """Start an agent that was killed."""
        self._agents[name].site.start()

    def kill_agent(self, name: str) -> None:
        """End an agent as a power failure would."""
        # The next life of the agent must not start paused.
        self.resume_agent(name)
        self._agents[name].site.kill()

    def pause_agent(self, name: str) -> None:
        """Let an agent neither tick nor receive."""
        self._set_paused(name, True)

    def resume_agent(self, name: str) -> None:
        """Let a paused agent continue."""
        self._set_paused(name, False)

    def set_faults(self, name: str, faults: Faults) -> None:
        """Apply faults to the messages of an agent."""
        agent = self._agents[name]
        agent.injector.faults = Faults(faults.cut, faults.loss, agent.paused)

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""
        self._arms = list(arms)
        for name, agent in self._agents.items():
            agent.site.change_settings(self._settings_of(name))

    def take_snapshots(self, names: Iterable[str]) -> dict[str, AgentSnapshot]:
        """Take snapshots of those of these agents that run, all at the same moment."""
        snapshots = {}
        for name in names:
            agent = self._agents[name]
            if agent.site.node is not None and not agent.paused:
                snapshots[name] = take_snapshot(agent.site.node, agent.injector)
        return snapshots

    def find_problem(self, name: str) -> str | None:
        """Return None: no agent ends by itself here."""
        return None

    def advance_time(self, visits: bool) -> None:
        """Let one step pass: visitors first, then ticks, then the messages that are due."""
        self._steps += 1
        self._fleet.now = START_TIME + self.now
        for agent in self._agents.values():
            if agent.paused or agent.site.node is None:
                # visits and ticks that were missed are not made up for
                agent.next_visit = max(agent.next_visit, self.now)
                agent.next_tick = max(agent.next_tick, self.now)
                continue
            while agent.next_visit <= self.now:
                if visits:
                    with agent.site.open_visitor(DEFAULT) as visitor:
                        self._audience.visit(agent.site, DEFAULT, visitor, agent.random, _call_once)
                # Exponential gaps: visitors arrive as a Poisson process.
                agent.next_visit += agent.random.expovariate(VISITS_PER_SECOND)
            if agent.next_tick <= self.now:
                agent.site.tick()
                agent.next_tick += TICK_SECONDS
        self._fleet.network.step()

    def _open_site(self, name: str) -> MemorySite:
        number = len(self._agents)
        generator = random.Random(f"{self._seed} {name}")
        injector = FaultInjector(generator)
        site = MemorySite(
            self._settings_of(name),
            self._fleet,
            self._network_lock,
            by_hand=True,
            draw=generator.getrandbits,
            wrap_transport=injector.wrap_transport,
        )
        site.start()
        # spread the ticks of the agents over a second
        next_tick = self.now + TICK_SECONDS * (0.37 * number % 1.0)
        next_visit = self.now + generator.expovariate(VISITS_PER_SECOND)
        self._agents[name] = SteppedAgent(site, injector, generator, next_visit, next_tick)
        return site

    def _settings_of(self, name: str) -> AgentSettings:
        return settings_from_data(agent_data(name, self._arms))

    def _set_paused(self, name: str, paused: bool) -> None:
        agent = self._agents[name]
        agent.paused = paused
        self.set_faults(name, agent.injector.faults)


def _call_once(ask: Callable[[], T]) -> T:
    return ask()
