"""Agents as processes, told to stop at bad moments or started where they cannot be."""

import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing

import httpx
import pytest

from posse.live.exchange.replica import decode_entry
from posse.live.security import certificates
from tests.live.loopback import free_addresses

SOON = 60.0  # seconds, on a machine that does much else
SETTINGS = """
name = "berlin"
arms = ["red", "green"]
family = "bernoulli"
insecure = true
http = "{http}"
store = "berlin.db"
"""
OPEN = """
http_certificate = "web.pem"
http_token = "token"
probe = "{}"
"""
COMMAND = [sys.executable, "-c", "from posse.cli import main; main()", "agent"]


class Agents:
    """Agent processes in one folder, ended by their process ids."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, file="agent.toml", http=None, **options):
        path = self.folder / file
        path.write_text(SETTINGS.format(http=http or f"unix:{self.folder}/s"))
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([*COMMAND, str(path)], **options)
        self.processes.append(process)
        return process

    def ask(self):
        """A client of the agent at the socket."""
        transport = httpx.HTTPTransport(uds=f"{self.folder}/s")
        return httpx.Client(transport=transport, base_url="http://localhost", timeout=10)

    def wait(self):
        deadline = time.monotonic() + SOON
        with socket.socket(socket.AF_UNIX) as probe:
            while probe.connect_ex(f"{self.folder}/s"):
                assert time.monotonic() < deadline, "it did not answer"
                time.sleep(0.05)

    def end(self, process, *signals):
        """Send signals; what it printed, and that it ended well."""
        for number in signals:
            if process.poll() is None:
                os.kill(process.pid, number)
                time.sleep(0.05)
        out, err = process.communicate(timeout=SOON)
        assert process.returncode == 0, err
        assert not err
        return out

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=SOON)


@pytest.fixture
def agents(tmp_path):
    made = Agents(tmp_path)
    yield made
    made.close()


def one_line(process):
    _, err = process.communicate(timeout=SOON)
    assert process.returncode == 2, err
    (line,) = err.decode().splitlines()
    assert line.startswith("posse: ")
    return line


def visit(url, acknowledged, stop):
    """Rewards until nobody answers any more."""
    with httpx.Client(base_url=url, trust_env=False, timeout=10) as http:
        while not stop.is_set():
            try:
                made = http.post("/v1/decisions", json={}).json()["decision"]
                path = f"/v1/decisions/{made}/reward"
                if http.post(path, json={"reward": 1}).status_code == 200:
                    acknowledged.append(made)
            except (httpx.TransportError, KeyError):
                return


@pytest.mark.parametrize(
    "signals", [[signal.SIGTERM] * 3, pytest.param([signal.SIGINT], marks=pytest.mark.long)]
)
def test_told_to_stop_under_load(agents, signals):
    """It ends well, and all that it acknowledged is on disk, counted once."""
    process = agents.start(http="127.0.0.1:0")
    url = process.stdout.readline().decode().split()[-1]
    acknowledged, stop = [], threading.Event()
    visitors = [
        threading.Thread(target=visit, args=(url, acknowledged, stop), daemon=True)
        for _ in range(4)
    ]
    for visitor in visitors:
        visitor.start()
    deadline = time.monotonic() + SOON
    while len(acknowledged) < 40:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    out = agents.end(process, *signals)
    assert b"berlin stopped" in out
    stop.set()
    for visitor in visitors:
        visitor.join(SOON)
    with closing(sqlite3.connect(agents.folder / "berlin.db")) as store:
        rewarded = {row[0] for row in store.execute("SELECT id FROM decision WHERE reward = 1")}
        parts = "SELECT value FROM exchange WHERE part LIKE 'entry berlin %'"
        own = [decode_entry(json.loads(value)) for (value,) in store.execute(parts)]
    assert rewarded >= set(acknowledged)
    assert sum(entry.pulls() for entry in own) == len(rewarded) * 2**20


@pytest.mark.long
def test_nobody_reads_what_it_prints(agents):
    """As in `posse agent agent.toml | head -0`, and without a home."""
    reader, writer = os.pipe()
    os.close(reader)
    surroundings = {key: value for key, value in os.environ.items() if key != "HOME"}
    process = agents.start(stdout=writer, env=surroundings)
    os.close(writer)
    agents.wait()
    with agents.ask() as http:
        assert http.post("/v1/decisions", json={}).status_code == 200
    agents.end(process, signal.SIGTERM)


@pytest.mark.long
def test_two_in_one_place(agents):
    """The second says what is taken, and the first goes on."""
    first = agents.start(http="127.0.0.1:0")
    url = first.stdout.readline().decode().split()[-1]
    address = url.removeprefix("http://")
    assert "locked by a running agent" in one_line(agents.start("second.toml", http=address))
    text = SETTINGS.format(http=address).replace("berlin", "paris")
    (agents.folder / "third.toml").write_text(text)
    third = subprocess.Popen(
        [*COMMAND, str(agents.folder / "third.toml")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    agents.processes.append(third)
    assert "cannot be served" in one_line(third)
    assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    agents.end(first, signal.SIGTERM)


FEW_THREADS = """
import sys, threading
from posse.cli import main
left = [int(sys.argv[2])]
begin = threading.Thread.start
def start(thread):
    if not left[0]:
        raise RuntimeError("can't start new thread")
    left[0] -= 1
    begin(thread)
threading.Thread.start = start
main(["agent", sys.argv[1]])
"""


@pytest.mark.long
@pytest.mark.parametrize("threads", range(3))
def test_too_few_threads_to_start(agents, threads):
    """A traceback was printed, the store left open, and once the process stayed for ever."""
    path = agents.folder / "agent.toml"
    path.write_text(SETTINGS.format(http=f"unix:{agents.folder}/s"))
    process = subprocess.Popen(
        [sys.executable, "-c", FEW_THREADS, str(path), str(threads)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    agents.processes.append(process)
    assert "cannot start another thread" in one_line(process)


@pytest.mark.long
def test_an_address_for_others_its_token_and_its_probe(agents):
    """The application's address has TLS and a token, the probe's tells of health alone."""
    certificates.create_authority(agents.folder)
    web = certificates.issue_certificate(agents.folder, "web")
    (agents.folder / "token").write_text("s3cret-s3cret-s3cret\n")
    (agents.folder / "token").chmod(0o600)
    probe, http = free_addresses(2)
    path = agents.folder / "agent.toml"
    path.write_text(SETTINGS.format(http=http.replace("127.0.0.1", "0.0.0.0")) + OPEN.format(probe))

    def start():
        process = subprocess.Popen(
            [*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        agents.processes.append(process)
        return process

    for secret in (agents.folder / "token", web.key):  # open to others, neither is taken
        secret.chmod(0o644)
        assert f"chmod 600 {secret}" in one_line(start())
        secret.chmod(0o600)
    process = start()
    url = process.stdout.readline().decode().split()[-1].replace("0.0.0.0", "127.0.0.1")
    assert url.startswith("https://")
    verify = ssl.create_default_context(cafile=web.authority)
    with httpx.Client(base_url=url, verify=verify, trust_env=False, timeout=10) as client:
        assert client.post("/v1/decisions", json={}).status_code == 401
        client.headers["Authorization"] = "Bearer s3cret-s3cret-s3cret"
        assert client.post("/v1/decisions", json={}).status_code == 200
    seen = httpx.get(f"http://{probe}/healthz", headers={"Host": "any"}, trust_env=False)
    assert seen.status_code == 200
    assert httpx.get(f"http://{probe}/v1/arms", trust_env=False).status_code == 404
    agents.end(process, signal.SIGTERM)


@pytest.mark.long
def test_logs_for_machines(agents):
    path = agents.folder / "agent.toml"
    path.write_text(SETTINGS.format(http=f"unix:{agents.folder}/s") + 'log = "json"')
    process = subprocess.Popen(
        [*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    agents.processes.append(process)
    agents.wait()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=SOON)
    said = [json.loads(line) for line in err.splitlines()]
    assert [(each["agent"], each["message"]) for each in said] == [
        ("berlin", f"berlin answers at unix:{agents.folder}/s"),
        ("berlin", "berlin stopped"),
    ]
    assert (process.returncode, out) == (0, b"")
