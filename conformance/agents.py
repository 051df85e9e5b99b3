"""Real agents for other people's software: processes with certificates, tokens and some visits."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OPERATOR = "operator-token-of-some-length-0001"
START_SECONDS = 60.0
KINDS = {
    "plain": 'family = "bernoulli"\nstop = {error = 0.05, tolerance = 0.005}\n',
    "contexts": 'family = {name = "logistic", rate = 0.1}\n',
    "shop": """family = {name = "revenue", alpha = 1, beta = 32, sale_shape = 2, sale_scale = 40}
reward_range = [0, 800]
control_arm = "red"
holdout = 0.1
""",
}
TABLES = {
    "plain": "",
    "contexts": """
[context]
country = ["de", "fr"]
returning = "flag"
basket = {low = 0, high = 500}
""",
    "shop": """
[metrics.latency]
range = [0, 10000]
worse = "higher"
limit = 300
""",
}


@dataclass(frozen=True)
class RunningAgent:
    """An agent that answers."""

    url: str
    folder: Path

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an operator."""
        return {"Authorization": f"Bearer {OPERATOR}"}

    def ask(self, path: str, body: object = None) -> str:
        """Ask with the operators' token; returns the text of the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = self.headers | {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())


@contextmanager
def run_agent(folder: Path, kind: str = "plain") -> Iterator[RunningAgent]:
    """Run an agent with a certificate, tokens and a neighbour that is away, until the end."""
    folder.mkdir(parents=True)
    http, listen, away = free_ports(3)
    for command in (["init"], ["issue", "berlin"]):
        arguments = [sys.executable, "-m", "posse", "certs", *command]
        subprocess.run(arguments, cwd=folder, check=True, capture_output=True)
    for name, token in (("token", "application-token-of-some-length"), ("operator", OPERATOR)):
        (folder / name).write_text(token)
        (folder / name).chmod(0o600)
    (folder / "agent.toml").write_text(
        f"""name = "berlin"
arms = ["red", "green", "blue"]
{KINDS[kind]}http = "127.0.0.1:{http}"
http_token = "token"
operator_token = "operator"
listen = "127.0.0.1:{listen}"
reward_window = 3600
default_reward = 0

[neighbours]
paris = "127.0.0.1:{away}"
{TABLES[kind]}"""
    )
    command = [sys.executable, "-m", "posse", "agent", "agent.toml"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    agent = RunningAgent(f"http://127.0.0.1:{http}", folder)
    try:
        wait_for_agent(agent, process)
        yield agent
    finally:
        process.terminate()
        process.wait(30)


def wait_for_agent(agent: RunningAgent, process: subprocess.Popen[bytes]) -> None:
    """Wait until an agent answers."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            agent.ask("/readyz")
            return
        except (OSError, urllib.error.URLError):
            if process.poll() is not None or time.monotonic() > deadline:
                log = (agent.folder / "log").read_text()[-2000:]
                raise RuntimeError(f"the agent did not start: {log}") from None
            time.sleep(0.1)


def make_visits(agent: RunningAgent, count: int = 60) -> None:
    """Let some visitors come, so that metrics and exports have something to show."""
    for number in range(count):
        decision = json.loads(agent.ask("/v1/decisions", {}))["decision"]
        agent.ask(f"/v1/decisions/{decision}/reward", {"reward": float(number % 3 == 0)})


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
