"""agent.toml: what is understood, and what is refused in one sentence that names the key."""

import tomllib
from datetime import UTC, datetime

import pytest

from posse import families, policies
from posse.live.config.agent_settings import read_http_settings, read_settings, settings_from_data
from posse.live.exchange import Origins
from posse.live.ledger.sums import PER_UNIT

MINIMAL = {"name": "berlin", "arms": ["red", "green"], "family": "bernoulli"}


def test_the_least_that_is_needed():
    settings = settings_from_data(MINIMAL)
    (only,) = settings.experiments.values()
    assert only.family == families.Bernoulli()
    assert only.policy == policies.ThompsonSampling()
    agent = settings.make_agent()
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
    assert settings.make_agent().pull().arm in only.arms


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nam": "x"}, "name"),
        ({"arms": []}, "arms"),
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
        ({"limits": 3}, "limits must be like"),
        ({"limits": {"messages": 3}}, "limits: key 'messages' is unknown"),
        ({"limits": {"messages_per_second": 0}}, "limits.messages_per_second"),
        ({"log": "xml"}, "log 'xml' is unknown: allowed are text, json"),
        ({"operators": "berlin"}, "operators must be a list"),
        ({"operators": [""]}, "operators must be a list of names"),
        ({"insecure_http": 1}, "insecure_http must be true or false"),
        ({"http": "0.0.0.0:8700"}, "http '0.0.0.0:8700' is open to other machines: .* http_token"),
        ({"http": "0.0.0.0:8700", "http_token": "t"}, "needs http_certificate, or insecure_http"),
        ({"http_key": "k"}, "http_key needs http_certificate"),
        ({"http_certificate": "c", "insecure_http": True}, "and not both"),
        ({"http_token": "t", "operator_token": "t"}, "operator_token must be another file"),
        ({"experiments": 3}, r"experiments must be tables such as \[experiments.checkout\]"),
        ({"experiments": {"x": 3}}, "experiments must be tables"),
        ({"experiments": {}}, "there must be 1 to 1000 experiments, got 0"),
        ({"experiments": {"a b": {}}}, "experiments.a b: a name has 1 to 64"),
        ({"experiments": {"x": {"arm": []}}}, "experiments.x: key 'arm' is unknown"),
        ({"experiments": {"x": {"name": "y"}}}, "experiments.x: key 'name' is unknown"),
        ({"experiments": {"x": {"remember": 3}}}, "experiments.x: remember needs reward_window"),
    ],
)
def test_mistakes_name_the_key(change, words):
    with pytest.raises(ValueError, match=words):
        settings_from_data({**MINIMAL, **change})


def test_a_missing_key_and_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="family is missing"):
        settings_from_data({"name": "berlin", "arms": ["a", "b"]})
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
    settings = settings_from_data({**MINIMAL, **tomllib.loads(cap)})
    began = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    assert settings.experiments["default"].rate_cap.pulls(began + 10) == 20
    fingerprint = settings.make_agent().fingerprint
    liar = Origins(fingerprint=fingerprint, bounds=(1.0,) * 4, closed=1, identity="paris")
    liar.connect("berlin")
    for _ in range(21):
        liar.observe("red", (PER_UNIT,) * 4)
    ((_, message),) = liar.tick(0.0)
    honest = settings.make_agent()
    honest.receive("paris", message, began + 10)
    assert honest.exchange.refusals == {"rate_cap_exceeded": 1}
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
        (
            'rate_cap = {per_second = 1, since = 2026-11-01}\nexchange = "flows"',
            "needs exchange 'origins'",
        ),
    ],
)
def test_a_wrong_rate_cap(line, words):
    with pytest.raises(ValueError, match=words):
        settings_from_data({**MINIMAL, **tomllib.loads(line)})


def test_a_policy_that_could_never_choose_is_refused_at_the_start():
    policy = {"name": "bayes-ucb", "log_power": 5}
    with pytest.raises(ValueError, match="horizon"):
        settings_from_data({**MINIMAL, "policy": policy})


def test_experiments_take_the_keys_at_the_top_as_defaults():
    settings = settings_from_data(
        {
            "name": "berlin",
            "family": "bernoulli",
            "reward_window": 60,
            "exchange": "flows",
            "network_size": 3,
            "experiments": {
                "checkout": {"arms": ["short", "long"]},
                "banner": {"arms": ["red", "green"], "exchange": "origins", "reward_window": 5},
                "prices": {
                    "arms": ["low", "high"],
                    "family": {"name": "gaussian", "sigma": 2.0},
                    "reward_range": [0, 9],
                },
            },
        }
    )
    checkout, banner, prices = settings.experiments.values()
    assert list(settings.experiments) == ["checkout", "banner", "prices"]
    assert (checkout.arms, checkout.network_size, checkout.reward_window) == (
        ("short", "long"), 3, 60,
    )  # fmt: skip
    # a key that the other exchange does not take is not handed down
    assert (banner.exchange, banner.network_size, banner.reward_window) == ("origins", None, 5)
    assert prices.family == families.Gaussian(2.0)


def test_a_file_of_today_is_the_experiment_default():
    table = {key: value for key, value in MINIMAL.items() if key != "name"}
    assert settings_from_data(MINIMAL) == settings_from_data(
        {"name": "berlin", "experiments": {"default": table}}
    )


def test_other_machines_are_answered_with_a_token_and_a_certificate():
    data = {**MINIMAL, "http": "0.0.0.0:8700", "http_token": "token"}
    assert (
        settings_from_data({**data, "http_certificate": "http.pem"}).http_certificate == "http.pem"
    )
    assert settings_from_data({**data, "insecure_http": True}).insecure_http


@pytest.fixture
def secrets_in(tmp_path):
    def write(**contents):
        for name, content in contents.items():
            path = tmp_path / name
            path.write_text(content)
            path.chmod(0o600)
        return tmp_path

    return write


TOKENS = {"http_token": "application", "operator_token": "operator"}


def test_tokens_are_read_from_files_of_one_line(secrets_in):
    folder = secrets_in(application="a" * 20 + "\n", operator="o" * 20)
    made = read_http_settings(settings_from_data({**MINIMAL, **TOKENS}), folder)
    assert (made.token, made.operator_token) == ("a" * 20, "o" * 20)
    assert read_http_settings(settings_from_data(MINIMAL), folder).token is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a" * 20 + "\n" + "b" * 20, "must hold one line"),
        ("short", "must have 16 to 4096 characters, got 5"),
        ("", "got 0"),
        ("with a space in between", "no spaces"),
        ("o" * 20, "operator_token must hold another token than http_token"),
    ],
)
def test_a_token_that_is_none(secrets_in, content, words):
    folder = secrets_in(application=content, operator="o" * 20)
    with pytest.raises(ValueError, match=words):
        read_http_settings(settings_from_data({**MINIMAL, **TOKENS}), folder)


def test_a_token_that_others_can_read_and_one_that_is_not_there(secrets_in):
    folder = secrets_in(application="a" * 20)
    (folder / "application").chmod(0o640)
    with pytest.raises(ValueError, match=r"http_token: .* chmod 600"):
        read_http_settings(settings_from_data({**MINIMAL, "http_token": "application"}), folder)
    with pytest.raises(ValueError, match=r"operator_token: .*No such file"):
        read_http_settings(settings_from_data({**MINIMAL, "operator_token": "operator"}), folder)
