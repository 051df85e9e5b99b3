"""A swarm: real agent processes on this machine, with visitors, kills and a count at the end."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posse.live import certificates
from posse.live.client import Client
from posse.live.exchange.quanta import PER_UNIT

START_SECONDS = 30.0  # an agent that does not answer by then has failed
SETTLE_SECONDS = 60.0


@dataclass
class Site:
    """One agent process, its address and what its visitors did."""

    name: str
    file: Path
    url: str
    process: subprocess.Popen[bytes] | None = None
    acknowledged: int = 0
    regret: float = 0.0
    restarts: int = 0
    pulls: dict[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """Start the process, without waiting until it answers."""
        log = self.file.with_suffix(".log").open("ab")
        code = "from posse.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "agent", str(self.file)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        log.close()

    def kill(self) -> None:
        """End it as a power failure would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        """End it cleanly, or else."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()


class Swarm:
    """Agents on the links of a graph, and visitors at each of them."""

    def __init__(
        self,
        folder: Path,
        links: Sequence[tuple[int, int]],
        n_agents: int,
        means: Mapping[str, float],
        *,
        exchange: str = "origins",
        visits_per_second: float = 20.0,
        tick_seconds: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.means, self.exchange = dict(means), exchange
        self.pause = 1.0 / visits_per_second
        self.random = random.Random(seed)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        certificates.create_authority(folder / "certs")
        names = [f"agent-{i}" for i in range(n_agents)]
        ports = _free_ports(2 * n_agents)
        self.sites = []
        for i, name in enumerate(names):
            certificates.issue(folder / "certs", name, ["127.0.0.1"])
            near = {names[b if a == i else a]: ports[b if a == i else a] for a, b in links
                    if i in (a, b)}  # fmt: skip
            file = folder / f"{name}.toml"
            file.write_text(
                _toml(name, self.means, exchange, n_agents, ports[i], ports[n_agents + i], near,
                      tick_seconds)
            )  # fmt: skip
            self.sites.append(Site(name, file, f"http://127.0.0.1:{ports[n_agents + i]}"))

    def start(self) -> None:
        """Start all agents and wait until each answers."""
        for site in self.sites:
            site.start()
        for site in self.sites:
            self.wait_for(site)

    def wait_for(self, site: Site) -> None:
        """Wait until an agent answers."""
        deadline = time.monotonic() + START_SECONDS
        with Client(site.url) as client:
            while True:
                try:
                    client.arms()
                    return
                except Exception:
                    dead = site.process is not None and site.process.poll() is not None
                    if dead or time.monotonic() > deadline:
                        log = site.file.with_suffix(".log").read_text()[-500:]
                        raise ValueError(f"{site.name} did not start: {log}") from None
                    time.sleep(0.05)

    def visit(self) -> None:
        """Let visitors come to all sites, until `end_visits`."""
        for i, site in enumerate(self.sites):
            thread = threading.Thread(target=self._visitors, args=(site, i), daemon=True)
            thread.start()
            self._threads.append(thread)

    def end_visits(self) -> None:
        """No more visitors; those who wait for an answer get it."""
        self._ended.set()
        for thread in self._threads:
            thread.join(SETTLE_SECONDS)

    def kill_one(self) -> Site:
        """Kill a random agent and start it again."""
        site = self.random.choice(self.sites)
        site.kill()
        site.restarts += 1
        site.start()
        return site

    def stop(self) -> None:
        """End all processes."""
        self._ended.set()
        for site in self.sites:
            site.stop()

    def counts(self) -> tuple[int, list[float]]:
        """The pulls that agents saw themselves, in all; and those that each holds of all."""
        own, held = 0, []
        for site in self.sites:
            with Client(site.url) as client:
                evidence = client.evidence()
            own += sum(quanta[-1] for quanta in evidence["own"].values())
            held.append(sum(quanta[-1] for quanta in evidence["held"].values()) / PER_UNIT)
        return own // PER_UNIT, held

    def settle(self) -> tuple[int, list[float]]:
        """Wait until what the agents hold agrees with what they saw, or for as long as is fair."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            own, held = self.counts()
            near = 0.5 if self.exchange == "flows" else 1e-6
            if all(abs(each - own) < near for each in held) or time.monotonic() > deadline:
                return own, held
            time.sleep(0.2)

    @property
    def acknowledged(self) -> int:
        """The rewards that agents said they have."""
        return sum(site.acknowledged for site in self.sites)

    def _visitors(self, site: Site, number: int) -> None:
        generator = random.Random(f"{self.random.random()} {number}")
        best = max(self.means.values())
        with Client(site.url, timeout=5.0) as client:
            while not self._ended.wait(self.pause):
                decision = _until_answered(lambda: client.pull())
                reward = float(generator.random() < self.means[decision.arm])
                site.pulls[decision.arm] = site.pulls.get(decision.arm, 0) + 1
                site.regret += best - self.means[decision.arm]
                _until_answered(lambda d=decision, r=reward: client.update(d, r))
                site.acknowledged += 1


def _until_answered(ask: Any) -> Any:
    """Ask again while the agent is down: requests are idempotent."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return ask()
        except ValueError:
            raise
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; held together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _toml(
    name: str,
    means: Mapping[str, float],
    exchange: str,
    n_agents: int,
    port: int,
    http: int,
    neighbours: Mapping[str, int],
    tick_seconds: float,
) -> str:
    arms = ", ".join(f'"{arm}"' for arm in means)
    lines = [
        f'name = "{name}"', f"arms = [{arms}]", 'family = "bernoulli"',
        f'exchange = "{exchange}"', f'store = "{name}.db"', f'http = "127.0.0.1:{http}"',
        f'listen = "127.0.0.1:{port}"', f"tick_seconds = {tick_seconds}",
    ]  # fmt: skip
    if exchange == "flows":
        lines.append(f"network_size = {n_agents}")
    lines += ["[neighbours]", *(f'{peer} = "127.0.0.1:{p}"' for peer, p in neighbours.items())]
    return "\n".join(lines) + "\n"
