"""Ten thousand random and mutated requests to a real server: an answer to each, and no harm."""

import contextlib
import http.client
import json
import random
import resource
import socket
import time

import pytest

MANY, PIPELINED = 8000, 20
RAW = 2000
MEGABYTES = 300  # that all of it may leave in memory, generously
VALUES = [
    "", "x", "red", "green", "..", ".", "%00", "\x00", "a" * 300, "é", "0", "null", 0, 1, -1, 0.5,
    1e308, 10**30, -(10**400), True, None, [], {}, ["red"], ["red", "red"], [None], [[]],
]  # fmt: skip
SPELT = [  # what json.dumps would not write
    "NaN", "Infinity", "-Infinity", "1e309", "-1e400", "1" * 5000, "0x10", "01", "1.", '"\\ud800"',
    '"\\udfff\\ud800"', '"\\u0000"', "[" * 3000, "[" * 500 + "]" * 500,
    '{"a":' * 400 + "1" + "}" * 400, "tru", "'x'", "\x00", "\ufeff{}", "{,}",
    '{"reward":1,"reward":2}', '{"reward":1,}', "1 2",
]  # fmt: skip
NAMES = ["decision", "allowed", "reward", "rewards", "decisions", "decide", "other", ""]
PATHS = [
    "/v1/decisions", "/v1/decisions/batch", "/v1/rewards", "/v1/decisions/{id}/reward",
    "/v1/decisions/{id}/reward", "/v1/steps", "/v1/steps", "/v1/experiments", "/v1/pin",
    "/v1/experiments/default/decisions", "/v1/experiments/nobody/steps", "/v1/experiments//arms",
    "/v1/experiments/default/decisions/{id}/reward", "/v1/experiments/", "/v1/reload", "/v1/arms",
    "/v1/network", "/v1/evidence", "/metrics", "/healthz",
    "/readyz", "/", "/v1", "/v1/decisions/", "/v1/decisions//reward", "/v1/decisions/%00/reward",
    "/v1/decisions/%ff%fe/reward", "/v1/decisions/../reward", "/v1/decisions/%2e%2e/reward",
    "/v1/decisions/" + "a" * 300 + "/reward", "/v1/decisions?x=1", "/openapi.json", "//v1/arms",
    "*", "/docs", "/v1/decisions/%ed%a0%80/reward", "/v1/decisions/a%2fb/reward",
    "/v1/decisions#x", "/%",
]  # fmt: skip
METHODS = ["POST"] * 6 + [
    "GET",
    "GET",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "HEAD",
]
TYPES = ["application/json"] * 12 + ["text/plain", "", "application/json;charset=utf-7", "\xff"]
EXTRA = [
    "X-Forwarded-For: 1.2.3.4", "Origin: https://evil.example", "Cookie: a=b; " * 20,
    "Content-Encoding: gzip", "Accept: \xff", "X-HTTP-Method-Override: DELETE",
    "Upgrade: websocket",
    "Range: bytes=0-1", "If-Match: *", "Authorization: Basic x", "Expect: 100-continue", "Te: x",
]  # fmt: skip


def dial(server):
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)


def value(chance, depth=0):
    """Something near to what is expected."""
    if depth < 3 and chance.random() < 0.6:
        if chance.random() < 0.4:
            return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
        return {
            name: value(chance, depth + 1) for name in chance.sample(NAMES, chance.randrange(4))
        }
    return chance.choice(VALUES)


def body(chance):
    kind = chance.random()
    if kind < 0.2:
        return b"{}"
    if kind < 0.4:
        return b'{"reward": %d}' % chance.randrange(3)
    if kind < 0.5:
        spelt = chance.choice(SPELT)
        name = chance.choice(NAMES[:5])
        return (spelt if chance.random() < 0.3 else f'{{"{name}": {spelt}}}').encode()
    content = bytearray(json.dumps(value(chance)).encode(chance.choice(["utf-8"] * 8 + ["utf-16"])))
    if kind < 0.7:
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(content) + 1)
            content[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(content)


def request(chance, ids):
    """One request that is HTTP, whatever else it is: its method and its bytes."""
    method, path = chance.choice(METHODS), chance.choice(PATHS)
    if chance.random() < 0.3:
        method, path = "POST", "/v1/decisions/{id}/reward"
    path = path.replace("{id}", chance.choice(ids))
    content = body(chance)
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines.append(f"Content-Type: {chance.choice(TYPES)}")
    lines += chance.sample(EXTRA, chance.choice([0, 0, 0, 1, 2]))
    if chance.random() < 0.2:
        lines.append("Transfer-Encoding: chunked")
        half = len(content) // 2
        parts = [part for part in (content[:half], content[half:]) if part]
        content = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(content)}")
    return method, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + content


def checked(status, headers, text, sent):
    """2xx, or 4xx with one sentence."""
    assert 200 <= status < 300 or 400 <= status < 500, (status, text, sent)
    if status >= 400 and text:
        assert headers["content-type"] == "application/json", (text, sent)
        answer = json.loads(text)
        assert list(answer) == ["error"], (text, sent)
        assert 0 < len(answer["error"]) <= 500
        assert "\n" not in answer["error"]


class Peeked(http.client.HTTPResponse):
    """An answer out of a stream of many."""

    def __init__(self, stream, method):
        self.stream = stream
        super().__init__(self, method=method)

    def makefile(self, _):
        return self.stream

    def _close_conn(self):
        self.fp = None


def test_no_request_is_deadly(node, server):
    chance = random.Random(11)
    ids = ["x", "nobody", "a.b", *(node.decide(f"id-{nth}").id for nth in range(200))]
    seen, new_rewards, before = set(), 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = 0
    while done < MANY:
        batch = [request(chance, ids) for _ in range(PIPELINED)]
        with dial(server) as raw, raw.makefile("rb") as stream:
            raw.sendall(b"".join(content for _, content in batch))
            for method, content in batch:
                answer = Peeked(stream, method)
                try:
                    answer.begin()
                except http.client.BadStatusLine:  # it closed after the last answer
                    break
                text = answer.read()
                done += 1
                checked(answer.status, answer.headers, text, content)
                seen.add(answer.status)
                if answer.status == 200 and method == "POST" and b'"repeated"' in text:
                    given = json.loads(text)
                    for one in given.get("rewards", [given]):
                        new_rewards += one.get("repeated") is False
                if answer.headers.get("connection") == "close":
                    break
    assert seen >= {200, 404, 405, 409, 415, 422}
    assert new_rewards == node.counts["rewards"] > 50
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == node.counts["rewards"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1000
    assert not node.failures.copy()
    still_answers(server, node)


def test_no_bytes_are_deadly(node, server):
    """Requests with bytes changed, cut short or run together; each connection ends in time."""
    chance = random.Random(12)
    ids = [node.decide(f"id-{nth}").id for nth in range(20)]
    answered = 0
    for _ in range(RAW):
        _, content = request(chance, ids)
        noise = bytearray(content if chance.random() < 0.9 else chance.randbytes(300))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(noise))
            noise[at : at + chance.randrange(9)] = chance.choice(
                [
                    b"",
                    b"\r\n",
                    b"\x00",
                    b":",
                    b" ",
                    b"\r\n\r\n",
                    chance.randbytes(3),
                    b"Host: a\r\n",
                ]
            )
        with dial(server) as raw:
            raw.sendall(noise)
            raw.shutdown(socket.SHUT_WR)
            head = read_all(raw)
        if head:
            answered += 1
            status = int(head[9:12])
            assert head.startswith(b"HTTP/1.1 ")
            assert status < 500, (noise, head)
    assert answered > RAW / 2
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == node.counts["rewards"]
    assert not node.failures.copy()
    still_answers(server, node)


def read_all(raw):
    parts = []
    try:
        while part := raw.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def post(server, path, content, *more):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += "".join(f"{line}\r\n" for line in (*more, f"Content-Length: {len(content)}"))
    with dial(server) as raw:
        raw.sendall(head.encode() + b"Connection: close\r\n\r\n" + content)
        answer = http.client.HTTPResponse(raw)
        answer.begin()
        return answer.status, json.loads(answer.read())


def still_answers(server, node):
    status, made = post(server, "/v1/decisions", b"{}")
    assert (status, made["arm"] in node.agent.arm_names) == (200, True)
    path = f"/v1/decisions/{made['decision']}/reward"
    assert post(server, path, b'{"reward": 1}') == (200, {**post(server, path, b'{"reward": 1}')[1],
                                                          "repeated": False})  # fmt: skip


def test_half_requests_hold_up_nobody(node, server):
    """A hundred clients that never finish: others are answered, and the server ends in time."""
    full = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    full += b"Content-Length: 20\r\n\r\n{}"
    idle = []
    try:
        for nth in range(100):
            idle.append(dial(server))
            idle[-1].sendall(full[: nth * len(full) // 100])
        still_answers(server, node)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 20
    finally:
        for each in idle:
            each.close()
    assert node.counts["decisions"] == 1


def test_who_asks_before_sending_is_told(node, server):
    """Expect: 100-continue is answered, and a body that is too large is refused unsent."""
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Expect: 100-continue\r\nConnection: close\r\n"
    with dial(server) as raw:
        raw.sendall(head + b"Content-Length: 2\r\n\r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 100 ")
        raw.sendall(b"{}")
        assert read_all(raw).startswith(b"HTTP/1.1 200 ")
    with dial(server) as raw:
        raw.sendall(head + b"Content-Length: 99999999\r\n\r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("lines", [b"X: " + b"x" * 2_000_000, b"X: y\r\n" * 400_000])
def test_endless_headers_are_cut_off(node, server, lines):
    with dial(server) as raw, contextlib.suppress(ConnectionError):
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + lines)
        for _ in range(50):  # more than buffers hold; not if it has hung up
            raw.sendall(lines)
        pytest.fail("it took them all")
    still_answers(server, node)


def test_what_is_no_http_gets_a_sentence(node, server):
    for noise in (b"BREW /coffee HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" * 9, b"GET\r\n\r\n"):
        with dial(server) as raw:
            raw.sendall(noise)
            head, _, text = read_all(raw).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert list(json.loads(text)) == ["error"]
    still_answers(server, node)


def test_noise_after_requests_spoils_no_answer(node, server, caplog):
    """Two requests and then noise: two answers, and the connection ends."""
    good = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    good += b"Content-Length: 2\r\n\r\n{}"
    for _ in range(50):
        with dial(server) as raw:
            raw.sendall(good)
            raw.sendall(good + b"\x00\x01")
            assert read_all(raw).count(b"HTTP/1.1 200 ") == 2
    broken = good.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")
    with dial(server) as raw:
        raw.sendall(broken)
        assert read_all(raw).startswith(b"HTTP/1.1 400 ")
    assert node.counts["decisions"] == 100
    still_answers(server, node)
    assert not [record for record in caplog.records if record.exc_info]
