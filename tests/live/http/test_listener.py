"""Sockets that do not finish their TLS handshakes: few are kept, and honest clients are served."""

import contextlib
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from posse.live.http import listener, serve_node
from posse.live.http.health import get_traffic
from posse.live.http.listener import MIN_PENDING
from posse.live.http.protocol import ServerLimits
from posse.live.security.certificates import create_authority, issue_certificate
from tests.live.loopback import SOON, wait_until

TOKEN = "of-the-application"
PLACES = 40
HALF_HELLO = bytes.fromhex("160301020001")  # a client may pause anywhere in its first message
SETTINGS = """
name = "berlin"
arms = ["red", "green"]
family = "bernoulli"
insecure = true
http = "127.0.0.1:0"
http_certificate = "certs/berlin.pem"
http_key = "certs/berlin.key"
http_token = "token"
store = "berlin.db"
"""


@pytest.fixture
def files(tmp_path):
    create_authority(tmp_path / "certs")
    return issue_certificate(tmp_path / "certs", "berlin")


@pytest.fixture
def crowd():
    """Sockets that send a few bytes at most; they are closed at the end."""
    with contextlib.ExitStack() as stack:

        def connect(url, number, content=b""):
            sockets = [stack.enter_context(dial(url)) for _ in range(number)]
            for raw in sockets:
                with contextlib.suppress(ConnectionError):  # it was closed already
                    raw.sendall(content)
            return sockets

        yield connect


@contextlib.contextmanager
def serve(node, files, **limits):
    limits = ServerLimits(**{"max_connections": PLACES, "request_seconds": 1000.0, **limits})
    tls = {"certificate": files.certificate, "key": files.key, "limits": limits}
    with serve_node(node, "127.0.0.1:0", token=TOKEN, **tls) as server:
        yield server


def dial(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=SOON)


def count_open(sockets):
    return sum(map(is_open, sockets))


def is_open(raw):
    """Return whether the server has not closed its end."""
    raw.setblocking(False)
    try:
        return raw.recv(1000) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def make_client(url, files, token=TOKEN):
    verify = ssl.create_default_context(cafile=files.authority)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, verify=verify, headers=headers, trust_env=False, timeout=SOON)


def ask(url, files, token=TOKEN):
    """Ask over a connection of its own."""
    with make_client(url, files, token) as http:
        assert http.post("/v1/decisions", json={}).status_code == 200


@pytest.mark.parametrize(
    ("content", "places"),
    [(b"", PLACES), (HALF_HELLO, MIN_PENDING)],
    ids=["silent", "half a hello"],
)
def test_half_open_handshakes_have_a_number(node, files, crowd, content, places):
    """They were not counted: 9000 of them took 480 MB, and most of it for ever."""
    with serve(node, files) as server:
        sockets = crowd(server.url, 3 * PLACES, content)
        wait_until(lambda: count_open(sockets) <= places)
        refusals = get_traffic(node).refusals
        assert refusals["too_many_connections"] == 3 * PLACES - places
        ask(server.url, files)
        assert count_open(sockets) == places - 1  # the oldest made room
        assert not is_open(sockets[-places])
        for raw in sockets:
            raw.close()
        wait_until(lambda: takes_all(server.url, PLACES - 1), "sockets that left still count")
        ask(server.url, files)


def takes_all(url, number):
    """Return whether the server keeps so many new silent sockets."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(dial(url)) for _ in range(number)]
        time.sleep(0.1)  # until a displaced one is closed
        return count_open(sockets) == number


def test_neither_silent_sockets_nor_half_hellos_take_all_places(node, files, crowd):
    """Else a client would be displaced before its first byte arrives, or right after it."""
    with serve(node, files) as server, dial(server.url) as slow:  # which says nothing yet
        halves = []
        for _ in range(10):
            halves += crowd(server.url, 5, HALF_HELLO)
            wait_until(lambda sockets=tuple(halves): count_open(sockets) <= MIN_PENDING)
        assert is_open(slow)
        silent = crowd(server.url, 3 * PLACES)
        wait_until(lambda: count_open(silent) <= PLACES - MIN_PENDING)
        assert not is_open(slow)
        assert count_open(halves) == MIN_PENDING


def test_connections_are_not_displaced_by_silent_sockets(node, files, crowd):
    with serve(node, files, max_connections=3) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(make_client(server.url, files)) for _ in range(3)]
        for http in clients:
            assert http.get("/v1/arms").status_code == 200
        connections = set(server.state.connections)
        sockets = crowd(server.url, 3 * MIN_PENDING)
        wait_until(lambda: count_open(sockets) <= MIN_PENDING)
        assert server.state.connections == connections
        for http in clients:
            assert http.get("/v1/arms").status_code == 200
        assert server.state.connections == connections
        # a finished handshake takes the place of the longest idle connection, as without TLS
        ask(server.url, files)
        wait_until(lambda: len(server.state.connections & connections) == 2)


@pytest.mark.parametrize("content", [b"", HALF_HELLO], ids=["silent", "half a hello"])
def test_a_handshake_has_a_time(node, files, crowd, content):
    with serve(node, files, request_seconds=0.2) as server:
        sockets = crowd(server.url, 5, content)
        wait_until(lambda: count_open(sockets) == 0)
        assert get_traffic(node).refusals["too_slow"] == 5


def test_other_bytes_than_tls_and_early_ends_leave_nothing(node, files, crowd, caplog):
    with serve(node, files) as server:
        sockets = crowd(server.url, 2 * PLACES, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: count_open(sockets) == 0)
        for raw in crowd(server.url, 2 * PLACES):
            raw.close()
        ask(server.url, files)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_stopping_closes_half_open_handshakes(node, files, crowd):
    with serve(node, files) as server:
        sockets = crowd(server.url, 5) + crowd(server.url, 5, HALF_HELLO)
        ask(server.url, files)
    assert not server.alive
    assert count_open(sockets) == 0


def test_without_a_free_descriptor_it_tries_again(node, files, monkeypatch, caplog):
    monkeypatch.setattr(listener, "RETRY_SECONDS", 0.05)
    context = ssl.create_default_context(cafile=files.authority)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serve(node, files) as server, socket.socket() as raw:
        with socket.socket() as probe:
            lowest_free = probe.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            raw.settimeout(SOON)
            raw.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
            wait_until(lambda: "no connection can be accepted" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as secure:
            secure.sendall(b"GET /v1/arms HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert secure.recv(1000).startswith(b"HTTP/1.1 401 ")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("content", [b"", HALF_HELLO], ids=["silent", "half a hello"])
def test_an_agent_under_thousands_of_half_open_handshakes(files, tmp_path, crowd, content):
    """9000 of them took its memory from 93 to 532 MB."""
    (tmp_path / "agent.toml").write_text(SETTINGS)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    number = 4000 if hard == resource.RLIM_INFINITY else min(4000, hard - 300)
    command = [sys.executable, "-c", "from posse.cli import main; main()", "agent", "agent.toml"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        url = process.stdout.readline().decode().split()[-1]
        ask(url, files)
        before = measure_process(process.pid)
        for _ in range(4):
            crowd(url, number // 4, content)
            ask(url, files)
        during = measure_process(process.pid)
        assert during["descriptors"] - before["descriptors"] <= 1010
        assert during["megabytes"] - before["megabytes"] < 130  # 230 without a limit
        ask(url, files)
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=SOON)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert process.returncode == 0


def measure_process(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    resident = status.partition("VmRSS:")[2].split()[0]
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "megabytes": int(resident) / 1000}
