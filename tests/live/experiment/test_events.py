"""Events of an experiment: each kept once, in a sentence, where it happened."""

import logging
import shutil
import threading
import time
from contextlib import suppress

import pytest

from posse.live.controls.controls import describe_changes
from posse.live.experiment.history import HistoryRecorder
from posse.live.store import Conflict, LateReward, StoreError
from tests.live.loopback import certified
from tests.live.several import Certified, Several, table

START = 20_000 * 86_400.0
HOUR = 3600.0


@pytest.fixture
def pair(tmp_path):
    made = Several(tmp_path)
    made.now = START
    yield made.start(a=table("a"), b=table("b"))
    made.close()


def events(several, *kinds, name="a", experiment="checkout"):
    """Texts of events of these kinds, oldest first."""
    found = several.nodes[name].experiment(experiment).history("year").events
    return [each.text for each in found if not kinds or each.kind in kinds]


def reload(several, **changed):
    return several.nodes["a"].reload(several.read_settings(table("a") | changed))


def restart(several, **changed):
    several.nodes["a"].stop()
    several.open_node(table("a") | changed)


def turn(several):
    """To the next minute's turn."""
    several.now = (several.now // 60 + 1) * 60
    several.tick()


def test_a_restart_is_told_to_every_experiment(pair):
    assert events(pair) == []  # the first start is none
    restart(pair)
    for experiment in ("checkout", "banner"):
        assert events(pair, experiment=experiment) == ["a restarted"]
    assert reload(pair, experiments={"checkout": {}, "prices": {}})
    assert events(pair, "restart", experiment="prices") == []
    reload(pair)  # banner again: no process was started for it
    assert events(pair, "restart", experiment="banner") == ["a restarted"]


def test_a_reload_is_told_to_the_experiments_that_it_changed(pair):
    reload(pair, arms=["red", "blue"])
    for experiment in ("checkout", "banner"):
        said = f"a reloaded its settings: arms of {experiment}: +blue -green"
        assert events(pair, "settings", experiment=experiment) == [said]
        assert events(pair, "arm", experiment=experiment) == ["blue was added", "green was removed"]
    with pytest.raises(ValueError, match="arms"):
        reload(pair, arms=[])
    assert len(events(pair, "settings")) == 1


def test_what_a_reload_changes_in_one_experiment_is_not_told_to_another(pair):
    own = {"checkout": {"arms": ["red", "green", "blue"]}, "banner": {}}
    assert reload(pair, experiments=own) == "arms of checkout: +blue"
    assert events(pair, "settings") == ["a reloaded its settings: arms of checkout: +blue"]
    assert events(pair, experiment="banner") == []
    reload(pair, experiments=own, tick_seconds=2)  # of the whole agent
    for experiment in own:
        said = events(pair, "settings", experiment=experiment)[-1]
        assert said == "a reloaded its settings: new tick_seconds"


def test_many_arms_are_one_sentence(pair):
    reload(pair, arms=[f"arm {n}" for n in range(20)])
    assert events(pair, "arm") == [
        "arm 0, arm 1, arm 2, arm 3, arm 4 and 15 more were added", "red, green were removed",
    ]  # fmt: skip


def test_pins_and_pauses(pair):
    only = pair.nodes["a"].experiment("checkout")
    only.pause("red")
    only.pause("red")  # a repeated request
    only.pin("red")
    only.pin("green")
    only.resume()
    with pytest.raises(Conflict):
        only.pin("nobody")
    found = [(e.kind, e.text) for e in only.history("day").events]
    assert found == [
        ("pause", "red is paused at this agent alone"),
        ("pin", "red is pinned at this agent alone"), ("resume", "red is no longer paused"),
        ("pin", "green is pinned at this agent alone"), ("resume", "red is no longer pinned"),
        ("resume", "green is no longer pinned"),
    ]  # fmt: skip
    assert events(pair, experiment="banner") == []


def test_what_an_operator_sets_is_an_event_at_every_agent(tmp_path):
    certified(tmp_path / "certs", "a", "b")
    made = Certified(tmp_path)
    made.now = time.time()
    made.start(a=table("a", operators=["a"]), b=table("b", operators=["a"]))
    try:
        made.nodes["a"].experiment("checkout").pause("red")
        made.tick(15)
        for name in "ab":
            assert events(made, name=name) == ["red is paused in the whole network by a"]
        restart(made, operators=["a"])
        restart(made, operators=["b"])
        again = "a restarted"
        assert events(made)[1:] == [again, "red is no longer paused", again]
    finally:
        made.close()


def test_arms_alike_are_one_sentence_and_names_are_as_they_are():
    before = {("pause", "<b>"): "here", ("pin", "x"): "here"}
    after = {("pause", "<b>"): "by z", ("pause", "'q'"): "by z", ("pin", "x"): "here"}
    assert describe_changes(before, after) == [("pause", "<b>, 'q' are paused by z")]
    many = {("pause", f"{n}"): "here" for n in range(7)}
    assert describe_changes(many, {}) == [
        ("resume", "0, 1, 2, 3, 4 and 2 more are no longer paused")
    ]


def test_a_pin_that_fails_is_no_event(pair, monkeypatch):
    only = pair.nodes["a"].experiment("checkout")

    def full(key, value):
        raise StoreError("full")

    with monkeypatch.context() as patch:
        patch.setattr(only.store, "write_record", full)
        with pytest.raises(StoreError):
            only.pin("red")
    with monkeypatch.context() as patch:
        patch.setattr(only.store.events, "add_events", full)
        with pytest.raises((StoreError, TypeError)):
            only.pin("red")
    assert events(pair) == []
    assert only.control_status()["pinned"] is None


def test_late_rewards_are_told_once_an_hour(tmp_path):
    made = Several(tmp_path)
    made.now = START
    late = {"reward_window": 5, "default_reward": 0}
    made.start(a=table("a", **late), b=table("b", **late))

    def be_late(times):
        only = made.nodes["a"].experiment("checkout")
        ids = [only.decide().id for _ in range(times)]
        made.tick(6)
        for each in ids:
            with suppress(LateReward):
                only.reward(each, 1.0)

    try:
        be_late(1)
        assert events(made) == []
        turn(made)
        for _ in range(3):
            be_late(20)
            turn(made)
        assert len(events(made, "late")) == 1
        be_late(2)
        turn(made)
        assert len(events(made, "late")) == 1
        made.now += HOUR
        turn(made)
        assert events(made, "late") == [
            "1 reward came after its reward window and was refused",
            "62 rewards came after their reward windows and were refused",
        ]
        restart(made, **late)
        be_late(2)
        turn(made)
        assert len(events(made, "late")) == 2  # it is on disk when the last was
    finally:
        made.close()


def test_a_disk_that_was_set_back_is_told_once(tmp_path):
    made = Several(tmp_path)
    made.now = START
    made.start(a=table("a", ["checkout"]), b=table("b", ["checkout"]))
    try:
        made.visit("a", "checkout", 2)
        made.nodes["a"].stop()
        shutil.copy(tmp_path / "a.db", tmp_path / "copy")
        made.open_node(table("a", ["checkout"]))
        made.visit("a", "checkout", 3)
        made.tick(15)
        made.nodes["a"].stop()
        shutil.copy(tmp_path / "copy", tmp_path / "a.db")
        made.open_node(table("a", ["checkout"]))
        made.tick(15)
        (said,) = events(made, "superseded")
        assert said.startswith("neighbours hold more evidence of this agent than its store")
        made.nodes["a"].stop()
        made.open_node(table("a", ["checkout"]))
        made.tick(15)
        assert events(made, "superseded") == [said]
    finally:
        made.close()


def test_sites_that_differ_are_told_where_they_are_logged(pair):
    for times, reward in ((30, 1.0), (30, 0.0)):
        for name, right in (("a", "red"), ("b", "green")):
            only = pair.nodes[name].experiment("checkout")
            for n in range(times):
                made = only.decide(f"{reward} {n}", allowed=["red"])
                only.reward(made.id, reward if right == "red" else 1.0 - reward)
        pair.tick(25)
        if reward == 1.0:
            assert events(pair, "sites") == ["sites differ, at least in red"]
            restart(pair)
            pair.tick(25)
            assert len(events(pair, "sites")) == 1  # as it was before the restart
    assert events(pair, "sites")[1:] == ["sites no longer differ"]


def test_a_verdict_is_told_when_it_is_first_named(tmp_path):
    stop = {"stop": {"error": 0.05}}
    made = Several(tmp_path)
    made.now = START
    made.start(a=table("a", ["checkout"], **stop), b=table("b", ["checkout"], **stop))
    try:
        only = made.nodes["a"].experiment("checkout")
        turn(made)
        for _ in range(60):
            for arm in ("red", "green"):
                only.reward(only.decide(allowed=[arm]).id, float(arm == "red"))
        assert events(made) == []
        turn(made)
        turn(made)
        assert events(made) == ["red is named the winner"]
        made.nodes["a"].stop()
        made.open_node(table("a", ["checkout"], **stop))
        turn(made)
        assert events(made, "verdict") == ["red is named the winner"]
    finally:
        made.close()


def test_a_partition_is_told_where_it_is_logged(node, caplog, monkeypatch):
    """By the thread that ticks: away for some time, and back."""
    monkeypatch.setattr("posse.live.node.DISCONNECTED_SECONDS", 0.05)
    node.tick_seconds = 0.02
    monkeypatch.setattr(node.transport, "start", lambda receive: None)
    seen, there = threading.Event(), {"b": False}
    monkeypatch.setattr(node.transport, "connected", lambda: dict(there))
    note = HistoryRecorder.note_event

    def noted(past, kind, text):
        note(past, kind, text)
        there["b"] = True
        if text.endswith("again"):
            seen.set()

    monkeypatch.setattr(HistoryRecorder, "note_event", noted)
    with caplog.at_level(logging.WARNING):
        node.start()
        assert seen.wait(30)
    kept = [(e.kind, e.text) for e in node.experiment().history("day").events]
    assert kept == [
        ("partition", "b has not been connected for 0 seconds"),
        ("partition", "b is connected again"),
    ]
    logged = [record.getMessage() for record in caplog.records]
    assert logged[0].startswith(kept[0][1] + ": does it run ")
    assert logged[1] == kept[1][1]


@pytest.mark.parametrize("number", [3, 600])
def test_events_wait_for_a_store_that_fails(pair, monkeypatch, number):
    only = pair.nodes["a"].experiment("checkout")

    def full(events):
        raise StoreError("full")

    with monkeypatch.context() as patch:
        patch.setattr(only.store.events, "add_events", full)
        for n in range(number):
            only.recorder.note_event("partition", f"{n}")
        turn(pair)
    assert events(pair) == []
    for _ in range(2):
        turn(pair)
        assert events(pair) == [f"{n}" for n in range(max(0, number - 500), number)]


def test_only_those_within_the_scale_are_shown(pair):
    only = pair.nodes["a"].experiment("checkout")
    only.recorder.note_event("pin", "first")
    pair.now += 2 * 86_400
    only.recorder.note_event("pin", "second")
    shown = {s: [e.text for e in only.history(s).events] for s in ("day", "month", "year")}
    assert shown == {
        "day": ["second"], "month": ["first", "second"], "year": ["first", "second"],
    }  # fmt: skip
