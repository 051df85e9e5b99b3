"""Clients that send too much around their bodies, too slowly, or are too many."""

import contextlib
import http.client
import json
import resource
import socket
import time

import pytest

from posse.live.http import serve_node
from posse.live.http import server as module
from posse.live.http.health import get_traffic
from posse.live.http.protocol import MAX_HEAD_BYTES, ServerLimits

HEAD = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HALVES = {
    "no word": b"",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 20\r\n\r\n{",
    "half a chunk": CHUNKED + b"5\r\n{}",
    "half trailers": CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n",
}


def dial(server):
    port = int(server.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def read_all(raw):
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: raw.recv(65536), b""))
    return b""


def look(server, later):
    """What the server does every second, as if it were later."""
    for connection in list(server.state.connections):
        loop = connection.loop
        loop.call_soon_threadsafe(connection.check_deadlines, loop.time() + later)


def arrived(server, number):
    deadline = time.monotonic() + 20
    while len(server.state.connections) != number:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def ask(raw):
    raw.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
    answer = http.client.HTTPResponse(raw)
    answer.begin()
    assert answer.status == 200
    assert json.loads(answer.read())["arm"]


def refused(server, node, content, status, reason):
    before = get_traffic(node).refusals[reason]
    with dial(server) as raw:
        raw.sendall(content)
        head, _, text = read_all(raw).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert list(json.loads(text)) == ["error"]
    assert get_traffic(node).refusals[reason] == before + 1


def test_a_large_head_in_one_segment_is_refused(node, server):
    """The limit was looked at after the parser had taken the segment, and the head with it."""
    lines = b"X: " + b"x" * (MAX_HEAD_BYTES - 100) + b"\r\n"
    with dial(server) as raw:
        raw.sendall(HEAD + lines + b"Content-Length: 2\r\n\r\n{}")
        assert raw.recv(65536).startswith(b"HTTP/1.1 200 ")
    for content in (HEAD + b"X: " + b"x" * 70_000, HEAD + b"X: y\r\n" * 12_000):
        content += b"\r\nContent-Length: 2\r\n\r\n{}"
        refused(server, node, content, 400, "head_too_large")
        good = HEAD + b"Content-Length: 2\r\n\r\n{}"
        with dial(server) as raw:  # also behind another request
            raw.sendall(good + content)
            assert read_all(raw).count(b"HTTP/1.1 200 ") <= 1
    assert node.counts["decisions"] <= 3


@pytest.mark.parametrize(
    "noise",
    [b"X: y\r\n" * 10_000, b"X" * 60_000, b"1;" + b"x" * 60_000 + b"\r\n \r\n"],
    ids=["trailers", "one trailer", "chunk extensions"],
)
def test_what_comes_around_a_body_has_a_limit(node, server, noise):
    """Trailers were kept for ever: 10 MB of them took 135 MB, and seconds of all others' time."""
    start = b"0\r\n" if noise[:1] == b"X" else b""
    with dial(server) as raw, contextlib.suppress(ConnectionError):
        raw.sendall(CHUNKED + b"2\r\n{}\r\n" + start)
        for _ in range(1000):  # more than buffers hold; not if it has hung up
            raw.sendall(noise)
        pytest.fail("it took them all")
    assert get_traffic(node).refusals["head_too_large"] == 1
    assert node.counts["decisions"] == 0


def test_trailers_are_no_headers(node, server):
    """They were added to them, if they came in time."""
    body = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    start = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\n"
    kind = b"Content-Type: application/json\r\n"
    for head, trailer, status in [
        (start + kind, b"Host: evil.example\r\n", 200),
        (start, kind, 415),
        (b"POST /v1/decisions HTTP/1.1\r\n" + kind, b"Host: localhost\r\n", 403),
    ]:
        with dial(server) as raw:
            raw.sendall(head + body + trailer + b"\r\n")
            assert raw.recv(65536).startswith(b"HTTP/1.1 %d " % status)


def test_a_body_of_many_small_chunks_is_taken(node, server):
    body = b'{"allowed": ["red"' + b" " * 100_000 + b"]}"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with dial(server) as raw:
        raw.sendall(CHUNKED + chunks + b"0\r\n\r\n")
        assert raw.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.fixture
def patient(node):
    with serve_node(node, "127.0.0.1:0", limits=ServerLimits(request_seconds=1000.0)) as server:
        yield server


@pytest.mark.parametrize("half", HALVES.values(), ids=list(HALVES))
def test_half_requests_are_closed_in_time(node, patient, half):
    """They were kept for ever."""
    with dial(patient) as raw:
        ask(raw)
        raw.sendall(half)  # after a request that was answered
        with dial(patient) as other:  # when this is answered, that was heard
            ask(other)
        look(patient, 500)
        with dial(patient) as other:
            ask(other)
        raw.setblocking(False)
        with pytest.raises(BlockingIOError):
            raw.recv(1)  # not yet
        raw.settimeout(20)
        if half:
            look(patient, 1001)
            assert read_all(raw).startswith(b"HTTP/1.1 408 ")
            assert get_traffic(node).refusals["too_slow"] == 1
    with dial(patient) as raw:
        raw.sendall(half)
        with dial(patient) as other:
            ask(other)
        look(patient, 1001)
        text = read_all(raw)
        assert text.startswith(b"HTTP/1.1 408 ") if half else not text


def test_the_server_looks_by_itself(node):
    with (
        serve_node(node, "127.0.0.1:0", limits=ServerLimits(request_seconds=0.1)) as server,
        dial(server) as raw,
    ):
        raw.sendall(HEAD)
        assert read_all(raw).startswith(b"HTTP/1.1 408 ")


def test_idle_connections_are_closed_in_time(node):
    with (
        serve_node(node, "127.0.0.1:0", limits=ServerLimits(idle_seconds=1)) as server,
        dial(server) as raw,
    ):
        ask(raw)
        assert read_all(raw) == b""


@pytest.mark.parametrize(
    ("allowed", "wanted"),
    [(64, 16), (128, 32), (1024, 768), (65536, 1000), (resource.RLIM_INFINITY, 1000)],
)
def test_descriptors_are_left_for_others(monkeypatch, allowed, wanted):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    assert module.compute_max_connections() == wanted


def test_stopping_does_not_wait_for_half_bodies(node, caplog):
    """200 of them held up the end for 6 seconds, and left 200 tracebacks."""
    server = serve_node(node, "127.0.0.1:0")
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            raw = stack.enter_context(dial(server))
            raw.sendall(HALVES["half a body"])
        arrived(server, 200)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 4
    assert not server.alive
    assert not [record for record in caplog.records if record.exc_info]
