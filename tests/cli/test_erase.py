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
from tests.live.several import Several, table
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


@pytest.fixture
def shops(tmp_path):
    """Two servers, each with the experiments checkout and banner, and their nodes."""
    fleet = Several(tmp_path).start(a=table("a"), b=table("b"))
    servers = [serve_node(node, "127.0.0.1:0") for node in fleet.nodes.values()]
    yield list(zip(servers, fleet.nodes.values(), strict=True))
    for server in servers:
        server.stop()
    fleet.close()


def test_without_an_experiment_all_of_an_agent_are_erased_from(shops, capsys):
    (first, node), (second, other) = shops
    for each in (node, other):
        for experiment in each.experiments.values():
            for decision in ("one", "two"):
                experiment.decide(decision, None, None, "u-17")
    other.experiment("checkout").erase_visitor("u-17")
    command = ("erase", first.url, second.url, "--visitor", "u-17")
    code, out, err = said(capsys, *command, "--experiment", "banner")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{url}: 2 erased" for url in (first.url, second.url)]
    other.experiment("banner").decide("three", None, None, "u-17")
    code, out, err = said(capsys, *command)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{first.url}: 2 erased in checkout",
        f"{first.url}: 0 erased in banner",
        f"{second.url}: 0 erased in checkout",
        f"{second.url}: 1 erased in banner",
    ]
    code, out, err = said(capsys, *command)
    assert code == 2
    assert all(": 0 erased in " in line for line in out.splitlines())
    assert err == "posse: no agent named has a decision for 'u-17': check the name, or its age\n"


def test_a_decision_is_erased_from_every_experiment_that_has_it(shops, capsys):
    (first, node), _ = shops
    node.experiment("banner").decide("one")
    command = ("erase", first.url, "--decision", "one")
    code, out, err = said(capsys, *command)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{first.url}: 0 erased in checkout",
        f"{first.url}: 1 erased in banner",
    ]
    code, _, err = said(capsys, *command)
    assert code == 2
    assert err == "posse: no agent named has a decision 'one': check the name, or its age\n"


@pytest.mark.parametrize("what", [("--decision", "one"), ("--visitor", "u-17")])
def test_a_refusal_is_shown_and_not_counted_as_unknown(shops, what, capsys):
    (first, node), _ = shops
    node.experiment("banner").decide("one", None, None, "u-17")
    code, out, err = said(capsys, "erase", first.url, *what, "--experiment", "basket")
    assert (code, out) == (2, "")
    runs = "unknown experiment 'basket': this agent runs checkout, banner"
    assert err == f"posse: {first.url}: {runs}\n"


def test_a_missing_token_is_named_with_the_agent(agents, capsys):
    (first, _), (_, other) = agents
    closed = serve_node(other, "127.0.0.1:0", token="secret")
    code, out, err = said(capsys, "erase", first.url, closed.url, "--visitor", "u-17")
    closed.stop()
    assert (code, out) == (2, f"{first.url}: 0 erased\n")
    assert err.startswith(f"posse: {closed.url}: token missing or wrong")


def test_another_server_is_no_agent(agents, monkeypatch, capsys):
    (first, _), _ = agents
    command = ("erase", first.url, "--visitor", "u-17")
    line = f"posse: the server at {first.url} is not a Posse agent\n"
    monkeypatch.setattr("posse.live.client.Client.erase_visitor", lambda *_, **__: {"hello": 1})
    assert said(capsys, *command) == (2, "", line)
    monkeypatch.setattr("posse.live.client.Client.experiments", lambda _: {"hello": 1})
    assert said(capsys, *command) == (2, "", line)


def test_both_tokens_erase_and_the_help_says_so(agents, tmp_path, monkeypatch, capsys):
    _, (_, node) = agents
    server = serve_node(node, "127.0.0.1:0", token="apple", operator_token="pear")
    for token in ("apple", "pear"):
        node.experiment().decide(token)
        (tmp_path / token).write_text(token)
        command = ("erase", server.url, "--decision", token, "--token-file", tmp_path / token)
        assert said(capsys, *command) == (0, f"{server.url}: 1 erased\n", "")
    server.stop()
    monkeypatch.setenv("COLUMNS", "200")
    out = said(capsys, "erase", "--help")[1]
    assert "the application's token or the operators': http_token or operator_token" in out
