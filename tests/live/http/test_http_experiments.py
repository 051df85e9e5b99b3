"""Several experiments behind one port: each has its own decisions, rewards and numbers."""

import httpx
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.experiment.experiment import LiveExperiment
from posse.live.http import serve_node
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node import Node
from posse.live.store import Store
from tests.live.asking import ask, refused

ARMS = {"checkout": ["one", "two"], "banner": ["red", "green", "blue"]}


@pytest.fixture
def both(tmp_path):
    agents = {name: Agent(arms, families.Bernoulli(), seed=1) for name, arms in ARMS.items()}
    store = Store.open(
        tmp_path / "agent.db", fingerprint=agents["checkout"].fingerprint, experiment="checkout"
    )
    views = {
        "checkout": store,
        "banner": store.open_experiment("banner", agents["banner"].fingerprint),
    }
    experiments = [LiveExperiment(name, agents[name], views[name]) for name in ARMS]
    transport = MemoryNetwork([("a", "b")]).transport("a")
    made = Node("a", experiments, store, transport, neighbours=["b"])
    made.transport.start(made.receive)
    yield made
    made.stop()


@pytest.fixture
def http(both):
    server = serve_node(both, "127.0.0.1:0")
    with server, httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        yield client


def test_each_has_its_own_decisions(http, both):
    for name, arms in ARMS.items():
        base = f"/v1/experiments/{name}"
        made = ask(http, f"{base}/decisions", {"decision": "same"})
        assert made["arm"] in arms
        assert ask(http, f"{base}/decisions/same/reward", {"reward": 1})["repeated"] is False
        batch = ask(http, f"{base}/decisions/batch", {"decisions": [{}, {}]})["decisions"]
        rewards = [{"decision": one["decision"], "reward": 0} for one in batch]
        got = ask(http, f"{base}/rewards", {"rewards": rewards})["rewards"]
        assert [one["repeated"] for one in got] == [False] * 2
        step = {"rewards": [{"decision": "same", "reward": 1}], "decide": {}}
        assert ask(http, f"{base}/steps", step)["rewards"][0]["repeated"] is True
        assert list(http.get(f"{base}/arms").json()) == arms
        assert sum(q[-1] for q in http.get(f"{base}/evidence").json()["own"].values()) > 0
    other = http.post("/v1/experiments/banner/decisions/nobody/reward", json={"reward": 1})
    refused(other, 404, "nobody")
    shown = http.get("/v1/experiments").json()["experiments"]
    assert list(shown) == list(ARMS)
    assert shown["banner"] == {
        "arms": ARMS["banner"], "decisions": 4, "rewards": 3, "open_decisions": 1,
        "inactive_decisions": 0,
        "silence": "reported", "reward_window": None, "late_rewards": 0, "longest_lateness": 0.0,
        "superseded_rewards": 0, "half_life": None, "pinned": None, "paused": [], "context": None,
        "sites": shown["banner"]["sites"],
    }  # fmt: skip
    # alone, nothing is compared, and nothing is gained by sharing
    assert (
        shown["banner"]["sites"].items() >= {"read": "alike", "alike": None, "differ": None}.items()
    )
    assert shown["banner"]["sites"]["loss_alone"] == shown["banner"]["sites"]["loss_shared"] > 0
    assert both.counts["decisions"] == 8


def test_without_a_name_it_must_be_said_which(http):
    for path in ("/v1/decisions", "/v1/rewards", "/v1/steps"):
        body = {"rewards": []} if path == "/v1/rewards" else {}
        refused(http.post(path, json=body), 404, "checkout", "banner")
    refused(http.get("/v1/arms"), 404, "checkout, banner")
    refused(http.post("/v1/experiments/other/decisions", json={}), 404, "other", "banner")
    refused(http.get("/v1/experiments/banner/network"), 404)
    refused(http.get("/v1/experiments/banner/experiments"), 404)
    refused(http.get("/v1/experiments/banner/experiments/banner/arms"), 404)
    refused(http.get("/v1/experiments/banner/"), 404)
    refused(http.get("/v1/experiments/banner"), 404)
    refused(http.get("/v1/experiments//arms"), 404)
    assert http.get("/v1/network").status_code == 200


def test_one_commit_for_all_of_them(http, both):
    before = both.store.commits
    ask(http, "/v1/experiments/banner/decisions", {})
    assert both.store.commits == before + 1


def test_metrics_by_experiment_and_arm(http, both):
    arms = ARMS["banner"]
    for arm, reward in zip((*arms, "red"), (1, 0, 1, 1), strict=True):
        step = ask(http, "/v1/experiments/banner/steps", {"decide": {"allowed": [arm]}})
        rewards = [{"decision": step["decision"]["decision"], "reward": reward}]
        ask(http, "/v1/experiments/banner/rewards", {"rewards": rewards})
    ask(http, "/v1/experiments/checkout/decisions", {"allowed": ["two"]})
    lines = dict(
        line.rpartition(" ")[::2]
        for line in http.get("/metrics").text.splitlines()
        if not line.startswith("#")
    )
    for arm, total, share in zip(arms, (2.0, 0.0, 1.0), (0.5, 0.25, 0.25), strict=True):
        labels = f'{{experiment="banner",arm="{arm}"}}'
        assert float(lines[f"posse_summed_rewards{labels}"]) == total
        assert float(lines[f"posse_share{labels}"]) == share
        low, mean, high = (float(lines[f"posse_mean{x}{labels}"]) for x in ("_low", "", "_high"))
        assert low < mean < high
        assert 0 < float(lines[f"posse_probability_best{labels}"]) < 1
        assert float(lines[f"posse_expected_loss{labels}"]) > 0
    assert lines['posse_share{experiment="checkout",arm="two"}'] == "1.0"
    assert lines['posse_open_decisions{experiment="checkout"}'] == "1"
    assert lines['posse_open_decisions{experiment="banner"}'] == "0"
    assert lines['posse_rewards_total{experiment="banner"}'] == "4"
    for name in ("rewards_late", "rewards_superseded", "conflicting_rewards"):
        assert lines[f'posse_{name}_total{{experiment="banner"}}'] == "0"
    assert lines['posse_request_seconds_count{route="steps"}'] == "4"
    assert lines['posse_request_seconds_bucket{route="steps",le="+Inf"}'] == "4"
    assert float(lines['posse_request_seconds_sum{route="steps"}']) > 0
    assert lines["posse_http_connections"] == "1"
    assert lines['posse_http_refused_total{reason="too_slow"}'] == "0"
    assert float(lines["posse_start_time_seconds"]) > 1e9
    assert any(line.startswith("posse_info{version=") for line in lines)
