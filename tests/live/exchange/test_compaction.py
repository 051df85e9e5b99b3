"""Compaction: entries that nobody will write again fold into a base, under every condition."""

import json

import pytest

from posse.live.ledger import PER_UNIT
from tests.live.exchange.origins import (
    ONE,
    agent,
    base,
    count,
    entry,
    link,
    message,
    own_entries,
    pump,
    save,
    start,
)

WINDOW, DAY = 100.0, 86_400.0
CLOSED = {"bounds": (1.0, 1.0, 1.0, 1.0), "closed": 1}
START, WHOLE = (0, 0, 0, PER_UNIT), (PER_UNIT, PER_UNIT, PER_UNIT, PER_UNIT)


def tune(process, window=WINDOW, above=2):
    process.reward_window = window
    process.compaction.every, process.compaction.fold_above = 1, above
    process.tick_seconds = WINDOW / 2 / process.longest_rest
    return process


class Pair:
    """An agent that was started several times, with one decision in each, and its neighbour."""

    def __init__(self, starts=6, window=WINDOW, above=2, friends=("friend",), row=ONE, **options):
        self.window, self.above, self.now, self.options = window, above, 0.0, options
        mine = tune(agent("me", **options), window, above)
        self.agents = link(mine, *(agent(name, **options) for name in friends))
        self.incarnations = []
        for nth in range(starts):
            if nth:
                self.restart()
            self.incarnations.append(self.me.begin_decision("a"))
            self.me.observe("a", row, self.incarnations[-1])
            self.pump(3)

    @property
    def me(self):
        return self.agents["me"]

    def pump(self, rounds=1, seconds=1.0):
        self.now = pump(self.agents, self.now, rounds, seconds)

    def restart(self, disk=None):
        process = start(disk or save(self.me), **self.options)
        self.agents["me"] = tune(process, self.window, self.above)

    def compact(self, opened=()):
        """What the store does after a tick; returns whether something was folded."""
        before = self.base_version()
        if self.me.needs_compaction():
            self.me.compact(opened)
        save(self.me)
        return self.base_version() != before

    def base_version(self):
        return self.me.replica.version(("me", 0))

    def held(self, name="friend"):
        return {e.incarnation for e in self.agents[name].replica.of_origin("me")}


def test_old_incarnations_fold_into_one_base_that_neighbours_take():
    pair = Pair(6)
    assert count(pair.me) == 6
    assert pair.compact()
    *old, present = pair.incarnations
    assert {e.incarnation for e in own_entries(pair.me)} == {present}
    assert pair.base_version()[0] == 5
    assert all(pair.me.is_superseded(each) for each in old)
    assert not pair.me.is_superseded(present)
    pair.pump(4)
    assert pair.held() == {0, present}
    assert count(pair.me) == count(pair.agents["friend"]) == 6
    assert not pair.agents["friend"].refusals
    pair.restart()
    assert count(pair.me) == 6


CONDITIONS = {
    "few entries": lambda pair: setattr(pair.me.compaction, "fold_above", 5),
    "all have open decisions": lambda pair: pair.incarnations,
    "there is no reward window": lambda pair: setattr(pair.me, "reward_window", None),
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
        "friend", message(holds=(("me", 0, 3, 1, 1),)), pair.now
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
    pair.me.compaction.fold_above = 0
    pair.compact()
    pair.pump(10, seconds=DAY / 11)
    assert not pair.compact()
    pair.pump(3, seconds=DAY / 11)
    assert pair.compact()
    assert count(pair.me) == 2


def test_without_a_window_only_the_oldest_beyond_many_fold():
    pair = Pair(8, window=None)
    pair.me.compaction.most_unfolded = 4
    assert pair.compact(pair.incarnations)
    folded = [each for each in pair.incarnations if pair.me.is_superseded(each)]
    assert folded == pair.incarnations[: len(folded)]
    assert len(own_entries(pair.me)) in (4, 5)
    assert count(pair.me) == 8


@pytest.mark.parametrize("wins", [True, False])
def test_two_futures_of_a_disk_that_fold_apart_keep_one_base(wins):
    pair = Pair(5)
    disk = save(pair.me)
    assert pair.compact()
    mine = pair.me.replica.entries["me", 0]
    pair.restart(disk)
    number = pair.base_version()[0] + (9 if wins else 1)
    other = base("me", covers=(*mine.covers[:2], 77), pulls=3, made=number)
    pair.agents["friend"].receive("x", message(other), pair.now)
    pair.pump(6)
    assert count(pair.me) == count(pair.agents["friend"]) <= 6
    assert pair.me.replica.entries["me", 0].version >= other.version


def test_covers_keep_the_newest_thousand_names():
    pair = Pair(6)
    many = tuple(range(1, 1023))
    for each in pair.agents.values():
        each.receive("x", message(base("me", covers=many, pulls=1022)), pair.now)
    pair.pump(3)
    assert not pair.compact()  # another agent of this name may have written it just now
    pair.now += 3 * WINDOW
    pair.pump(3)
    assert pair.compact()
    covers = pair.me.replica.entries["me", 0].covers
    assert len(covers) == 1024
    assert set(pair.incarnations[:-1]) < set(covers)
    assert pair.base_version()[0] == 1022 + 5
    pair.pump(4)
    assert count(pair.agents["friend"]) == 1022 + 6


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


def crash_loop(starts):
    """An agent that was started very often, with one decision in each start, and its neighbour."""
    mine, friend = tune(agent("me", **CLOSED)), agent("friend", **CLOSED)
    agents = link(mine, friend)
    for _ in range(starts):
        mine.incarnations.present = 0
        mine.observe("a", WHOLE, mine.begin_decision("a"))
    mine.incarnations.present = 0
    now = pump(agents, 0.0, starts // 200 + 12)
    assert count(friend) == count(mine) == starts
    return agents, now


def test_more_entries_than_a_base_has_names_fold_in_parts_and_count_once():
    """Seen: 1,200 rewards counted 1,376 times, for one fold dropped names that no base had had."""
    agents, now = crash_loop(1200)
    mine = agents["me"]
    for _ in range(40):
        assert mine.needs_compaction() == bool(len(own_entries(mine)) > 2)
        if mine.needs_compaction():
            mine.compact(())
        save(mine)
        now = pump(agents, now, 2)
        assert count(mine) == count(agents["friend"]) == 1200
    assert len(own_entries(mine)) <= 2
    assert mine.neighbours()["friend"].lag == 0


def test_a_base_takes_the_entries_for_which_it_has_room_and_the_others_are_named():
    """Seen: one entry too many, and nothing was ever folded again."""
    pair = Pair(1, row=WHOLE, **CLOSED)
    arms = [f"arm-{n}" for n in range(1200)]
    for first in (0, 400, 800):
        pair.restart()
        pair.me.connect("friend")
        pair.pump(3)
        for arm in arms[first : first + 400]:
            pair.me.observe(arm, WHOLE, pair.me.begin_decision(arm))
        pair.pump(3)
    pair.restart()
    pair.me.connect("friend")
    pair.me.observe("a", WHOLE, pair.me.begin_decision("a"))
    pair.pump(3)
    assert pair.compact()
    pair.pump(4)
    assert len(own_entries(pair.me)) == 2  # the present one, and 400 arms that do not fit
    assert len(pair.me.replica.entries["me", 0].arms) == 801
    for each in pair.agents.values():
        assert count(each) == 2
        assert {arm: count(each, arm) for arm in arms} == dict.fromkeys(arms, 1)
    assert any("not compacted" in sentence for sentence in pair.me.warnings())


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
    assert mine.replica.version(("me", 0))[0] == 40


NINE = {"a": (*(9 * x for x in WHOLE),)}


def lost_and_folded():
    """An agent that lost its disk and folds, with what it folded, and its base from before."""
    pair = Pair(4, row=WHOLE, **CLOSED)
    assert pair.compact()
    pair.pump(3)
    folded = pair.me.replica.entries["me", 0].covers
    return pair, folded, base("me", (*range(1, 10),), made=9, evidence=NINE)


def test_a_lost_disk_that_folded_before_it_heard_of_its_base_keeps_both():
    """Seen: 17 of 26 acknowledged rewards were left."""
    pair, folded, before = lost_and_folded()
    pair.me.receive("old", message(before), pair.now)
    joined = pair.me.replica.entries["me", 0]
    assert set(joined.covers) == {*folded, *before.covers}
    assert joined.version > before.version
    assert not any("compacted" in sentence for sentence in pair.me.warnings())
    pair.pump(4)
    assert count(pair.me) == count(pair.agents["friend"]) == 4 + 9
    pair.me.receive("old", message(before), pair.now)  # again
    assert count(pair.me) == 4 + 9


@pytest.mark.parametrize("many", [False, True])
def test_bases_that_may_have_an_incarnation_in_common_are_not_joined(many):
    pair, folded, _ = lost_and_folded()
    names = range(2000, 3024 - 2) if many else range(2000, 2009)
    covers = (*names,) if many else (folded[0], *names)
    pair.me.receive("old", message(base("me", covers, made=5000, evidence=NINE)), pair.now)
    assert pair.me.replica.entries["me", 0].covers == covers
    assert any("compacted" in sentence for sentence in pair.me.warnings())


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
