"""Pages of other sites in a browser on the agent's machine: they learn and change nothing."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from posse.live.config.agent_settings import settings_from_data
from posse.live.http import serve_node

OURS = ["127.0.0.1", "localhost", "LOCALHOST:80", "127.0.0.1:8700", "[::1]", "[::1]:99"]
THEIRS = [
    "evil.example", "evil.example:8700", "localhost.evil.example", "127.0.0.1.evil.example", "",
    "localhost.", "127.0.0.1@evil.example", "localhost:80:80", "[::1].evil", "0.0.0.0", "127.0.0.2",
    "[::1", "\xff", "agent.example.org.evil",
]  # fmt: skip


def ask(http, host, method="POST", **options):
    headers = {"Host": host.encode("latin-1"), **options.pop("headers", {})}
    return http.request(method, "/v1/decisions", headers=headers, **options)


def test_a_name_made_to_point_here_is_refused(node):
    """DNS rebinding: to the browser the page and the agent are then one site."""
    server = serve_node(node, "127.0.0.1:0", ["Agent.example.org"])
    with server, httpx.Client(base_url=server.url, trust_env=False) as http:
        for host in [*OURS, "agent.example.org", "AGENT.example.org:443"]:
            assert ask(http, host, json={}).status_code == 200, host
        made = node.counts["decisions"]
        for host in THEIRS:
            for method in ("POST", "GET", "OPTIONS"):
                answer = ask(http, host, method, json={})
                if answer.status_code != 400:  # what is no host is no HTTP either
                    assert answer.status_code == 403, host
                    assert "http_hosts" in answer.json()["error"]
        assert node.counts["decisions"] == made == len(OURS) + 2


@pytest.mark.parametrize(
    "hosts", [["localhost", "evil.example"], ["evil.example", "localhost"], ["localhost"] * 2, []]
)
def test_a_request_with_two_hosts_or_none_is_refused(node, hosts):
    """What a proxy on the way took for the host may be the other one."""
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    with serve_node(node, "127.0.0.1:0") as server:
        parts = urlsplit(server.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as raw:
            raw.sendall(f"GET /v1/arms HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.split()[1] in (b"400", b"403")
    assert b"pulls_here" not in answer


def test_a_unix_socket_goes_by_any_name(node, tmp_path):
    """No browser gets there."""
    with serve_node(node, f"unix:{tmp_path}/s"):
        transport = httpx.HTTPTransport(uds=f"{tmp_path}/s")
        with httpx.Client(transport=transport, base_url="http://evil.example") as http:
            assert http.post("/v1/decisions", json={}).status_code == 200


def test_a_page_of_another_site_gets_no_permission(node):
    """What a browser sends without asking is refused, and when it asks it is refused too."""
    other = {"Origin": "https://evil.example"}
    asking = {**other, "Access-Control-Request-Method": "POST"}
    asking |= {"Access-Control-Request-Headers": "content-type"}
    server = serve_node(node, "127.0.0.1:0")
    with server, httpx.Client(base_url=server.url, trust_env=False) as http:
        answers = [ask(http, "localhost", "OPTIONS", headers=asking)]
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            headers = {**other, "Content-Type": kind}
            answers.append(ask(http, "localhost", content=b"{}", headers=headers))
        answers.append(ask(http, "localhost", content=b"{}", headers=other))
        assert [answer.status_code for answer in answers] == [405, 415, 415, 415, 415]
        answers.append(http.get("/v1/arms", headers=other))
        for answer in answers:
            assert not any(name.startswith("access-control") for name in answer.headers)
    assert node.counts["decisions"] == 0


def test_the_names_of_a_proxy_come_from_the_settings():
    data = {"name": "a", "arms": ["x", "y"], "family": "bernoulli"}
    assert settings_from_data({**data, "http_hosts": ["a.example"]}).http_hosts == ("a.example",)
    for wrong in ("a.example", [1], [""], {"a": "b"}):
        with pytest.raises(ValueError, match="http_hosts"):
            settings_from_data({**data, "http_hosts": wrong})
