"""The demonstration with processes: agents with mutual TLS on loopback, in real time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.live.demo.child_process import ChildProcess
from posse.live.demo.fault_injection import AgentSnapshot, Faults
from posse.live.demo.page.stage import agent_data
from posse.live.demo.processes import ProcessSite, free_ports, write_settings
from posse.live.demo.site import AgentSite
from posse.live.security import create_authority, issue_certificate

ANSWER_SECONDS = 0.3  # for the replies of all agents together


@dataclass(frozen=True)
class AgentProcess:
    """One agent: its site, the pipes to its process, and its addresses."""

    site: ProcessSite
    child: ChildProcess
    listen: str
    http: str


class ProcessBackend:
    """Agents in their own processes."""

    stepped = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started_at: float | None = None
        self._agents: dict[str, AgentProcess] = {}
        self._links: list[tuple[str, str]] = []
        self._arms: list[str] = []
        create_authority(folder / "certs")

    @property
    def now(self) -> float:
        """Seconds since the first agent answered."""
        return 0.0 if self._started_at is None else time.monotonic() - self._started_at

    def start_agents(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[AgentSite]:
        """Start agents that play these arms."""
        self._arms = list(arms)
        self._links = list(links)
        # All agents get their ports first, because every settings file names those of the
        # neighbours.
        for name in names:
            self._create_agent(name)
        for name in names:
            self._write_file(name)
            self._agents[name].site.start()
        return [agent.site for agent in self._agents.values()]

    def add_agent(self, name: str, neighbours: Sequence[str]) -> AgentSite:
        """Start one more agent and reload its neighbours."""
        self._links += [(neighbour, name) for neighbour in neighbours]
        agent = self._create_agent(name)
        self._write_file(name)
        agent.site.start()
        for neighbour in neighbours:
            self._reload_agent(neighbour)
        return agent.site

    def start_agent(self, name: str) -> None:
        """Start an agent that was killed."""
        self._agents[name].site.start()

    def kill_agent(self, name: str) -> None:
        """Kill an agent (SIGKILL)."""
        self._agents[name].site.kill()

    def pause_agent(self, name: str) -> None:
        """Stop an agent (SIGSTOP)."""
        self._send_signal(name, signal.SIGSTOP)

    def resume_agent(self, name: str) -> None:
        """Let a stopped agent continue (SIGCONT)."""
        self._send_signal(name, signal.SIGCONT)

    def set_faults(self, name: str, faults: Faults) -> None:
        """Apply faults to the messages of an agent."""
        self._agents[name].child.set_faults(faults)

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""
        self._arms = list(arms)
        for name in self._agents:
            self._reload_agent(name)

    def take_snapshots(self, names: Iterable[str]) -> dict[str, AgentSnapshot]:
        """Return the snapshots of those of these agents that answer in time."""
        children = {name: self._agents[name].child for name in names}
        for child in children.values():
            child.request_snapshot()
        deadline = time.monotonic() + ANSWER_SECONDS
        snapshots = {}
        for name, child in children.items():
            snapshot = child.wait_for_snapshot(max(0.0, deadline - time.monotonic()))
            if snapshot is not None:
                snapshots[name] = snapshot
        if snapshots and self._started_at is None:
            self._started_at = time.monotonic()
        return snapshots

    def find_problem(self, name: str) -> str | None:
        """Return the last log line of a process that has ended."""
        words = self._agents[name].site.find_problem()
        return None if words is None else words.splitlines()[-1]

    def advance_time(self, visits: bool) -> None:
        """Do nothing: time is real."""

    def _create_agent(self, name: str) -> AgentProcess:
        issue_certificate(self._folder / "certs", name, ["127.0.0.1"])
        listen, http = (f"127.0.0.1:{port}" for port in free_ports(2))
        child = ChildProcess()
        file = self._folder / f"{name}.toml"
        site = ProcessSite(name, file, f"http://{http}", launch=child.launch_agent)
        agent = self._agents[name] = AgentProcess(site, child, listen, http)
        return agent

    def _write_file(self, name: str) -> None:
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

    def _reload_agent(self, name: str) -> None:
        self._write_file(name)
        self._agents[name].child.request_reload()

    def _send_signal(self, name: str, number: int) -> None:
        process = self._agents[name].site.process
        if process is not None and process.poll() is None:
            os.kill(process.pid, number)
