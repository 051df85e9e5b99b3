"""The clients, against a real server and against one that fails first."""

import asyncio
import gc
import json
import os
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from posse import families
from posse.live import AsyncClient, Client, Conflict, StoreError, Unknown
from posse.live.agent import Agent, Measures, Metric
from posse.live.client.connection import AgentResponse, RetryPolicy, RetryState
from posse.live.experiment import RewardWindow
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.store import Store
from tests.live.loopback import certified, free_addresses, wait_until
from tests.live.single import single_node


class Awaited:
    """An AsyncClient that is called like a Client."""

    def __init__(self, *arguments, **options):
        self.loop = asyncio.new_event_loop()
        self.client = AsyncClient(*arguments, **options)

    def __getattr__(self, name):
        method = getattr(self.client, name)
        return lambda *arguments, **options: self.loop.run_until_complete(
            method(*arguments, **options)
        )

    def __enter__(self):
        assert self.loop.run_until_complete(self.client.__aenter__()) is self.client
        return self

    def __exit__(self, *error):
        self.loop.run_until_complete(self.client.__aexit__(*error))
        self.loop.close()


both = pytest.mark.parametrize("kind", [Client, Awaited])


@both
@pytest.mark.parametrize("place", ["tcp", "unix"])
def test_a_client(kind, place, node, tmp_path):
    address = "127.0.0.1:0" if place == "tcp" else f"unix:{tmp_path}/s"
    with serve_node(node, address) as server, kind(server.url) as client:
        decision = client.pull()
        assert client.update(decision, 1.0) is True
        assert client.update(decision.id, 1.0) is False
        with pytest.raises(Conflict, match=decision.id):
            client.update(decision, 0.0)
        with pytest.raises(Unknown, match="nobody"):
            client.update("nobody", 0.0)
        for odd in ("a/b?c#d", "..", ".", "ä %2F"):
            with pytest.raises(Unknown):
                client.update(odd, 0.0)
        assert client.pull(["green"], decision="mine").arm == "green"
        assert client.pull(decision="mine").arm == "green"
        with pytest.raises(Conflict):
            client.pull(["red"], decision="mine")
        with pytest.raises(ValueError, match="pink"):
            client.pull(["pink"])
        with pytest.raises(ValueError, match="allowed"):
            client.pull("red")
        with pytest.raises(ValueError, match="letters"):
            client.pull(decision="a b")
        for reward in (7.0, float("nan"), "1"):
            with pytest.raises(ValueError, match="reward"):
                client.update("mine", reward)
        assert client.arms().keys() == set(node.agent.arm_names)
        assert client.network()["agents_known"] == 1
        assert client.evidence() == node.evidence()
        assert node.counts["decisions"] == 2


@both
def test_many_at_once(kind, server, node, monkeypatch):
    monkeypatch.setattr("posse.live.client.calls.MAX_BATCH_ITEMS", 3)
    with kind(server.url) as client:
        decisions = client.pull_all(7, allowed=["green"])
        assert [decision.arm for decision in decisions] == ["green"] * 7
        assert len({decision.id for decision in decisions}) == node.counts["decisions"] == 7
        rewards = [(decision, 1.0) for decision in decisions]
        *fine, unknown, again, conflict = client.update_all(
            [*rewards, ("nobody", 1.0), (decisions[0].id, 1.0), (decisions[1], 0.0)]
        )
        assert fine == [True] * 7
        assert isinstance(unknown, Unknown)
        assert again is False
        assert isinstance(conflict, Conflict)
        assert node.counts["rewards"] == 7
        with pytest.raises(ValueError, match="reward"):
            client.update_all([(decisions[2], float("nan"))])
        with pytest.raises(ValueError, match="pink"):
            client.pull_all(2, allowed=["pink"])
        assert client.pull_all(0) == client.update_all([]) == []


@both
def test_steps(kind, server, node):
    with kind(server.url) as client:
        decision, told = client.step([])
        assert told == []
        again, told = client.step([(decision, 1.0), ("nobody", 1.0)], allowed=["green"])
        assert (again.arm, told[0]) == ("green", True)
        assert isinstance(told[1], Unknown)
        decisions, told = client.step_all([(decision, 1.0), (again, 0.0)], 3, allowed=["red"])
        assert told == [False, True]
        assert [each.arm for each in decisions] == ["red"] * 3
        with pytest.raises(ValueError, match="pink"):
            client.step([(decisions[0], 1.0)], allowed=["pink"])
        assert node.counts["rewards"] == 3  # the reward was taken all the same
        assert client.update(decisions[0], 1.0) is False


@both
def test_an_operator_pins_pauses_and_resumes(kind, node):
    """With a token of its own: that of the application is not enough."""
    with (
        serve_node(node, "127.0.0.1:0", token="app", operator_token="op") as server,
        kind(server.url, token="app") as application,
        kind(server.url, token="op", experiment="default") as operator,
        kind(server.url) as nobody,
    ):
        with pytest.raises(ValueError, match="token"):
            nobody.pull()
        for command in (application.pin, application.pause, application.resume):
            with pytest.raises(ValueError, match="operator"):
                command("green")
        before = application.pull(["red"])
        assert operator.pin("green")["pinned"] == "green"
        assert {application.pull().arm for _ in range(5)} == {"green"}
        with pytest.raises(Conflict, match="no arm is left to play: 'green' is pinned at this"):
            application.pull(["red"])
        assert [each.arm for each in application.pull_all(3)] == ["green"] * 3
        with pytest.raises(Conflict, match="no arm is left"):
            application.pull_all(2, allowed=["red"])
        assert application.pull(decision=before.id) == before  # it was answered, and stays so
        assert operator.pause("red")["paused"] == ["red"]
        for command in (operator.pin, operator.pause, operator.resume):
            with pytest.raises(Conflict, match="unknown arm 'pink'"):
                command("pink")
        with kind(server.url, token="op", experiment="checkout") as elsewhere:
            for request in (lambda: elsewhere.pin("green"), elsewhere.events):
                with pytest.raises(Unknown, match="unknown experiment 'checkout'"):
                    request()
        assert application.controls()["here"]["paused"] == ["red"]
        assert application.experiments()["experiments"]["default"]["pinned"] == "green"
        assert operator.resume()["pinned"] is None
        assert application.pull(["red"]).arm == "red"
        with pytest.raises(ValueError, match="not started from a file"):
            operator.reload()


class Failing(BaseHTTPRequestHandler):
    """Takes in requests, and fails the first of them in several ways."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body["decision"])
        self.server.headers = self.headers
        way = self.server.ways.pop(0) if self.server.ways else "good"
        if way == "cut":  # the answer is lost, the decision was made
            self.close_connection = True
            return
        content = {
            "good": {"decision": body["decision"], "arm": "red", "probability": 0.5},
            "busy": {"error": "the store fails"},
        }.get(way)
        self.send_response({"good": 200, "busy": 503}.get(way, 502))
        if way == "busy":
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode() if content else b"<html>")

    def log_message(self, *_):
        pass


@pytest.fixture
def failing():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    server.asked, server.ways = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


@both
def test_a_request_is_repeated_with_the_same_id(kind, failing):
    failing.ways = ["busy", "cut", "busy"]
    with kind(failing.url, backoff=0.001) as client:
        decision = client.pull()
    assert decision.arm == "red"
    assert failing.asked == [decision.id] * 4


@both
def test_the_name_and_password_of_a_proxy(kind, failing):
    with kind(failing.url.replace("//", "//ann:a%20b@")) as client:
        client.pull()
    assert failing.headers["Authorization"] == "Basic YW5uOmEgYg=="
    assert failing.headers["Host"] == f"127.0.0.1:{failing.server_port}"


@both
@pytest.mark.parametrize("way", ["cut", "strange"])
def test_no_error_tells_the_password(kind, failing, way):
    failing.ways = [way]
    url = failing.url.replace("//", "//ann:a%20b@")
    failed = pytest.raises((ConnectionError, RuntimeError))
    with kind(url, attempts=1) as client, failed as caught:
        client.pull()
    assert failing.url in str(caught.value)
    assert "ann" not in str(caught.value)


@both
def test_the_last_failure_is_told(kind, failing):
    with kind(failing.url, attempts=2, backoff=0.001) as client:
        failing.ways = ["busy"] * 2
        with pytest.raises(StoreError, match="the store fails"):
            client.pull()
        failing.ways = ["cut"] * 2
        with pytest.raises(ConnectionError, match="is it running"):
            client.pull()
        failing.ways = ["proxy"] * 2  # nginx, while the agent starts again
        with pytest.raises(RuntimeError, match="502: is this the address of an agent"):
            client.pull()
    assert len(failing.asked) == 6


@both
def test_an_agent_that_comes_back(kind, node):
    """The client waits for it; it was started again meanwhile."""
    server = serve_node(node, "127.0.0.1:0")
    address = server.url.removeprefix("http://")
    with kind(server.url, backoff=0.1, attempts=8) as client:
        decision = client.pull()
        server.stop()
        again = []
        timer = threading.Timer(0.2, lambda: again.append(serve_node(node, address)))
        timer.start()
        try:
            assert client.update(decision, 1.0) is True
        finally:
            timer.join(10)
            again[0].stop()


def test_a_connection_that_the_agent_closed_is_not_used_again(server, monkeypatch):
    """No request fails for it, not even one that may not be repeated."""
    monkeypatch.setattr("posse.live.client.connection.IDLE", 0.0)
    with Client(server.url, attempts=1) as client:
        client.pull()
        for connection in list(server.state.connections):
            connection.loop.call_soon_threadsafe(connection.transport.close)
        wait_until(lambda: not client.idle_connections[-1].usable)
        client.pull()


@pytest.mark.skipif(os.name != "posix", reason="select() has other limits elsewhere")
def test_a_connection_that_is_the_1100th_open_file(server, monkeypatch):
    monkeypatch.setattr("posse.live.client.connection.IDLE", 0.0)
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with Client(server.url) as client:
            client.pull()
            client.pull()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_forked_child_has_connections_of_its_own(server):
    """On one of its parent's, each would get answers to what the other asked."""
    with Client(server.url) as client:
        client.pull()
        inherited = client.idle_connections[-1]
        inherited.process_id -= 1  # forks of a process with threads are best avoided in tests
        client.pull()
        assert client.idle_connections[-1] is not inherited


def test_a_unix_socket_without_an_agent(tmp_path):
    with pytest.raises(ConnectionError, match="is it running"):
        Client(f"unix:{tmp_path / 'none'}", attempts=2, backoff=0).pull()
    gc.collect()  # a socket left open would be a warning, and that an error


def test_threads_share_a_client(server, node):
    with Client(server.url) as client, ThreadPoolExecutor(8) as threads:
        decisions = list(threads.map(lambda _: client.pull(), range(40)))
        assert all(threads.map(lambda d: client.update(d, 1.0), decisions))
        assert len(client.idle_connections) <= 8
    assert node.counts["rewards"] == 40


@both
def test_an_agent_in_trouble(kind, server, node, monkeypatch):
    def fail():
        raise StoreError("full")

    monkeypatch.setattr(node.store.file, "check_process", fail)
    timer = threading.Timer(0.3, monkeypatch.undo)
    timer.start()
    with kind(server.url) as client:
        assert client.pull().arm in node.agent.arm_names
    timer.join(10)
    assert node.failures["request"] >= 1


@both
@pytest.mark.parametrize(
    ("url", "options", "word"),
    [
        ("127.0.0.1:80", {}, "url"),
        ("ftp://x", {}, "url"),
        ("http://x:99999", {}, "url"),
        ("http://x:http", {}, "url"),
        ("http://[::1", {}, "url"),
        ("http://x", {"attempts": 0}, "attempts"),
        ("http://x", {"attempts": True}, "attempts"),
        ("http://x", {"timeout": "soon"}, "timeout"),
        ("http://x", {"timeout": 0}, "timeout"),
        ("http://x", {"backoff": float("nan")}, "backoff"),
        ("http://x", {"patience": -1}, "patience"),
        ("http://x", {"fallback": ""}, "fallback"),
        ("http://x", {"fallback": "red", "fallback_after": 0}, "fallback_after"),
        ("http://x", {"experiment": ""}, "experiment"),
        ("http://x", {"token": "a\r\nX: y"}, "token"),
        ("http://x", {"token": ""}, "token"),
        ("http://ann:secret@x", {"token": "t"}, "token"),
        ("http://x", {"verify": "ca.pem"}, "verify is for https"),
        ("https://x", {"verify": "/nowhere/ca.pem"}, "verify must be a file"),
    ],
)
def test_wrong_settings(kind, url, options, word):
    kind = AsyncClient if kind is Awaited else kind
    with pytest.raises(ValueError, match=word):
        kind(url, **options)


class Scripted(BaseHTTPRequestHandler):
    """Answers as it is told, and remembers what was asked."""

    def do_GET(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = (self.path, json.loads(body) if body else None, self.headers["Authorization"])
        self.server.asked.append(asked)
        status, content = self.server.answer(*asked[:2])
        with suppress(BrokenPipeError, ConnectionResetError):  # who asked may be gone
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

    do_POST = do_GET

    def log_message(self, *_):
        pass


@contextmanager
def scripted(answer, address=("127.0.0.1", 0), tls=None):
    server = ThreadingHTTPServer(address, Scripted)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.asked, server.answer = [], answer
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def agent_like(path, body):
    """What an agent answers, more or less."""

    def decided(wish):
        return {"decision": wish["decision"], "arm": "red", "probability": 0.5}

    if path.endswith("/decisions"):
        return 200, decided(body)
    if path.endswith("/batch"):
        return 200, {"decisions": [*map(decided, body["decisions"])]}
    if path.endswith("/reward"):
        return 200, {"repeated": False}
    told = [
        {**each, "repeated": False}
        if each["decision"] != "nobody"
        else {"status": 404, "error": "there is no decision nobody"}
        for each in (body or {}).get("rewards", [])
    ]
    if path.endswith("/rewards"):
        return 200, {"rewards": told}
    if path.endswith("/steps"):
        wish = body["decide"]
        many = isinstance(wish, list)
        made = {"decisions": [*map(decided, wish)]} if many else {"decision": decided(wish)}
        return 200, {"rewards": told, **made}
    return 200, {"asked": body, "events": []}


@both
def test_an_experiment_and_a_token(kind):
    with (
        scripted(agent_like) as server,
        kind(server.url + "/shop/", experiment="check out", token="t0k/n") as client,
    ):
        decision = client.pull()
        client.update(decision, 1.0)
        client.arms()
        client.pin("red")
        client.pause("red")
        client.resume("red")
        client.resume()
        assert client.events() == []
        client.network()
        client.experiments()
        client.reload()
    base = "/shop/v1/experiments/check%20out"
    paths = [f"{base}/decisions", f"{base}/decisions/{decision.id}/reward", f"{base}/arms"]
    orders = [f"{base}/{command}" for command in ("pin", "pause", "resume", "resume")]
    whole = [f"/shop/v1/{part}" for part in ("network", "experiments", "reload")]
    assert [path for path, _, _ in server.asked] == [*paths, *orders, f"{base}/events", *whole]
    assert [body for path, body, _ in server.asked if path in orders] == [{"arm": "red"}] * 3 + [{}]
    assert {token for _, _, token in server.asked} == {"Bearer t0k/n"}


@both
def test_rewards_and_the_next_decision_in_one_request(kind, monkeypatch):
    monkeypatch.setattr("posse.live.client.calls.MAX_BATCH_ITEMS", 3)
    with scripted(agent_like) as server, kind(server.url) as client:
        decision, told = client.step([("a", 1.0), ("nobody", 0.0)], allowed=["red"], decision="b")
        assert (decision.id, decision.arm, decision.recorded) == ("b", "red", True)
        assert told[0] is True
        assert isinstance(told[1], Unknown)
        ((path, body, _),) = server.asked
        assert path == "/v1/steps"
        assert body["decide"] == {"decision": "b", "allowed": ["red"]}
        server.asked.clear()
        decisions, told = client.step_all([(str(n), 1.0) for n in range(7)], 8)
        assert len({each.id for each in decisions}) == 8
        assert told == [True] * 7
        assert [path for path, _, _ in server.asked] == [
            "/v1/rewards", "/v1/rewards", "/v1/steps", "/v1/decisions/batch",
            "/v1/decisions/batch",
        ]  # fmt: skip
        assert client.step_all([], 0) == ([], [])
        for wrong in ([("a", float("nan"))], [("", 1.0)]):
            server.asked.clear()
            with pytest.raises(ValueError, match="must be"):
                client.step(wrong)
            assert server.asked == []


def test_patience_outlasts_a_restart_of_ten_seconds():
    """By a clock of its own: the waits of a client whose agent is away for 10 s."""
    for _ in range(100):
        now = [0.0]
        attempts = RetryState(
            "url", 5.0, RetryPolicy(15.0, None, 0.1), clock=lambda now=now: now[0]
        )
        tried = []
        with suppress(ConnectionError):
            while True:
                tried.append(now[0])
                now[0] += attempts.next_delay(ConnectionRefusedError("refused"))
        assert 10.0 < tried[-1] <= 15.0
        assert len(tried) < 20


def test_attempts_are_counted_where_a_number_is_given():
    attempts = RetryState("url", 5.0, RetryPolicy(0.0, 3, 100.0))
    busy = AgentResponse(503, b"{}", "1")
    assert 2.0 <= attempts.next_delay(busy) <= 3.0
    attempts.next_delay(busy)
    with pytest.raises(StoreError):
        attempts.next_delay(busy)


@both
def test_a_fallback_for_callers_that_cannot_wait(kind, caplog):
    """Nothing of it reaches the agent, and it is told once."""
    (address,) = free_addresses(1)
    host, port = address.split(":")
    options = {"fallback": "green", "fallback_after": 0.2, "backoff": 0.01}
    with kind(f"http://{address}", attempts=3, **options) as client:
        made = [client.pull(), client.pull(["red", "green"], decision="mine"), *client.pull_all(2)]
        assert {(each.arm, each.recorded, each.probability) for each in made} == {
            ("green", False, 1.0)
        }
        assert [each.id for each in made] == [""] * 4
        (said,) = [line for line in caplog.messages if "green" in line]
        assert "no agent answers" in said
        assert "recorded nowhere" in said
        with pytest.raises(ConnectionError, match="is it running"):
            client.pull(["red", "blue"])  # the fallback is not allowed: nothing else is played
        for each in (made[0], made[0].id, "mine"):
            assert client.update(each, 1.0) is False
        assert client.update_all([(made[0], 1.0), ("mine", 0.0)]) == [False, False]
        with pytest.raises(ValueError, match="reward"):
            client.update(made[0], float("nan"))
        with pytest.raises(ConnectionError):
            client.step([])  # rewards are not dropped for a hurry
        with scripted(agent_like, (host, int(port))) as server:
            assert client.pull().recorded
            assert "the agent answers again" in caplog.messages
            assert client.update("mine", 1.0) is False
            _, told = client.step([(made[0], 1.0), ("a", 1.0), ("mine", 1.0)])
            assert told == [False, True, False]
            assert [body["rewards"] for path, body, _ in server.asked if "steps" in path] == [
                [{"decision": "a", "reward": 1.0}]
            ]
            assert client.pull(decision="mine").recorded  # now the agent has decided
            assert client.update("mine", 1.0) is True


@both
def test_an_agent_known_to_be_away_is_tried_once(kind):
    """Else every visitor of a long outage would wait for all attempts."""
    away = [True]

    def failing(path, body):
        return (503, {"error": "the store fails"}) if away[0] else agent_like(path, body)

    options = {"fallback": "green", "fallback_after": 60, "attempts": 3, "backoff": 0.001}
    with scripted(failing) as server, kind(server.url, **options) as client:
        for attempts in (3, 1, 1):
            assert not client.pull().recorded
            assert len(server.asked) == attempts
            server.asked.clear()
        away[0] = False
        assert client.pull().recorded
        away[0] = True
        server.asked.clear()
        assert not client.pull().recorded
        assert len(server.asked) == 3


def test_whoever_is_in_a_hurry_waits_no_longer_for_one_attempt_either(server):
    now = [0.0]
    patience = RetryPolicy(15.0, None, 0.1)
    attempts = RetryState("url", 5.0, patience, 1.0, clock=lambda: now[0])
    assert attempts.timeout == 1.0
    now[0] = 0.75
    assert attempts.timeout == 0.25
    now[0] = 2.0
    assert 0 < attempts.timeout < 0.1
    with pytest.raises(ConnectionError):
        attempts.next_delay(TimeoutError())
    assert RetryState("url", 5.0, patience).timeout == 5.0
    with Client(server.url, timeout=7.0, fallback="red", fallback_after=3.0) as client:
        decision = client.pull()
        assert 0 < client.idle_connections[-1].timeout <= 3.0
        client.update(decision, 1.0)  # on the same connection
        assert client.idle_connections[-1].timeout == 7.0


@both
def test_a_fallback_when_the_agent_hangs(kind):
    """The first waits as long as it may, and whatever the agent did is not rewarded."""
    release = threading.Event()

    def hanging(path, body):
        release.wait(30)
        return agent_like(path, body)

    with scripted(hanging) as server:
        try:
            with kind(server.url, fallback="green", fallback_after=0.1) as client:
                assert client.pull(decision="mine").arm == "green"
                assert client.update("mine", 1.0) is False
                assert len(server.asked) == 1
        finally:
            release.set()


@both
def test_without_a_fallback_the_empty_id_is_a_mistake(kind):
    with kind("http://127.0.0.1:9", attempts=1) as client:
        with pytest.raises(ValueError, match="decision"):
            client.update("", 1.0)
        with pytest.raises(ConnectionError):
            client.pull()


@both
def test_https_with_an_authority_of_ones_own(kind, tmp_path):
    folder = certified(tmp_path / "ours", "berlin")
    strangers = certified(tmp_path / "strangers")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "berlin.pem", folder / "berlin.key")
    with scripted(agent_like, tls=tls) as server:
        with kind(server.url, verify=folder / "ca.pem") as client:
            assert client.pull().arm == "red"
        with (
            kind(server.url, verify=strangers / "ca.pem", patience=1e9, backoff=1e9) as client,
            pytest.raises(ConnectionError, match=r"(?i)certificate.*is verify"),  # at once
        ):
            client.pull()
    assert len(server.asked) == 1


@both
def test_an_agent_that_serves_https(kind, node, tmp_path):
    folder = certified(tmp_path / "certs", "berlin")
    files = {"certificate": folder / "berlin.pem", "key": folder / "berlin.key"}
    with (
        serve_node(node, "127.0.0.1:0", token="app", **files) as server,
        kind(server.url, token="app", verify=folder / "ca.pem") as client,
    ):
        assert server.url.startswith("https://")
        assert client.update(client.pull(), 1.0) is True


@both
def test_the_life_of_a_decision(kind, node):
    node.experiment().set_reward_window(RewardWindow(3600.0, 0.0))
    with serve_node(node, "127.0.0.1:0") as server, kind(server.url) as client:
        decision = client.pull(activate=False)
        assert client.decision(decision)["state"] == "inactive"
        assert (client.activate(decision), client.activate(decision.id)) == (True, False)
        assert client.decision(decision) | {"state": "open", "arm": decision.arm} == (
            client.decision(decision)
        )
        assert (client.cancel(decision), client.cancel(decision)) == (True, False)
        with pytest.raises(Conflict, match="was cancelled"):
            client.update(decision, 1.0)
        asked, _ = client.step([], activate=False)
        many = client.pull_all(2, activate=False)
        more, _ = client.step_all([(asked, 1.0)], 2, activate=False)
        states = [client.decision(one)["state"] for one in (asked, *many, *more)]
        assert states == ["open", *["inactive"] * 4]
        assert client.erase(asked) == {"erased": 1, "log_emptied": True}
        for call in (client.decision, client.erase, client.activate, client.cancel):
            with pytest.raises(Unknown):
                call(asked)
            with pytest.raises(Unknown):
                call("..")


@both
def test_a_fallback_has_no_life(kind):
    (address,) = free_addresses(1)
    options = {"fallback": "red", "fallback_after": 0.05}
    with kind(f"http://{address.removeprefix('tcp/')}", **options) as client:
        decision = client.pull(activate=False)
        assert (decision.arm, decision.recorded) == ("red", False)
        assert (client.activate(decision), client.cancel(decision)) == (False, False)
        for call in (client.decision, client.erase):
            with pytest.raises(Unknown, match="recorded nowhere"):
                call(decision)


@both
def test_metrics_and_the_uplift(kind, tmp_path):
    latency = Metric("latency", (0.0, 1000.0), "higher", 300.0)
    agent = Agent(
        ["red", "green"], families.Bernoulli(), seed=1, measures=Measures("red", 0.5, (latency,))
    )
    store = Store.open(tmp_path / "agent.db", fingerprint=agent.fingerprint)
    network = MemoryNetwork([("a", "b")])
    node = single_node(agent, store, network.transport("a"), neighbours=[])
    node.transport.start(node.receive)
    with serve_node(node, "127.0.0.1:0") as server, kind(server.url) as client:
        decision = client.pull(["green"])
        assert client.measure(decision, {"latency": 100}) is True
        assert client.measure(decision.id, {"latency": 100}) is False
        assert client.update(decision, 1.0, {"latency": 100}) is True
        with pytest.raises(Conflict, match="latency"):
            client.measure(decision, {"latency": 101})
        with pytest.raises(ValueError, match="latency"):
            client.measure(decision, {"latency": float("nan")})
        other = client.pull()
        with pytest.raises(ValueError, match="speed"):
            client.update(other, 1.0, {"speed": 1})
        assert client.decision(other)["reward"] is None
        assert client.uplift()["control_arm"] == "red"
        shown = {(one["metric"], one["arm"]): one for one in client.guardrails()}
        assert shown["latency", "green"]["mean"] == pytest.approx(100, abs=0.01)
        assert shown["latency", "red"]["mean"] is None
    node.stop()


@both
def test_without_measures_there_is_nothing_to_show(kind, node):
    with serve_node(node, "127.0.0.1:0") as server, kind(server.url) as client:
        for call in (client.uplift, client.guardrails):
            with pytest.raises(Unknown, match="this experiment has no"):
                call()
