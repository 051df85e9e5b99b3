"""Clients that are many, or send much at once: the agent keeps its memory, and answers others."""

import contextlib
import threading

import pytest

from posse.live.http import serve_node
from posse.live.http.access_control import MAX_BODY_BYTES
from posse.live.http.health import get_traffic
from posse.live.http.protocol import (
    FREE_BODY_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED,
    BodyMemory,
    ServerLimits,
)
from tests.live.attack.test_slow_clients import HALVES, HEAD, arrived, ask, dial, read_all, refused
from tests.live.loopback import wait_until


@pytest.fixture
def halves():
    """Connections that say something, and then no more."""
    with contextlib.ExitStack() as stack:

        def make(server, number, content=b""):
            made = [stack.enter_context(dial(server)) for _ in range(number)]
            for raw in made:
                raw.sendall(content)
            return made

        yield make


@pytest.fixture
def crowded(node):
    """A server with as many connections as it takes."""
    with serve_node(node, "127.0.0.1:0", limits=ServerLimits(max_connections=3)) as server:
        yield server


def is_open(raw):
    raw.setblocking(False)
    try:
        raw.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


@pytest.mark.parametrize("half", [None, *HALVES.values()], ids=["answered", *HALVES])
def test_who_keeps_us_waiting_makes_place(node, crowded, halves, half):
    """A thousand connections without a word kept all others out, for as long as they liked."""
    kept = halves(crowded, 3, half or b"")
    arrived(crowded, 3)
    if half is None:
        for raw in kept:
            ask(raw)
    with dial(crowded) as raw:
        ask(raw)
        assert sum(map(is_open, kept)) == 2
    assert get_traffic(node).refusals["too_many_connections"] == 1


def test_who_is_being_answered_stays(node, crowded, halves, monkeypatch):
    """Nobody makes place for another while we work for him; then the new one is refused."""
    go_on = threading.Event()
    ready = get_traffic(node).health.is_ready

    def slow(*arguments):
        go_on.wait(20)
        return ready(*arguments)

    monkeypatch.setattr(get_traffic(node).health, "is_ready", slow)
    kept = halves(crowded, 3, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    arrived(crowded, 3)
    wait_until(lambda: all(each.idle_since is None for each in crowded.state.connections))
    for _ in range(5):
        refused(crowded, node, b"", 503, "too_many_connections")
    go_on.set()
    for raw in kept:
        assert raw.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_requests_sent_ahead_have_a_limit(node, server):
    """600,000 of them, 30 MB, took 1.2 GB and all others' time; no answer was ever read."""
    good = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with dial(server) as raw:  # some are answered, in their order
        raw.sendall(good * MAX_PIPELINED)
        heads = b""
        while heads.count(b"HTTP/1.1 200 ") < MAX_PIPELINED:
            heads += raw.recv(65536)
    assert get_traffic(node).refusals["too_many_pipelined"] == 0
    with dial(server) as raw, contextlib.suppress(ConnectionError):
        for _ in range(300):
            raw.sendall(good * 1000)
        pytest.fail("it took them all")
    assert get_traffic(node).refusals["too_many_pipelined"] == 1
    with dial(server) as raw:
        ask(raw)


def test_headers_have_a_number(node, server):
    """Of 4 bytes each, 65,536 bytes of them took 2 MB, and 1000 such heads 2 GB."""
    many = b"a:\r\n" * (MAX_HEADERS + 1)
    for content in (HEAD + many, HEAD + many + b"\r\n"):
        refused(server, node, content, 400, "head_too_large")
    with dial(server) as raw:
        raw.sendall(HEAD + b"a:\r\n" * (MAX_HEADERS - 10) + b"Content-Length: 2\r\n\r\n{}")
        assert raw.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_half_bodies_share_a_room(node, halves):
    """900 bodies of a megabyte that never ended took 900 MB."""
    room = BodyMemory(3 * MAX_BODY_BYTES)
    large = b"Content-Length: %d\r\n\r\n" % MAX_BODY_BYTES + b" " * (MAX_BODY_BYTES - 1)
    limits = ServerLimits(request_seconds=1000.0, body_memory=room)
    with serve_node(node, "127.0.0.1:0", limits=limits) as server:
        kept = halves(server, 3, HEAD + large)
        wait_until(lambda: room.taken == 3 * (MAX_BODY_BYTES - 1 - FREE_BODY_BYTES))
        with dial(server) as raw, contextlib.suppress(ConnectionError):
            raw.sendall(HEAD + large)
            assert read_all(raw)[:13] in (b"", b"HTTP/1.1 503 ")  # or it was still speaking
        assert get_traffic(node).refusals["body_memory_full"] == 1
        with dial(server) as raw:
            ask(raw)  # a small one needs no room
            raw.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % FREE_BODY_BYTES)
            raw.sendall(b"{}" + b" " * (FREE_BODY_BYTES - 2))
            assert raw.recv(65536).startswith(b"HTTP/1.1 200 ")
        kept[0].sendall(b" ")  # no JSON, but whole
        assert kept[0].recv(65536).startswith(b"HTTP/1.1 422 ")
        for raw in kept[1:]:
            raw.close()
        arrived(server, 1)
        assert room.taken == 0
