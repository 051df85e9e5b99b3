"""OFREP 0.3: flags of visitors, their errors, and tracking; against the schemas of the protocol."""

import asyncio
import json

import httpx
import jsonschema
import pytest

from posse.live.http import ofrep, serve_node
from tests.live.several import Several, table

ARMS = ["red", "green", "blue"]
ONE = "/ofrep/v1/evaluate/flags/checkout"
ALL = "/ofrep/v1/evaluate/flags"
JSON = {"Content-Type": "application/json; charset=utf-8"}
COLOURS = {arm: {"colour": arm[0], "size": [1, 2.5]} for arm in ARMS}


@pytest.fixture
def fleet(tmp_path):
    tables = {
        "checkout": {"payload": COLOURS, "reward_window": 1000, "default_reward": 0},
        "banner": {},
        "shop": {
            "family": {"name": "logistic", "rate": 0.1},
            "context": {"country": ["de", "fr"], "returning": "flag"},
        },
    }
    made = Several(tmp_path).start(a=table("a", tables, arms=ARMS), b=table("b", ["banner"]))
    yield made
    made.close()


@pytest.fixture
def node(fleet):
    return fleet.nodes["a"]


@pytest.fixture
def http(node):
    with (
        serve_node(node, "127.0.0.1:0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client,
    ):
        yield client


def evaluate(http, key="checkout", status=200, **context):
    body = {"context": {"targetingKey": "u-17", **context}}
    answer = http.post(f"/ofrep/v1/evaluate/flags/{key}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer, status, code, *words):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) <= {"key", "errorCode", "errorDetails"}
    assert body["errorCode"] == code
    for word in words:
        assert word in body["errorDetails"], body
    assert "\n" not in body["errorDetails"]
    return body


def test_a_flag_is_the_arm_of_a_visitor(http, node):
    flag = evaluate(http)
    experiment = node.experiment("checkout")
    record = experiment.store.find_decision(flag["metadata"]["decision"])
    assert flag == {
        "key": "checkout",
        "value": COLOURS[record.arm],
        "variant": record.arm,
        "reason": "SPLIT",
        "metadata": {"decision": record.id, "probability": record.probability},
    }
    assert record.visitor == "u-17"
    assert evaluate(http, key="banner")["value"] in ARMS  # without a payload


def test_a_flag_is_the_same_decision_until_its_window_ends(http, node, fleet):
    first = evaluate(http)
    experiment = node.experiment("checkout")
    assert evaluate(http, unused="field") == first
    assert experiment.store.count_open_decisions() == 1
    assert experiment.counts["ignored_fields"] == 1
    assert evaluate(http, targetingKey="u-18")["metadata"] != first["metadata"]
    fleet.now += 1000
    later = evaluate(http)
    assert later["metadata"]["decision"] != first["metadata"]["decision"]
    # all of a window has one id, wherever the windows of this visitor begin
    ids = []
    for _ in range(40):
        fleet.now += 50
        ids.append(evaluate(http)["metadata"]["decision"])
    changes = [place for place in range(1, 40) if ids[place] != ids[place - 1]]
    assert len(changes) == 2
    assert changes[1] - changes[0] == 20


def test_windows_of_visitors_begin_at_different_times(http, fleet):
    def ids():
        flags = (evaluate(http, targetingKey=f"u-{i}") for i in range(24))
        return [flag["metadata"]["decision"] for flag in flags]

    before = ids()
    fleet.now += 500
    after = ids()
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert 1 < changed < 23  # half of them; wrong for 3e-6 of all sets of visitors


def test_a_paused_arm_is_not_answered_again(http, node):
    first = evaluate(http)
    node.experiment("checkout").pause(first["variant"])
    other = evaluate(http)
    assert other["variant"] != first["variant"]
    for arm in ARMS:
        if arm != first["variant"]:
            node.experiment("checkout").pause(arm)
    body = {"context": {"targetingKey": "u-17"}}
    refused(http.post(ONE, json=body), 400, "GENERAL", "no arm is left to play")


def test_fields_of_the_context_are_used_and_others_are_not(http, node):
    shop = node.experiment("shop")
    flag = evaluate(http, key="shop", country="de", returning=True, plan="free")
    record = shop.store.find_decision(flag["metadata"]["decision"])
    assert json.loads(record.context) == {"country": "de", "returning": True}
    assert shop.counts["ignored_fields"] == 1
    assert evaluate(http, key="shop", returning=True, country="de") == flag
    assert evaluate(http, key="shop", country="fr", returning=True) != flag
    for context, words in (
        ({"country": "de"}, "context.returning is missing"),
        ({"country": 7, "returning": True}, "country"),
        ({"country": "\ud800", "returning": True}, "country"),
        ({"country": [{"x": "\ud800"}], "returning": True}, "country"),
    ):
        body = {"context": {"targetingKey": "u", **context}}
        content = json.dumps(body)
        answer = http.post("/ofrep/v1/evaluate/flags/shop", content=content, headers=JSON)
        assert refused(answer, 400, "INVALID_CONTEXT", words)["key"] == "shop"
        flag = http.post(ALL, content=content, headers=JSON).json()["flags"][2]
        assert (flag["key"], flag["errorCode"]) == ("shop", "INVALID_CONTEXT")


BAD_BODIES = [
    ("{", "PARSE_ERROR", "JSON"),
    ("[]", "INVALID_CONTEXT", "JSON object"),
    ("{}", "INVALID_CONTEXT", "context is missing"),
    ('{"context": 7}', "INVALID_CONTEXT", "context must be a JSON object"),
    ('{"context": {}}', "TARGETING_KEY_MISSING", "targetingKey is missing"),
    ('{"context": {"targetingKey": ""}}', "TARGETING_KEY_MISSING", "targetingKey is missing"),
    ('{"context": {"targetingKey": null}}', "TARGETING_KEY_MISSING", "is missing"),
    ('{"context": {"targetingKey": 17}}', "INVALID_CONTEXT", "must be a text of 1 to 200"),
    ('{"context": {"targetingKey": "\\ud800"}}', "INVALID_CONTEXT", "must be a text of 1 to 200"),
    (json.dumps({"context": {"targetingKey": "x" * 201}}), "INVALID_CONTEXT", "1 to 200"),
]


def test_bad_requests(http, node):
    for body, code, words in BAD_BODIES:
        answer = http.post(ONE, content=body, headers=JSON)
        assert refused(answer, 400, code, words)["key"] == "checkout"
        answer = http.post(ALL, content=body, headers=JSON)
        assert "key" not in refused(answer, 400, code, words)
    for experiment in node.experiments.values():
        assert experiment.store.count_open_decisions() == 0
        assert experiment.store.count_inactive_decisions() == 0


def test_an_unknown_flag(http):
    answer = http.post("/ofrep/v1/evaluate/flags/nothing", json={"context": {"targetingKey": "u"}})
    body = refused(answer, 404, "FLAG_NOT_FOUND", "nothing", "checkout")
    assert body["key"] == "nothing"
    assert http.get(ONE).status_code == 405


def track(http, value=None, event="checkout", visitor="u-17"):
    body = {"event": event, "context": {"targetingKey": visitor}}
    if value is not None:
        body["details"] = {"value": value, "currency": "EUR"}
    return http.post("/ofrep/v1/track", json=body)


def test_an_event_rewards_the_newest_decision_of_the_visitor(http, node, fleet):
    refused(track(http), 404, "GENERAL", "no decision of the visitor in 'checkout'")
    first = evaluate(http)["metadata"]["decision"]
    fleet.now += 1000
    newest = evaluate(http)["metadata"]["decision"]
    answer = track(http).json()
    assert answer == {"key": "checkout", "decision": newest, "reward": 1.0, "repeated": False}
    assert track(http, 1).json()["repeated"] is True  # not the reward of an older decision
    store = node.experiment("checkout").store
    assert store.find_decision(first).reward is None
    assert store.find_decision(newest).reward == 1.0
    refused(track(http, 0), 409, "GENERAL", "has the reward 1.0")
    evaluate(http, targetingKey="u-18")
    refused(track(http, 7, visitor="u-18"), 400, "INVALID_CONTEXT", "reward")
    refused(track(http, event="purchase"), 404, "FLAG_NOT_FOUND", "purchase")
    answer = http.post("/ofrep/v1/track", json={"event": "checkout", "context": {}})
    refused(answer, 400, "TARGETING_KEY_MISSING")
    answer = http.post("/ofrep/v1/track", json={"context": {"targetingKey": "u"}})
    refused(answer, 400, "INVALID_CONTEXT", "event is missing")


def test_tokens_are_needed_as_on_other_routes(node):
    with serve_node(node, "127.0.0.1:0", token="secret-token-of-16") as server:
        body = {"context": {"targetingKey": "u"}}
        assert httpx.post(server.url + ONE, json=body, trust_env=False).status_code == 401
        headers = {"Authorization": "Bearer secret-token-of-16"}
        answer = httpx.post(server.url + ONE, json=body, headers=headers, trust_env=False)
        assert answer.status_code == 200


def evaluate_all(http, tag=None, **context):
    body = {"context": {"targetingKey": "u-17", **context}}
    return http.post(ALL, json=body, headers={} if tag is None else {"If-None-Match": tag})


def test_all_flags_are_inactive_decisions(http, node):
    answer = evaluate_all(http, country="de", returning=True, plan="free")
    flags = {flag["key"]: flag for flag in answer.json()["flags"]}
    assert list(flags) == ["checkout", "banner", "shop"]
    for name, flag in flags.items():
        store = node.experiment(name).store
        record = store.find_decision(flag["metadata"]["decision"])
        assert (record.arm, record.inactive, record.visitor) == (flag["variant"], True, "u-17")
        assert (store.count_open_decisions(), store.count_inactive_decisions()) == (0, 1)
    assert flags["checkout"]["value"] == COLOURS[flags["checkout"]["variant"]]
    # the same decisions again, whoever asks for them
    assert evaluate_all(http, country="de", returning=True).json() == answer.json()
    # evaluated alone, as servers do, a flag is shown
    assert evaluate(http) == flags["checkout"]
    store = node.experiment("checkout").store
    assert (store.count_open_decisions(), store.count_inactive_decisions()) == (1, 0)
    assert evaluate_all(http, country="de", returning=True).json() == answer.json()
    # and so is one that is activated or rewarded
    id_ = flags["banner"]["metadata"]["decision"]
    assert http.post(f"/v1/experiments/banner/decisions/{id_}/activate", json={}).json()["state"]
    assert node.experiment("banner").store.count_open_decisions() == 1
    assert track(http, event="shop").json()["decision"] == flags["shop"]["metadata"]["decision"]
    assert node.experiment("shop").store.count_inactive_decisions() == 0


def test_one_bad_flag_does_not_spoil_the_others(http, node):
    flags = {flag["key"]: flag for flag in evaluate_all(http).json()["flags"]}
    assert flags["shop"]["errorCode"] == "INVALID_CONTEXT"
    assert "context.country is missing" in flags["shop"]["errorDetails"]
    assert flags["banner"]["variant"] in ARMS
    for arm in ARMS:
        node.experiment("banner").pause(arm)
    flags = {flag["key"]: flag for flag in evaluate_all(http).json()["flags"]}
    assert (flags["banner"]["errorCode"], "variant" in flags["checkout"]) == ("GENERAL", True)


def test_a_tag_holds_until_a_value_or_a_window_changes(http, node, fleet):
    first = evaluate_all(http)
    tag = first.headers["etag"]
    assert tag.startswith('"')
    for known in (tag, f"W/{tag}", f'"x", {tag}'):
        answer = evaluate_all(http, known)
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    assert evaluate_all(http, '"x"').status_code == 200
    assert evaluate(http)["value"] == first.json()["flags"][0]["value"]
    assert evaluate_all(http, tag).status_code == 304  # though it is shown now
    node.experiment("checkout").payload = dict.fromkeys(ARMS, 7)
    assert evaluate_all(http, tag).json()["flags"][0]["value"] == 7
    node.experiment("checkout").payload = COLOURS
    assert evaluate_all(http, tag).status_code == 304
    fleet.now += 1000
    assert evaluate_all(http, tag).status_code == 200


def test_a_cancelled_flag_is_decided_again(http, node):
    first = evaluate(http)
    id_ = first["metadata"]["decision"]
    http.post(f"/v1/experiments/checkout/decisions/{id_}/cancel", json={}).raise_for_status()
    again = evaluate(http)
    assert again["metadata"]["decision"] != id_
    assert again["variant"] == first["variant"]
    assert track(http).json()["decision"] == again["metadata"]["decision"]


def test_flags_that_were_not_shown_are_deleted_with_their_window(http, node, fleet):
    checkout = node.experiment("checkout")
    banner = node.experiment("banner")  # without a window: after an hour
    for i in range(12):
        evaluate_all(http, targetingKey=f"u-{i}")
    shown = evaluate(http, targetingKey="u-7")["metadata"]["decision"]
    mine = checkout.decide("mine", visitor="u-7", activate=False).id
    fleet.now += 999
    checkout.close_windows(fleet.now)
    assert checkout.store.count_inactive_decisions() == 12
    fleet.now += 1
    checkout.close_windows(fleet.now)
    banner.close_windows(fleet.now)
    assert checkout.store.count_inactive_decisions() == 0
    assert banner.store.count_inactive_decisions() == 12
    assert [checkout.store.find_decision(id_).state for id_ in (shown, mine)] == ["closed"] * 2
    (rows,) = checkout.store.read_rows("SELECT count(*) FROM decision WHERE visitor = 'u-8'")
    assert rows[0] == 1  # that of the banner
    fleet.now += 2600
    banner.close_windows(fleet.now)
    assert banner.store.count_inactive_decisions() == 0
    assert evaluate(http, targetingKey="u-8")["variant"] in ARMS


def test_there_are_so_many_flags_that_were_not_shown(http, node, monkeypatch):
    monkeypatch.setattr(ofrep, "MAX_INACTIVE", 5)
    for i in range(5):
        assert evaluate_all(http, targetingKey=f"u-{i}").status_code == 200
    answer = evaluate_all(http, targetingKey="u-5")
    refused(answer, 429, "GENERAL", "retry later")
    assert int(answer.headers["retry-after"]) > 0
    assert evaluate_all(http, targetingKey="u-4").status_code == 200  # it is there already
    assert evaluate(http, targetingKey="u-5")["variant"] in ARMS
    monkeypatch.setattr(ofrep, "COUNT_SECONDS", 0.0)
    for i in range(5):
        evaluate(http, targetingKey=f"u-{i}")  # shown
    for name in ("banner", "shop"):
        node.experiment(name).store.delete_unshown_decisions(1e12, "ofrep-")
    assert evaluate_all(http, targetingKey="u-6").status_code == 200


def test_answers_fit_the_schemas_of_the_protocol(http):
    """By the definitions of OFREP 0.3: the required fields, the reasons and the error codes."""
    success = {
        "type": "object",
        "required": ["key", "reason", "value"],
        "properties": {
            "key": {"type": "string"},
            "reason": {"enum": ["STATIC", "TARGETING_MATCH", "SPLIT", "DISABLED", "UNKNOWN"]},
            "variant": {"type": "string"},
            "value": {"type": ["boolean", "string", "number", "object"]},
            "metadata": {"additionalProperties": {"type": ["boolean", "string", "number"]}},
        },
    }
    failure = {
        "type": "object",
        "required": ["key", "errorCode"],
        "properties": {
            "key": {"type": "string"},
            "errorCode": {
                "enum": ["PARSE_ERROR", "TARGETING_KEY_MISSING", "INVALID_CONTEXT", "GENERAL"]
            },
            "errorDetails": {"type": "string"},
        },
    }
    jsonschema.validate(evaluate(http), success)
    flags = evaluate_all(http).json()["flags"]
    for flag in flags:
        jsonschema.validate(flag, failure if "errorCode" in flag else success)
    assert [("errorCode" in flag) for flag in flags] == [False, False, True]
    for body, _, _ in BAD_BODIES:
        jsonschema.validate(http.post(ONE, content=body, headers=JSON).json(), failure)


def test_requests_of_one_moment_make_one_decision(node):
    """Evaluated alone and with all others, at once: active, as one of them is shown."""

    async def ask_all(url):
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            body = {"context": {"targetingKey": "u-17"}}
            asking = [client.post(path, json=body) for path in [ALL, ONE, ALL, ONE, ALL] * 4]
            return await asyncio.gather(*asking)

    with serve_node(node, "127.0.0.1:0") as server:
        answers = [answer.json() for answer in asyncio.run(ask_all(server.url))]
    flags = [answer["flags"][0] if "flags" in answer else answer for answer in answers]
    assert flags == [flags[0]] * 20
    store = node.experiment("checkout").store
    assert (store.count_open_decisions(), store.count_inactive_decisions()) == (1, 0)
    assert node.experiment("checkout").counted_decisions == 1
