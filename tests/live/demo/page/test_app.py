"""The server of the page: for this machine alone, buttons for its own page alone, streams."""

import json
import socket
import threading
import time

import httpx
import pytest

from posse.live.demo.page import app as streams
from posse.live.demo.page.app import ASSETS, DemoApp, serve_page
from posse.live.http import page as event_stream
from posse.live.http.protocol import ServerLimits
from posse.live.http.server import Server
from tests.live.loopback import wait_until

STREAM = {"accept": "text/event-stream"}
SOON = 20.0  # seconds, on a machine that does much else


@pytest.fixture
def server(show):
    with serve_page(show, 0) as made:
        yield made


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, trust_env=False, timeout=SOON) as client:
        yield client


@pytest.fixture
def press(http, server):
    def send(body, path="/v1/press", origin=server.url, **headers):
        return http.post(path, json=body, headers={"origin": origin, **headers})

    return send


def events(response):
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_the_page_and_all_it_needs_are_here_and_nothing_else_is_allowed(http):
    page = http.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in ASSETS:
        answer = http.get(f"/assets/{name}")
        assert answer.status_code == 200, name
        for line in answer.text.splitlines():
            if " from " in line and line.startswith("import"):
                assert line.split('"')[-2].removeprefix("./") in ASSETS
    assert all(name in page.text for name in ASSETS)
    assert "http:" not in page.text
    for answer in (page, http.get("/assets/swarm.js"), http.get("/v1/view"), http.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert policy == (
            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    for path in ("/nowhere", "/swarm.html", "/assets/agent.html", "/assets/../story.py"):
        assert http.get(path).status_code == 404


def test_other_hosts_and_other_pages_are_refused(http, press, show):
    port = http.base_url.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example"):
        answer = http.get("/v1/view", headers={"host": host})
        assert (answer.status_code, "this machine only" in answer.text) == (403, True)
    assert http.get("/v1/view", headers={"host": f"localhost:{port}"}).status_code == 200
    kill = {"button": "kill", "agent": "rome"}
    for origin in ("https://evil.example", "http://127.0.0.1:1", "null", ""):
        answer = press(kill, origin=origin)
        assert (answer.status_code, "Origin header names another page" in answer.text) == (
            403,
            True,
        )
        assert press({"paused": True}, "/v1/pace", origin).status_code == 403
    assert http.post("/v1/press", json=kill).status_code == 403  # none at all
    text = {"origin": str(http.base_url).rstrip("/"), "content-type": "text/plain"}
    assert http.post("/v1/press", content=b"{}", headers=text).status_code == 415
    assert http.get("/v1/press").status_code == 404
    assert set(http.get("/v1/view").json()["states"]) == {"runs"}
    assert show.ring.newest["events"] == []


def test_a_button_is_pressed_or_it_says_why_not(http, press):
    assert press({"button": "kill", "agent": "rome"}).json() == {"said": "rome killed"}
    view = http.get("/v1/view").json()
    assert view["states"] == ["runs", "runs", "killed", "runs"]
    assert [text for _, text in view["events"]] == ["rome killed"]
    again = press({"button": "kill", "agent": "rome"})
    assert (again.status_code, again.json()) == (422, {"error": "rome is killed: start it first"})
    assert press({"button": "cut", "link": ["berlin", "paris"]}).status_code == 200
    for wrong in ({}, {"button": 7}, {"button": "kill", "whom": "rome"}, {"button": "explode"}, []):
        assert press(wrong).status_code == 422


def test_time_is_paused_and_goes_on_at_another_speed(http, press, show):
    assert press({"paused": True, "speed": 4}, "/v1/pace").status_code == 200
    view = http.get("/v1/view").json()
    assert (view["paused"], view["speed"]) == (True, 4)
    press({"button": "lose"})  # buttons act, and time stands still
    time.sleep(0.2)
    after = http.get("/v1/view").json()
    assert (after["time"], after["loss"]) == (view["time"], 0.2)
    press({"paused": False}, "/v1/pace")
    deadline = time.monotonic() + SOON
    while http.get("/v1/view").json()["time"] < view["time"] + 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    wrong = press({"speed": 3}, "/v1/pace")
    assert (wrong.status_code, "one of (0.25, 1.0, 4.0)" in wrong.text) == (422, True)


def test_a_stream_brings_the_past_then_what_changes_and_ends_with_the_swarm(http, press, show):
    press({"paused": True}, "/v1/pace")
    with http.stream("GET", "/v1/views", headers=STREAM) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        coming = events(response)
        first = next(coming)
        assert first["whole"]
        view = first["view"]
        while view != json.loads(json.dumps(show.ring.newest)):
            view |= next(coming)["view"]
        threading.Thread(target=show.press_button, args=("lose",)).start()
        change = next(coming)["view"]
        assert change["loss"] == 0.2
        assert "agents" not in change
        polled = http.get(f"/v1/views?after={show.ring.count - 1}").json()
        assert [each["view"] for each in polled] == [change]
        show.stop()
        assert [each["view"]["phase"] for each in coming] == ["ended"]
    late = press({"button": "lose-none"})
    assert (late.status_code, late.json()) == (422, {"error": "the swarm has ended"})


def test_twenty_watch_and_others_ask(http, monkeypatch):
    monkeypatch.setattr(streams, "MAX_VIEWERS", 2)

    def stream():
        return http.stream("GET", "/v1/views", headers=STREAM)

    with stream() as one, stream() as two:
        watching = events(one), events(two)  # as long as somebody reads
        assert all(next(each)["whole"] for each in watching)
        with stream() as third:
            assert third.status_code == 503
            assert third.headers["x-content-type-options"] == "nosniff"
            assert "every second" in third.read().decode()
        assert http.get("/v1/views").json()[0]["whole"]
    deadline, status = time.monotonic() + SOON, 503
    while status == 503:  # who leaves makes room
        assert time.monotonic() < deadline
        with stream() as again:
            status = again.status_code
    assert status == 200


def is_admitted(http, after):
    with http.stream("GET", f"/v1/views?after={after}", headers=STREAM) as response:
        return response.status_code == 200


def test_a_slow_reader_is_dropped(show, monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_SEND_SECONDS", 0.2)
    monkeypatch.setattr(streams, "MAX_VIEWERS", 1)
    show.ring.append_view({"large": "x" * 20_000_000})
    patient = ServerLimits(request_seconds=1000.0)  # else the server would drop it, too
    with (
        Server(DemoApp(show), "127.0.0.1:0", patient) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=SOON) as http,
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as slow,
    ):
        slow.settimeout(SOON)
        head = "GET /v1/views HTTP/1.1", "Host: localhost", "Accept: text/event-stream"
        slow.sendall("\r\n".join([*head, "", ""]).encode())
        assert slow.recv(1) == b"H"  # it has the only place, and reads no further
        wait_until(lambda: is_admitted(http, show.ring.count), "the slow reader kept its place")
        while slow.recv(1_000_000):  # what was under way; then the connection ends by itself
            pass


def test_what_is_no_number_is_refused(http):
    assert http.get("/v1/views?after=x").status_code == 422
    assert http.get("/v1/views?after=-5").json()[0]["whole"]
