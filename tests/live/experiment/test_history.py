"""History of an experiment: what was known at each minute, through restarts, gaps, odd clocks."""

import asyncio

import httpx
import numpy as np
import pytest

from posse.live.client import AsyncClient, Client
from posse.live.experiment.history import NUMBERS_PER_ARM, SCALES, Start
from posse.live.http import serve_node
from posse.live.store import StoreError, Unknown
from posse.live.store.timeline import HistoryPoint
from tests.live.asking import refused
from tests.live.several import Several, table

START = 20_000 * 86_400.0


@pytest.fixture(params=["origins", "flows"])
def pair(request, tmp_path):
    made = Several(tmp_path)
    made.now = START
    late = {"reward_window": 90, "default_reward": 0, "exchange": request.param}
    yield made.start(a=table("a", ["x"], **late), b=table("b", ["x"], **late))
    made.close()


def minute(several, times=1):
    """Ticks for some minutes, the last of them at a minute's turn."""
    for _ in range(times):
        several.tick(12)
        several.now = (several.now // 60 + 1) * 60 - 1
        several.tick()


def only(several, name="a"):
    return several.nodes[name].experiment("x")


def restart(several, **more):
    """The agent again, by other settings perhaps."""
    settings = several.nodes["a"].reloader.settings.experiments["x"]
    several.nodes["a"].stop()
    late = {"reward_window": 90, "default_reward": 0, "exchange": settings.exchange}
    return several.open_node(table("a", ["x"], **(late | more)))


def test_a_point_is_what_the_evidence_was_at_that_minute(pair):
    expected = []
    for n in range(4):
        for name in "ab":
            pair.visit(name, "x", n)
            only(pair, name).decide()
        pair.tick(30)
        pair.now = (pair.now // 60 + 1) * 60
        pair.nodes["a"].tick()  # and what b says comes later
        arms, evidence = only(pair).arms(), only(pair).evidence()
        expected.append((arms, evidence, only(pair).agent))
    found = only(pair).history("day")
    assert found.times == [START, *(START + 60 * n for n in range(1, 5))]
    assert (found.seconds, found.fading, found.scale) == (60, False, "day")
    for place, (arms, evidence, agent) in enumerate(expected, 1):
        loss = min(arm["expected_loss"] for arm in arms.values())
        assert found.expected_loss[place] == pytest.approx(loss, rel=1e-2)
        for name, arm in arms.items():
            for where, ledger in (("here", "own"), ("network", "held")):
                series, quanta = getattr(found.arms[name], where), evidence[ledger].get(name, ())
                closed = arm["pulls_here" if where == "here" else "pulls_in_network"]
                assert series.closed[place] == pytest.approx(closed, abs=0.01)
                assert series.pulls[place] == pytest.approx(
                    agent.summarize_pulls(quanta)[0], abs=0.01
                )
                assert series.rewards[place] == pytest.approx(
                    agent.summarize_pulls(quanta)[2], abs=0.001
                )
    here = [found.arms[name].here for name in arms]
    assert sum(each.pulls[-1] for each in here) == 1 + 2 + 3 + 4
    assert sum(each.rewards[-1] for each in here) < sum(each.pulls[-1] for each in here)
    assert all(type(number) is int for each in here for number in each.pulls)


def test_an_experiment_started_with_the_first_point_unless_others_had_visits_before(pair):
    assert only(pair).recorder.find_start() is None
    pair.tick(4)
    pair.visit("a", "x", 3)
    minute(pair, 12)
    settings = pair.nodes["a"].reloader.settings.experiments["x"]
    for name in "ab":  # flows do not know whose evidence it is
        start = only(pair, name).recorder.find_start()
        assert (start.since, start.exact) == (START, settings.exchange == "origins")
    restart(pair)
    minute(pair)
    assert only(pair).recorder.find_start() == start


def test_an_agent_that_joins_later_knows_only_that_the_experiment_is_older(tmp_path):
    several = Several(tmp_path)
    several.now = START
    several.network.link("b", "c")  # whom b knows before it comes
    several.start(a=table("a", ["x"]), b=table("b", ["x"]))
    several.tick(3)
    several.visit("a", "x", 5)
    minute(several, 2)
    several.open_node(table("c", ["x"]))
    joined = several.now
    several.tick()
    assert not only(several, "c").recorder.find_start().exact  # nobody has been heard yet
    several.tick(5)
    assert several.pulls("c", "x") == 5
    assert only(several, "c").recorder.find_start() == Start(joined // 60 * 60, exact=False)
    several.close()


def test_an_agent_that_hears_no_neighbour_does_not_claim_to_know_the_start(tmp_path):
    several = Several(tmp_path)
    several.now = START
    several.start(a=table("a", ["x"]), b=table("b", ["x"]))
    several.nodes.pop("b").stop()
    minute(several, 12)
    assert only(several).recorder.find_start() == Start(START, exact=False)
    several.close()


def test_ticks_within_a_minute_write_nothing(pair):
    minute(pair)
    commits = only(pair).store.commits
    pair.nodes["a"].experiment("x").recorder.record_minute(pair.now + 1)
    assert only(pair).store.commits == commits
    assert len(only(pair).history("day").times) == 2


def test_it_survives_restarts_and_a_gap_stays_one(pair):
    minute(pair, 2)
    before = only(pair).history("day")
    restart(pair)
    pair.tick()  # within the minute that has its point already
    assert only(pair).history("day").times == before.times
    pair.nodes["a"].stop()
    pair.now += 600
    restart(pair)
    minute(pair)
    after = only(pair).history("day")
    assert after.times[: len(before.times)] == before.times
    assert after.times[len(before.times)] >= before.times[-1] + 600


def test_arms_come_and_go(pair):
    """Nothing is known of an arm before it came, and nothing after it went."""
    long = "<b>" + "x" * 197
    minute(pair)
    only(pair).set_arms(["red", long])
    pair.visit("a", "x", 10)
    minute(pair)
    restart(pair, arms=["green", "אדום [bold]"])
    minute(pair)
    found = only(pair).history("day")
    assert len(found.times) == 4
    known = {name: [n is not None for n in arm.here.pulls] for name, arm in found.arms.items()}
    assert known == {
        "green": [True, True, False, True], "אדום [bold]": [False, False, False, True],
        "red": [True, True, True, False], long: [False, False, True, False],
    }  # fmt: skip
    assert list(known)[:2] == ["green", "אדום [bold]"]  # those that are played come first
    texts = [event.text for event in found.events if event.kind == "arm"]
    assert texts == [
        f"{long} was added", "green was removed",
        "green, אדום [bold] were added", f"red, {long} were removed",
    ]  # fmt: skip


def test_hours_and_days_end_with_the_last_minute(pair):
    pair.now += 59 * 60
    minute(pair, 4)
    past = [only(pair).history(scale) for scale in SCALES]
    assert [each.seconds for each in past] == [60, 3600, 86_400]
    hours = [int(time - START) // 60 for time in past[1].times]
    assert hours == [0, 60, 63] or hours == [59, 60, 63]
    assert [each.times[-1] for each in past] == [past[0].times[-1]] * 3
    assert len(past[2].times) == 2
    assert past[2].arms["red"].here.pulls[-1] == past[0].arms["red"].here.pulls[-1]


@pytest.mark.parametrize(("arms", "every"), [(17, 1), (18, 2), (200, 12)])
def test_of_many_arms_there_are_fewer_points(tmp_path, arms, every):
    """Always the same ones, and last that of the last minute."""
    names = [f"{n}" for n in range(arms)]
    made = Several(tmp_path)
    made.now = START
    made.start(a=table("a", ["x"], arms=names), b=table("b", ["x"], arms=names))
    try:
        points, data = only(made).store.points, bytes(8 * (1 + NUMBERS_PER_ARM * arms))
        with only(made).store.reward_transaction(durable=False):
            for n in range(100):
                points.add_point(HistoryPoint(int(START) + n * 60, 0, data), [(60, 1440)])
        made.now += 99 * 60
        found = only(made).history("day")
        assert found.seconds == 60 * every
        steps = [int(time - START) // 60 for time in found.times]
        assert steps == sorted({*(n for n in range(100) if (START // 60 + n) % every == 0), 99})
        assert len(found.times) * arms * NUMBERS_PER_ARM <= 150_000
    finally:
        made.close()


def test_a_clock_that_jumps_erases_nothing(pair):
    minute(pair, 3)
    before, now = only(pair).history("day").times, pair.now
    for jump in (5e6, 3e9):  # and back, within seconds
        pair.now = now + jump
        pair.tick(2)
        assert only(pair).history("day").times == [(now + jump + 1) // 60 * 60]
        pair.now = now
        pair.tick()
        for scale in SCALES:
            found = only(pair).history(scale).times
            assert found == sorted(found)
            assert set(found) <= set(before)
        assert only(pair).history("day").times == before
    pair.now = now - 90  # set back for good
    pair.tick()
    assert only(pair).history("day").times == before[:2]
    minute(pair)
    assert only(pair).history("day").times == before[:3]


def test_a_full_disk_is_a_gap_and_no_more(pair, monkeypatch):
    minute(pair)
    before, points = only(pair).history("day").times, only(pair).store.points

    with monkeypatch.context() as patch:
        patch.setattr(points, "add_point", refuse_point)
        minute(pair)
    assert pair.nodes["a"].failures["tick"] == 0
    sent = pair.nodes["a"].counts["sent"]
    minute(pair)
    assert pair.nodes["a"].counts["sent"] > sent
    after = only(pair).history("day").times
    assert after == [*before, before[-1] + 120]


def refuse_point(*_):
    raise StoreError("a.db could not be written: database or disk is full")


def test_what_fades_says_so(tmp_path):
    made = Several(tmp_path)
    made.now = START
    made.start(a=table("a", ["x"], half_life="1 hour"), b=table("b", ["x"], half_life="1 hour"))
    try:
        made.visit("a", "x", 100)
        minute(made)
        made.now += 2 * 3600 - 60
        minute(made)
        found = only(made).history("day")
        assert found.fading
        pulls = [sum(n) for n in zip(*(a.here.pulls for a in found.arms.values()), strict=True)]
        assert pulls[1] == pytest.approx(100, rel=0.05)
        assert pulls[2] == pytest.approx(25, rel=0.05)
    finally:
        made.close()


def test_over_http_of_each_experiment(pair):
    pair.visit("a", "x", 3)
    minute(pair)
    node = pair.nodes["a"]
    with serve_node(node, "127.0.0.1:0") as server:
        with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http:
            for scale in SCALES:
                answers = [http.get(f"{base}/history/{scale}") for base in BASES]
                assert answers[0].json() == answers[1].json()
                assert list(answers[0].json()) == [
                    "scale", "seconds", "times", "arms", "expected_loss", "fading", "events",
                ]  # fmt: skip
            refused(http.get("/v1/history/week"), 404, "'week'", "day, month, year")
            refused(http.get("/v1/history/"), 404)
            refused(http.get("/v1/history/day/more"), 404)
            refused(http.get("/v1/experiments/y/history/day"), 404, "'y'")
            shown = http.get("/openapi.json").json()["paths"]["/v1/history/{scale}"]["get"]
        assert shown["parameters"][0]["schema"]["enum"] == list(SCALES)
        with Client(server.url, experiment="x") as client:
            found = client.history()
            assert found == client.history("day")
            for odd in ("week", "a/b", "..", "דור"):
                with pytest.raises(Unknown, match=r"there is no|unknown time scale"):
                    client.history(odd)

        async def ask():
            async with AsyncClient(server.url) as client:
                return await client.history("day"), await client.audit()

        assert asyncio.run(ask()) == (found, {"counted": 3, "in_evidence": 3.0, "in_network": 3.0})
    assert sum(arm["here"]["pulls"][-1] for arm in found["arms"].values()) == 3


BASES = ("/v1", "/v1/experiments/x")


def test_a_day_of_ten_arms_is_less_than_500_kb(tmp_path):
    """A visitor a second, half of them rewarded, all in the audit of ten arms."""
    names = [f"arm {n}" for n in range(10)]
    made = Several(tmp_path)
    made.now = START
    made.start(a=table("a", ["x"], arms=names), b=table("b", ["x"], arms=names))
    try:
        share = np.linspace(0.01, 0.19, 10)
        points = only(made).store.points
        with only(made).store.reward_transaction(durable=False):
            for n in range(1440):
                pulls = np.floor(share * 60 * n)
                both = np.stack([pulls, pulls, pulls // 2, 2 * pulls, 2 * pulls, pulls], axis=1)
                assert both.shape == (10, NUMBERS_PER_ARM)
                data = np.array([1 / (n + 1), *both.ravel()]).tobytes()
                points.add_point(HistoryPoint(int(START) + n * 60, 0, data), [(60, 1440)])
        made.now += 86_399
        with serve_node(made.nodes["a"], "127.0.0.1:0") as server:
            answer = httpx.get(f"{server.url}/v1/history/day", trust_env=False)
        assert len(answer.json()["times"]) == 1440
        assert len(answer.content) < 500_000
    finally:
        made.close()
