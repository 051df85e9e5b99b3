"""Contexts over HTTP: decided, kept, exported, shown, and every bad one refused in a sentence."""

import io
import json

import httpx
import numpy as np
import pytest

from posse.live import Client, Conflict
from posse.live.http import serve_node
from posse.live.store import export_decisions
from tests.live.asking import JSON, ask, refused
from tests.live.client.test_client import Awaited
from tests.live.several import Several, table
from tests.live.visits import ARMS, SCHEMA, TABLES, make_agent_evidence, visit

DE = {"country": "de", "returning": True, "basket": 31.5}


@pytest.fixture
def world(tmp_path):
    """An agent with two experiments, one of them with contexts."""
    tables = {
        "shop": {"family": TABLES["logistic"], "context": SCHEMA},
        "late": {
            "family": TABLES["logistic"], "context": SCHEMA,
            "reward_window": 60, "default_reward": 0,
        },
        "plain": {},
    }  # fmt: skip
    made = Several(tmp_path).start(a=table("a", tables, arms=ARMS), b=table("b", ["plain"]))
    yield made
    made.close()


@pytest.fixture
def shop(world):
    return world.nodes["a"].experiment("shop")


@pytest.fixture
def server(world):
    with serve_node(world.nodes["a"], "127.0.0.1:0") as made:
        yield made


@pytest.fixture
def http(server):
    base = f"{server.url}/v1/experiments/shop/"
    with httpx.Client(base_url=base, trust_env=False, timeout=10) as client:
        yield client


def test_a_decision_at_a_context(http, shop):
    first = ask(http, "decisions", {"decision": "one", "context": DE})
    assert ask(http, "decisions", {"decision": "one", "context": {**DE, "hour": None}}) == first
    other = http.post("decisions", json={"decision": "one", "context": {**DE, "basket": 30}})
    refused(other, 409, "'one' was made at another context: use a new id")
    kept = shop.store.find_decision("one")
    assert json.loads(kept.context) == DE
    assert kept.probability == first["probability"]
    assert ask(http, "decisions/one/reward", {"reward": 1})["repeated"] is False
    assert ask(http, "decisions/one/reward", {"reward": 1})["repeated"] is True
    assert shop.arms()[kept.arm]["pulls_here"] == 1
    x = shop.agent.encode_context(DE).x
    own = shop.evidence()["own"][kept.arm]
    assert shop.agent.summarize_pulls(own) == (1.0, 1.0, 1.0)
    np.testing.assert_allclose(shop.agent.average_features(), x, atol=0.02)


def test_batches_and_steps_have_contexts(http, shop):
    wishes = [{"context": DE}, {}, {"context": {"country": "de"}}, {"context": {**DE, "x": 1}}]
    made = ask(http, "decisions/batch", {"decisions": wishes})["decisions"]
    assert made[0]["arm"] in ARMS
    assert [item.get("status") for item in made] == [None, 422, 422, 422]
    assert made[1]["error"].startswith("context is missing")
    assert made[2]["error"] == "context.returning is missing"
    step = {"rewards": [{"decision": made[0]["decision"], "reward": 0}]}
    told = ask(http, "steps", {**step, "decide": {"decision": "next", "context": DE}})
    assert told["decision"]["decision"] == "next"
    told = ask(http, "steps", {"rewards": [], "decide": [{"context": DE}, {"context": {}}]})
    assert told["decisions"][0]["arm"] in ARMS
    assert told["decisions"][1]["error"] == "context.country is missing"
    assert shop.counts["decisions"] == 3


BAD = [
    ("{}", "context is missing: this experiment needs country, returning, basket, hour"),
    ('{"context": null}', "context is missing"),
    ('{"context": []}', "context must be a JSON object or null"),
    ('{"context": "de"}', "context must be a JSON object or null"),
    ('{"context": {"country": "de", "returning": true}}', "context.basket is missing"),
    ('{"context": {"country": "de", "returning": true, "basket": null}}', "basket is missing"),
    ('{"context": {"country": "de", "returning": true, "basket": NaN}}', "context.basket must be"),
    ('{"context": {"country": "de", "returning": true, "basket": -Infinity}}', "context.basket"),
    ('{"context": {"country": "de", "returning": true, "basket": 1e999}}', "context.basket must"),
    ('{"context": {"country": "de", "returning": true, "basket": "3"}}', "context.basket must be"),
    ('{"context": {"country": "de", "returning": true, "basket": true}}', "context.basket must be"),
    ('{"context": {"country": "de", "returning": true, "basket": [3]}}', "context.basket must be"),
    (
        '{"context": {"country": "de", "returning": "yes", "basket": 3}}',
        "context.returning must be",
    ),
    ('{"context": {"country": 7, "returning": true, "basket": 3}}', "context.country must be text"),
    (
        '{"context": {"country": {}, "returning": true, "basket": 3}}',
        "context.country must be text",
    ),
    ('{"context": {"country": "\\ud800", "returning": true, "basket": 3}}', "context.country must"),
    (
        '{"context": {"country": "de", "returning": true, "basket": 3, "<b>": 1}}',
        "'<b>' is unknown",
    ),
    ('{"context": {"country": "de", "returning": true, "basket": 3, "": 1}}', "is unknown"),
]


def test_bad_contexts_get_one_sentence_and_nothing_is_lost(http, shop):
    ask(http, "decisions", {"decision": "before", "context": DE})
    for body, words in BAD:
        refused(http.post("decisions", content=body, headers=JSON), 422, words)
    assert shop.store.count_open_decisions() == 1
    assert shop.counts["decisions"] == 1
    assert ask(http, "decisions/before/reward", {"reward": 1})["repeated"] is False


def test_a_number_that_no_float_holds(http):
    body = json.dumps({"context": {**DE, "basket": 10**400}})
    refused(http.post("decisions", content=body, headers=JSON), 422, "context.basket must be")


def test_a_context_where_there_is_no_schema(server):
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        plain = "/v1/experiments/plain"
        answer = http.post(f"{plain}/decisions", json={"context": DE})
        refused(answer, 422, "context must be left out: this experiment has no context schema")
        refused(http.post(f"{plain}/arms", json={"context": {}}), 422, "context must be left out")
        ask(http, f"{plain}/decisions", {"context": None})
        assert http.get("/v1/experiments").json()["experiments"]["plain"]["context"] is None


def test_what_the_schema_does_not_know_is_counted_once_and_shown(http, shop, server):
    odd = {**DE, "country": "at", "basket": 900}
    for _ in range(3):  # the same decision
        ask(http, "decisions", {"decision": "odd", "context": odd})
    ask(http, "decisions", {"context": {**odd, "basket": -1, "hour": 30}})
    ask(http, "decisions", {"context": DE})
    shop.decide(context=odd)
    with httpx.Client(base_url=server.url, trust_env=False) as root:
        shown = root.get("/v1/experiments").json()["experiments"]["shop"]["context"]
        metrics = root.get("/metrics").text
    assert shown["unknown"] == {"country": 3}
    assert shown["clipped"] == {"basket": 3, "hour": 1}
    assert list(shown["fields"]) == list(SCHEMA)
    assert shown["fields"]["hour"] == {"low": 0.0, "high": 24.0, "optional": True}
    assert list(shown["average"]) == list(shop.agent.context.columns[1:])
    assert 'posse_context_unknown_total{experiment="shop",field="country"} 3' in metrics
    assert 'posse_context_clipped_total{experiment="shop",field="basket"} 3' in metrics
    assert 'posse_context_clipped_total{experiment="late",field="hour"} 0' in metrics


def test_arms_on_average_and_at_a_context(http, shop):
    generator = np.random.default_rng(1)
    for nth in range(60):
        shop.reward(shop.decide(context=visit(generator)).id, float(nth % 5 == 0))
    average = http.get("arms").json()
    assert average == ask(http, "arms", {"context": {}})
    german = ask(http, "arms", {"context": {"country": "de"}})
    assert german != average
    assert german["red"]["mean"] == pytest.approx(
        shop.agent.arms(context={"country": "de"})["red"].mean
    )
    refused(http.post("arms", json={"context": {"country": 3}}), 422, "context.country must be")
    refused(http.post("arms", json={"context": {"land": 3}}), 422, "'land' is unknown")
    refused(http.post("arms", json={}), 422, "context is missing")
    history = http.get("history/day")
    assert history.status_code == 200
    page = http.get("page").json()["sections"]
    assert page["experiment"]["context"]["fields"]["country"] == ["de", "fr", "it"]
    assert page["sites"]["sites"]["a"]["arms"]["red"]["pulls"] == average["red"]["pulls_here"]


def test_the_site_map_has_counts_and_means_and_no_marks(http, shop):
    rewards = dict.fromkeys(ARMS, 0)
    generator = np.random.default_rng(2)
    for nth in range(40):
        made = shop.decide(context=visit(generator))
        shop.reward(made.id, float(nth % 4 == 0))
        rewards[made.arm] += nth % 4 == 0
    told = http.get("sites").json()
    assert told["apart"] == []
    for arm, cell in told["sites"]["a"]["arms"].items():
        wanted = rewards[arm] / cell["pulls"] if cell["pulls"] else None
        assert cell["mean"] == (None if wanted is None else pytest.approx(wanted, abs=1e-5))
    refused(http.get("verdict"), 404, "no stop")
    assert http.get("audit").json()["counted"] == http.get("audit").json()["in_evidence"] == 40


@pytest.mark.parametrize("kind", [Client, Awaited])
def test_clients_tell_contexts(kind, server, shop):
    with kind(server.url, experiment="shop") as client:
        decision = client.pull(context=DE, decision="mine")
        assert client.pull(context=DE, decision="mine") == decision
        with pytest.raises(Conflict, match="another context"):
            client.pull(context={**DE, "country": "fr"}, decision="mine")
        with pytest.raises(ValueError, match=r"context\.basket is missing"):
            client.pull(context={"country": "de", "returning": False})
        with pytest.raises(ValueError, match=r"context\.basket must be a number"):
            client.pull(context={**DE, "basket": float("nan")})
        with pytest.raises(ValueError, match="context is missing"):
            client.pull()
        assert client.update(decision, 1.0) is True
        generator = np.random.default_rng(3)
        contexts = [visit(generator) for _ in range(7)]
        many = client.pull_all(7, contexts=contexts)
        with pytest.raises(ValueError, match=r"^contexts must be 6, one for each decision, got 7$"):
            client.pull_all(6, contexts=contexts)
        made, told = client.step([(many[0], 0.0)], context=DE)
        assert told == [True]
        more, told = client.step_all([(many[1], 1.0)], 7, ["red"], contexts)
        assert [each.arm for each in more] == ["red"] * 7
        assert made.arm in ARMS
        kept = [json.loads(shop.store.find_decision(each.id).context) for each in many]
        assert kept == contexts
        assert client.arms(DE)["red"] != client.arms()["red"]


def test_a_fallback_at_a_context():
    with Client("http://127.0.0.1:9", fallback="red", fallback_after=0.05) as client:
        decision = client.pull(context=DE)
        assert (decision.arm, decision.recorded) == ("red", False)
        assert client.pull_all(2, contexts=[DE, DE])[1].arm == "red"


def test_rewards_that_come_late_count_where_they_were_begun(world):
    """Through the store: begun, corrected and closed is as heard when it closed."""
    late, generator = world.nodes["a"].experiment("late"), np.random.default_rng(4)
    visits = [visit(generator) for _ in range(12)]
    made = [late.decide(f"d{n}", ["red"], each) for n, each in enumerate(visits)]
    assert all(each.log_odds is not None for each in made)
    assert late.arms()["red"]["open_here"] == 12
    for each in made[::3]:
        late.reward(each.id, 1.0)
    assert late.arms()["red"]["pulls_here"] == 0
    world.now += 61
    late.close_windows(world.now)
    assert late.arms()["red"]["pulls_here"] == 12
    other = world.nodes["a"].experiment("shop").agent
    for n, each in enumerate(visits):
        other.learn("red", float(n % 3 == 0), x=other.encode_context(each).x)
    assert late.evidence()["own"]["red"] == other.exchange.own()["red"]
    row = late.evidence()["own"]["red"]
    n = make_agent_evidence(late.agent).sums.n_sums
    assert row[:n] == row[n : 2 * n]


def test_export_has_the_context(world, shop, tmp_path):
    shop.decide("one", context={**DE, "hour": None})
    world.nodes["a"].experiment("plain").decide("two")
    file = io.StringIO()
    export_decisions(tmp_path / "a.db", file)
    lines = {line["id"]: line for line in map(json.loads, file.getvalue().splitlines())}
    assert lines["one"]["context"] == DE
    assert lines["two"]["context"] is None
    assert sum(lines["one"]["probabilities"]) == pytest.approx(1)
