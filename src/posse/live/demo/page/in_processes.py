"""The demonstration with processes: real agents with mutual TLS on loopback, in real time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.live.demo.child_process import Leash
from posse.live.demo.fault_injection import Faults, Glance
from posse.live.demo.page.stage import agent_data
from posse.live.demo.processes import ProcessSite, free_ports, write_settings
from posse.live.demo.site import Site
from posse.live.security import certificates

ANSWER_SECONDS = 0.3  # for which all agents together may think


@dataclass(frozen=True)
class Leashed:
    """One agent: its process, its leash, where it listens and answers."""

    site: ProcessSite
    leash: Leash
    listen: str
    http: str


class ProcessCrew:
    """Agents in processes of their own."""

    stepped = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began: float | None = None
        self._agents: dict[str, Leashed] = {}
        self._links: list[tuple[str, str]] = []
        self._arms: list[str] = []
        certificates.create_authority(folder / "certs")

    @property
    def now(self) -> float:
        """Seconds by the clock on the wall since the first agent answered."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def begin(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[Site]:
        """Start agents that play these arms."""
        self._arms = list(arms)
        self._links = list(links)
        for name in names:
            self._make(name)
        for name in names:
            self._write(name)
            self._agents[name].site.start()
        return [agent.site for agent in self._agents.values()]

    def join(self, name: str, neighbours: Sequence[str]) -> Site:
        """Start one more agent, and let its neighbours know it."""
        self._links += [(near, name) for near in neighbours]
        agent = self._make(name)
        self._write(name)
        agent.site.start()
        for near in neighbours:
            self._reload(near)
        return agent.site

    def start(self, name: str) -> None:
        """Start an agent that was killed."""
        self._agents[name].site.start()

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._agents[name].site.kill()

    def stop(self, name: str) -> None:
        """SIGSTOP."""
        self._signal(name, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """SIGCONT."""
        self._signal(name, signal.SIGCONT)

    def interfere(self, name: str, faults: Faults) -> None:
        """Let these faults befall its messages."""
        self._agents[name].leash.interfere(faults)

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""
        self._arms = list(arms)
        for name in self._agents:
            self._reload(name)

    def look(self, names: Iterable[str]) -> dict[str, Glance]:
        """What those of these agents hold that answer in time."""
        asked = {name: self._agents[name].leash for name in names}
        for leash in asked.values():
            leash.ask()
        deadline = time.monotonic() + ANSWER_SECONDS
        found = {}
        for name, leash in asked.items():
            answer = leash.answer(max(0.0, deadline - time.monotonic()))
            if answer is not None:
                found[name] = answer
        if found and self._began is None:
            self._began = time.monotonic()
        return found

    def problem(self, name: str) -> str | None:
        """The last line of a process that ended."""
        words = self._agents[name].site.problem()
        return None if words is None else words.splitlines()[-1]

    def advance(self, visits: bool) -> None:
        """Time goes on by itself."""

    def _make(self, name: str) -> Leashed:
        certificates.issue(self._folder / "certs", name, ["127.0.0.1"])
        listen, http = (f"127.0.0.1:{port}" for port in free_ports(2))
        leash = Leash()
        file = self._folder / f"{name}.toml"
        site = ProcessSite(name, file, f"http://{http}", launch=leash.launch)
        agent = self._agents[name] = Leashed(site, leash, listen, http)
        return agent

    def _write(self, name: str) -> None:
        agent = self._agents[name]
        both = [*self._links, *((b, a) for a, b in self._links)]
        write_settings(
            agent.site.file,
            {
                **agent_data(name, self._arms),
                "store": f"{name}.db",
                "http": agent.http,
                "listen": agent.listen,
                "neighbours": {b: self._agents[b].listen for a, b in both if a == name},
            },
        )

    def _reload(self, name: str) -> None:
        self._write(name)
        self._agents[name].leash.reload()

    def _signal(self, name: str, number: int) -> None:
        process = self._agents[name].site.process
        if process is not None and process.poll() is None:
            os.kill(process.pid, number)
