"""Routes of holdouts and metrics."""

import httpx
import pytest

from posse import families
from posse.live.agent import Measures, Metric
from posse.live.agent.agent import Agent
from posse.live.experiment.reward_window import RewardWindow
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.store import Store
from tests.live.asking import JSON, ask, refused
from tests.live.single import single_node

LATENCY = Metric("latency", (0.0, 10_000.0), "higher", 300.0)


@pytest.fixture
def measuring(tmp_path):
    agent = Agent(
        ["red", "green"], families.Bernoulli(), seed=1, measures=Measures("red", 0.5, (LATENCY,))
    )
    store = Store.open(tmp_path / "agent.db", fingerprint=agent.fingerprint)
    made = single_node(
        agent,
        store,
        MemoryNetwork([("a", "b")]).transport("a"),
        neighbours=["b"],
        reward_window=RewardWindow(3600.0, 0.0),
    )
    made.transport.start(made.receive)
    yield made
    made.stop()


@pytest.fixture
def measured(measuring):
    with (
        serve_node(measuring, "127.0.0.1:0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client,
    ):
        yield client


def decisions(client):
    """Closed decisions on both sides."""
    shown = client.get("/v1/uplift").json()
    return shown["bandit"]["decisions"], shown["control"]["decisions"]


def test_the_uplift_of_a_shop(measured, measuring):
    for number in range(40):
        made = ask(measured, "/v1/decisions", {"decision": f"d{number}", "visitor": f"u{number}"})
        seen = measured.get(f"/v1/decisions/d{number}").json()
        assert (made["probability"] == 1.0 and made["arm"] == "red") or not seen["holdout"]
        ask(measured, f"/v1/decisions/d{number}/reward", {"reward": 1})
    assert decisions(measured) == (0, 0)
    measuring.experiment().set_reward_window(RewardWindow(0.001, 0.0))
    measuring.experiment().close_windows(measuring.clock() + 1)
    assert sum(decisions(measured)) == 40
    shown = measured.get("/v1/uplift").json()
    assert (shown["control_arm"], shown["holdout"], shown["uplift"]) == ("red", 0.5, 0.0)
    assert shown["low"] is None
    lines = measured.get("/metrics").text
    assert 'posse_uplift{experiment="default"} 0.0' in lines
    assert 'posse_uplift_decisions{experiment="default",side="control"} ' in lines


def test_metrics_with_and_without_a_reward(measured):
    for id_ in "abc":
        ask(measured, "/v1/decisions", {"decision": id_, "allowed": ["green"]})
    path = "/v1/decisions/a/metrics"
    stored = ask(measured, path, {"metrics": {"latency": 212}})
    assert stored == {"decision": "a", "metrics": {"latency": 212.0}, "repeated": False}
    assert ask(measured, path, {"metrics": {"latency": 212}})["repeated"] is True
    refused(measured.post(path, json={"metrics": {"latency": 213}}), 409, "latency = 212.0")
    ask(measured, "/v1/decisions/b/reward", {"reward": 1, "metrics": {"latency": 400}})
    items = [
        {"decision": "a", "reward": 1, "metrics": {"latency": 1}},
        {"decision": "c", "reward": 1, "metrics": {"latency": 600}},
        {"decision": "b", "reward": 1, "metrics": {"latency": 400}},
        {"decision": "nobody", "reward": 1, "metrics": {"latency": 1}},
        {"decision": "c", "reward": 1, "metrics": {"speed": 1}},
        {"decision": "c", "reward": 1, "metrics": {"latency": -1}},
    ]
    answers = ask(measured, "/v1/rewards", {"rewards": items})["rewards"]
    assert [one.get("status") for one in answers] == [409, None, None, 404, 422, 422]
    assert measured.get("/v1/decisions/a").json()["reward"] is None  # the whole item was refused
    steps = {
        "rewards": [{"decision": "d", "reward": 0, "metrics": {"latency": 800}}],
        "decide": {"decision": "d", "allowed": ["green"]},
    }
    answer = ask(measured, "/v1/steps", steps)  # decided and measured in one request
    assert answer["rewards"] == [{"decision": "d", "reward": 0.0, "repeated": False}]
    assert measured.get("/v1/decisions/d").json()["metrics"] == {"latency": 800.0}
    (red, green) = measured.get("/v1/guardrails").json()["metrics"]
    assert (red["decisions"], green["decisions"]) == (0, 4)
    assert green["mean"] == pytest.approx((212 + 400 + 600 + 800) / 4, abs=0.02)
    lines = measured.get("/metrics").text
    labels = '{experiment="default",arm="green",metric="latency"}'
    assert f"posse_guardrail_breached{labels} 0" in lines
    assert f"posse_metric_mean{labels} 50" in lines


def test_bad_metrics_get_one_sentence(measured, measuring):
    ask(measured, "/v1/decisions", {"decision": "a"})
    path = "/v1/decisions/a/metrics"
    refused(measured.post("/v1/decisions/nobody/metrics", json={"metrics": {"latency": 1}}), 404)
    for body in (
        *({}, {"metrics": None}, {"metrics": {}}, {"metrics": []}, {"metrics": {"latency": "1"}}),
        *({"metrics": {"latency": None}}, {"metrics": {"speed": 1}}, {"latency": 1}),
        {"metrics": {f"m{n}": 1 for n in range(101)}},
        {"metrics": {"latency": 1e300}},
    ):
        refused(measured.post(path, json=body), 422)
    huge = b'{"metrics": {"latency": 1e999}}'
    refused(measured.post(path, content=huge, headers=JSON), 422)
    bad = measured.post("/v1/decisions/a/reward", json={"reward": 1, "metrics": {"speed": 1}})
    refused(bad, 422, "speed")
    assert measuring.store.find_decision("a").settled is None
    assert measuring.store.find_decision("a").metrics is None


def test_without_measures_there_are_none(http):
    refused(http.get("/v1/uplift"), 404, "no holdout")
    refused(http.get("/v1/guardrails"), 404, "no metrics")
    ask(http, "/v1/decisions", {"decision": "a"})
    refused(http.post("/v1/decisions/a/metrics", json={"metrics": {"x": 1}}), 422, "has none")
