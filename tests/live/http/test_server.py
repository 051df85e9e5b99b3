"""Where an agent serves, and where it refuses to."""

import gc
import socket
import time
from types import FunctionType, ModuleType

import httpx
import pytest

from posse.live.http import serve_node
from posse.live.http.health import get_traffic

OTHERS = "0.0.0.0:80 [::]:80 192.0.2.1:80 example.org:80 :80 80 127.0.0.1 127.0.0.1:x [::1:80"
OTHERS += " 127.0.0.1:99999 http://127.0.0.1:80 a@127.0.0.1:80 127.0.0.1:80/path 127.0.0.2:80"
OTHERS += " localhost.example.org:80 127.0.0.1:80?x 127.0.0.1:-1"


def test_other_addresses_are_refused(node):
    for address in ["", *OTHERS.split()]:
        with pytest.raises(ValueError, match=r"reverse proxy.*docs/live\.md"):
            serve_node(node, address)


def test_addresses(node, tmp_path):
    with serve_node(node, "localhost:0") as server:
        assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200
        with pytest.raises(ValueError, match="cannot be served"):
            serve_node(node, server.url.removeprefix("http://"))
    if socket.has_ipv6 and _has_loopback6():
        with serve_node(node, "[::1]:0") as server:
            assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200
    with pytest.raises(ValueError, match="full path"):
        serve_node(node, "unix:agent.sock")
    with pytest.raises(ValueError, match="cannot be served"):
        serve_node(node, f"unix:{tmp_path}/nowhere/agent.sock")


def _has_loopback6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_a_unix_socket(node, tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:  # a process that died left it
        dead.bind(str(path))
    with serve_node(node, f"unix:{path}") as server:
        assert server.url == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as http:
            assert http.get("http://localhost/healthz").status_code == 200
        with pytest.raises(ValueError, match="cannot be served"):
            serve_node(node, f"unix:{path}")
        assert path.exists()
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(ValueError, match="cannot be served"):
        serve_node(node, f"unix:{path}")
    assert path.read_text() == "mine"


def test_stopping_does_not_wait_for_idle_clients(node):
    server = serve_node(node, "127.0.0.1:0")
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        assert http.get("/healthz").status_code == 200
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 3
    assert not server.alive


def test_a_node_that_was_served_is_not_kept(node):
    """What is counted of it goes with it."""
    with serve_node(node, "127.0.0.1:0") as server:
        assert httpx.get(f"{server.url}/v1/arms", trust_env=False).status_code == 200
    traffic = get_traffic(node)
    seen, waiting = set(), [traffic]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        assert each is not node
        seen.add(id(each))
        function = isinstance(each, FunctionType)  # whose globals lead everywhere
        waiting += (each.__closure__ or ()) if function else gc.get_referents(each)
