"""agent.toml: what is understood, and what is refused in one sentence that names the key."""

import tomllib
from datetime import UTC, datetime

import pytest

from posse import families, policies
from posse.live.exchange import Origins
from posse.live.exchange.quanta import PER_UNIT
from posse.live.settings import from_data, read_settings

MINIMAL = {"name": "berlin", "arms": ["red", "green"], "family": "bernoulli"}


def test_the_least_that_is_needed():
    settings = from_data(MINIMAL)
    (only,) = settings.experiments.values()
    assert only.family == families.Bernoulli()
    assert only.policy == policies.ThompsonSampling()
    agent = settings.agent()
    assert agent.exchange.identity == "berlin"
    assert agent.pull().arm in ("red", "green")


def test_a_full_file(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text("""
name = "berlin"
arms = ["red", "green", "blue"]
family = {name = "gaussian", sigma = 2.0}
policy = {name = "bayes-ucb"}
exchange = "flows"
network_size = 12
reward_range = [-10, 10]
reward_window = 60
default_reward = 0
remember = 3600
store = "berlin.db"
http = "127.0.0.1:8701"
listen = "0.0.0.0:7447"
tick_seconds = 0.5

[neighbours]
paris = "192.0.2.7:7447"
rome = ""
""")
    settings = read_settings(path)
    only = settings.experiments["default"]
    assert only.family == families.Gaussian(2.0)
    assert dict(settings.neighbours) == {"paris": "192.0.2.7:7447", "rome": ""}
    assert settings.agent().pull().arm in only.arms


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nam": "x"}, "name"),
        ({"arms": ["red"]}, "arms"),
        ({"arms": "red"}, "arms"),
        ({"family": "bernouli"}, "bernoulli"),
        ({"family": {"name": "bernoulli", "alfa": 1}}, "alpha"),
        ({"family": "gaussian"}, "reward_range"),
        ({"family": {"name": "bernoulli", "alpha": -1}}, "alpha"),
        ({"family": 3}, "family must be a name or a table with a name, got 3"),
        ({"family": {"alpha": 1}}, "family.name is missing: allowed are bernoulli, bounded"),
        ({"family": {"name": "bernoulli", "alpha": "1"}}, "family.alpha must be a number, got '1'"),
        ({"policy": "no.such:Policy"}, "policy 'no.such:Policy' cannot be imported: No module"),
        ({"policy": ["thompson"]}, "policy must be a name or a table"),
        ({"exchange": "flow"}, "flows"),
        ({"default_reward": 0}, "reward_window"),
        ({"reward_window": -1}, "reward_window"),
        ({"remember": 60}, "remember needs reward_window"),
        ({"remember": 60, "reward_window": 61}, "remember needs reward_window"),
        ({"remember": "90 days", "reward_window": 60}, "remember"),
        ({"router": "hub"}, "router"),
        ({"router": {"hub": "h:1", "centre": "c:1"}}, "one router at most"),
        ({"tick_seconds": 0}, "tick_seconds"),
        ({"neighbours": {"paris": 5}}, "neighbours"),
        ({"insecure": "yes"}, "insecure"),
        ({"network_size": 5}, "network_size"),
        ({"http": 8700}, "http"),
        ({"name": 5}, "name"),
    ],
)
def test_mistakes_name_the_key(change, words):
    with pytest.raises(ValueError, match=words):
        from_data({**MINIMAL, **change})


def test_a_missing_key_and_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="family is missing"):
        from_data({"name": "berlin", "arms": ["a", "b"]})
    with pytest.raises(ValueError, match="there is no file"):
        read_settings(tmp_path / "agent.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(ValueError, match="not TOML"):
        read_settings(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "since", ["2026-11-01", "2026-11-01T00:00:00", "2026-11-01T01:00:00+01:00"]
)
def test_a_rate_cap(since):
    cap = f"rate_cap = {{per_second = 2, since = {since}}}"
    settings = from_data({**MINIMAL, **tomllib.loads(cap)})
    began = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    assert settings.experiments["default"].rate_cap.pulls(began + 10) == 20
    liar = Origins(fingerprint=settings.agent().fingerprint, bounds=(1.0, 1.0), identity="paris")
    liar.connect("berlin")
    for _ in range(21):
        liar.observe("red", (PER_UNIT, PER_UNIT))
    ((_, message),) = liar.tick(0.0)
    honest = settings.agent()
    honest.receive("paris", message, began + 10)
    assert honest.exchange.refusals == {"more pulls than the rate allows": 1}
    honest.receive("paris", message, began + 11)
    assert honest.exchange.evidence()["red"][-1] == 21 * PER_UNIT


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rate_cap = 3", "rate_cap must be like"),
        ("rate_cap = {per_second = 3}", "rate_cap must be like"),
        ("rate_cap = {per_second = 3, since = 5}", "rate_cap must be like"),
        ("rate_cap = {per_second = 3, since = 2999-01-01}", "future"),
        ("rate_cap = {per_second = 0, since = 2026-11-01}", "per_second"),
        ("rate_cap = {per_second = 1, since = 2026-11-01, util = 5}", "'util' is unknown"),
        ('rate_cap = {per_second = 1, since = 2026-11-01}\nexchange = "flows"', "for 'origins'"),
    ],
)
def test_a_wrong_rate_cap(line, words):
    with pytest.raises(ValueError, match=words):
        from_data({**MINIMAL, **tomllib.loads(line)})


def test_a_policy_that_could_never_choose_is_refused_at_the_start():
    policy = {"name": "bayes-ucb", "log_power": 5}
    with pytest.raises(ValueError, match="horizon"):
        from_data({**MINIMAL, "policy": policy})
