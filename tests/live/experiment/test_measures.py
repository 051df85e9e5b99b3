"""Holdouts, uplift, metrics and guardrails of one experiment, on a real store."""

import json
from collections import Counter

import pytest

from posse.live.agent import Measures, Metric
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import Conflict, RewardOutcome, Unknown
from tests.live.experiment.test_decision_lives import COUNT, HEARD, WAIT, Site

UNIT = 2**20
LATENCY = Metric("latency", (0.0, 10_000.0), "higher", 300.0)
HALF = Measures("red", 0.5)
BOTH = Measures("red", 0.5, (LATENCY,))


@pytest.fixture
def make(tmp_path):
    sites = []

    def open_site(window, measures, **options):
        path = tmp_path / f"{len(sites)}.db"
        sites.append(Site(path, "origins", window, measures=measures, **options))
        return sites[-1]

    yield open_site
    for site in sites:
        site.store.close()


def sides(site):
    """Count and sum of rewards of the bandit and of the holdout."""
    cells = site.experiment.agent.exchange.side_cells(own=True)
    totals = {"bandit": [0.0, 0.0], "control": [0.0, 0.0]}
    for (kind, *name), (total, _, count) in cells.items():
        if kind == "uplift":
            side = name[0].split()[0]
            totals[side][0] += count / UNIT
            totals[side][1] += total / UNIT
    return tuple(map(tuple, totals.values()))


def find_visitors(site, held_out, count):
    """Some visitors of one side."""
    side = site.experiment.agent.side
    names = (f"u-{number}" for number in range(10_000))
    chosen = [
        name for name in names if (side.assign_bucket(name, ["red", "green"]) < 0) is held_out
    ]
    return chosen[:count]


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
def test_the_holdout_gets_the_control_arm_and_no_belief_reads_it(make, window):
    site = make(window, HALF)
    held = find_visitors(site, True, 3)
    for number, visitor in enumerate(held):
        made = site.experiment.decide(f"h{number}", None, None, visitor)
        assert (made.arm, made.probability, made.holdout) == ("red", 1.0, True)
        assert made.assumed is None
    assert site.sums == (0, 0, 0, 0)
    assert site.experiment.reward("h0", 1.0) is RewardOutcome.NEW
    assert site.experiment.reward("h0", 1.0) is RewardOutcome.REPEATED
    with pytest.raises(ValueError, match="reward must"):
        site.experiment.reward("h1", 7.0)
    assert site.sums == (0, 0, 0, 0)
    assert sides(site)[1] == ((1, 1) if window == HEARD else (0, 0))
    site.wait(10)
    default = {HEARD: (1, 1), COUNT: (3, 1), WAIT: (3, 3)}[window]
    assert sides(site) == ((0, 0), default)
    assert site.sums == (0, 0, 0, 0)
    assert site.experiment.arms()["red"]["pulls_here"] == 0
    assert site.balances


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT])
def test_the_bandits_side_counts_when_a_decision_is_final(make, window):
    site = make(window, HALF)
    free = find_visitors(site, False, 2)
    for number, visitor in enumerate(free):
        assert site.experiment.decide(f"d{number}", None, None, visitor).holdout is False
    site.experiment.reward("d0", 1.0)
    assert sides(site) == (((1, 1) if window == HEARD else (0, 0)), (0, 0))
    site.wait(10)
    assert sides(site)[0] == {HEARD: (1, 1), COUNT: (2, 1), WAIT: (2, 2)}[window]
    assert site.sums[2:] == {HEARD: (1, 1), COUNT: (1, 2), WAIT: (2, 2)}[window]
    site.restart()
    assert sides(site)[0] == {HEARD: (1, 1), COUNT: (2, 1), WAIT: (2, 2)}[window]


def test_what_is_cancelled_or_never_shown_is_on_no_side(make):
    site = make(COUNT, HALF)
    for number, visitor in enumerate(
        [*find_visitors(site, True, 2), *find_visitors(site, False, 2)]
    ):
        site.experiment.decide(f"d{number}", None, None, visitor, activate=number % 2 == 0)
    for number in (0, 2):
        site.experiment.cancel(f"d{number}")
    site.wait(10)
    assert sides(site) == ((0, 0), (0, 0))
    assert site.sums == (0, 0, 0, 0)


def test_where_the_control_arm_may_not_be_played_there_is_no_side(make):
    site = make(COUNT, HALF)
    (held,) = find_visitors(site, True, 1)
    made = site.experiment.decide("a", ["green"], None, held)
    assert (made.arm, made.holdout) == ("green", None)
    site.experiment.pause("red")
    assert site.experiment.decide("b", None, None, held).holdout is None
    site.experiment.resume()
    site.experiment.pin("green")
    made = site.experiment.decide("c", None, None, held)
    assert (made.arm, made.holdout, made.assumed) == ("green", None, 0.0)
    site.wait(10)
    assert sides(site) == ((0, 0), (0, 0))
    assert site.sums[3] == 3


def test_the_share_of_visitors_and_buckets(make):
    """A chi-square test with a fixed hash: no chance is left in it."""
    site = make(COUNT, Measures("red", 0.1))
    side = site.experiment.agent.side
    buckets = Counter(side.assign_bucket(f"visitor {n}", ["red"]) for n in range(40_000))
    held = sum(count for bucket, count in buckets.items() if bucket < 0)
    assert abs(held / 40_000 - 0.1) < 4 * (0.09 / 40_000) ** 0.5
    assert set(buckets) == {*range(32), *range(-32, 0)}
    for expected, numbers in ((36_000 / 32, range(32)), (4_000 / 32, range(-32, 0))):
        chi_square = sum((buckets[n] - expected) ** 2 / expected for n in numbers)
        assert chi_square < 61  # of 31 degrees of freedom: one in a thousand is above
    ids = [site.experiment.decide().holdout for _ in range(400)]  # no visitor: by the decision
    assert 15 < sum(ids) < 70


def test_the_uplift_is_the_difference_of_the_means(make):
    site = make(HEARD, HALF)
    with_few = site.experiment.uplift()
    assert (with_few.uplift, with_few.low) == (None, None)
    assert "no uplift yet" in with_few.sentence
    rewards = {True: [], False: []}
    for number in range(800):
        made = site.experiment.decide(f"d{number}")
        reward = float(number % (5 if made.holdout else 3) == 0)
        rewards[made.holdout].append(reward)
        site.experiment.reward(made.id, reward)
        if number == 60:
            assert "too few decisions" in site.experiment.uplift().sentence
    uplift = site.experiment.uplift()
    means = [sum(rewards[side]) / len(rewards[side]) for side in (False, True)]
    assert uplift.uplift == pytest.approx(means[0] - means[1])
    assert [uplift.bandit.decisions, uplift.control.decisions] == [
        *(len(rewards[False]), len(rewards[True])),
    ]
    assert uplift.low < uplift.uplift < uplift.high
    assert "valid at every look" in uplift.sentence
    with pytest.raises(Unknown, match="no holdout"):
        make(HEARD, Measures()).experiment.uplift()


@pytest.mark.parametrize("window", [HEARD, COUNT, WAIT, RewardWindow()])
def test_metrics_before_and_after_a_reward_until_the_window_closes(make, window):
    site = make(window, BOTH)
    for id_ in "abc":
        site.experiment.decide(id_, ["red"], activate=id_ != "b")
    assert site.experiment.measure("a", {"latency": 200}) is True
    assert site.experiment.measure("a", {"latency": 200.0}) is False
    with pytest.raises(Conflict, match=r"has latency = 200\.0: 201\.0 is refused"):
        site.experiment.measure("a", {"latency": 201})
    with pytest.raises(Conflict, match="has metrics: it can no longer be cancelled"):
        site.experiment.cancel("a")
    assert site.experiment.measure("b", {"latency": 400}) is True  # which activates it
    assert site.experiment.find_decision("b").state == "open"
    site.experiment.reward("c", 1.0)
    assert site.experiment.measure("c", {"latency": 600}) is True
    (red, green) = site.experiment.metrics()
    assert (red.arm, red.decisions, red.mean) == ("red", 3, pytest.approx(400.0, abs=0.02))
    assert (green.decisions, green.mean, green.breached) == (0, None, False)
    assert json.loads(site.store.find_decision("c").metrics) == {"latency": 600.0}
    site.restart()
    site.wait(10)
    assert site.experiment.measure("a", {"latency": 200}) is False
    if window.window is not None:
        site.experiment.decide("d")
        site.wait(10)
        with pytest.raises(Conflict, match="too late"):
            site.experiment.measure("d", {"latency": 1})
    assert site.experiment.metrics()[0].decisions == 3
    assert site.balances


def test_bad_metrics_change_nothing(make):
    site = make(COUNT, BOTH)
    site.experiment.decide("a")
    for bad, words in [
        ({}, "at least one of latency"),
        ({"latencies": 1}, "latencies. is unknown"),
        ({"latency": -1}, "metrics.latency must be"),
        ({"latency": 10_001}, "metrics.latency must be"),
        ({"latency": "1"}, "metrics.latency must be"),
        ({"latency": float("nan")}, "metrics.latency must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            site.experiment.measure("a", bad)
    with pytest.raises(Unknown, match="there is no decision"):
        site.experiment.measure("nobody", {"latency": 1})
    site.experiment.cancel("a")
    with pytest.raises(Conflict, match="was cancelled"):
        site.experiment.measure("a", {"latency": 1})
    assert site.experiment.agent.exchange.side_cells(own=True) == {}
    plain = make(COUNT, Measures())
    with pytest.raises(ValueError, match="this experiment has none"):
        plain.experiment.measure("a", {"latency": 1})
    with pytest.raises(Unknown, match="no metrics"):
        plain.experiment.metrics()


def test_a_limit_is_breached_when_the_whole_interval_is_beyond_it(make):
    relative = Metric("errors", (0.0, 1.0), "higher", "+5%")
    clicks = Metric("clicks", (0.0, 10.0), "lower", 2.0)
    site = make(RewardWindow(), Measures("red", None, (LATENCY, relative, clicks)))
    for number in range(1500):
        arm = ("red", "green")[number % 2]
        site.experiment.decide(f"d{number}", [arm])
        slow = 1000.0 if arm == "green" else 100.0
        broken = float(number % 20 < (9 if arm == "green" else 2))
        site.experiment.measure(
            f"d{number}", {"latency": slow + number % 7, "errors": broken, "clicks": number % 4}
        )
        if number == 20:
            assert not any(status.breached for status in site.experiment.metrics())
    breached = {(s.metric, s.arm): s for s in site.experiment.metrics() if s.breached}
    assert set(breached) == {("latency", "green"), ("errors", "green"), ("clicks", "red")}
    assert breached["latency", "green"].sentence.endswith(
        "above its limit of 300: consider `posse pause green`"
    )
    site.experiment.recorder.record_minute(site.now + 100)
    site.experiment.recorder.record_minute(site.now + 200)
    events = sorted(e.text for e in site.store.events.read_kind("guardrail"))
    wanted = [("clicks", "red"), ("errors", "green"), ("latency", "green")]
    assert events == [f"{metric} of {arm} is beyond its limit" for metric, arm in wanted]


def test_a_limit_that_is_crossed_again_is_one_event_a_day(make):
    site = make(RewardWindow(), Measures("red", None, (LATENCY,)))
    for number in range(300):
        site.experiment.decide(f"d{number}", ["green"])
        site.experiment.measure(f"d{number}", {"latency": 1000})
    recorder = site.experiment.recorder
    for hours in (0, 1, 2, 30):
        site.now += hours * 3600
        site.experiment.set_arms(["red", "blue"])  # so green is not beyond its limit any more
        recorder.record_minute(site.now)
        site.experiment.set_arms(["red", "green"])
        recorder.record_minute(site.now + 60)
    times = [event.time for event in site.store.events.read_kind("guardrail")]
    assert len(times) == 2
    assert times[1] - times[0] > 86_400


def test_side_rows_cost_nothing_where_nothing_is_measured(make):
    site = make(COUNT, Measures("red"))  # a control arm alone measures nothing
    assert site.experiment.agent.side is None
    for id_ in "ab":
        site.experiment.decide(id_)
    site.experiment.reward("a", 1.0)
    site.experiment.tick(site.now)
    (entry,) = site.experiment.agent.exchange.replica.entries.values()
    assert set(entry.arms) <= {"red", "green"}


def test_metrics_are_accepted_until_the_window_closes_whatever_is_compacted(make):
    """After ten restarts they were refused as those of a restored copy."""
    site = make(RewardWindow(3600.0), Measures(metrics=(LATENCY,)))

    def compact():
        for _ in range(61):
            site.wait(1)
            site.experiment.tick(site.now)
        return len(site.experiment.agent.exchange.replica.entries)

    for number in range(11):
        if number:
            site.restart()
        site.experiment.decide(f"d{number}")
        site.experiment.reward(f"d{number}", 1.0)
        assert compact() == number + 1
    site.now = site.experiment.find_decision("d0").time + 3599
    assert site.experiment.measure("d0", {"latency": 212})
    assert compact() == 11  # the first alone may be folded: the base takes its place
    assert site.experiment.measure("d1", {"latency": 212})
    site.wait(3600)
    assert compact() == 2
