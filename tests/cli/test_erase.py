"""`posse erase`, against real agents."""

import json
import sqlite3
from contextlib import closing

import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.store import Store
from tests.cli.calling import said
from tests.live.single import single_node


@pytest.fixture
def agents(tmp_path):
    """Two servers and their nodes."""
    network = MemoryNetwork([("a", "b")])
    running = []
    for name in "ab":
        agent = Agent(["red", "green"], families.Bernoulli(), seed=1)
        store = Store.open(tmp_path / f"{name}.db", fingerprint=agent.fingerprint)
        node = single_node(agent, store, network.transport(name), neighbours=[])
        node.transport.start(node.receive)
        running.append((serve_node(node, "127.0.0.1:0"), node))
    yield running
    for server, node in running:
        server.stop()
        node.stop()


def test_a_decision_is_erased_at_the_agents_named(agents, capsys):
    (first, node), (second, other) = agents
    for each in (node, other):
        each.experiment().decide("one")
    command = ("erase", first.url, second.url, "--decision", "one")
    code, out, err = said(capsys, *command)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{url}: 1 erased" for url in (first.url, second.url)]
    assert node.store.find_decision("one") is other.store.find_decision("one") is None
    code, out, err = said(capsys, *command)
    assert code == 2
    assert err == "posse: no agent named has a decision 'one': check the name, or its age\n"
    other.experiment().decide("two")
    code, out, err = said(capsys, "erase", first.url, second.url, "--decision", "two")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{first.url}: 0 erased", f"{second.url}: 1 erased"]


def test_a_reader_that_keeps_the_log_is_named_and_the_exit_code_is_1(agents, tmp_path, capsys):
    (first, node), _ = agents
    node.experiment().decide("one")
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM decision").fetchone()
        code, out, err = said(capsys, "erase", first.url, "--decision", "one")
    assert code == 1
    assert out == f"{first.url}: 1 erased\n"
    assert err.startswith(f"posse: {first.url}: erased from the store, but not yet from its log")
    assert node.store.find_decision("one") is None
    node.tick()  # the reader has ended
    assert not node.store.file.traces


def test_what_to_erase_must_be_named(capsys):
    code, _, err = said(capsys, "erase", "http://127.0.0.1:1")
    sentence = "posse: name what to erase: --decision ID or --visitor VISITOR\n"
    assert (code, err) == (2, sentence)
    both = ("--decision", "a", "--visitor", "b")
    assert said(capsys, "erase", "http://127.0.0.1:1", *both)[::2] == (2, sentence)


def test_a_visitor_is_erased_and_was_exported(agents, tmp_path, capsys):
    (first, node), (second, other) = agents
    for each in (node, other):
        for number, visitor in enumerate(["u-17", "x/y z", "u-17", None]):
            each.experiment().decide(f"d{number}", None, None, visitor)
    code, out, _ = said(capsys, "export", tmp_path / "a.db", "--visitor", "u-17")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["d0", "d2"]
    assert said(capsys, "export", tmp_path / "a.db", "--visitor", "nobody")[1] == ""
    code, out, err = said(capsys, "erase", first.url, second.url, "--visitor", "u-17")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{url}: 2 erased" for url in (first.url, second.url)]
    assert [node.store.find_decision(f"d{k}") is None for k in range(4)] == [1, 0, 1, 0]
    assert said(capsys, "erase", first.url, "--visitor", "x/y z")[0] == 0
    assert node.store.find_decision("d1") is None
    code, _, err = said(capsys, "erase", first.url, "--visitor", "u-17")
    assert (code, err) == (
        *(2, "posse: no agent named has a decision for 'u-17': check the name, or its age\n"),
    )
