"""Bases: what stands for folded entries, on every disk that has folded some of them."""

from dataclasses import replace

import hypothesis
import hypothesis.strategies as st
import pytest

from posse.live.exchange import Entry
from posse.live.exchange.replica import Replica
from posse.live.ledger import PER_UNIT
from tests.live.exchange.origins import (
    ONE,
    agent,
    base,
    bases,
    count,
    entry,
    link,
    message,
    own_entries,
    pump,
    save,
    start,
)
from tests.live.exchange.restarts import CLOSED, DAY, WHOLE, WINDOW, Pair, crash_loop, tune


@pytest.mark.parametrize("wins", [True, False])
def test_two_futures_of_a_disk_that_fold_apart_keep_one_base(wins):
    pair = Pair(5)
    disk = save(pair.me)
    assert pair.compact()
    mine = pair.base
    pair.pump(3)
    pair.restart(disk)
    other = base("me", covers=(*mine.covers[:2], 77), pulls=3, made=9 if wins else 3)
    pair.agents["friend"].receive("x", message(other), pair.now)
    pair.pump(6)
    kept = other if wins else mine
    assert [each.key for each in bases(pair.me)] == [kept.key]
    assert [each.key for each in bases(pair.agents["friend"])] == [kept.key]
    # the restored disk still has the entries that only the smaller base covered
    assert count(pair.me) == count(pair.agents["friend"]) == (3 + 3 if wins else 4 + 1)


def test_a_base_that_has_a_thousand_names_is_followed_by_another():
    """Seen: the oldest names were dropped, and an entry of one that came back counted twice."""
    pair = Pair(6)
    assert pair.compact()
    pair.pump(3)
    first = pair.base
    full = replace(first, covers=(*first.covers, *range(1, 1025 - 5)), version=(1024, 9, 9))
    pair.me.replica.keep(full)
    for _ in range(3):
        pair.restart()
        pair.me.observe("a", ONE, pair.me.begin_decision("a"))
        pair.pump(3)
    assert pair.compact()
    held, new = bases(pair.me)
    assert held.covers == full.covers
    assert len(new.covers) == 3
    pair.pump(4)
    assert bases(pair.agents["friend"]) == bases(pair.me)
    assert count(pair.me) == count(pair.agents["friend"]) == 9
    for each in (*pair.incarnations[:5], 1, 1000):
        pair.me.receive("old", message(entry("me", each, 50, made=99)), pair.now)
    assert count(pair.me) == 9


def test_more_entries_than_a_base_has_names_fold_in_parts_and_count_once():
    """Seen: 1,200 rewards counted 1,376 times, for one fold dropped names that no base had had."""
    agents, now = crash_loop(1200)
    mine = agents["me"]
    for _ in range(40):
        if mine.needs_compaction():
            mine.compact(())
        save(mine)
        now = pump(agents, now, 2)
        assert count(mine) == count(agents["friend"]) == 1200
    assert len(own_entries(mine)) <= 2
    assert sorted(len(each.covers) for each in bases(mine)) == [1200 - 1024, 1024]
    assert mine.neighbours()["friend"].lag == 0


def test_arms_that_come_and_go_share_a_base():
    """Seen: 900 of the same 1,500 arms a day, and after 42 days neighbours refused everything."""
    pair = Pair(1, row=WHOLE, **CLOSED)
    arms = [f"arm-{n}" for n in range(1500)]
    for nth in range(12):
        pair.restart()
        pair.me.connect("friend")
        pair.pump(3)
        for arm in (arms[300 * nth % 1500 :] + arms)[:900]:
            pair.me.observe(arm, WHOLE, pair.me.begin_decision(arm))
        pair.pump(3)
        pair.compact()
        pair.pump(4)
    assert len(own_entries(pair.me)) <= 3
    assert len(pair.base.arms) == 1501
    for each in pair.agents.values():
        assert count(each) == 1
        assert sum(count(each, arm) for arm in arms) == 12 * 900
        assert not each.refusals


NINE = {"a": (*(9 * x for x in WHOLE),)}


def test_long_names_for_which_a_base_has_no_room_begin_another():
    pair = Pair(1, row=WHOLE, **CLOSED)
    arms = [f"{n}".rjust(200, "\u6f22") for n in range(870)]  # 575 kB
    for first in (0, 290, 580):
        pair.restart()
        pair.me.connect("friend")
        pair.pump(3)
        for arm in arms[first : first + 290]:
            pair.me.observe(arm, WHOLE, pair.me.begin_decision(arm))
        pair.pump(3)
    pair.restart()
    pair.me.connect("friend")
    pair.me.observe("a", WHOLE, pair.me.begin_decision("a"))
    pair.pump(3)
    assert pair.compact()
    pair.pump(4)
    assert len(own_entries(pair.me)) == 1  # the present one
    assert bases(pair.me) == bases(pair.agents["friend"])
    assert len(bases(pair.me)) == 3
    assert {count(pair.agents["friend"], arm) for arm in arms} == {1}
    assert not pair.agents["friend"].refusals


def test_a_base_is_not_written_again_before_a_neighbour_has_it():
    """Neighbours that never met one version of it could not tell that another process wrote it."""
    pair = Pair(8)
    assert pair.compact(pair.incarnations[:4])
    number = pair.base.incarnation
    assert not pair.compact()
    pair.pump(3)
    assert pair.compact()
    assert pair.base.incarnation == number
    assert len(pair.base.covers) == 7


@pytest.mark.parametrize("made", [1, 9, 5000])  # its version may be smaller or larger
def test_a_lost_disk_that_folded_before_it_heard_of_its_base_keeps_both(made):
    """Seen: 17 of 26 acknowledged rewards were left."""
    pair = Pair(4, row=WHOLE, **CLOSED)
    assert pair.compact()
    pair.pump(3)
    before = base("me", (*range(1, 10),), made=made, evidence=NINE)
    for _ in range(2):
        pair.me.receive("old", message(before), pair.now)
        pair.pump(4)
        assert count(pair.me) == count(pair.agents["friend"]) == 4 + 9
    assert not any("compacted" in sentence for sentence in pair.me.warnings())


def test_a_base_that_came_back_folds_after_a_quiet_day():
    """An agent that is restored again and again does not keep a base for each of its pasts."""
    pair = Pair(4, row=WHOLE, **CLOSED)
    assert pair.compact()
    pair.pump(3)
    mine = pair.base
    before = [
        base("me", (*range(1, 10),), number=91, evidence=NINE),
        base("me", (*range(11, 20),), number=92, evidence=NINE),
    ]
    pair.me.receive("old", message(*before), pair.now)
    pair.pump(3, seconds=DAY / 2)
    pair.me.compaction.fold_above = 0
    assert pair.compact()
    (folded,) = [each for each in bases(pair.me) if each.key != mine.key]
    assert {91, 92, *range(1, 10), *range(11, 20)} == set(folded.covers)
    assert folded.version > max(each.version for each in before)
    pair.pump(4)
    assert count(pair.me) == count(pair.agents["friend"]) == 4 + 18
    pair.me.receive("old", message(*before), pair.now)
    assert count(pair.me) == 4 + 18


def test_a_base_that_came_back_and_is_half_full_is_left_as_it_is():
    """Seen: it folded alone into a new base every day, for it did not fit into the other one."""
    pair = Pair(1, row=WHOLE, **CLOSED)
    pair.me.compaction.most_names = 9
    pair.me.compaction.fold_above = 0
    before = [
        base("me", (*range(1, 8),), number=91, evidence=NINE),
        base("me", (11, 12), number=92, evidence=NINE),
    ]
    pair.me.receive("old", message(*before), pair.now)
    for _ in range(4):
        pair.pump(3, seconds=DAY / 2)
        pair.compact()
    assert {each.incarnation for each in bases(pair.me)} == {91, 92}
    assert count(pair.me) == count(pair.agents["friend"]) == 1 + 18


def test_what_this_disk_wrote_does_not_fall_with_what_came_back():
    """Seen: eight rewards that every agent held were gone when a neighbour came back with more."""
    pair = Pair(5, row=WHOLE, friends=("friend", "away"), **CLOSED)
    pair.me.reward_window = None
    assert pair.compact()
    pair.pump(3)
    (held,) = bases(pair.me)
    row = {"a": (*(20 * x for x in WHOLE),)}
    more = base("me", (*held.covers, 7, 8), held.incarnation, made=99, evidence=row)
    pair.agents["away"].receive("old", message(more), pair.now)
    away = pair.agents.pop("away")
    pair.agents["me"] = tune(agent("me", **CLOSED), above=0)  # the disk is lost
    pair.me.connect("friend")
    pair.me.connect("away")
    pair.pump(40)
    for _ in range(8):
        pair.me.incarnations.present = 0
        pair.me.observe("b", WHOLE, pair.me.begin_decision("b"))
    pair.me.incarnations.present = 0
    for _ in range(8):
        pair.pump(20, seconds=DAY / 40)
        pair.compact()
    assert not own_entries(pair.me)
    assert len(bases(pair.me)) == 2
    pair.agents["away"] = away
    pair.pump(40)
    for each in pair.agents.values():
        assert count(each, "b") == 8
        assert count(each, "a") == 20 + 1


def test_a_base_of_which_a_neighbour_has_more_is_not_written_again():
    """Another process has this disk, or a copy of it, and its base."""
    pair = Pair(4, row=WHOLE, **CLOSED)
    assert pair.compact()
    pair.pump(3)
    mine = pair.base
    rows = {"a": (*(5 * x for x in WHOLE),)}
    theirs = base("me", (*mine.covers, 77, 78), number=mine.incarnation, made=9, evidence=rows)
    pair.me.receive("other", message(theirs), pair.now)
    pair.pump(3)
    for _ in range(3):
        pair.restart()
        pair.me.observe("a", WHOLE, pair.me.begin_decision("a"))
        pair.pump(3)
    assert not pair.compact()  # the other process may be at work
    pair.pump(3, seconds=WINDOW)
    assert pair.compact()
    kept, new = sorted(bases(pair.me), key=lambda each: each.key != theirs.key)
    assert (kept.key, kept.version) == (theirs.key, theirs.version)
    assert not set(kept.covers) & set(new.covers)
    pair.pump(3)
    assert count(pair.me) == count(pair.agents["friend"]) == 5 + 1 + 3


def test_two_agents_of_one_name_write_two_bases():
    """Seen: both folded into one base in the same tick, and an acknowledged reward was lost."""
    twins = [tune(agent("me", **CLOSED)) for _ in range(2)]
    friend = agent("friend", **CLOSED)
    for each in twins:
        each.connect("friend")
    friend.connect("me")
    agents, now = {"me": twins, "friend": friend}, 0.0
    for _ in range(5):
        for each in twins:
            each.incarnations.present = 0
            each.observe("a", WHOLE, each.begin_decision("a"))
        now = pump(agents, now, 3)
    now = pump(agents, now, 12)
    for each in twins:  # both forget that the other one was at work lately
        long_ago = each.compaction._told_at = now - 4 * WINDOW
        each.compaction._changed_at = dict.fromkeys(each.compaction._changed_at, long_ago)
        assert each.needs_compaction()
        each.compact(())
        save(each)
    pump(agents, now, 6)
    for each in (*twins, friend):
        assert count(each) == 10
        assert len(bases(each)) == 2
        assert not each.refusals


def test_a_base_of_rounded_numbers_stays_within_the_bounds_of_neighbours():
    """Seen: neighbours refused a base of 140 rounded matrices, and nothing was folded again."""
    half_life, now = 1000.0, 100 * 1000.0 + 485.5
    options = {"bounds": (1.0,) * 8, "closed": 3, "features": 2, "half_life": half_life}
    me, friend = (agent(name, clock=lambda: now, **options) for name in ("me", "friend"))
    agents = link(me, friend)
    gram = (9 * PER_UNIT // 16, 12 * PER_UNIT // 16, PER_UNIT)
    for _ in range(140):
        me.incarnations.present = 0
        me.observe("a", (*gram, *gram, PER_UNIT, PER_UNIT), me.begin_decision("a"), now)
    for each in agents.values():
        each.tick(now)
    now = pump(agents, now, 3)
    me = agents["me"] = tune(start(save(me), clock=lambda: now, **options), window=5.0)
    now += 20 * half_life
    for _ in range(8):
        now = pump(agents, now, 2)
        if me.needs_compaction():
            me.compact(())
        save(me)
    now = pump(agents, now, 3)
    assert not own_entries(me)
    assert sum(len(each.covers) for each in bases(me)) == 140
    assert bases(friend) == bases(me)
    assert not friend.refusals


# ---- whatever arrives, in any order

BITS = 12  # incarnations, of which each has a digit of its own in the sums


@st.composite
def pasts(draw):
    """Entries and bases of one origin that any copies of its disk can have written."""
    entries = []
    for _ in range(draw(st.integers(2, 10))):
        names = draw(st.sets(st.integers(1, BITS), min_size=1, max_size=5))
        version = draw(st.tuples(st.integers(1, 2), st.just(1), st.integers(0, 1)))
        number = draw(st.integers(BITS + 1, BITS + 4)) if len(names) > 1 else min(names)
        rows = {"a": (sum(8**name for name in names),)}
        covers = tuple(sorted(names)) if len(names) > 1 else ()
        entries.append(Entry.from_ledger(("me", number), version, rows, covers=covers))
    return entries


@hypothesis.given(pasts(), st.randoms(use_true_random=False))
def test_replicas_agree_and_count_each_incarnation_once(entries, random):
    replicas = [Replica() for _ in range(3)]
    first = {}
    for each in entries:  # of one version there is one content
        first.setdefault((each.key, each.version), each)
    said = [(replica, each) for replica in replicas for each in first.values()]
    random.shuffle(said)
    for replica, each in said[: random.randrange(len(said) + 1)]:
        take(replica, each)
    for _ in range(4 * len(said)):  # they tell each other all that they hold
        before = [dict(replica.entries) for replica in replicas]
        for one in replicas:
            for other in replicas:
                for each in list(one.entries.values()):
                    take(other, each)
        if before == [dict(replica.entries) for replica in replicas]:
            break
    assert replicas[0].entries == replicas[1].entries == replicas[2].entries


def take(replica, said):
    if replica.is_news(said):
        replica.keep(said)
    (total,) = replica.totals.get(0, {}).get("a", (0,))
    assert all(total // 8**name % 8 <= 1 for name in range(BITS + 1))
    names = [n for each in replica.entries.values() for n in each.covers or [each.incarnation]]
    assert len(names) == len(set(names))


@hypothesis.given(pasts(), st.randoms(use_true_random=False))
def test_a_commit_that_fails_leaves_what_was_covered(entries, random):
    replica = Replica()
    for each in entries[: len(entries) // 2]:
        take(replica, each)
    replica.commit()
    before = dict(replica.entries), dict(replica.totals.get(0, {}))
    for each in entries[len(entries) // 2 :]:
        take(replica, each)
    replica.rollback()
    assert (replica.entries, replica.totals.get(0, {})) == before
    again = Replica()
    for each in before[0].values():
        again.keep(each)
    assert replica._covered.get("me", {}) == again._covered.get("me", {})
