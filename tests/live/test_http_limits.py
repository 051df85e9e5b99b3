"""The HTTP interface under requests that are too large, wrong, random or at once."""

import json
import random
import socket
import threading

import httpx

JSON = {"Content-Type": "application/json"}


def ask(http, path, body, status=200):
    answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    sentence = answer.json()["error"]
    assert "\n" not in sentence
    for word in words:
        assert word in sentence


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
    assert node.decisions == 1


def test_a_large_body_is_refused_before_it_is_sent(server):
    """A length is enough, and so is the first megabyte of a body without one."""
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
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
    assert node.decisions == 1


VALUES = ["", "x", "red", "green", "..", "\x00", "a" * 300, 0, 1, -1, 0.5, 1e308, 10**30, True]
VALUES += [None, [], {}, ["red"], [None], {"decision": "x"}, {"reward": 1}, float("nan"), "\ud800"]
NAMES = ["decision", "allowed", "reward", "rewards", "decisions", "other"]
PATHS = ["/v1/decisions", "/v1/decisions/batch", "/v1/rewards", "/v1/decisions/x/reward"]
PATHS += ["/v1/arms", "/v1/network", "/v1/evidence", "/metrics", "/", "/v1/decisions//reward"]


def _value(chance, depth=0):
    if depth < 3 and chance.random() < 0.6:
        if chance.random() < 0.5:
            return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
        names = chance.sample(NAMES, chance.randrange(4))
        return {name: _value(chance, depth + 1) for name in names}
    return chance.choice(VALUES)


def test_no_request_is_deadly(http, server, node):
    """Random and mutated requests: never a 5xx, always an answer."""
    chance = random.Random(5)
    seen = set()
    for _ in range(2000):
        path = chance.choice(PATHS)
        content = bytearray(json.dumps(_value(chance)).encode())
        if chance.random() < 0.3:
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(content) + 1)
                content[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        if chance.random() < 0.1:
            path = path.replace("x", "%" + chance.randbytes(1).hex())
        method = chance.choice(["POST", "POST", "POST", "GET", "PUT", "DELETE"])
        answer = http.request(method, path, content=bytes(content), headers=JSON)
        assert answer.status_code < 500, (method, path, bytes(content), answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}
        seen.add(answer.status_code)
    assert seen >= {200, 404, 405, 422}
    assert server.alive
    assert ask(http, "/v1/decisions", {})["arm"] in node.agent.arm_names


def test_noise_on_the_socket(http, server):
    chance = random.Random(6)
    port = int(server.url.rpartition(":")[2])
    good = b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    for k in range(200):
        noise = bytearray(good if k % 2 else chance.randbytes(200))
        noise[chance.randrange(len(noise))] = chance.randrange(256)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
            raw.sendall(noise[: chance.randrange(len(noise))])
    assert http.get("/healthz").status_code == 200


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
    assert (node.decisions, node.rewards) == (100, 100)
