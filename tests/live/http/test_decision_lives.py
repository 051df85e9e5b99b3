"""Routes of one decision: activate, cancel, look at it, erase it."""

import pytest

from posse.live.experiment.reward_window import RewardWindow
from tests.live.asking import JSON, ask, refused

COUNT = RewardWindow(3600.0, 0.0)


@pytest.fixture
def counting(node):
    """The node, with decisions that count as failures from the start."""
    node.experiment().set_reward_window(COUNT)
    return node


def pulls(node):
    return node.experiment().audit().in_evidence


def test_asked_is_not_shown(http, counting):
    body = {"decision": "one", "activate": False}
    made = ask(http, "/v1/decisions", body)
    assert ask(http, "/v1/decisions", body) == made
    assert pulls(counting) == 0
    conflict = http.post("/v1/decisions", json={"decision": "one"})
    refused(conflict, 409, "one", "activate it, or use a new id")
    shown = ask(http, "/v1/decisions/one/activate", {})
    assert shown == {"decision": "one", "state": "open", "repeated": False}
    assert ask(http, "/v1/decisions/one/activate", {}) == shown | {"repeated": True}
    assert ask(http, "/v1/decisions", {"decision": "one"}) == made
    assert pulls(counting) == 1
    batch = {"decisions": [{"decision": "two", "activate": False}, {"decision": "three"}]}
    ask(http, "/v1/decisions/batch", batch)
    assert pulls(counting) == 2
    steps = {"rewards": [{"decision": "two", "reward": 1}], "decide": {"activate": False}}
    ask(http, "/v1/steps", steps)
    assert pulls(counting) == 3
    assert http.get("/v1/decisions/two").json()["state"] == "open"
    about = http.get("/v1/experiments").json()["experiments"]["default"]
    assert (about["open_decisions"], about["inactive_decisions"]) == (3, 1)


def test_cancel(http, counting):
    ask(http, "/v1/decisions", {"decision": "one"})
    gone = ask(http, "/v1/decisions/one/cancel", {})
    assert gone == {"decision": "one", "state": "cancelled", "repeated": False}
    assert ask(http, "/v1/decisions/one/cancel", {}) == gone | {"repeated": True}
    assert pulls(counting) == 0
    refused(http.post("/v1/decisions/one/reward", json={"reward": 1}), 409, "was cancelled")
    ask(http, "/v1/decisions", {"decision": "two"})
    ask(http, "/v1/decisions/two/reward", {"reward": 0})
    refused(http.post("/v1/decisions/two/cancel", json={}), 409, "has the reward 0.0")
    metrics = http.get("/metrics").text
    assert 'posse_decisions_cancelled_total{experiment="default"} 1' in metrics


def test_a_decision_and_its_times(http, counting):
    made = ask(http, "/v1/decisions", {"decision": "one", "visitor": "u-17"})
    assert http.get("/v1/decisions/one").json()["visitor"] == "u-17"
    seen = http.get("/v1/decisions/one").json()
    assert seen | made == seen
    assert (seen["state"], seen["reward"], seen["rewarded"], seen["closed"]) == (
        *("open", None, None, None),
    )
    assert seen["time"] == counting.store.find_decision("one").time
    ask(http, "/v1/decisions/one/reward", {"reward": 1})
    seen = http.get("/v1/experiments/default/decisions/one").json()
    assert (seen["state"], seen["reward"], seen["closed"], seen["context"]) == (
        *("open", 1.0, None, None),
    )
    assert seen["rewarded"] >= seen["time"]


def test_erase(http, counting):
    ask(http, "/v1/decisions", {"decision": "one"})
    assert http.delete("/v1/decisions/one").json() == {"erased": 1, "log_emptied": True}
    assert pulls(counting) == 0
    refused(http.get("/v1/decisions/one"), 404, "there is no decision 'one'")
    refused(http.delete("/v1/decisions/one"), 404, "there is no decision 'one'")
    assert 'posse_decisions_erased_total{experiment="default"} 1' in http.get("/metrics").text


def test_erase_a_visitor(http, counting):
    for visitor in ("u-17", "u-18", "u-17"):
        ask(http, "/v1/decisions", {"visitor": visitor})
    assert ask(http, "/v1/erasures", {"visitor": "u-17"}) == {"erased": 2, "log_emptied": True}
    assert ask(http, "/v1/erasures", {"visitor": "u-17"}) == {"erased": 0, "log_emptied": True}
    assert pulls(counting) == 1
    either = {"visitor": "u-18", "decision": "a"}
    for wrong in ({}, either, {"visitor": ""}, {"visitor": 3}, {"visitor": "x" * 1001}):
        refused(http.post("/v1/erasures", json=wrong), 422)
    refused(http.post("/v1/erasures", json={"decision": "a"}), 404, "there is no decision 'a'")
    assert pulls(counting) == 1


def test_events_keep_who_wanted_an_erasure_and_why_but_no_visitor(http):
    for visitor in ("u-17", "u-17", "u-18", "u-19"):
        ask(http, "/v1/decisions", {"visitor": visitor, "decision": None})
    ask(http, "/v1/decisions", {"decision": "one"})
    ask(http, "/v1/erasures", {"visitor": "u-17", "by": "Ada", "reason": "a letter"})
    ask(http, "/v1/erasures", {"visitor": "u-18", "by": "Ada"})
    ask(http, "/v1/erasures", {"decision": "one", "reason": "a test"})
    ask(http, "/v1/erasures", {"visitor": "u-19"})  # nobody says who
    ask(http, "/v1/erasures", {"visitor": "u-20", "by": "Ada"})  # there is none
    events = [event["text"] for event in http.get("/v1/events").json()["events"]]
    assert events == [
        "2 decisions were erased (Ada: a letter)",
        "1 decision was erased (Ada)",
        "1 decision was erased (a test)",
    ]


@pytest.mark.parametrize("transition", ["activate", "cancel"])
def test_bad_requests_get_one_sentence_and_change_nothing(http, counting, transition):
    ask(http, "/v1/decisions", {"decision": "one", "activate": transition == "cancel"})
    before = counting.store.find_decision("one")
    path = f"/v1/decisions/one/{transition}"
    refused(http.post(path, content=b"", headers=JSON), 422, "JSON")
    refused(http.post(path, json={"state": "open"}), 422, "unknown field 'state'")
    refused(http.post(path, json=[]), 422, "must be a JSON object")
    refused(http.post(path, content=b"x=1"), 415)
    refused(http.get(path), 405)
    refused(http.put("/v1/decisions/one", json={}), 405)
    refused(http.post(f"/v1/decisions/nobody/{transition}", json={}), 404, "nobody")
    refused(http.post(f"/v1/decisions/{'x' * 201}/{transition}", json={}), 422, "200 characters")
    for wrong in (None, 0, "no", []):
        bad = http.post("/v1/decisions", json={"activate": wrong})
        refused(bad, 422, "activate must be true or false")
    refused(http.post("/v1/decisions", json={"activat": False}), 422, "did you mean 'activate'?")
    assert counting.store.find_decision("one") == before


def test_every_transition_of_a_moment_is_in_one_commit_with_rewards(counting):
    """A batch as the event loop makes it: what is wrong alone does not spoil the others."""
    from posse.live.http.health import get_traffic
    from posse.live.http.request_batches import BatchRequest, RequestBatcher
    from posse.live.store import Conflict, Unknown

    experiment = counting.experiment()
    for id_ in "abc":
        experiment.decide(id_, activate=id_ != "a")
    batch = [
        BatchRequest(experiment, transitions=[("activate", "a")]),
        BatchRequest(experiment, rewards=[("b", 1.0)]),
        BatchRequest(experiment, transitions=[("cancel", "c"), ("cancel", "nobody")]),
        BatchRequest(experiment, rewards=[("c", 1.0)]),
    ]
    before = counting.store.commits
    RequestBatcher(counting, get_traffic(counting)).commit_batch(batch)
    assert counting.store.commits == before + 1
    assert [record.state for record, _ in (batch[0].changed[0], batch[2].changed[0])] == [
        *("open", "cancelled"),
    ]
    assert isinstance(batch[2].changed[1], Unknown)
    assert isinstance(batch[3].outcomes[0], Conflict)
    assert pulls(counting) == 2
