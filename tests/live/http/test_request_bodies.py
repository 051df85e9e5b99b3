"""Reading of bodies: the quick way and the slow one agree, and every refusal names the field."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posse.live.experiment.decision_request import DecisionRequest
from posse.live.http import models
from posse.live.http.models import MalformedBody
from posse.live.http.request_bodies import decode_body, decode_body_slowly

KINDS = [
    DecisionRequest, models.RewardRequest, models.DecisionsRequest, models.RewardsRequest,
    models.StepsRequest, models.ArmRequest, models.ResumeRequest, models.EmptyRequest,
]  # fmt: skip
NAMES = ["decision", "allowed", "reward", "rewards", "decisions", "decide", "arm", "other", ""]

plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["x", "a b", "", "red", "1"]), st.text(max_size=5),
)  # fmt: skip
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.sampled_from(KINDS), values)
def test_both_ways_agree(kind, value):
    content = json.dumps(value).encode()
    quick = decode_body(kind, content)
    try:
        slow = decode_body_slowly(kind, content)
    except MalformedBody as error:
        assert quick is None
        sentence = str(error)
        assert sentence.isprintable()
        assert len(sentence) < 400
        return
    if quick is not None:
        assert slow == quick
        return
    items = [*getattr(slow, "rewards", []), *getattr(slow, "decisions", [])]
    decide = getattr(slow, "decide", None)
    items += decide if isinstance(decide, list) else [decide]
    assert any(isinstance(item, MalformedBody) for item in items)


@pytest.mark.parametrize(
    ("kind", "content", "sentence"),
    [
        (models.RewardRequest, b"{}", "reward is missing"),
        (models.RewardRequest, b'{"reward": "1"}', "reward must be a number"),
        (models.RewardRequest, b'{"reward": 1e999}', "reward must be a number"),
        (models.RewardRequest, b'{"reward": 1, "x": 2}', "unknown field 'x': leave it out"),
        (
            models.RewardRequest,
            b'{"reward": 1, "rewrad": 2}',
            "unknown field 'rewrad': did you mean 'reward'?",
        ),
        (
            DecisionRequest,
            b'{"allwed": ["red"]}',
            "unknown field 'allwed': did you mean 'allowed'?",
        ),
        (models.RewardRequest, b'{"reward": 1, "": 2}', "unknown field ''"),
        (models.RewardRequest, b'{"reward": 1, "a\\nb": 2}', "unknown field 'a?b'"),
        (models.RewardRequest, b"[]", "the body must be a JSON object"),
        (models.RewardRequest, b"{", "the body must be JSON"),
        (DecisionRequest, b'{"allowed": []}', "allowed must have at least 1 item"),
        (DecisionRequest, b'{"allowed": "red"}', "allowed must be a list or null"),
        (DecisionRequest, b'{"allowed": ["a", 3]}', "allowed.1 must be a string"),
        (DecisionRequest, b'{"allowed": [""]}', "allowed.0 must have at least 1 character"),
        (DecisionRequest, b'{"decision": "a/b"}', "decision must be 1 to 200 letters"),
        (models.RewardsRequest, b'{"rewards": 3}', "rewards must be a list"),
        (
            models.MetricsRequest,
            b'{"metrics": {"a": 1, "b": "fast"}}',
            "every value of metrics must be a number",
        ),
        (
            models.MetricsRequest,
            b'{"metrics": {%s}}' % b", ".join(b'"m%d": 1' % number for number in range(101)),
            "metrics must have at most 100 fields",
        ),
        (
            models.ArmRequest,
            b'{"arm": "red", "by": "A\\nB"}',
            "by must be one line without control characters",
        ),
        (models.StepsRequest, b'{"decide": 3}', "decide must be a JSON object or a list or null"),
    ],
)
def test_sentences(kind, content, sentence):
    assert decode_body(kind, content) is None
    with pytest.raises(MalformedBody) as caught:
        decode_body_slowly(kind, content)
    assert str(caught.value).startswith(sentence)
