"""POST /v1/steps: rewards and the next decision in one request and one commit."""

import sqlite3

from tests.live.asking import JSON, ask, refused


def test_rewards_and_the_next_decision(http, node):
    first = ask(http, "/v1/steps", {"decide": {"decision": "one", "allowed": ["red", "green"]}})
    assert first["rewards"] == []
    assert (first["decision"]["decision"], first["decision"]["arm"] != "") == ("one", True)
    before = node.store.commits
    body = {"rewards": [{"decision": "one", "reward": 1}], "decide": {"decision": "two"}}
    second = ask(http, "/v1/steps", body)
    assert node.store.commits == before + 1
    assert second["rewards"] == [{"decision": "one", "reward": 1.0, "repeated": False}]
    assert set(second["decision"]) == {"decision", "arm", "probability"}
    again = ask(http, "/v1/steps", body)  # an answer that was lost is asked for again
    assert again["decision"] == second["decision"]
    assert again["rewards"] == [{"decision": "one", "reward": 1.0, "repeated": True}]
    assert (node.counts["decisions"], node.counts["rewards"]) == (2, 1)


def test_none_or_many_decisions(http, node):
    ask(http, "/v1/decisions", {"decision": "x"})
    rewards = [{"decision": "x", "reward": 0}]
    assert list(ask(http, "/v1/steps", {"rewards": rewards})) == ["rewards"]
    assert list(ask(http, "/v1/steps", {"rewards": rewards, "decide": None})) == ["rewards"]
    assert ask(http, "/v1/steps", {}) == {"rewards": []}
    many = ask(http, "/v1/steps", {"decide": [{}, {"allowed": ["green"]}, {"decision": "x"}]})
    assert list(many) == ["rewards", "decisions"]
    assert (many["decisions"][1]["arm"], many["decisions"][2]["decision"]) == ("green", "x")
    assert ask(http, "/v1/steps", {"decide": []}) == {"rewards": [], "decisions": []}
    assert node.counts["decisions"] == 3


def test_every_item_has_an_error_of_its_own(http, node):
    ask(http, "/v1/decisions", {"decision": "x"})
    rewards = [
        {"decision": "x", "reward": 1},
        {"decision": "nobody", "reward": 1},
        {"reward": 1},
        7,
    ]
    got = ask(http, "/v1/steps", {"rewards": rewards, "decide": {"allowed": ["pink"]}})
    assert [one.get("status") for one in got["rewards"]] == [None, 404, 422, 422]
    assert got["decision"]["status"] == 422
    assert "pink" in got["decision"]["error"]
    assert ask(http, "/v1/steps", {"decide": {"decision": "a b"}})["decision"]["status"] == 422
    many = ask(http, "/v1/steps", {"decide": [{"other": 1}, {}, 3]})["decisions"]
    assert [one.get("status") for one in many] == [422, None, 422]
    assert (node.counts["decisions"], node.counts["rewards"]) == (2, 1)


def test_what_is_no_step_is_refused(http, node):
    for body, field in [
        ({"rewards": {}}, "rewards"),
        ({"rewards": None}, "rewards"),
        ({"decide": 3}, "decide"),
        ({"decide": "x"}, "decide"),
        ({"other": 1}, "other"),
        ([], "the body"),
        ({"rewards": [{"decision": "x", "reward": 1}] * 1001}, "1000"),
        ({"decide": [{}] * 1001}, "1000"),
    ]:
        refused(http.post("/v1/steps", json=body), 422, field)
    content = b'{"rewards": [{"decision": "x", "reward": NaN}]}'
    got = http.post("/v1/steps", content=content, headers=JSON).json()["rewards"]
    assert [one["status"] for one in got] == [422]
    assert node.counts["decisions"] == 0


def test_a_step_whose_commit_fails_leaves_nothing(http, node, monkeypatch):
    ask(http, "/v1/decisions", {"decision": "x"})

    def full(state):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(node.store.participant_state, "write_parts", full)
    body = {"rewards": [{"decision": "x", "reward": 1}], "decide": {"decision": "y"}}
    refused(http.post("/v1/steps", json=body), 503)
    monkeypatch.undo()
    assert node.store.find_decision("y") is None
    assert ask(http, "/v1/steps", body)["rewards"][0]["repeated"] is False
