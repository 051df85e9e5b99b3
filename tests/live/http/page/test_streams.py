"""Streams of the page: all of it, then what changed; no viewer can hold up another."""

import itertools
import json
import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from posse.live.http import page as event_stream
from posse.live.http import page as sections
from posse.live.http import page as streams
from posse.live.http import serve_node
from posse.live.http.health import get_traffic
from posse.live.http.page import PageSections
from tests.live.loopback import SOON, wait_until


def changes(lines):
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def until(news, holds, most=20):
    """The sections after as many changes as it takes."""
    known = {}
    for _ in range(most):
        known |= next(news)["sections"]
        if holds(known):
            return known
    raise AssertionError("it never came")


def test_a_stream_begins_with_all_that_the_page_asks_for_and_goes_on_with_changes(node, http):
    with http.stream("GET", "/v1/page/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        news = changes(answer.iter_lines())
        first = next(news)["sections"]
        assert first.keys() == http.get("/v1/page").json()["sections"].keys()
        assert first["arms"] == http.get("/v1/arms").json()
        assert first["agent"]["experiments"] == ["default"]
        calm = next(news)["sections"]
        assert not calm.keys() & {"arms", "agent", "verdict", "audit", "sites"}
        node.reward(node.decide().id, 1.0)
        known = until(news, lambda known: "audit" in known)
        assert (
            known["audit"]
            == http.get("/v1/audit").json()
            == {"counted": 1, "in_evidence": 1, "in_network": 1}
        )


def test_what_the_page_shows_equals_the_other_routes(node, http):
    for reward in (1.0, 0.0, 1.0):
        node.reward(node.decide().id, reward)
    shown = http.get("/v1/page").json()["sections"]
    for name in ("arms", "controls", "audit", "sites"):
        assert shown[name] == http.get(f"/v1/{name}").json(), name
    assert shown["experiment"] == http.get("/v1/experiments").json()["experiments"]["default"]
    assert shown["network"]["agents"].keys() == http.get("/v1/network").json()["agents"].keys()
    assert shown["verdict"] is None


def test_one_viewer_too_many_is_told_to_ask_instead(server, http, monkeypatch):
    monkeypatch.setattr(streams, "MAX_VIEWERS", 3)
    with ExitStack() as open_:
        for _ in range(3):
            open_.enter_context(http.stream("GET", "/v1/page/stream"))
        refused = http.get("/v1/page/stream")
        assert refused.status_code == 503
        assert "/v1/page" in refused.json()["error"]
        assert http.get("/v1/page").status_code == 200
        assert "posse_page_viewers 3" in http.get("/metrics").text
    deadline = time.monotonic() + 10
    while "posse_page_viewers 0" not in http.get("/metrics").text:
        assert time.monotonic() < deadline, "a viewer who left is still counted"
        time.sleep(0.05)


def test_viewers_share_one_look_and_one_encoding(node, monkeypatch):
    shown = PageSections(node, node.experiment())
    shown.refresh()
    version, everything = shown.changes_since(0)
    assert shown.changes_since(0)[1] is everything
    assert shown.changes_since(version) == (version, shown.changes_since(version)[1])
    monkeypatch.setattr(sections, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(sections, "MAX_CORE_SHARE", 1e9)
    looks = []
    monkeypatch.setattr(shown.by_name["arms"], "compute", lambda: looks.append(1) or {})
    busy = threading.Thread(target=shown.refresh)
    with shown.lock:  # somebody is at it: nobody waits, all get what there is
        busy.start()
        busy.join(10)
        assert not looks
    shown.refresh()
    assert len(looks) == 1


def test_a_section_that_takes_long_is_looked_at_rarely(monkeypatch):
    spent = iter([0.0, 0.5, 0.5, 0.5])  # seconds of a core, before and after each
    monkeypatch.setattr(sections.time, "thread_time", lambda: next(spent))
    looks = []
    section = sections.Section(lambda: looks.append(1))
    assert section.refresh(0.0, 1)
    assert not section.refresh(1.0, 2)
    assert not section.refresh(99.0, 3)  # half a second is 0.5% of 100
    section.refresh(101.0, 4)
    assert len(looks) == 2


def test_streams_end_at_once_when_the_agent_stops(node):
    with httpx.Client(trust_env=False, timeout=10) as client:
        server = serve_node(node, "127.0.0.1:0")
        with client.stream("GET", f"{server.url}/v1/page/stream") as answer:
            lines = answer.iter_lines()
            next(changes(lines))
            server.stop()
            # it has an end: uvicorn waits for answers under way, and those that stay it cuts off
            list(lines)
        assert not server.alive


def test_a_reader_that_takes_nothing_is_dropped_and_others_go_on(node, monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_SEND_SECONDS", 0.3)
    monkeypatch.setattr(sections, "REFRESH_SECONDS", 0.02)
    monkeypatch.setattr(streams, "REFRESH_SECONDS", 0.02)
    large = {"n": 0, "text": "x" * 400_000}
    real = PageSections.describe_agent

    def grown(self):
        large["n"] += 1
        return {**real(self), **large}

    monkeypatch.setattr(PageSections, "describe_agent", grown)
    monkeypatch.setattr(sections, "MAX_CORE_SHARE", 1e9)
    with (
        serve_node(node, "127.0.0.1:0") as server,
        httpx.Client(trust_env=False, timeout=10) as client,
    ):
        host, port = server.url.removeprefix("http://").split(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((host, int(port)))
            deaf.sendall(b"GET /v1/page/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with client.stream("GET", f"{server.url}/v1/page/stream") as answer:
                news = changes(answer.iter_lines())
                deadline = time.monotonic() + 15
                while client.get(f"{server.url}/metrics").text.count("posse_page_viewers 2"):
                    assert time.monotonic() < deadline, "the deaf one is still served"
                    assert next(news)
                assert "posse_page_viewers 1" in client.get(f"{server.url}/metrics").text
                assert next(news)


@pytest.fixture
def large_events(monkeypatch):
    """Every event has 20 kB, more than the small buffer of a silent viewer takes."""
    real = PageSections.describe_agent
    counter = itertools.count()

    def describe(self):
        return {**real(self), "n": next(counter), "text": "x" * 20_000}

    monkeypatch.setattr(PageSections, "describe_agent", describe)
    monkeypatch.setattr(sections, "REFRESH_SECONDS", 0.1)
    monkeypatch.setattr(sections, "MAX_CORE_SHARE", 1e9)


def connect_silent_viewer(server):
    """A viewer that asks for a stream and reads nothing."""
    host, port = server.url.removeprefix("http://").split(":")
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.connect((host, int(port)))
    silent.sendall(b"GET /v1/page/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return silent


@pytest.mark.long
def test_new_viewers_displace_silent_ones_and_never_one_that_keeps_up(
    node, large_events, monkeypatch
):
    """50 viewers that read nothing kept all places."""
    monkeypatch.setattr(streams, "MAX_VIEWERS", 3)
    monkeypatch.setattr(streams, "MIN_BEHIND_SECONDS", 1.0)
    monkeypatch.setattr(event_stream, "MAX_SEND_SECONDS", 1000.0)
    refusals = get_traffic(node).refusals
    with (
        serve_node(node, "127.0.0.1:0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=20) as client,
        ExitStack() as stack,
    ):

        def watch():
            answer = stack.enter_context(client.stream("GET", "/v1/page/stream"))
            return answer.status_code, changes(answer.iter_lines())

        attentive = [watch()[1]]
        first = stack.enter_context(connect_silent_viewer(server))
        wait_until(lambda: get_traffic(node).viewers == 2)
        second = stack.enter_context(connect_silent_viewer(server))
        wait_until(lambda: get_traffic(node).viewers == 3)
        deadline = time.monotonic() + SOON
        while len(attentive) < 3:
            assert time.monotonic() < deadline, "silent viewers keep their places"
            assert all(next(news) for news in attentive)
            status, news = watch()
            if status == 200:
                attentive.append(news)
                if len(attentive) == 2:  # the one that has been silent longest went first
                    wait_until(lambda: not is_served(server, first))
                    assert is_served(server, second)
        wait_until(lambda: not is_served(server, second))
        assert refusals["too_slow"] == 2
        for _ in range(20):  # for longer than a silent viewer would stay
            assert all(next(news) for news in attentive)
            assert watch()[0] == 503
        assert get_traffic(node).viewers == 3


def is_served(server, raw):
    ports = {connection.client[1] for connection in list(server.state.connections)}
    return raw.getsockname()[1] in ports


def test_viewers_who_leave_at_once_leave_nothing_behind(server, http):
    host, port = server.url.removeprefix("http://").split(":")
    for i in range(200):
        with socket.create_connection((host, int(port))) as viewer:
            viewer.sendall(b"GET /v1/page/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if i % 2:
                viewer.recv(10)
    deadline = time.monotonic() + 10
    while "posse_page_viewers 0" not in http.get("/metrics").text:
        assert time.monotonic() < deadline, "a viewer who left is still counted"
        time.sleep(0.05)
    with http.stream("GET", "/v1/page/stream") as answer:
        assert next(changes(answer.iter_lines()))["sections"]


@pytest.mark.parametrize("path", ["/v1/page", "/v1/page/stream", "/v1/sites"])
def test_an_experiment_that_is_not_there_is_a_sentence(http, path):
    answer = http.get(path.replace("/v1/", "/v1/experiments/none/"))
    assert answer.status_code == 404
    assert "none" in answer.json()["error"]
