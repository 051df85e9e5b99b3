"""Every route's real answer fits the schema that /openapi.json gives of it, field by field."""

import json
from urllib.parse import quote

import httpx
import jsonschema
import pytest

from posse.live.http.page import PageSections
from posse.live.http.routes import ROUTES
from tests.live.http.page.watching import OPERATORS, one, world

CONTEXT = {"country": {"categories": ["de", "fr"]}}
BODIES = {
    "decide": {"decision": "fresh", "context": {"country": "de"}},
    "decide_all": {"decisions": [{"context": {"country": "fr"}}, {"allowed": ["nothing"]}]},
    "reward": {"reward": 1},
    "reward_all": {"rewards": [{"decision": "fresh", "reward": 1}, {"decision": "x", "reward": 1}]},
    "steps": {
        "rewards": [{"decision": "fresh", "reward": 1}, {"decision": "x", "reward": 1}],
        "decide": {"context": {"country": "de"}},
    },
    "arms_at": {"context": {"country": "de"}},
    "pin": {"arm": "red"},
    "pause": {"arm": "red"},
    "resume": {},
    "erase_visitor": {"visitor": "u-17"},
    "record_metrics": {"metrics": {"latency": 3}},
    "reload": {},
    "evaluate_flag": {"context": {"targetingKey": "u-18", "country": "de"}},
    "evaluate_flags": {"context": {"targetingKey": "u-19", "country": "de"}},
    "track_event": {"event": "default", "context": {"targetingKey": "u-18"}},
}
DECISIONS = {"cancel": "made", "erase_decision": "made"}  # others are about the first one
KINDS = {  # settings that change what answers contain
    "plain": {},
    "contexts": {"family": {"name": "logistic", "rate": 0.3}, "context": CONTEXT},
    "stop": {"stop": {"error": 0.1}, "reward_window": 60.0, "default_reward": 0.0},
    "half_life": {"half_life": 3600.0},
    "flows": {"exchange": "flows"},
    "sites": {"sites": "differ"},
    "measures": {
        "holdout": 0.5,
        "control_arm": "red",
        "metrics": {"latency": {"range": [0, 10], "worse": "higher", "limit": 5}},
        "reward_window": 3600.0,
        "default_reward": 0.0,
    },
}


def strict(schema):
    """The same schema, which also refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


@pytest.fixture(params=KINDS)
def served(request, tmp_path):
    """An agent between two others, with decisions, rewards, a lost neighbour and a pinned arm."""
    settings = KINDS[request.param]
    names = ("berlin", "paris", "rome")
    with world(tmp_path, **{name: one(name, **settings) for name in names}) as made:
        context = {"context": {"country": "de"}} if "context" in settings else {}
        for name in names:
            experiment = made.nodes[name].experiment()
            for number in range(20):
                decision = experiment.decide(**context)
                experiment.reward(decision.id, float(number % 3 == 0))
        for _ in range(5):
            made.now += 61.0
            made.tick()
        made.nodes["paris"].experiment().decide("made", **context)
        made.nodes["paris"].experiment().pause(made.nodes["paris"].experiment().agent.arm_names[0])
        url = made.urls["paris"]
        headers = {"Authorization": f"Bearer {OPERATORS}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
            yield client, "context" in settings


def test_answers_are_as_documented(served):
    client, contexts = served
    document = client.get("/openapi.json").json()
    components = strict(document["components"])
    checked = set()
    for route in ROUTES:
        if route.answer is str:
            continue
        operation = document["paths"][route.path][route.method.lower()]
        decision = DECISIONS.get(route.name, "fresh")
        path = route.path.replace("{decision}", quote(decision)).replace("{scale}", "day")
        path = path.replace("{key}", "default")
        body = json.loads(json.dumps(BODIES.get(route.name, {})))
        if not contexts:
            for item in (body, body.get("decide"), *body.get("decisions", [])):
                if isinstance(item, dict) and route.name != "arms_at" and route.flag is None:
                    item.pop("context", None)
        arguments = {"json": body} if route.method == "POST" else {}
        answer = client.request(route.method, path, **arguments)
        described = operation["responses"][str(answer.status_code)]["content"]
        schema = strict(described["application/json"]["schema"])
        jsonschema.validate(answer.json(), {**schema, "components": components})
        if answer.status_code == 200:
            checked.add(route.name)
    missing = {route.name for route in ROUTES if route.answer is not str} - checked
    measured = {"uplift", "guardrails", "record_metrics"}
    # forget answers as network does, once there is somebody to forget
    assert missing <= {"reload", "arms_at", "verdict", "audit", "forget", *measured}, missing
    if client.get("/v1/uplift").status_code == 200:
        assert measured <= checked


def test_the_page_contains_the_answers_of_routes(node):
    """What is streamed to the page is encoded from the same values as the routes' answers."""
    sections = PageSections(node, node.experiment())
    sections.refresh()
    content = json.loads(sections.changes_since(0)[1])
    assert content["sections"].keys() == sections.by_name.keys()
