"""The HTTP interface under requests that are too large, wrong, random or at once."""

import socket
import threading

import httpx

from posse.live.agent import arm_status as showing
from tests.live.asking import JSON, ask, refused


def test_large_bodies(http, node):
    padding = b'{"decision": "' + b"x" * 2_000_000 + b'"}'
    refused(http.post("/v1/decisions", content=padding, headers=JSON), 413, "1000000")

    def chunks():
        yield from (padding[i : i + 50_000] for i in range(0, len(padding), 50_000))

    refused(http.post("/v1/decisions", content=chunks(), headers=JSON), 413, "1000000")
    refused(http.request("GET", "/v1/arms", content=padding), 413)
    chunked = http.post("/v1/decisions", content=iter([b'{"decision"', b': "x"}']), headers=JSON)
    assert chunked.json()["decision"] == "x"
    deep = b'{"allowed": ' + b"[" * 400_000 + b"]" * 400_000 + b"}"
    refused(http.post("/v1/decisions", content=deep, headers=JSON), 422)
    assert node.counts["decisions"] == 1


def test_a_large_body_is_refused_before_it_is_sent(server):
    """A length is enough, and so is the first megabyte of a body without one."""
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    endless = b"Transfer-Encoding: chunked\r\n\r\n" + b"186a0\r\n%b\r\n" % (b" " * 100_000) * 11
    port = int(server.url.rpartition(":")[2])
    for rest in (b"Content-Length: 999999999999\r\n\r\n", endless):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
            raw.sendall(head + rest)
            assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_only_json_is_taken(http, node):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "\xff"):
        headers = {"Content-Type": kind.encode("latin-1")}
        refused(http.post("/v1/decisions", content=b"{}", headers=headers), 415, "JSON")
    refused(http.post("/v1/decisions", content=b"{}"), 415, "application/json")
    refused(http.post("/v1/decisions"), 415)
    for content in (b"{", b"\xff\xfe", b"", b"{}{}", b"'", b"\x00"):
        refused(http.post("/v1/decisions", content=content, headers=JSON), 422, "body")
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert http.post("/v1/decisions", content=b"{}", headers=headers).status_code == 200
    assert node.counts["decisions"] == 1


def test_many_at_once(server, node):
    """Four threads share the commits, and every reward is counted once."""
    errors = []

    def work():
        try:
            with httpx.Client(base_url=server.url, trust_env=False) as http:
                for _ in range(25):
                    made = ask(http, "/v1/decisions", {})
                    ask(http, f"/v1/decisions/{made['decision']}/reward", {"reward": 1})
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == 100
    assert (node.counts["decisions"], node.counts["rewards"]) == (100, 100)


def test_slow_views_hold_up_no_decision(server, node, monkeypatch):
    """What is known of a thousand arms takes long, and was computed under the agent's lock."""
    begun, go_on = threading.Semaphore(0), threading.Event()
    summarise = showing.summarise

    def slow(*given):
        begun.release()
        assert go_on.wait(20)
        return summarise(*given)

    monkeypatch.setattr(showing, "summarise", slow)
    answers = []

    def look(path):
        with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as http:
            answers.append(http.get(path).status_code)

    threads = [threading.Thread(target=look, args=(p,)) for p in ("/v1/arms", "/metrics") * 2]
    try:
        for thread in threads:
            thread.start()
        assert begun.acquire(timeout=20)
        with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as http:
            made = ask(http, "/v1/decisions", {})
            ask(http, f"/v1/decisions/{made['decision']}/reward", {"reward": 1})
            assert http.get("/readyz").status_code == http.get("/healthz").status_code == 200
        assert answers == []
    finally:
        go_on.set()
        for thread in threads:
            thread.join(20)
    assert answers == [200] * 4
