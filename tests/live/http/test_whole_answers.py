"""An answer goes out in one piece: head and body in one write, whatever the request."""

import socket
from unittest.mock import Mock, call

from posse.live.http.protocol import CoalescingTransport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


def test_the_head_waits_for_the_body():
    transport = Mock()
    whole = CoalescingTransport(transport)
    for body in (b"{}", b"", b"HTTP/1.1 is what a body may say"):
        whole.write(HEAD)
        whole.write(body)
    whole.write(b"the rest of a body")
    assert transport.write.mock_calls == [
        call(HEAD + b"{}"),
        call(HEAD),
        call(HEAD + b"HTTP/1.1 is what a body may say"),
        call(b"the rest of a body"),
    ]


def test_nothing_is_kept_back_at_the_end():
    transport = Mock()
    whole = CoalescingTransport(transport)
    whole.write(HEAD)
    whole.close()
    assert transport.mock_calls == [call.write(HEAD), call.close()]


def test_who_waits_to_be_told_to_go_on_is_told(server):
    """100 Continue looks like a head, and has no body."""
    with _connect(server) as raw:
        raw.sendall(
            b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        assert raw.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.sendall(b"{}")
        assert raw.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_a_head_alone_is_answered(server):
    """The answer to HEAD has no body that its head could wait for."""
    for path, status in ((b"/healthz", b"200"), (b"/v1/arms", b"405")):
        with _connect(server) as raw:
            raw.sendall(b"HEAD " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = raw.recv(1000)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.endswith(b"\r\n\r\n")


def test_requests_sent_at_once_are_answered_in_their_order(server):
    with _connect(server) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        got = b""
        while got.count(b"HTTP/1.1 200 OK") < 3 or not got.endswith(b"}"):
            got += raw.recv(1000)
        assert got.count(b"{") == 3


def _connect(server):
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5)


def test_who_asks_to_close_is_told_and_closed(server):
    """Whole answers are not uvicorn's: their head must say the same."""
    for name in (b"keep-alive", b"close"):
        with _connect(server) as raw:
            raw.sendall(
                b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                b"Content-Type: application/json\r\nConnection: " + name + b"\r\n\r\n{}"
            )
            head, _, body = raw.recv(65536).partition(b"\r\n\r\n")
            status, *fields = head.split(b"\r\n")
            headers = dict(field.split(b": ") for field in fields)
            assert status == b"HTTP/1.1 200 OK"
            assert headers.pop(b"date")
            assert headers.pop(b"connection", b"keep-alive") == name
            assert headers == {
                b"content-type": b"application/json",
                b"content-length": b"%d" % len(body),
            }
            if name == b"close":
                assert raw.recv(1) == b""
