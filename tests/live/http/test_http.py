"""The HTTP interface: every endpoint, every error, and no request that it dies of."""

import json
import re
import sqlite3

import pytest

from posse.live.http import health
from posse.live.refusals import REFUSALS
from posse.live.store import StoreError
from tests.live.asking import JSON, ask, refused


def test_decisions_and_rewards(http, node):
    made = ask(http, "/v1/decisions", {})
    assert set(made) == {"decision", "arm", "probability"}
    assert 0 < made["probability"] <= 1
    path = f"/v1/decisions/{made['decision']}/reward"
    answer = {"decision": made["decision"], "reward": 1.0}
    assert ask(http, path, {"reward": 1}) == {**answer, "repeated": False}
    assert ask(http, path, {"reward": 1.0}) == {**answer, "repeated": True}
    refused(http.post(path, json={"reward": 0}), 409, made["decision"], "1.0")
    only = ask(http, "/v1/decisions", {"allowed": ["green"]})
    assert (only["arm"], only["probability"]) == ("green", 1.0)
    assert (node.counts["decisions"], node.counts["rewards"]) == (2, 1)


def test_an_id_makes_decisions_idempotent(http, node):
    first = ask(http, "/v1/decisions", {"decision": "visit-1", "allowed": ["red"]})
    assert first["decision"] == "visit-1"
    assert all(ask(http, "/v1/decisions", {"decision": "visit-1"}) == first for _ in range(20))
    assert node.counts["decisions"] == 1
    other = {"decision": "visit-1", "allowed": ["green"]}
    refused(http.post("/v1/decisions", json=other), 409, "visit-1", "new id")
    # asked again after an arm has gone from the agent's file
    again = {"decision": "visit-1", "allowed": ["red", "gone"]}
    assert ask(http, "/v1/decisions", again) == first
    assert ask(http, "/v1/decisions/batch", {"decisions": [again]})["decisions"] == [first]
    refused(http.post("/v1/decisions", json={**again, "decision": "new"}), 422, "gone")
    assert node.counts["decisions"] == 1


WRONG_DECISIONS = [
    ({"allowed": []}, "allowed"),
    ({"allowed": "red"}, "allowed"),
    ({"allowed": ["pink"]}, "pink"),
    ({"allowed": [3]}, "allowed.0"),
    ({"allowed": ["\ud800"]}, "allowed.0"),
    ({"decision": ""}, "decision"),
    ({"decision": "a/b"}, "decision"),
    ({"decision": ".."}, "decision"),
    ({"decision": "a" * 201}, "decision"),
    ({"decision": "a\n"}, "decision"),
    ({"decision": 7}, "decision"),
    ({"arm": "red"}, "arm"),
    ([], "the body"),
    (None, "the body"),
    ("text", "the body"),
]
WRONG_REWARDS = ['"1"', "true", "null", "NaN", "Infinity", "-Infinity", "1e999", "[]", "-1", "2"]
WRONG_REWARDS += ["1" + "0" * 400]


def test_wrong_decisions(http, node):
    for body, field in WRONG_DECISIONS:
        content = json.dumps(body).encode()
        refused(http.post("/v1/decisions", content=content, headers=JSON), 422, field)
    assert node.counts["decisions"] == 0


def test_wrong_rewards(http, node):
    ask(http, "/v1/decisions", {"decision": "x"})
    path = "/v1/decisions/x/reward"
    for reward in WRONG_REWARDS:
        content = b'{"reward": %b}' % reward.encode()
        refused(http.post(path, content=content, headers=JSON), 422, "reward")
        content = b'{"rewards": [{"decision": "x", "reward": %b}]}' % reward.encode()
        one = http.post("/v1/rewards", content=content, headers=JSON).json()["rewards"][0]
        assert one["status"] == 422
        assert "reward" in one["error"]
    content = b'{"reward": 1%b}' % (b"0" * 5000)  # more digits than Python reads
    refused(http.post(path, content=content, headers=JSON), 422, "body")
    assert node.counts["rewards"] == 0
    assert ask(http, path, {"reward": 1})["repeated"] is False


def test_unknown_things(http):
    refused(http.post("/v1/decisions/nobody/reward", json={"reward": 1}), 404, "nobody")
    refused(http.post("/v1/decisions/a%2Fb/reward", json={"reward": 1}), 404)
    refused(http.post("/v1/decisions/%FF%00/reward", json={"reward": 1}), 404)
    refused(http.post(f"/v1/decisions/{'a' * 201}/reward", json={"reward": 1}), 422, "decision")
    refused(http.post("/v1/decisions/x/reward", json={}), 422, "reward is missing")
    refused(http.get("/v1/decisions"), 405, "GET /v1/decisions")
    refused(http.get("/docs"), 404, "/openapi.json")
    refused(http.get("/redoc"), 404)
    refused(http.get("/v1/arms/"), 404)


def test_batches(http, node):
    wishes = [{"decision": "one"}, {"allowed": ["green"]}, {"decision": "one"}, {"allowed": ["x"]}]
    wishes += [{"decision": 3}, 7, {}, {"decision": "a b"}]
    made = ask(http, "/v1/decisions/batch", {"decisions": wishes})["decisions"]
    assert made[0] == made[2]
    assert made[1]["arm"] == "green"
    assert [one.get("status") for one in made] == [None] * 3 + [422] * 3 + [None, 422]
    assert node.counts["decisions"] == 3
    again = ask(http, "/v1/decisions/batch", {"decisions": wishes[:1]})["decisions"]
    assert (again, node.counts["decisions"]) == (made[:1], 3)
    taken = {"decision": "one", "allowed": [n for n in node.agent.arm_names if n != made[0]["arm"]]}
    assert ask(http, "/v1/decisions/batch", {"decisions": [taken]})["decisions"][0]["status"] == 409

    before = node.store.commits
    rewards = [{"decision": "one", "reward": 1}, {"decision": "nobody", "reward": 1}]
    rewards += [{"decision": "one", "reward": 1}, {"decision": "one", "reward": 0}]
    rewards += [{"decision": made[1]["decision"], "reward": 7}, {"decision": "one"}, None]
    rewards += [{"decision": made[6]["decision"], "reward": 0}]
    got = ask(http, "/v1/rewards", {"rewards": rewards})["rewards"]
    assert [one.get("status") for one in got] == [None, 404, None, 409, 422, 422, 422, None]
    assert [got[k]["repeated"] for k in (0, 2, 7)] == [False, True, False]
    assert node.store.commits == before + 1
    assert node.counts["rewards"] == 2
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == 2
    assert ask(http, "/v1/rewards", {"rewards": []}) == {"rewards": []}


def test_batches_have_a_limit(http):
    for path in ("/v1/decisions/batch", "/v1/rewards"):
        field = path.split("/")[2]
        items = [{"decision": "x", "reward": 1}] * 1001
        refused(http.post(path, json={field: items}), 422, field, "1000")
        refused(http.post(path, json={}), 422, f"{field} is missing")
        refused(http.post(path, json={field: {}}), 422, field)


def test_what_is_known(http, node):
    for _ in range(5):
        made = ask(http, "/v1/decisions", {})
        ask(http, f"/v1/decisions/{made['decision']}/reward", {"reward": 1})
    arms = http.get("/v1/arms").json()
    assert list(arms) == node.agent.arm_names
    assert sum(arm["pulls_in_network"] for arm in arms.values()) == 5
    network = http.get("/v1/network").json()
    assert network["neighbours"]["b"]["active"] is True
    assert network["agents_known"] == 1
    evidence = http.get("/v1/evidence").json()
    assert evidence["own"] == evidence["held"]
    assert all(type(n) is int for quanta in evidence["own"].values() for n in quanta)
    assert http.get("/healthz").json() == {"status": "alive"}
    assert http.get("/readyz").json() == {"status": "ready"}


def test_metrics(http, node):
    ask(http, "/v1/decisions", {"allowed": ['the "blue"'], "decision": "x"})
    ask(http, "/v1/decisions/x/reward", {"reward": 1})
    node.refusals.add('a "reason"\nwith \\', 2)
    for k in range(200):
        node.refusals.add(str(k))
    node.failures.add("tick")
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert 'posse_decisions_total{experiment="default"} 1' in lines
    assert 'posse_rewards_total{experiment="default"} 1' in lines
    assert 'posse_messages_total{direction="sent"} 0' in lines
    assert 'posse_refusals_total{reason="a \\"reason\\"\\nwith \\\\"} 2' in lines
    assert 'posse_failures_total{doing="tick"} 1' in lines
    assert 'posse_pulls_here{experiment="default",arm="the \\"blue\\""} 1.0' in lines
    assert sum(line.startswith("posse_refusals_total") for line in lines) == 100
    assert all(line.startswith(("# HELP posse_", "# TYPE posse_", "posse_")) for line in lines)


def test_counters_begin_at_zero(http):
    """Or Prometheus would see no increase in the first refusal, the first failure."""
    lines = http.get("/metrics").text.splitlines()
    for doing in ("tick", "receive", "send", "request"):
        assert f'posse_failures_total{{doing="{doing}"}} 0' in lines
    for reason in REFUSALS:
        assert f'posse_refusals_total{{reason="{reason}"}} 0' in lines


def test_openapi(http):
    schema = http.get("/openapi.json").json()
    assert schema["openapi"] == "3.1.0"
    shapes = schema["components"]["schemas"]
    paths = {
        "DecisionRequest": "/v1/decisions",
        "RewardRequest": "/v1/decisions/7f3c9a51d2e84b06/reward",
        "DecisionsRequest": "/v1/decisions/batch",
        "RewardsRequest": "/v1/rewards",
        "StepsRequest": "/v1/steps",
    }
    for name, path in paths.items():
        for example in shapes[name]["examples"]:
            ask(http, path, example)
            ask(http, path.replace("/v1/", "/v1/experiments/default/"), example)
    assert shapes["DecisionRequest"]["additionalProperties"] is False
    pattern = shapes["DecisionRequest"]["properties"]["decision"]["anyOf"][0]["pattern"]
    assert pattern.endswith("{0,199}$")  # not all that read it know what Python adds
    assert shapes["StepsRequest"]["properties"]["rewards"]["maxItems"] == 1000


def schemas_within(value):
    """Every part of a document that says of which type something is."""
    if isinstance(value, list):
        for item in value:
            yield from schemas_within(item)
    elif isinstance(value, dict):
        if "type" in value or "anyOf" in value:
            yield value
        for key, item in value.items():
            if key != "examples":
                yield from schemas_within(item)


def test_openapi_gives_generators_types_that_can_be_used(http):
    """In TypeScript a bare object must be empty, and a field with a default is required."""
    document = http.get("/openapi.json").json()
    schemas = list(schemas_within(document))
    assert len(schemas) > 100
    for schema in schemas:
        assert "default" not in schema
        if schema.get("type") == "object":
            assert "properties" in schema or "additionalProperties" in schema, schema
    shapes = document["components"]["schemas"]
    context, none = shapes["DecisionRequest"]["properties"]["context"]["anyOf"]
    assert (context["additionalProperties"], none) == (True, {"type": "null"})
    assert shapes["ArmsRequest"]["properties"]["context"]["additionalProperties"] is True


def test_another_method_is_refused_whatever_the_type_of_its_body(http):
    document = http.get("/openapi.json").json()
    posts = 0
    for template, operations in document["paths"].items():
        path = template.replace("{experiment}", "default").replace("{scale}", "day")
        if "post" in operations:
            continue
        posts += 1
        for answer in (http.post(path), http.post(path, content=b"{}"), http.post(path, json={})):
            refused(answer, 405, f"POST {path}")
            assert answer.headers["allow"].split(", ")[0] == "GET"
    assert posts >= 20
    refused(http.post("/nowhere"), 404, "POST /nowhere")
    refused(http.post("/"), 405)
    assert http.post("/").headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/assets/base.css", "/healthz", "/readyz", "/metrics"])
def test_head_is_get_without_a_body(http, path):
    get, head = http.get(path), http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert int(head.headers["content-length"]) > 0
    if path != "/metrics":  # which counts requests
        assert head.headers["content-length"] == str(len(get.content))
    assert http.get("/healthz").status_code == 200  # the connection goes on


@pytest.mark.parametrize("path", ["/v1/arms", "/v1/decisions", "/v1/page/stream", "/openapi.json"])
def test_head_is_refused_elsewhere(http, path):
    answer = http.head(path)
    assert (answer.status_code, answer.content) == (405, b"")
    assert "HEAD" not in answer.headers["allow"]
    assert http.head("/nowhere").status_code == 404


def test_openapi_says_all_of_every_route(http):
    schema = http.get("/openapi.json").json()
    operations = [o for methods in schema["paths"].values() for o in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert {"decide", "reward", "steps", "arms", "network"} <= set(names)
    assert len(set(names)) == len(names)
    assert max(map(len, names)) < 20
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["description"].endswith(".")
            in_path = set(re.findall(r"{(\w+)}", path))
            assert {part["name"] for part in operation.get("parameters", [])} == in_path
            wanted = {"200", "401", "403"}
            if method == "post":
                wanted |= {"413", "415", "400" if path.startswith("/ofrep/") else "422"}
                assert "requestBody" in operation
            assert wanted <= set(operation["responses"]), path
    text = json.dumps(schema)
    for reference in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert schema["components"]["schemas"][reference]["description"]


def test_a_failing_store(http, node, monkeypatch, caplog):
    ask(http, "/v1/decisions", {"decision": "x"})

    def fail():
        raise StoreError("/secret/agent.db could not be written")

    monkeypatch.setattr(node.store.file, "check_process", fail)
    for path, body in [
        ("/v1/decisions", {}),
        ("/v1/decisions/batch", {"decisions": [{}]}),
        ("/v1/decisions/x/reward", {"reward": 1}),
        ("/v1/rewards", {"rewards": [{"decision": "x", "reward": 1}]}),
    ]:
        answer = http.post(path, json=body)
        refused(answer, 503, "store")
        assert "secret" not in answer.text
        assert answer.headers["retry-after"] == "1"
    assert (node.counts["decisions"], node.counts["rewards"]) == (1, 0)
    assert caplog.text.count("/secret/agent.db") == 1  # the log may be on the same disk
    refused(http.get("/readyz"), 503)
    assert http.get("/healthz").status_code == 200
    monkeypatch.undo()
    refused(http.get("/readyz"), 503, "failed recently")
    ask(http, "/v1/decisions/x/reward", {"reward": 1})
    assert http.get("/readyz").status_code == 200
    node.failures.add("tick")
    refused(http.get("/readyz"), 503)
    monkeypatch.setattr(health, "RECENT_SECONDS", 0.0)
    assert http.get("/readyz").status_code == 200
    assert 'posse_failures_total{doing="request"} ' in http.get("/metrics").text


def test_a_store_that_fails_now_and_then_does_not_flood_the_log(http, node, monkeypatch, caplog):
    """Its end is there, too; seen on a small disk: a line for every failure after a success."""

    def fail():
        raise StoreError("agent.db could not be written")

    for _ in range(5):
        with monkeypatch.context() as broken:
            broken.setattr(node.store.file, "check_process", fail)
            refused(http.post("/v1/decisions", json={}), 503)
        ask(http, "/v1/decisions", {})
    said = [r.message for r in caplog.records if r.name == "posse.live.http.app"]
    assert said == ["agent.db could not be written", "the store can be written again"]
    monkeypatch.setattr(health, "LOG_INTERVAL", 0.0)
    monkeypatch.setattr(node.store.file, "check_process", fail)
    refused(http.post("/v1/decisions", json={}), 503)
    assert caplog.text.count("agent.db could not be written") == 2


def test_a_batch_whose_commit_fails_leaves_nothing(http, node, monkeypatch):
    wishes = {"decisions": [{"decision": f"d{k}"} for k in range(5)]}
    rewards = {"rewards": [{"decision": f"d{k}", "reward": 1} for k in range(5)]}
    ask(http, "/v1/decisions/batch", wishes)

    def full(state):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(node.store.participant_state, "write_parts", full)
    refused(http.post("/v1/rewards", json=rewards), 503)
    assert node.counts["rewards"] == 0
    assert sum(arm["pulls_here"] for arm in node.arms().values()) == 0
    monkeypatch.undo()
    got = ask(http, "/v1/rewards", rewards)["rewards"]
    assert [one["repeated"] for one in got] == [False] * 5
    assert node.counts["rewards"] == sum(arm["pulls_here"] for arm in node.arms().values()) == 5


def test_an_unexpected_error(http, node, monkeypatch):
    monkeypatch.setattr(node.experiment(), "arms", lambda: 1 / 0)
    refused(http.get("/v1/arms"), 500, "log")
    monkeypatch.setattr(node.experiment(), "arms", lambda: {"red": {"mean": float("inf")}})
    assert http.get("/v1/arms").json() == {"red": {"mean": None}}
