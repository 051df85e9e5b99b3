"""`posse status` of what is no agent: one line, in bounded time."""

import json
import socket
import threading
import time

import pytest

from posse.cli import main, status
from posse.cli.common import UserError
from posse.live.http import serve_node

LONGEST = 60.0  # seconds, on a machine that does much else
ARM = dict.fromkeys(
    ["mean", "low", "high", "probability_best", "expected_loss", "pulls_here", "pulls_in_network"]
)
BODIES = {
    "html": b"<html></html>",
    "nothing": b"",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "other JSON": b'{"a": 1}',
    "other JSON, deeper": b'{"a": {"mean": "x"}}',
    "numbers that are none": json.dumps({"x": ARM}).encode(),
    "deep": b"[" * 100_000,
    "not UTF-8": b"\xff\xfe",
    "an endless number": b'{"a": {"mean": 1e999}}',
}


class Impostor:
    """Answers every connection with the same bytes, or with nothing at all."""

    def __init__(self, content):
        self.content = content
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(connection)
            if self.content is not None:
                connection.recv(10_000)
                connection.sendall(self.content)
                connection.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.open:
            connection.close()


@pytest.fixture
def refused(capsys):
    def run(url):
        began = time.monotonic()
        with pytest.raises(SystemExit) as done:
            main(["status", url])
        assert time.monotonic() - began < LONGEST
        assert done.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("posse: ")
        assert len(line) < 500
        return line

    return run


def http(body, status="200 OK"):
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_another_server(refused, body):
    impostor = Impostor(http(body))
    try:
        assert impostor.url in refused(impostor.url)
    finally:
        impostor.close()


@pytest.mark.parametrize(
    "content",
    [http(b"no", "404 Not Found"), http(b"no", "500 Oops"), http(b"", "301 Go\r\nLocation: /x"),
     b"", b"SSH-2.0-OpenSSH\r\n", http(b"x" * 10)[:-5], b"HTTP/1.1 200 OK\r\n" + b"a" * 200_000],
    ids=["404", "500", "301", "hangs up", "no HTTP", "cut", "endless"],
)  # fmt: skip
def test_a_strange_server(refused, content):
    impostor = Impostor(content)
    try:
        assert impostor.url in refused(impostor.url)
    finally:
        impostor.close()


@pytest.mark.long
def test_a_server_that_says_nothing(refused):
    impostor = Impostor(None)
    try:
        assert "no agent answers" in refused(impostor.url)
    finally:
        impostor.close()


# httpcore leaves the socket of a file that is not there to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9", "unix:/nonexistent", "127.0.0.1:80", "", "http://", "ftp://x",
     "http://127.0.0.1:99999", "http://[::1", "http://127.0.0.1:x", "http://a b", "http://\x00"],
)  # fmt: skip
def test_nobody_there(refused, url):
    refused(url)


def test_brackets_in_an_address_are_shown(node, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "[b]").mkdir()
    with serve_node(node, f"unix:{tmp_path}/[b]/s") as server:
        with pytest.raises(SystemExit) as done:
            main(["status", server.url])
        assert not done.value.code
        assert server.url in "".join(capsys.readouterr().out.split())  # a long one is folded


def test_a_password_is_not_shown(node, capsys):
    with serve_node(node, "127.0.0.1:0") as server:
        with pytest.raises(SystemExit) as done:
            main(["status", server.url.replace("//", "//shop:secret@")])
        assert not done.value.code
        shown = "".join(capsys.readouterr().out.split())
        assert server.url in shown
        assert "secret" not in shown


def test_brackets_in_an_error_are_shown(capsys, monkeypatch):
    shown = iter(["", UserError("no [/b] answers"), KeyboardInterrupt()])

    def show(client):
        if isinstance(each := next(shown), BaseException):
            raise each
        return each

    monkeypatch.setattr(status, "render_agent", show)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(SystemExit) as done:
        main(["status", "http://127.0.0.1:9", "--watch"])
    assert done.value.code == 130
    assert "no [/b] answers" in capsys.readouterr().out
