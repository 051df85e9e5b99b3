"""Sites whose agents run in their own processes, with mutual TLS on loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.request import ProxyHandler, build_opener

from posse.live.client import Client
from posse.live.demo.site import AgentSite, Visitor
from posse.live.exchange import DEFAULT
from posse.live.ledger import Ledger
from posse.live.security import create_authority, issue_certificate

# without the proxies of the environment: the agents are on this machine
OPENER = build_opener(ProxyHandler({}))

Route = Callable[[str, str, int], int]
Launch = Callable[[Path, BinaryIO], subprocess.Popen[bytes]]


def launch_agent(file: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start `posse agent`; its output goes to the log."""
    return subprocess.Popen(
        [sys.executable, "-c", "from posse.cli import main; main()", "agent", file],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
    )


class ProcessSite(AgentSite):
    """An agent in its own process, reached over HTTP."""

    def __init__(
        self,
        name: str,
        file: Path,
        url: str,
        experiments: Sequence[str] = (DEFAULT,),
        launch: Launch = launch_agent,
    ) -> None:
        super().__init__(name, experiments)
        self.file = file
        self.url = url
        self._launch = launch
        self.process: subprocess.Popen[bytes] | None = None
        self._clients = {
            experiment: Client(url, timeout=30.0, attempts=1, experiment=experiment)
            for experiment in experiments
        }

    def start(self) -> None:
        """Start the process; its output goes to its log."""
        with self.file.with_suffix(".log").open("ab") as log, _delay_interrupts():
            self.process = self._launch(self.file, log)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)

    def request_stop(self) -> None:
        """Ask the process to stop (SIGTERM)."""
        if self.process is not None:
            self.process.terminate()

    def stop(self) -> None:
        """Stop the process by SIGTERM, or by SIGKILL if it does not end."""
        self.request_stop()
        try:
            if self.process is not None:
                self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()
        for client in self._clients.values():
            client.close()

    def open_visitor(self, experiment: str) -> AbstractContextManager[Visitor]:
        """Return a client of an experiment."""
        # the swarm itself retries for longer
        return Client(self.url, attempts=2, backoff=0.05, experiment=experiment)

    def read_evidence(self, experiment: str = DEFAULT) -> dict[str, Ledger]:
        """Fetch /v1/evidence."""
        return self._clients[experiment].evidence()

    def read_metrics(self) -> str:
        """Fetch /metrics."""
        with OPENER.open(f"{self.url}/metrics", timeout=2.0) as answer:
            return str(answer.read().decode())

    def find_problem(self) -> str | None:
        """Return the end of the log if the process has ended."""
        if self.process is None or self.process.poll() is None:
            return None
        words = self.file.with_suffix(".log").read_text(errors="replace").strip()
        return words[-500:] or f"exit code {self.process.returncode}"


def create_process_sites(
    folder: Path,
    links: Sequence[tuple[int, int]],
    agents: Sequence[Mapping[str, Any]],
    route: Route = lambda source, target, port: port,
) -> list[ProcessSite]:
    """Create sites with certificates, stores and logs in a folder, from the settings of each agent.

    route(source, target, port): the port at which `source` connects to `target`, which listens at
    `port`; a test can put a proxy between them.
    """
    create_authority(folder / "certs")
    # Two for each agent: neighbours connect to the first half, applications to the second. A port
    # may be taken before its agent starts; the agent then ends with a sentence in its log.
    ports = free_ports(2 * len(agents))
    names = [str(agent["name"]) for agent in agents]
    both = [*links, *((b, a) for a, b in links)]
    sites = []
    for i, agent in enumerate(agents):
        issue_certificate(folder / "certs", names[i], ["127.0.0.1"])
        http = f"127.0.0.1:{ports[len(agents) + i]}"
        places = {"store": f"{names[i]}.db", "http": http, "listen": f"127.0.0.1:{ports[i]}"}
        dials = {
            names[b]: f"127.0.0.1:{route(names[i], names[b], ports[b])}" for a, b in both if a == i
        }
        file = folder / f"{names[i]}.toml"
        write_settings(file, {**agent, **places, "neighbours": dials})
        experiments = list(agent.get("experiments", [DEFAULT]))
        sites.append(ProcessSite(names[i], file, f"http://{http}", experiments))
    return sites


def write_settings(file: Path, agent: Mapping[str, Any]) -> None:
    """Write an agent.toml atomically: a process may be reading it."""
    tables = {"neighbours": agent["neighbours"]}
    for name, table in agent.get("experiments", {}).items():
        tables[f"experiments.{name}"] = table
    top = {key: value for key, value in agent.items() if key not in ("neighbours", "experiments")}
    text = "".join(f"[{name}]\n{_to_toml(table)}" for name, table in tables.items())
    fresh = file.with_suffix(".new")
    fresh.write_text(_to_toml(top) + text)
    fresh.replace(file)


@contextmanager
def _delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM: a process that is started but not yet stored would be orphaned."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread is interrupted
        yield
        return
    delayed: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: delayed.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(signal.getsignal(number))  # otherwise the signal raises nothing in Python
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        # The first is enough: either of them ends the command.
        if delayed:
            signal.raise_signal(delayed[0])


def free_ports(count: int) -> list[int]:
    """Return free ports; all are bound at the same time, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def _to_toml(table: Mapping[str, Any]) -> str:
    """Write a table of text, numbers and lists; Python's repr of these is valid TOML."""
    return "".join(f"{key} = {value!r}\n" for key, value in table.items())
