"""`posse pin`, `pause`, `resume` and `reload`, against a server that answers like an agent."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.calling import said

NOTHING = {"pinned": None, "paused": [], "unknown": [], "operator": True, "network": None}


class Agent(BaseHTTPRequestHandler):
    """Remembers what it was told, and answers as an agent would."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, self.headers["Authorization"]))
        status, content = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def agent():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    server.asked, server.answer = [], (200, {**NOTHING, "here": None})
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def record(**changed):
    return {"version": 3, "signer": "berlin", "pinned": None, "paused": []} | changed


def test_what_is_asked_and_with_which_token(agent, tmp_path, capsys):
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--token-file", tmp_path / "token")
    for command in (
        ("pin", "green", agent.url, "--experiment", "checkout"),
        ("pause", "red one", agent.url),
        ("resume", "red one", agent.url),
        ("resume", agent.url),
        ("reload", agent.url),
    ):
        code, out, err = said(capsys, *command, *options)
        assert (code, err) == (0, "")
        assert "s3cret" not in out
    assert agent.asked == [
        (path, body, "Bearer s3cret")
        for path, body in [
            ("/v1/experiments/checkout/pin", {"arm": "green"}),
            ("/v1/pause", {"arm": "red one"}),
            ("/v1/resume", {"arm": "red one"}),
            ("/v1/resume", {}),
            ("/v1/reload", {}),
        ]
    ]


def test_what_now_holds_is_printed(agent, capsys):
    assert said(capsys, "resume", agent.url) == (0, "no arm is pinned or paused\n", "")
    network = record(pinned="green", paused=["blue"])
    here = record(version=1, signer="paris", paused=["red"])
    agent.answer = (200, {**NOTHING, "network": network, "here": here, "unknown": ["blue"]})
    code, out, _ = said(capsys, "pause", "red", agent.url)
    assert code == 0
    assert out.splitlines() == [
        "red is paused at this agent",
        "green is pinned in the whole network (version 3, by berlin)",
        "blue is paused in the whole network (version 3, by berlin)",
        "unknown at this agent, without effect here: blue",
    ]
    agent.answer = (200, {"changed": "arms of default: green added"})
    assert said(capsys, "reload", agent.url) == (0, "arms of default: green added\n", "")
    agent.answer = (200, {"changed": ""})
    assert said(capsys, "reload", agent.url) == (0, "no setting has changed\n", "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((409, {"error": "there is no arm 'pink' here"}), "there is no arm 'pink' here"),
        ((401, {"error": "this needs the operator's token"}), "the operator's token"),
        ((404, {"error": "there is no experiment x"}), "no experiment x"),
        ((503, {"error": "the store fails"}), "the store fails"),
        ((200, b"<html>"), "is this the address of an agent"),
        ((200, {"hello": 1}), "is not a Posse agent"),
        ((200, []), "is not a Posse agent"),
    ],
)
def test_errors_are_one_line(agent, answer, words, capsys):
    agent.answer = answer
    code, out, err = said(capsys, "pin", "pink", agent.url)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert words in line


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("pin", "green", "http://127.0.0.1:9"), "is it running"),
        (("pin", "http://127.0.0.1:9", "green"), "url must be"),
        (("pin", "green"), "URL"),
        (("resume",), "URL"),
        (("resume", "red", "green", "http://127.0.0.1:9"), "an arm and a URL"),
        (("reload", "http://127.0.0.1:9", "--token-file", "nowhere"), "nowhere"),
        (("reload", "http://127.0.0.1:9", "--verify", "nowhere"), "verify is for https"),
    ],
)
def test_mistakes_are_one_line(command, words, capsys):
    code, out, err = said(capsys, *command)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert words in line


def test_a_file_that_is_no_token(tmp_path, capsys):
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    code, _, err = said(capsys, "reload", "http://127.0.0.1:9", "--token-file", tmp_path / "token")
    assert code == 2
    assert "is not a token file" in err


def test_who_and_why(agent, capsys):
    who = ("--by", "Ada", "--reason", "broken on phones")
    note = {"by": "Ada", "reason": "broken on phones"}
    here = record(paused=["red"], **note)
    agent.answer = (200, {**NOTHING, "here": here})
    code, out, _ = said(capsys, "pause", "red", agent.url, *who)
    assert (code, out) == (0, "red is paused at this agent (Ada: broken on phones)\n")
    said(capsys, "pin", "green", agent.url, *who)
    said(capsys, "resume", agent.url, *who)
    agent.answer = (200, {"agents": {"berlin": {}, "rome": {}}})
    code, out, _ = said(capsys, "forget", "paris", agent.url, *who)
    assert (code, out) == (0, "paris is forgotten; agents: berlin, rome\n")
    assert [(path, body) for path, body, _ in agent.asked] == [
        ("/v1/pause", {"arm": "red", **note}),
        ("/v1/pin", {"arm": "green", **note}),
        ("/v1/resume", note),
        ("/v1/forget", {"agent": "paris", **note}),
    ]
