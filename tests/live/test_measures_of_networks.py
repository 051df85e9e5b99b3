"""Holdouts and metrics of several agents: the same uplift and guardrails everywhere."""

import pytest

from tests.live.several import Several, table

LATENCY = {"range": [0, 1000], "worse": "higher", "limit": 300}
MEASURES = {"holdout": 0.3, "control_arm": "red", "metrics": {"latency": LATENCY}}


@pytest.fixture
def fleet(tmp_path):
    made = Several(tmp_path, loss=0.2)
    yield made.start(**{name: table(name, ["shop"], **MEASURES) for name in "abc"})
    made.close()


def test_all_agents_report_the_same_exact_sums(fleet):
    experiments = {name: fleet.nodes[name].experiment("shop") for name in "abc"}
    for number in range(120):
        experiment = experiments["abc"[number % 3]]
        made = experiment.decide(None, None, None, f"u-{number % 40}")
        experiment.measure(made.id, {"latency": 100 + number})
        experiment.reward(made.id, float(number % 4 == 0))
    fleet.tick(40)
    uplifts = [experiment.uplift() for experiment in experiments.values()]
    assert uplifts[0] == uplifts[1] == uplifts[2]
    assert uplifts[0].bandit.decisions + uplifts[0].control.decisions == 120
    reports = [experiment.metrics() for experiment in experiments.values()]
    assert reports[0] == reports[1] == reports[2]
    assert sum(status.decisions for status in reports[0]) == 120
    pulls = experiments["a"].arms().values()
    assert sum(arm["pulls_in_network"] for arm in pulls) == uplifts[0].bandit.decisions


def test_a_visitor_is_in_the_holdout_at_every_agent(fleet):
    for number in range(60):
        held = {
            node.experiment("shop").decide(None, None, None, f"u-{number}").holdout
            for node in fleet.nodes.values()
        }
        assert len(held) == 1


def test_agents_with_another_holdout_refuse_each_other(tmp_path):
    fleet = Several(tmp_path)
    other = MEASURES | {"holdout": 0.1}
    fleet.start(a=table("a", ["shop"], **MEASURES), b=table("b", ["shop"], **other))
    fleet.visit("a", "shop", 5)
    fleet.tick(5)
    assert fleet.nodes["b"].experiment("shop").refusals()["fingerprint_mismatch"] > 0
    assert fleet.pulls("b", "shop") == 0
    fleet.close()
