"""The rest after a start: own entries are not written before neighbours were asked."""

import itertools

import pytest

from posse.live.exchange import Flows, Origins
from posse.live.ledger import PER_UNIT
from tests.live.exchange.origins import (
    ONE,
    agent,
    count,
    entry,
    link,
    message,
    own_entries,
    pump,
    save,
    start,
)

GRACE = 3


def told(process, now=0.0):
    """The versions that it would send to a new neighbour."""
    process.connect("new")
    return {e.key: e.version for to, out in process.tick(now) if to == "new" for e in out.entries}


def decided(*near, **options):
    """The disk of an agent with one decision that is open, and its incarnation."""
    first = agent("me", **options)
    for name in near:
        first.connect(name)
    incarnation = first.begin_decision("a")
    first.observe("a", ONE, incarnation)
    first.tick(0.0)
    return save(first), incarnation


def restarted(*near):
    disk, incarnation = decided(*near)
    process = start(disk)
    process.grace_ticks, process.longest_rest = GRACE, 10 * GRACE
    return process, incarnation


def asked(process, now):
    """What it asks of each neighbour in a tick."""
    outgoing = process.tick(now)
    save(process)
    return {to: out.asks for to, out in outgoing}


def answer(process, question, *, holds=(), first=("me", 0), last=("me", 2**62)):
    return message(holds=holds, complete=True, first=first, last=last, answers=question)


def test_a_new_agent_does_not_rest_and_one_without_neighbours_ends_it_at_the_first_tick():
    assert not agent().incarnations.resting
    process, incarnation = restarted()
    assert process.incarnations.resting
    process.observe("a", ONE, incarnation)
    process.tick(1.0)
    assert not process.incarnations.resting
    assert len(own_entries(process)) == 1
    assert own_entries(process)[0].pulls() == 2 * PER_UNIT


def test_a_neighbour_lags_behind_by_what_waits():
    """Seen: an operator replaced the disk at a lag of 0, and acknowledged rewards were lost."""
    process, incarnation = restarted("left", "right")
    process.begin_decision("a")
    (question,) = {number for _, number in asked(process, 1.0).values()}
    holds = tuple(entry.holding for entry in own_entries(process))
    process.receive("left", answer(process, question, holds=holds), 1.0)
    assert process.neighbours()["left"].lag == 0
    process.observe("a", ONE, incarnation)
    again = start(save(process))  # what waits is on disk
    again.receive("left", message(holds=holds, complete=True), 1.0)
    for each in (process, again):
        assert each.incarnations.resting
        assert each.neighbours()["left"].lag == 1
        assert each.neighbours()["right"].lag is None
    process.receive("right", answer(process, question, holds=holds), 1.0)
    process.tick(2.0)
    assert not process.incarnations.resting
    assert process.neighbours()["left"].lag == 1
    holds = tuple(entry.holding for entry in own_entries(process))
    process.receive("left", message(holds=holds, complete=True), 3.0)
    assert process.neighbours()["left"].lag == 0


def test_rewards_count_here_at_once_are_durable_and_are_told_after_the_rest():
    process, incarnation = restarted("left", "right")
    before = {e.key: e.version for e in own_entries(process)}
    process.observe("a", ONE, incarnation)
    assert count(process) == 2
    assert process.own() == process.evidence()
    assert {e.key: e.version for e in own_entries(process)} == before  # the entry rests
    (question,) = {number for _, number in asked(process, 1.0).values()}
    again = start(save(process))  # killed while it rests
    assert count(again) == 2
    process.receive("left", answer(process, question), 1.0)
    assert process.incarnations.resting
    assert asked(process, 2.0)["right"] == ("me", question)
    process.receive("right", answer(process, question), 2.0)
    process.tick(3.0)
    assert not process.incarnations.resting
    assert count(process) == 2
    ((key, version),) = told(process, 4.0).items()
    assert version > before[key]
    assert own_entries(process)[0].pulls() == 2 * PER_UNIT
    assert count(start(save(process))) == 2


def test_a_new_decision_is_told_during_the_rest():
    process, _ = restarted("left")
    present = process.begin_decision("b")
    process.observe("b", ONE, present)
    assert ("me", present) in told(process, 1.0)
    assert process.incarnations.resting


def test_only_the_answer_to_this_process_ends_the_rest():
    process, _ = restarted("left")
    _, question = asked(process, 1.0)["left"]
    assert question
    earlier, _ = restarted("left")
    assert asked(earlier, 1.0)["left"][1] != question
    everything = answer(process, 0, first=("", 0), last=("", 0))
    for said in (answer(process, question + 1), answer(process, 0), everything, message()):
        process.receive("left", said, 1.0)
        process.tick(1.5)
        assert process.incarnations.resting
    process.receive("left", answer(process, question), 2.0)
    process.tick(3.0)
    assert not process.incarnations.resting
    assert asked(process, 4.0).get("left", ("", 0)) == ("", 0)


def test_neighbours_answer_with_all_that_they_hold_of_the_one_that_asks():
    mine = agent("left")
    mine.receive("x", message(entry("me", 5), entry("me", 7, 3), entry("other")), 0.0)
    answers = mine.receive("me", message(asks=("me", 77)), 1.0)
    (shown,) = [said for _, said in answers if said.answers]
    assert shown.answers == 77
    assert shown.complete
    assert {hold[:2] for hold in shown.holds} == {("me", 5), ("me", 7)}
    assert shown.first <= ("me", 0)
    assert ("me", 7) < shown.last < ("other", 0)


def test_the_rest_lasts_until_what_neighbours_showed_is_here():
    process, incarnation = restarted("left")
    process.observe("a", ONE, incarnation)
    _, question = asked(process, 1.0)["left"]
    more = entry("me", incarnation, seq=9, pulls=4, made=3)
    process.receive("left", answer(process, question, holds=(more.holding,)), 1.0)
    process.tick(2.0)
    assert process.incarnations.resting
    process.receive("left", message(more), 2.0)
    process.tick(3.0)
    assert not process.incarnations.resting
    assert count(process) == 4  # what waited is dropped with its decision


@pytest.mark.parametrize("heard", [False, True])
def test_the_grace_period_ends_it_if_all_that_were_heard_have_answered(heard):
    process, _ = restarted("left", "silent")
    _, question = asked(process, 1.0)["left"]
    if heard:  # and it does not answer
        process.receive("silent", message(entry("silent")), 1.0)
    process.receive("left", answer(process, question), 1.0)
    ticks = 1
    while process.incarnations.resting:
        ticks += 1
        process.tick(float(ticks))
    assert ticks == (10 * GRACE if heard else GRACE)


def test_what_waited_is_dropped_and_counted_when_a_neighbour_has_more():
    process, incarnation = restarted("left")
    for _ in range(2):
        process.observe("a", ONE, incarnation)
    assert count(process) == 3
    # larger than the entry, though not than the entry with what waits
    process.receive("left", message(entry("me", incarnation, seq=2, pulls=1, made=2)), 1.0)
    assert count(process) == 1
    assert process.is_superseded(incarnation)
    assert process.warnings()
    assert not process.warnings()  # once
    process.observe("a", ONE, incarnation)
    assert count(process) == 1
    assert process.refusals["superseded"] >= 1
    assert count(start(save(process))) == 1


def test_the_same_version_supersedes_nothing():
    process, incarnation = restarted("left")
    process.receive("left", message(*own_entries(process)), 1.0)
    assert not process.is_superseded(incarnation)
    process.observe("a", ONE, incarnation)
    assert count(process) == 2


@pytest.mark.parametrize("when", ["during", "after"])
def test_a_commit_that_fails_at_the_end_of_the_rest_keeps_what_waited(when):
    """Seen: it counted here, and neighbours were told of it only after the next start."""
    process, incarnation = restarted("friend")
    friend = agent("friend")
    friend.connect("me")
    process.observe("a", ONE, incarnation)
    (_, question) = asked(process, 1.0)["friend"]
    if when == "after":
        process.receive("friend", answer(process, question), 1.0)
        save(process)
    process.tick(2.0)
    process.changes()
    process.rollback()
    assert count(process) == 2
    pump({"me": process, "friend": friend}, 3.0, rounds=4)
    assert not process.incarnations.resting
    assert count(friend) == count(process) == 2


@pytest.mark.parametrize("restarts", [1, 3])
def test_a_reward_that_waits_through_kills_counts_once(restarts):
    process, incarnation = restarted("friend")
    process.observe("a", ONE, incarnation)
    for _ in range(restarts):
        process.tick(1.0)
        process = start(save(process))
    friend = agent("friend")
    agents = link(process, friend)
    pump(agents, 2.0, rounds=4)
    assert count(process) == count(friend) == 2
    assert len(own_entries(process)) == 1
    assert not friend.refusals


@pytest.mark.parametrize("exchange", [Origins, Flows])
def test_no_incarnation_is_superseded_without_a_copy(exchange):
    mine = exchange(fingerprint="f", bounds=(1.0, 1.0))
    incarnation = mine.begin_decision("a")
    assert not mine.is_superseded(incarnation)
    assert not mine.is_superseded(0)  # of a store without incarnations
    assert mine.warnings() == []


def test_the_reward_of_a_decision_has_the_room_that_was_reserved_for_it():
    """Seen: a restart forgot the empty row, and 800 long names of arms had taken its place."""
    first = agent("me")
    opened = first.begin_decision("short")
    for number in itertools.count():
        arm = f"{number}-".ljust(191, "x")
        if first.begin_decision(arm) != opened:
            break
        first.observe(arm, ONE, opened)
    process = start(save(first))
    process.tick(1.0)
    process.observe("short", ONE, opened)
    assert process.own()["short"] == ONE
    assert not process.refusals
