"""Of two versions the larger wins whole: copies put back, lost disks, twins, and bases."""

import copy
import itertools
import random

import pytest

from posse.live.exchange import Origins
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
from tests.live.exchange.world import World, two

VERSIONS = [(1, 1, 5), (1, 2, 3), (1, 2, 4), (2, 1, 0)]  # each is larger than those before it


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_larger_version_wins_whole_in_any_order(order):
    """Decisions begun first, then the counter, then the random number; pulls do not matter."""
    mine = agent()
    for nth in order:
        (made, seq, nonce) = VERSIONS[nth]
        said = entry(made=made, seq=seq, nonce=nonce, evidence={f"arm{nth}": (0, (9 - nth) << 20)})
        mine.receive("peer", message(said, said), 0.0)
    assert mine.evidence() == {"arm3": (0, 6 * PER_UNIT)}
    assert mine.replica.version(("other", 1)) == VERSIONS[3]
    assert not mine.refusals


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_base_stands_for_what_it_covers_in_any_order(order):
    covered = [entry(incarnation=1, pulls=2), entry(incarnation=2, pulls=3)]
    said = [*covered, base(covers=(1, 2), pulls=5), entry(incarnation=3, pulls=7)]
    mine = agent()
    for nth in order:
        ((_, answer),) = mine.receive("peer", message(said[nth]), 0.0)
        assert answer.holds  # also what is covered is acknowledged, or it would come for ever
    assert count(mine) == 12
    assert {e.incarnation for e in mine.replica.of_origin("other")} == {99, 3}
    assert mine.replica.is_covered(("other", 1))
    assert mine.pulls_by_origin()["other"] == 12
    again = start(save(mine))
    assert again.evidence() == mine.evidence()
    again.receive("peer", message(entry(incarnation=1, seq=9, pulls=9, made=9)), 1.0)
    assert count(again) == 12


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_two_bases_that_differ_the_larger_one_is_kept_whole(order):
    said = [base(covers=(1, 2), pulls=5), base(covers=(3, 2, 4), pulls=6), entry(incarnation=1)]
    agents = [agent(name) for name in ("me", "third")]
    for mine in agents:
        for nth in order:
            mine.receive("peer", message(said[nth]), 0.0)
            assert count(mine) <= 7
        # what the smaller one covered may come back by itself, and counts once
        mine.receive("peer", message(said[2]), 1.0)
        assert count(mine) == 7


def test_an_own_base_that_covers_the_present_incarnation_opens_another():
    mine = agent("me")
    old = mine.begin_decision("a")
    mine.observe("a", ONE, old)
    mine.receive("peer", message(base("me", covers=(old, 5), pulls=3)), 0.0)
    assert mine.is_superseded(old)
    new = mine.begin_decision("a")
    assert new not in (old, 0)
    mine.observe("a", ONE, new)
    assert count(mine) == 4
    assert mine.warnings()


def test_an_own_base_that_is_overruled_is_not_written_again():
    mine = agent("me")
    mine.incarnations.writable = {1: None, 2: None}
    mine.compaction._write_bases([], [entry("me", 1), entry("me", 2)])
    (number,) = mine.incarnations.writable
    mine.receive("peer", message(base("me", covers=(2, 3, 4), pulls=3)), 0.0)
    assert number not in mine.incarnations.writable
    assert [each.incarnation for each in mine.replica.of_origin("me")] == [99]


def test_an_own_base_that_is_overruled_is_said():
    mine = agent("me")
    mine.receive("peer", message(base("me", covers=(1, 2), pulls=2)), 0.0)
    mine.warnings()
    mine.receive("peer", message(base("me", covers=(2, 3, 4), pulls=3)), 1.0)
    assert any("compacted" in sentence for sentence in mine.warnings())
    assert count(mine) == 3


def test_a_lost_disk_takes_back_what_neighbours_held_and_writes_none_of_it():
    mine, friend = agent("me"), agent("friend")
    agents = link(mine, friend)
    old = mine.begin_decision("a")
    mine.observe("a", ONE, old)
    now = pump(agents, 0.0, rounds=3)
    agents["me"] = mine = agent("me")
    mine.connect("friend")
    assert mine.is_superseded(old)
    now = pump(agents, now, rounds=12)
    assert mine.own() == friend.evidence() == {"a": ONE}
    assert mine.is_superseded(old)
    new = mine.begin_decision("a")
    mine.observe("a", ONE, new)
    pump(agents, now, rounds=3)
    assert new != old
    assert count(mine) == count(friend) == 2


@pytest.mark.parametrize("given_again", [5, 20, 25])
@pytest.mark.parametrize("heard_first", [True, False])
def test_a_volume_set_back_loses_nothing_that_neighbours_held(given_again, heard_first):
    """Seen: rewards that all held were erased, or agents disagreed for ever."""
    world = World(Origins, 3, digest_every=2)
    mine = "agent0"
    world.observe(mine, 30)
    world.settle(rounds=4)
    world.back_up(mine)
    world.observe(mine, 20)
    world.settle(rounds=4)
    world.restart(mine, backup=0)
    if heard_first:
        world.settle(rounds=1)
    world.observe(mine, given_again)
    world.settle(rounds=6)
    assert [each.evidence() for each in world.agents.values()] == [world.truth] * 3
    assert not world.all_refusals()


def test_one_copy_put_back_many_times_counts_every_future_once():
    world, one, other = two(Origins, digest_every=2)
    world.observe(one, 1)
    world.back_up(one)
    for nth in range(5):
        world.restart(one, backup=0)
        world.observe(one, 3)
        if nth % 2:
            world.settle(rounds=4)
        else:  # it dies before it hears anybody, but was heard
            world.tick(one)
            world.deliver_all()
    world.settle(rounds=8)
    for name in (one, other):
        assert world.agents[name].evidence() == world.truth


def test_of_two_copies_the_one_with_more_decisions_is_kept_also_after_a_restart():
    """A restart forgets decisions without evidence; two copies close what was open, one more."""
    first = agent("me")
    incarnation = first.begin_decision("a")
    first.begin_decision("a")
    saved = save(first)
    for n_closed in ((1, 2), (2, 1)):
        copies = [start(saved), start(saved)]
        for copy_, n in zip(copies, n_closed, strict=True):
            for _ in range(n):
                copy_.observe("a", ONE, incarnation)
            copy_.tick(0.0)
        versions = [each.replica.version(("me", incarnation)) for each in copies]
        assert sorted(n_closed) == sorted(v[0] for v in versions)
        assert (versions[0] > versions[1]) == (n_closed[0] > n_closed[1])


def test_its_own_words_that_it_still_knows_close_nothing():
    mine = agent("me")
    mine.connect("peer")
    incarnation = mine.begin_decision("a")
    mine.observe("a", ONE, incarnation)
    ((_, said),) = mine.tick(0.0)
    mine.observe("a", ONE, mine.begin_decision("a"))
    mine.tick(1.0)
    mine.receive("peer", said, 2.0)
    assert not mine.is_superseded(incarnation)
    assert mine.begin_decision("a") == incarnation
    assert len(own_entries(mine)) == 1
    assert not mine.warnings()


class TestMemory:
    """A machine put back with its memory: two processes of one incarnation."""

    def run(self, before, lost, again, seed):
        chance = random.Random(seed)  # of the world: it is not put back
        options = {"draw": lambda bits: chance.getrandbits(bits), "digest_every": 2}
        mine, friend = agent("me", **options), agent("friend", **options)
        agents = link(mine, friend)
        now = self.observe(agents, before, "before", 0.0)
        snapshot = copy.deepcopy(mine)
        now = self.observe(agents, lost, "lost", now)
        agents["me"] = mine = snapshot
        for nth in range(again):
            incarnation = mine.begin_decision("again")
            mine.observe("again", ONE, incarnation)
            if nth % 2:
                now = pump(agents, now)
            assert count(mine, "again") <= again
        pump(agents, now, rounds=8)
        return mine, friend

    def observe(self, agents, times, arm, now):
        for _ in range(times):
            mine = agents["me"]
            mine.observe(arm, ONE, mine.begin_decision(arm))
            now = pump(agents, now)
        return pump(agents, now, rounds=3)

    @pytest.mark.parametrize(("lost", "again"), [(1, 1), (3, 5), (5, 3), (4, 4)])
    def test_nothing_counts_twice_and_one_future_of_the_incarnation_is_kept(self, lost, again):
        mine, friend = self.run(4, lost, again, seed=lost)
        assert mine.evidence() == friend.evidence() == mine.own()
        assert count(mine, "before") == 4
        assert count(mine, "lost") in (0, lost)
        assert count(mine, "again") <= again
        # at most what was observed before it noticed is gone
        assert count(mine, "lost") == lost or count(mine, "again") == again

    def test_it_is_said_and_later_decisions_are_safe(self):
        mine, friend = self.run(4, 5, 2, seed=9)
        assert count(mine, "lost") == 5
        assert mine.warnings()
        agents, now = {"me": mine, "friend": friend}, 100.0
        self.observe(agents, 5, "after", now)
        assert count(friend, "after") == count(mine, "after") == 5


class TestTwins:
    """Two agents of one name, each with a disk of its own."""

    def run(self, rounds, **options):
        twins = [agent("me", digest_every=2, **options) for _ in range(2)]
        friend = agent("friend", digest_every=2)
        for twin in twins:
            twin.connect("friend")
        friend.connect("me")
        agents, now = {"me": twins, "friend": friend}, 0.0
        open_decisions = []
        for _ in range(rounds):
            for twin in twins:
                open_decisions.append((twin, twin.begin_decision("a")))
            if len(open_decisions) > 6:
                for _ in range(2):
                    twin, incarnation = open_decisions.pop(0)
                    assert not twin.is_superseded(incarnation)
                    twin.observe("a", ONE, incarnation)
            now = pump(agents, now)
        for twin, incarnation in open_decisions:
            assert not twin.is_superseded(incarnation)
            twin.observe("a", ONE, incarnation)
        pump(agents, now, rounds=8)
        return twins, friend

    def test_all_counts_once_nothing_is_refused_and_each_says_it_once(self):
        twins, friend = self.run(50)
        for each in (*twins, friend):
            assert count(each) == 100
            assert not each.refusals
        for twin in twins:
            (sentence,) = twin.warnings()
            assert "name" in sentence

    def test_a_restart_of_oneself_is_no_twin(self):
        mine, friend = agent("me"), agent("friend")
        agents = link(mine, friend)
        now = 0.0
        for _ in range(8):
            mine.observe("a", ONE, mine.begin_decision("a"))
            now = pump(agents, now, rounds=3)
            agents["me"] = mine = start(save(mine))
        pump(agents, now, rounds=12)
        assert mine.warnings() == []
        assert count(friend) == 8
