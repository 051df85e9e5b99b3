"""Windows of whole agents: from settings, in a reload, and in what is shown of them."""

import pytest

from posse.cli import status_tables as overview
from posse.live.config.experiment_settings import experiment_from_data
from posse.live.http.metrics import render_metrics
from posse.live.store import LateReward, RewardOutcome
from tests.live.several import Several, table

EXPERIMENT = {"arms": ["red", "green"], "family": "bernoulli"}


@pytest.fixture(params=["origins", "flows"])
def make(request, tmp_path):
    made = []

    def start(**more):
        made.append(Several(tmp_path))
        data = table("a", ["checkout"]) | {"exchange": request.param, **more}
        return alone(made[-1], data)

    yield start
    for each in made:
        each.close()


def alone(several, data):
    """An agent whose neighbour is away."""
    several.network.link("a", "b")
    several.open_node(data)
    return several


def restarted(several, **more):
    """The agent again, on its disk, by other settings."""
    exchange = several.nodes["a"].reloader.settings.experiments["checkout"].exchange
    several.nodes.pop("a").stop()
    alone(several, table("a", ["checkout"]) | {"exchange": exchange, **more})
    return several.nodes["a"].experiment("checkout")


def test_settings_say_how_decisions_count():
    for more, begins in (
        ({}, False),
        ({"reward_window": 5}, False),
        ({"reward_window": 5, "default_reward": 0}, True),
        ({"reward_window": 5, "default_reward": 1}, False),
        ({"reward_window": 5, "default_reward": -2.0, "family": "gaussian"}, True),
    ):
        data = EXPERIMENT | more
        if data["family"] == "gaussian":
            data["reward_range"] = [-2.0, 2.0]
        assert experiment_from_data(data).counts_from_start is begins


def test_an_agent_starts_again_after_its_default_was_changed(make):
    """A reload let it, and under flows the next start was refused."""
    several = make(reward_window=5, default_reward=0)
    begun = several.nodes["a"].experiment("checkout").store.fingerprint
    for more, mode in (
        ({"reward_window": 5, "default_reward": 1}, "wait"),
        ({"reward_window": 5}, "reported"),
        ({}, "reported"),
        ({"reward_window": 5, "default_reward": 0}, "count"),
    ):
        only = restarted(several, **more)
        assert (only.counting_mode, only.agent.fingerprint) == (mode, begun)


def test_a_store_goes_on_as_it_was_begun_whatever_its_exchange(make):
    """Under flows neighbours of its network would not understand decisions that count at once."""
    several = make()
    several.visit("a", "checkout", 3)
    only = several.nodes["a"].experiment("checkout")
    fingerprint, flows = only.store.fingerprint, not only.agent.can_count_open
    only.decide("open")
    only = restarted(several, reward_window=5, default_reward=0)
    assert only.counting_mode == ("wait" if flows else "count")
    assert only.agent.fingerprint == only.store.fingerprint == fingerprint
    only.decide("new")
    assert only.reward("open", 1.0) is RewardOutcome.NEW
    assert only.reward("new", 1.0) is RewardOutcome.NEW
    several.tick(10)
    assert several.pulls("a", "checkout") == 5
    assert sum(arm["pulls_here"] for arm in only.arms().values()) == 5


def test_a_new_store_counts_from_the_start_under_both(make):
    several = make(reward_window=5, default_reward=0)
    only = several.nodes["a"].experiment("checkout")
    assert only.counting_mode == "count"
    only.decide("a")
    only = restarted(several, reward_window=5, default_reward=0)
    assert only.counting_mode == "count"
    assert sum(arm["open_in_network"] for arm in only.arms().values()) == 1


def test_a_reload_takes_effect_decision_by_decision(make):
    several = make(reward_window=5, default_reward=0)
    node = several.nodes["a"]
    only = node.experiment("checkout")
    exchange = node.reloader.settings.experiments["checkout"].exchange
    for id_ in "ab":
        only.decide(id_)
    data = table("a", ["checkout"]) | {
        "exchange": exchange,
        "reward_window": 3,
        "default_reward": 1,
    }
    said = node.reload(several.read_settings(data))
    assert "reward_window of checkout: 3; default_reward of checkout: 1" in said
    assert only.counting_mode == "wait"
    only.decide("c")
    assert only.reward("a", 1.0) is RewardOutcome.NEW
    several.tick(5)
    rewards = {id_: only.store.find_decision(id_).reward for id_ in "abc"}
    assert rewards == {"a": 1.0, "b": 0.0, "c": 1.0}
    own = only.evidence()["own"].values()
    assert [sum(values[k] for values in own) / 2**20 for k in (0, 1, 2, -1)] == [2, 2, 3, 3]


@pytest.mark.parametrize(
    ("late", "rewards", "advised"),
    [(1, 0, False), (1, 9, False), (9, 0, False), (10, 990, False), (10, 290, True), (40, 0, True)],
)
def test_a_longer_window_is_advised_when_many_rewards_are_late(late, rewards, advised):
    about = {"late_rewards": late, "rewards": rewards, "longest_lateness": 60.0}
    (line,) = overview.describe_windows({}, about)
    assert line.startswith(f"late: {late} of {late + rewards:,} reward")
    assert line.endswith(": lengthen reward_window") is advised


def test_open_and_late_ones_are_shown(make):
    several = make(reward_window=5, default_reward=0)
    node = several.nodes["a"]
    only = node.experiment("checkout")
    for id_ in "abc":
        only.decide(id_, ["red"])
    several.tick(6)
    only.decide("d", ["green"])
    several.tick(1)
    with pytest.raises(LateReward):
        only.reward("a", 1.0)
    lines = dict(
        line.rsplit(" ", 1) for line in render_metrics(node).splitlines() if line[0] != "#"
    )
    labels = 'experiment="checkout",arm="{}"'
    assert lines[f"posse_open_here{{{labels.format('green')}}}"] == "1.0"
    assert lines[f"posse_pulls_here{{{labels.format('green')}}}"] == "0.0"
    assert lines[f"posse_pulls_here{{{labels.format('red')}}}"] == "3.0"
    assert lines[f"posse_open_in_network{{{labels.format('red')}}}"] == "0.0"
    assert lines['posse_rewards_late_total{experiment="checkout"}'] == "1"
    assert lines['posse_reward_lateness_seconds_count{experiment="checkout"}'] == "1"
    assert lines['posse_reward_lateness_seconds_bucket{experiment="checkout",le="+Inf"}'] == "1"
    arms = only.arms()
    late = {"late_rewards": 2, "rewards": 98, "longest_lateness": 1234.5}
    shown = list(overview.describe_windows(arms, late))
    assert shown == [
        "open, so not in the table: red 0 here, 0 in network, green 1 here, 1 in network",
        "late: 2 of 100 rewards came up to 1,234 s after the window had closed, and did not count",
    ]
    faded = {name: {"open_here": 0.0, "open_in_network": 3e-6} for name in arms}  # of flows
    assert list(overview.describe_windows(faded, {})) == []
