"""Who may ask: tokens, TLS, operators, and the address for probes."""

import hmac
import json
import socket
import ssl
from contextlib import nullcontext

import httpx
import pytest

from posse.live.http import serve_node, serve_probe
from posse.live.http.access_control import AccessControl
from posse.live.http.health import get_traffic
from posse.live.http.protocol import ServerLimits
from posse.live.http.responses import RequestRefused
from posse.live.security.certificates import create_authority, issue_certificate
from tests.live.asking import ask, refused

TOKEN, ORDERS = "the application's", "the operators'"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def guarded(node):
    made = serve_node(
        node, "127.0.0.1:0", token=TOKEN, operator_token=ORDERS, reload=lambda: "nothing"
    )
    with made, httpx.Client(base_url=made.url, trust_env=False, timeout=10) as http:
        yield http


def test_a_token_is_needed_for_everything(guarded, node):
    for headers in [
        {}, bearer("another"), bearer("x"), bearer(TOKEN + "x"), bearer(TOKEN[:-1]),
        {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"},
    ]:  # fmt: skip
        answer = guarded.post("/v1/decisions", json={}, headers=headers)
        refused(answer, 401, "token", "Bearer")
        assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/v1/arms", "/metrics", "/openapi.json", "/healthz", "/nowhere"):
            refused(guarded.get(path, headers=headers), 401, "token")
    assert get_traffic(node).refusals["token_invalid"] == 7 * 6
    assert node.counts["decisions"] == 0
    for token in (TOKEN, ORDERS):
        assert guarded.post("/v1/decisions", json={}, headers=bearer(token)).status_code == 200
        assert guarded.get("/v1/arms", headers=bearer(token)).status_code == 200


def test_tokens_are_compared_in_constant_time(monkeypatch, guarded):
    """Else one finds them letter by letter."""
    seen = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: seen.append(b) or compare(a, b))
    guarded.get("/v1/arms", headers=bearer("x"))
    assert seen == [TOKEN.encode(), ORDERS.encode()]


def test_two_tokens_are_none(guarded):
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    refused(guarded.get("/v1/arms", headers=headers), 401)


def test_orders_need_the_operators_token(guarded, node):
    orders = [("/v1/pin", {"arm": "red"}), ("/v1/pause", {"arm": "red"}), ("/v1/resume", {})]
    orders += [("/v1/experiments/default/pin", {"arm": "red"}), ("/v1/reload", {})]
    for path, body in orders:
        refused(guarded.post(path, json=body), 401)
        answer = guarded.post(path, json=body, headers=bearer(TOKEN))
        refused(answer, 401, "operator")  # the application's never suffices
    assert node.experiment().control_status()["pinned"] is None
    guarded.headers.update(bearer(ORDERS))
    assert ask(guarded, "/v1/pin", {"arm": "red"})["pinned"] == "red"
    assert ask(guarded, "/v1/decisions", {})["arm"] == "red"
    refused(guarded.post("/v1/decisions", json={"allowed": ["green"]}), 409, "red")
    assert ask(guarded, "/v1/resume", {})["pinned"] is None
    assert ask(guarded, "/v1/experiments/default/pause", {"arm": "green"})["paused"] == ["green"]
    shown = guarded.get("/v1/experiments").json()["experiments"]["default"]
    assert (shown["pinned"], shown["paused"]) == (None, ["green"])
    assert guarded.get("/v1/controls").json()["paused"] == ["green"]
    refused(guarded.post("/v1/pin", json={"arm": "pink"}), 409, "pink")
    refused(guarded.post("/v1/pin", json={}), 422, "arm is missing")
    assert ask(guarded, "/v1/reload", {}) == {"changed": "nothing"}


def test_without_a_token_for_operators_there_are_no_orders(http, node):
    for path in ("/v1/pin", "/v1/pause", "/v1/resume", "/v1/reload"):
        answer = http.post(path, json={"arm": "red"}, headers=bearer("None"))
        refused(answer, 403, "operator_token", "agent.toml")
    assert node.experiment().control_status()["pinned"] is None


def test_a_bad_file_is_no_reload(node):
    def bad():
        raise ValueError("agent.toml: arms must be two or more different names")

    server = serve_node(node, "127.0.0.1:0", operator_token=ORDERS, reload=bad)
    with server, httpx.Client(base_url=server.url, headers=bearer(ORDERS)) as http:
        refused(http.post("/v1/reload", json={}), 422, "agent.toml", "arms")
    server = serve_node(node, "127.0.0.1:0", operator_token=ORDERS)
    with server, httpx.Client(base_url=server.url, headers=bearer(ORDERS)) as http:
        refused(http.post("/v1/reload", json={}), 422, "file")


@pytest.mark.parametrize(
    ("token", "server", "host", "let_in"),
    [
        (None, "127.0.0.1", b"evil.example", False),
        (None, "192.0.2.1", b"evil.example", False),
        (TOKEN, "127.0.0.1", b"evil.example", False),  # loopback stays protected
        (TOKEN, "::1", b"evil.example", False),
        (TOKEN, "192.0.2.1", b"agent.example", True),  # who rebinds a name has no token
        (TOKEN, "192.0.2.1", None, False),
        (TOKEN, "127.0.0.1", b"localhost:8700", True),
    ],
)
def test_names_of_the_agent(token, server, host, let_in):
    guard = AccessControl((), token)
    scope = {"server": (server, 80), "headers": []}
    with nullcontext() if let_in else pytest.raises(RequestRefused, match="http_hosts"):
        guard.check_host(scope, host)


@pytest.mark.parametrize("tokens", [("", None), (None, " "), ("a\nb", None), ("a", "a")])
def test_bad_tokens_are_refused(tokens):
    """An empty one would let in who brings none."""
    with pytest.raises(ValueError, match="_token must"):
        AccessControl((), *tokens)


@pytest.mark.parametrize("options", [{}, {"token": TOKEN}, {"insecure": True}])
def test_other_addresses_need_a_token_and_tls(node, options):
    with pytest.raises(ValueError, match=r"http_token and http_certificate"):
        serve_node(node, "0.0.0.0:0", **options)


def test_other_addresses_in_the_clear_if_one_insists(node):
    with serve_node(node, "0.0.0.0:0", token=TOKEN, insecure=True) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/v1/arms", headers=bearer(TOKEN)).status_code == 200
        refused(httpx.get(f"{url}/v1/arms"), 401)


@pytest.fixture
def files(tmp_path):
    create_authority(tmp_path / "certs")
    made = issue_certificate(tmp_path / "certs", "a")
    return made.authority, made.certificate, made.key


def test_tls(node, files):
    authority, certificate, key = files
    context = ssl.create_default_context(cafile=authority)
    made = serve_node(node, "localhost:0", token=TOKEN, certificate=certificate, key=key)
    assert made.url.startswith("https://")
    url = made.url.replace("127.0.0.1", "localhost")
    with made, httpx.Client(base_url=url, verify=context, headers=bearer(TOKEN)) as http:
        assert ask(http, "/v1/decisions", {})["arm"] in node.agent.arm_names
        assert get_traffic(node).renew_certificate() is False
        issue_certificate(certificate.parent, "a", force=True)
        assert get_traffic(node).renew_certificate() is True
        assert http.get("/v1/arms").status_code == 200
        with pytest.raises(httpx.HTTPError):  # in the clear it says nothing
            httpx.get(url.replace("https", "http") + "/v1/arms", trust_env=False)
        key.write_text("no key")
        with pytest.raises(ValueError, match="http_certificate"):
            get_traffic(node).renew_certificate()
        assert http.get("/v1/arms").status_code == 200
    with pytest.raises(ValueError, match=r"http_certificate .* PEM"):
        serve_node(node, "localhost:0", token=TOKEN, certificate=certificate, key=key)


def test_who_does_not_shake_hands_is_let_go(node, files):
    """It held a descriptor for a minute."""
    _, certificate, key = files
    tls = {"certificate": certificate, "key": key, "limits": ServerLimits(request_seconds=0.2)}
    with serve_node(node, "127.0.0.1:0", token=TOKEN, **tls) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
            assert raw.recv(1) == b""


def test_probes_have_an_address_of_their_own(node, server):
    ask_host = {"Host": "kubelet.example:9"}
    with serve_probe(node, "0.0.0.0:0") as probe:
        url = probe.url.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, headers=ask_host, trust_env=False) as http:
            assert http.get("/healthz").json() == {"status": "alive"}
            assert http.get("/readyz").json() == {"status": "ready"}
            assert "posse_decisions_total" in http.get("/metrics").text
            for path in (
                "/v1/arms",
                "/v1/network",
                "/openapi.json",
                "/v1/experiments/default/arms",
            ):
                refused(http.get(path), 404)
            refused(http.post("/v1/decisions", json={}), 404)
            node.failures.add("tick")
            refused(http.get("/readyz"), 503)
    assert node.counts["decisions"] == 0


def test_a_probe_without_host_is_answered(node):
    with serve_probe(node, "127.0.0.1:0") as probe:
        port = int(probe.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
            raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"status": "alive"}
