"""Visitors over HTTP and in both clients: decided by hash, stored, exported, refused if bad."""

import io
import json

import pytest

from posse.live import Client, Conflict
from posse.live.http import serve_node
from posse.live.store import export_decisions
from tests.live.asking import ask, refused
from tests.live.client.test_client import both
from tests.live.several import Several, table

ARMS = ["red", "green", "blue"]
VISITORS = [f"u-{i}" for i in range(40)]


@pytest.fixture
def fleet(tmp_path):
    """Two agents that have heard nothing of each other yet: their beliefs are equal."""
    made = Several(tmp_path).start(**{name: table(name, ["shop"], arms=ARMS) for name in "ab"})
    yield made
    made.close()


def test_a_visitor_gets_the_same_arm_in_decisions_batches_and_steps(http, node):
    arms = []
    for visitor in VISITORS:
        arms.append(ask(http, "/v1/decisions", {"visitor": visitor})["arm"])
    assert len(set(arms)) == 3
    batch = {"decisions": [{"visitor": visitor} for visitor in VISITORS]}
    made = ask(http, "/v1/decisions/batch", batch)["decisions"]
    assert [decision["arm"] for decision in made] == arms
    for decide in (batch["decisions"], batch["decisions"][0]):
        answer = ask(http, "/v1/steps", {"rewards": [], "decide": decide})
        decisions = answer.get("decisions") or [answer["decision"]]
        assert [decision["arm"] for decision in decisions] == arms[: len(decisions)]
    for visitor in VISITORS[:9]:
        decision = ask(http, "/v1/decisions", {"visitor": visitor, "allowed": ["red", "green"]})
        assert decision["arm"] in ("red", "green")


def test_a_visitor_is_part_of_the_decision(http, node, tmp_path):
    first = ask(http, "/v1/decisions", {"decision": "one", "visitor": "ü@example.org"})
    assert ask(http, "/v1/decisions", {"decision": "one", "visitor": "ü@example.org"}) == first
    for body in ({"decision": "one"}, {"decision": "one", "visitor": "u-2"}):
        refused(http.post("/v1/decisions", json=body), 409, "'one' was made for another visitor")
    assert node.store.find_decision("one").visitor == "ü@example.org"
    ask(http, "/v1/decisions", {"decision": "two"})
    file = io.StringIO()
    export_decisions(tmp_path / "agent.db", file)
    rows = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(row["id"], row["visitor"]) for row in rows] == [
        ("one", "ü@example.org"),
        ("two", None),
    ]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("", "visitor must have at least 1 character"),
        ("x" * 201, "visitor must have at most 200 characters"),
        (17, "visitor must be a string or null"),
        (["u"], "visitor must be a string or null"),
        ("\ud800", "visitor must be a string or null"),
    ],
)
def test_a_bad_visitor_is_refused_in_one_sentence(http, node, bad, sentence):
    body = json.dumps({"visitor": bad})
    headers = {"Content-Type": "application/json"}
    refused(http.post("/v1/decisions", content=body, headers=headers), 422, sentence)
    batch = json.dumps({"decisions": [{"visitor": bad}, {"visitor": "u"}]})
    answer = http.post("/v1/decisions/batch", content=batch, headers=headers).json()["decisions"]
    assert (answer[0]["status"], answer[0]["error"]) == (422, sentence)
    assert answer[1]["arm"] in node.agent.arm_names
    assert node.store.count_open_decisions() == 1  # nothing of the bad ones


@both
def test_clients_send_visitors(kind, node):
    with serve_node(node, "127.0.0.1:0") as server, kind(server.url) as client:
        arms = [client.pull(visitor=visitor).arm for visitor in VISITORS]
        assert [d.arm for d in client.pull_all(40, visitors=VISITORS)] == arms
        last, _ = client.step([], visitor="u-7")
        assert last.arm == arms[7]
        decisions, outcomes = client.step_all([], 40, visitors=VISITORS)
        assert [decision.arm for decision in decisions] == arms
        assert outcomes == []
        many = [f"w-{i}" for i in range(1001)]  # more than one request
        again = [decision.arm for decision in client.step_all([], 1001, visitors=many)[0]]
        assert [decision.arm for decision in client.pull_all(1001, visitors=many)] == again
        with pytest.raises(Conflict, match="another visitor"):
            client.pull(decision=last.id, visitor="u-8")
        with pytest.raises(ValueError, match="visitors must be 2, one for each decision, got 1"):
            client.pull_all(2, visitors=["u"])
        with pytest.raises(ValueError, match="visitors must be a list"):
            client.pull_all(3, visitors="u-1")
        with pytest.raises(ValueError, match="visitor must be a string or null"):
            client.pull(visitor=17)


def test_two_agents_of_one_network_agree(fleet):
    arms = {}
    for name in "ab":
        with (
            serve_node(fleet.nodes[name], "127.0.0.1:0") as server,
            Client(server.url, experiment="shop") as client,
        ):
            arms[name] = [decision.arm for decision in client.pull_all(40, visitors=VISITORS)]
    assert arms["a"] == arms["b"]


def test_pins_and_pauses_win(fleet):
    shop = fleet.nodes["a"].experiment("shop")
    arms = {visitor: shop.decide(visitor=visitor).arm for visitor in VISITORS}
    shop.pause("red")
    paused = {visitor: shop.decide(visitor=visitor).arm for visitor in VISITORS}
    # only visitors of the paused arm get another one
    assert all(paused[v] == arms[v] for v in VISITORS if arms[v] != "red")
    assert set(paused.values()) == {"green", "blue"}
    shop.resume("red")
    shop.pin("blue")
    decisions = [shop.decide(visitor=visitor) for visitor in VISITORS]
    assert {(decision.arm, decision.probability) for decision in decisions} == {("blue", 1.0)}
    shop.resume()
    assert {visitor: shop.decide(visitor=visitor).arm for visitor in VISITORS} == arms
