"""Compaction: entries that nobody will write again fold into a base, under every condition."""

import json

import pytest

from posse.live.ledger import PER_UNIT
from tests.live.exchange.origins import (
    ONE,
    agent,
    bases,
    count,
    entry,
    message,
    own_entries,
    pump,
    save,
    start,
)
from tests.live.exchange.restarts import CLOSED, DAY, START, WHOLE, WINDOW, Pair, crash_loop, tune


def test_old_incarnations_fold_into_one_base_that_neighbours_take():
    pair = Pair(6)
    assert count(pair.me) == 6
    assert pair.compact()
    *old, present = pair.incarnations
    assert {e.incarnation for e in own_entries(pair.me)} == {present}
    assert pair.base.version[0] == 5
    assert all(pair.me.is_superseded(each) for each in old)
    assert not pair.me.is_superseded(present)
    pair.pump(4)
    assert pair.held() == {pair.base.incarnation, present}
    assert count(pair.me) == count(pair.agents["friend"]) == 6
    assert not pair.agents["friend"].refusals
    pair.restart()
    assert count(pair.me) == 6


CONDITIONS = {
    "few entries": lambda pair: setattr(pair.me.compaction, "fold_above", 5),
    "all have open decisions": lambda pair: pair.incarnations,
    "it rests": lambda pair: setattr(pair.me.incarnations, "resting", True),
    "it is another tick": lambda pair: setattr(
        pair.me.compaction, "every", 7 + pair.me.sender.ticks
    ),
    "a twin is at work": lambda pair: pair.me.receive("x", message(entry("me", 77)), pair.now),
    "nobody was heard for a day": lambda pair: pair.me.tick(pair.now + DAY + 100.0),
    "a neighbour has not shown all that it holds": lambda pair: vars(
        pair.me._neighbours["friend"]
    ).update(answered=False, shown_all=False),
    "a neighbour holds less": lambda pair: pair.me.receive(
        "friend", message(complete=True), pair.now
    ),
    "a neighbour holds another version": lambda pair: pair.me.receive(
        "friend",
        message(holds=tuple(("me", each, 9, 9, 9) for each in pair.incarnations)),
        pair.now,
    ),
    "a neighbour holds another base": lambda pair: pair.me.receive(
        "friend", message(holds=(("me", 99, 3, 1, 1),)), pair.now
    ),
}


@pytest.mark.parametrize("prevent", CONDITIONS.values(), ids=CONDITIONS)
def test_each_condition_alone_prevents_it(prevent):
    pair = Pair(6)
    opened = prevent(pair) if prevent is CONDITIONS["all have open decisions"] else ()
    prevent(pair)
    before = pair.me.evidence()
    assert not pair.compact(opened)
    assert pair.me.evidence() == before
    assert Pair(6).compact()


def test_only_entries_without_open_decisions_fold():
    pair = Pair(7)
    assert pair.compact(pair.incarnations[1:4])
    assert {e.incarnation for e in own_entries(pair.me)} == {
        *pair.incarnations[1:4],
        *pair.incarnations[6:],
    }
    assert not any(map(pair.me.is_superseded, pair.incarnations[1:4]))
    pair.me.observe("a", ONE, pair.incarnations[2])
    pair.pump(4)
    assert count(pair.me) == count(pair.agents["friend"]) == 8


@pytest.mark.parametrize("larger", [True, False])
def test_a_second_neighbour_may_be_behind_but_not_ahead(larger):
    """One that holds a larger version heard it of another copy of this disk."""
    pair = Pair(6, friends=("friend", "other"))
    holds = [("me", each, 9, 9, 9) for each in pair.incarnations] if larger else []
    said = message(holds=tuple(holds), complete=True)
    pair.me.receive("other", said, pair.now)
    assert pair.compact() != larger


def test_an_agent_alone_folds_again_and_again():
    """Seen: after the first base nobody could confirm it, and entries grew with every start."""
    pair = Pair(1, friends=())
    for nth in range(40):
        pair.restart()
        pair.me.observe("a", ONE, pair.me.begin_decision("a"))
        pair.pump(2)
        pair.compact()
        assert len(own_entries(pair.me)) <= 4
        assert count(pair.me) == nth + 2


def test_an_agent_alone_does_not_fold_what_it_may_not_write():
    """Another copy of it may still be writing."""
    pair = Pair(1, friends=())
    pair.me.receive("x", message(*(entry("me", n) for n in range(1, 9))), pair.now)
    pair.pump(2)
    pair.pump(2, seconds=2 * DAY)
    assert not pair.compact()


def forgotten(opened):
    """An agent that lost its disk; what it had done comes back."""
    pair = Pair(1, row=START, **CLOSED)
    pair.me.observe("a", WHOLE, pair.incarnations[0])
    if not opened:
        pair.me.observe("a", (0, 0, PER_UNIT, 0), pair.incarnations[0])
    pair.pump(3)
    lost = tune(agent("me", **CLOSED))
    lost.connect("friend")
    pair.agents["me"] = lost
    pair.pump(12)
    assert lost.evidence()["a"][-1] == 2 * PER_UNIT
    return pair


def test_decisions_that_a_lost_disk_left_open_leave_after_two_windows_and_a_rest():
    """Decision and expected reward together: nothing stays as a failure for ever."""
    pair = forgotten(opened=True)
    pair.compact()
    pair.pump(24, seconds=WINDOW / 10)
    pair.compact()
    assert count(pair.me) == 2
    pair.pump(5, seconds=WINDOW / 10)
    assert pair.compact()
    pair.pump(4)
    for each in pair.agents.values():
        assert each.evidence() == {"a": WHOLE}


@pytest.mark.parametrize("heard", [True, False])
def test_what_came_back_waits_for_a_neighbour_that_may_hold_more(heard):
    """Seen: 21 closed rewards that a neighbour held were gone when it was away for ten minutes."""
    pair = forgotten(opened=True)
    pair.me.connect("away")
    if heard:
        pair.me.receive("away", message(complete=True), pair.now)
    pair.compact()
    pair.pump(30, seconds=WINDOW / 10)
    assert pair.compact() == heard
    if heard:
        return
    ((_, number),) = {e.key for e in own_entries(pair.me)}
    row = {"a": (*(9 * x for x in WHOLE),)}
    pair.me.receive("away", message(entry("me", number, 50, made=9, evidence=row)), pair.now)
    pair.pump(3)
    assert count(pair.me) == count(pair.agents["friend"]) == 9


def test_what_came_back_waits_for_a_silent_neighbour_for_a_day():
    """One that is gone for good must not keep decisions open for ever."""
    pair = forgotten(opened=True)
    pair.me.connect("gone")
    pair.compact()
    pair.pump(11, seconds=DAY / 12)
    assert not pair.compact()
    pair.pump(3, seconds=DAY / 12)
    assert pair.compact()


@pytest.mark.parametrize("opened", [True, False])
def test_what_came_back_and_changes_again_is_waited_for_anew(opened):
    pair = forgotten(opened)
    pair.compact()
    pair.pump(24, seconds=WINDOW / 10)
    ((_, number),) = {e.key for e in own_entries(pair.me)}
    row = {"a": (PER_UNIT, PER_UNIT, PER_UNIT, 2 * PER_UNIT)}
    pair.agents["friend"].receive("x", message(entry("me", number, 50, made=3, evidence=row)), 1.0)
    pair.pump(12, seconds=WINDOW / 10)
    assert not pair.compact()


def test_what_came_back_closed_folds_after_a_quiet_day():
    pair = forgotten(opened=False)
    before = entry("me", 77, evidence={"a": WHOLE})
    pair.me.receive("old", message(before), pair.now)
    pair.me.compaction.fold_above = 0
    pair.compact()
    pair.pump(10, seconds=DAY / 11)
    assert not pair.compact()
    pair.pump(3, seconds=DAY / 11)
    assert pair.compact()
    assert count(pair.me) == 2 + 1
    assert pair.base.incarnation not in pair.me.incarnations.writable
    for _ in range(3):  # a base alone stays as it is
        pair.pump(3, seconds=DAY)
        assert not pair.compact()


def test_without_a_window_what_has_nothing_open_folds():
    """Seen: 20 ordinary restarts with wide rows, and neighbours refused all evidence for ever."""
    pair = Pair(8, window=None)
    assert pair.compact(pair.incarnations[2:3])
    assert [e.incarnation for e in own_entries(pair.me)] == [
        pair.incarnations[2],
        pair.incarnations[-1],
    ]
    assert not pair.me.is_superseded(pair.incarnations[2])
    assert count(pair.me) == 8


@pytest.mark.parametrize("window", [None, WINDOW])
def test_open_decisions_take_at_most_half_the_quota(window):
    pair = Pair(1, window=window, row=WHOLE, **CLOSED)
    arms = [f"{n:0200}" for n in range(600)]  # some 155 kB
    for _ in range(14):
        pair.restart()
        pair.me.connect("friend")
        pair.incarnations.append(pair.me.begin_decision("a"))
        for arm in arms:
            pair.me.observe(arm, WHOLE, pair.incarnations[-1])
        pair.pump(3)
        pair.compact(pair.incarnations)  # in each some decision is open
        pair.pump(3)
    assert not pair.agents["friend"].refusals
    assert 5 <= len(own_entries(pair.me)) <= 8
    for each in pair.agents.values():
        assert {count(each, arm) for arm in arms} == {14}


@pytest.mark.parametrize("wide", [False, True])
def test_an_agent_that_lost_its_disk_and_starts_again_and_again_compacts(wide):
    """Seen: what came back was met at each start, and entries grew until neighbours refused all."""
    pair = Pair(1, row=WHOLE, **CLOSED)
    arms = [f"{n:0200}" for n in range(600 if wide else 1)]  # some 155 kB
    pair.agents["me"] = tune(agent("me", **CLOSED))
    most = 0
    for nth in range(15 if wide else 40):
        if nth:
            pair.restart()
        pair.me.connect("friend")
        for arm in arms:
            pair.me.observe(arm, WHOLE, pair.me.begin_decision(arm))
        pair.pump(15, seconds=WINDOW / 10)  # two windows and a rest are more
        pair.compact()
        pair.pump(2)
        most = max(most, len(own_entries(pair.me)))
    assert most <= 8 + 3
    for each in pair.agents.values():
        assert count(each) == 1
        assert {count(each, arm) for arm in arms} == {nth + 1}
        assert not each.refusals


def test_few_entries_that_take_half_the_quota_fold():
    """Seen: eight wide entries were too few to fold, and neighbours refused the next ones."""
    pair = Pair(1, above=20, row=WHOLE, **CLOSED)
    arms = [f"{n:0200}" for n in range(600)]  # some 155 kB
    for _ in range(8):
        pair.restart()
        pair.me.connect("friend")
        for arm in arms:
            pair.me.observe(arm, WHOLE, pair.me.begin_decision(arm))
        pair.pump(3)
    assert pair.compact()
    assert len(own_entries(pair.me)) == 1  # the present one
    assert {count(pair.me, arm) for arm in arms} == {8}


def test_names_without_evidence_are_forgotten_also_without_a_window():
    pair = Pair(1, window=None)
    for _ in range(40):
        pair.restart()
        pair.me.begin_decision("a")
        save(pair.me)
    pair.pump(3)
    pair.compact()
    assert len(pair.me.incarnations.writable) <= 2


def test_without_a_window_only_the_oldest_beyond_many_fold():
    pair = Pair(8, window=None)
    pair.me.compaction.most_unfolded = 4
    assert pair.compact(pair.incarnations)
    folded = [each for each in pair.incarnations if pair.me.is_superseded(each)]
    assert folded == pair.incarnations[: len(folded)]
    assert len(own_entries(pair.me)) in (4, 5)
    assert count(pair.me) == 8


@pytest.mark.long
def test_a_thousand_restarts_take_little_room_anywhere():
    """Seen: after 2,089 crashes neighbours refused all that an agent observed, for ever."""
    pair, most = Pair(1, above=8), 0
    disk = json.loads(json.dumps(pair.me.state()))
    for _ in range(1000):
        process = tune(start(disk), above=8)
        pair.agents["me"] = process
        process.observe("a", ONE, process.begin_decision("a"))
        pair.pump(2)
        pair.compact()
        disk = save(process)
        most = max(most, len(own_entries(process)), len(pair.held()))
    assert most <= 8 + 3
    assert len(disk) <= 8 + 8
    pair.pump(3)
    assert count(pair.me) == count(pair.agents["friend"]) == 1001
    assert not pair.agents["friend"].refusals
    assert not pair.me.refusals


def test_starts_without_a_decision_leave_nothing():
    pair = Pair(2)
    for _ in range(20):
        pair.restart()
        pair.pump(3)
    assert len(save(pair.me)["own"]) <= 2
    assert len(own_entries(pair.me)) == 2


def test_a_commit_that_fails_undoes_a_fold():
    pair = Pair(6)
    before = save(pair.me)
    pair.me.tick(pair.now)
    pair.me.compact(())
    pair.me.changes()
    pair.me.rollback()
    assert save(pair.me) == before
    assert not any(map(pair.me.is_superseded, pair.incarnations))
    assert not pair.me.replica.is_covered(("me", pair.incarnations[0]))
    pair.pump(2)
    assert pair.compact()
    assert count(pair.me) == 6


def test_a_fold_that_takes_nothing_is_not_tried_again_before_its_turn():
    """Seen: every tick read all open decisions."""
    agents, now = crash_loop(40)
    mine = agents["me"]
    mine.compaction.every = 60
    opened = set(mine.incarnations.writable)
    while mine.sender.ticks % 60 == 0:
        now = pump(agents, now)
    assert mine.needs_compaction()
    mine.compact(opened)
    assert not mine.needs_compaction()
    mine.sender.ticks = 60
    assert mine.needs_compaction()
    mine.compact(())
    assert [each.version[0] for each in bases(mine)] == [40]


def test_a_lost_disk_is_not_taken_for_a_second_agent():
    """Seen: "stop the one that should not run", where nothing else ran."""
    pair = Pair(3)
    friend = pair.agents["friend"]
    pair.agents["me"] = tune(agent("me"))
    pair.me.connect("friend")
    assert count(friend) == 3
    pair.pump(6)
    assert count(pair.me) == 3
    assert pair.me.warnings() == []
    assert pair.me.compaction.twin_seen is None


def test_neighbours_that_know_the_past_unequally_are_not_taken_for_a_second_agent():
    """Seen: "stop the one that should not run", where a neighbour was behind in two entries."""
    pair = Pair(3, friends=("a", "b"))
    pair.agents["a"].disconnect("b")
    pair.agents["b"].disconnect("a")
    behind = pair.agents.pop("b")
    for each in pair.incarnations:
        pair.me.observe("a", ONE, each)
    pair.pump(12)
    pair.agents["me"] = tune(agent("me"))
    pair.me.connect("a")
    pair.me.connect("b")
    ahead = pair.agents.pop("a")
    pair.agents["b"] = behind
    pair.pump(40)
    pair.agents["a"] = ahead
    pair.pump(40)
    assert count(pair.me) == 6
    assert pair.me.warnings() == []


def test_a_twin_may_rest_for_as_many_ticks_as_it_takes():
    """Seen: with long ticks, what a resting agent told later was compacted already."""
    pair = forgotten(opened=True)
    pair.me.tick_seconds = 10 * WINDOW / pair.me.longest_rest
    pair.compact()
    pair.pump(11, seconds=WINDOW)
    assert not pair.compact()
    pair.pump(2, seconds=WINDOW)
    assert pair.compact()


def test_starts_whose_decisions_had_no_reward_leave_no_names():
    """Seen: after 300 such starts 300 names were on disk."""
    pair = Pair(1)
    for _ in range(40):
        pair.restart()
        pair.me.begin_decision("a")
        save(pair.me)
    pair.pump(3)
    assert len(pair.me.incarnations.writable) > 40
    pair.compact()
    assert len(pair.me.incarnations.writable) <= 2
