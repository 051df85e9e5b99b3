"""Settings of holdouts and metrics: read, fingerprinted, or refused in one sentence."""

import pytest

from posse.live.agent import Metric
from posse.live.config.experiment_settings import experiment_from_data

PLAIN = {"arms": ["red", "green"], "family": "bernoulli"}
LATENCY = {"range": [0, 10_000], "worse": "higher", "limit": 300}


def read(**changed):
    return experiment_from_data(PLAIN | changed)


def fingerprint(**changed):
    return read(**changed).make_agent().fingerprint


def test_what_is_read():
    relative = {"range": [0, 1], "worse": "lower", "limit": "-5%"}
    settings = read(
        holdout=0.05, control_arm="red", metrics={"latency": LATENCY, "clicks": relative}
    )
    assert (settings.holdout, settings.control_arm) == (0.05, "red")
    assert settings.metrics == (
        *(Metric("latency", (0, 10_000), "higher", 300), Metric("clicks", (0, 1), "lower", "-5%")),
    )
    assert settings.metrics[1].relative_limit == -0.05
    assert read(metrics={"spend": {"range": [0, 9]}}).metrics[0].limit is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"holdout": 0.05}, "holdout needs control_arm"),
        ({"holdout": 0, "control_arm": "red"}, "holdout must"),
        ({"holdout": 0.6, "control_arm": "red"}, "holdout must"),
        ({"holdout": "much", "control_arm": "red"}, "holdout must"),
        ({"control_arm": "pink"}, "control_arm"),
        ({"control_arm": 3}, "control_arm must be the name of an arm"),
        ({"holdout": 0.05, "control_arm": "red", "exchange": "flows"}, "need exchange 'origins'"),
        ({"metrics": {"latency": LATENCY}, "exchange": "flows"}, "need exchange 'origins'"),
        ({"metrics": {"latency": LATENCY}, "half_life": 3600}, "do not go with half_life"),
        ({"metrics": 3}, "metrics must be tables"),
        ({"metrics": {"latency": 3}}, "metrics.latency must be a table"),
        ({"metrics": {"Latency!": LATENCY}}, "small letters"),
        ({"metrics": {"latency": {}}}, "metrics.latency.range must be"),
        ({"metrics": {"latency": {"range": [1]}}}, "metrics.latency.range must be"),
        ({"metrics": {"latency": {"range": [5, 1]}}}, "two rising numbers"),
        ({"metrics": {"latency": {"range": ["a", 1]}}}, "metrics.latency.range must"),
        ({"metrics": {"latency": LATENCY | {"worst": 1}}}, "'worst' is unknown"),
        ({"metrics": {"latency": LATENCY | {"worse": "up"}}}, "metrics.latency.worse"),
        ({"metrics": {"latency": {"range": [0, 9], "limit": 3}}}, "limit needs worse"),
        ({"metrics": {"latency": LATENCY | {"limit": 20_000}}}, "metrics.latency.limit must"),
        ({"metrics": {"latency": LATENCY | {"limit": True}}}, "limit must be a number or text"),
        ({"metrics": {"latency": LATENCY | {"limit": "-5%"}}}, r'such as "\+5%"'),
        ({"metrics": {"latency": LATENCY | {"limit": "5"}}}, r'such as "\+5%"'),
        ({"metrics": {"latency": LATENCY | {"limit": "+5%"}}}, "needs control_arm"),
        (
            {"metrics": {"x": {"range": [-1, 1], "worse": "higher", "limit": "+5%"}}},
            "begins at 0 or above",
        ),
        ({"metrics": {f"m{n}": LATENCY for n in range(21)}}, "at most 20"),
        (
            {"arms": [f"a{n}" for n in range(600)], "metrics": {"latency": LATENCY}},
            "1200 rows, at most 1000",
        ),
        ({"arms": ["red", "x" * 151], "metrics": {"latency": LATENCY}}, "at most 150 characters"),
    ],
)
def test_mistakes_are_one_sentence(changed, words):
    with pytest.raises(ValueError, match=words) as refused:
        read(**changed)
    assert "\n" not in str(refused.value)


def test_agents_with_other_measures_do_not_exchange():
    ranges = {"latency": LATENCY}
    kinds = [
        fingerprint(),
        fingerprint(holdout=0.05, control_arm="red"),
        fingerprint(holdout=0.1, control_arm="red"),
        fingerprint(holdout=0.05, control_arm="green"),
        fingerprint(metrics=ranges),
        fingerprint(metrics={"speed": LATENCY}),
        fingerprint(metrics={"latency": LATENCY | {"range": [0, 9000]}}),
        fingerprint(holdout=0.05, control_arm="red", metrics=ranges),
    ]
    assert len(set(kinds)) == len(kinds)
    assert fingerprint(control_arm="red") == fingerprint()  # it measures nothing by itself
    other_limit = {"latency": LATENCY | {"limit": 500}}
    assert fingerprint(metrics=other_limit) == fingerprint(metrics=ranges)


def test_arms_may_change_but_the_control_arm_stays():
    agent = read(holdout=0.05, control_arm="red").make_agent()
    agent.set_arms(["red", "blue"])
    with pytest.raises(ValueError, match="control_arm"):
        agent.set_arms(["green", "blue"])
    assert agent.arm_names == ["red", "blue"]
