"""Payloads in agent.toml: the value of each arm as a flag, of one kind, or one sentence."""

import tomllib

import pytest

from posse.live.config.agent_settings import settings_from_data

COMMON = """
name = "berlin"
arms = ["on", "off"]
family = "bernoulli"
"""


def read(text):
    (settings,) = settings_from_data(tomllib.loads(COMMON + text)).experiments.values()
    return settings.payload


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("", None),
        ("payload = {off = false, on = true}", {"on": True, "off": False}),
        ("payload = {on = 1, off = 2.5}", {"on": 1.0, "off": 2.5}),
        ("[payload]\non = 'big'\noff = ''", {"on": "big", "off": ""}),
        ("[payload.on]\na = [1, {b = 2}]\n[payload.off]", {"on": {"a": [1, {"b": 2}]}, "off": {}}),
    ],
)
def test_payloads(text, payload):
    values = read(text)
    assert values == payload
    if payload is not None:
        assert [type(value) for value in values.values()] == [
            type(value) for value in payload.values()
        ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("payload = 7", "payload must be a table with a value for each arm, such as {on = true"),
        ("payload = {on = 1}", "payload must have a value for each arm: 'off' has none"),
        (
            "payload = {on = 1, off = 2, oof = 3}",
            "payload: arm 'oof' is unknown: did you mean 'off'?",
        ),
        ("payload = {on = 1, off = true}", "of one kind for all arms: 'on' has a number, 'off'"),
        ("payload = {on = 1, off = 2026-11-01}", "payload of 'off' must be true or false, text"),
        ("payload = {on = 1, off = nan}", "payload of 'off' must be true or false, text"),
        ("payload = {on = [1], off = [2]}", "payload of 'on' must be true or false, text"),
        ("[payload.on]\nx = inf\n[payload.off]", "payload of 'on' must be"),
        (
            "payload = {on = '', off = '%s'}" % ("x" * 9999),
            "at most 10000 bytes as JSON, got 10001",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(text, sentence):
    with pytest.raises(ValueError, match="payload") as error:
        read(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
