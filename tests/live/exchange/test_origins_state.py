"""What an agent of origins remembers: its incarnations through every kind of restart."""

import json

import pytest

from posse.live.exchange import Origins
from posse.live.exchange.evidence_sums import PER_UNIT
from tests.live.exchange.origins import ONE, agent, signatures
from tests.live.exchange.world import World, two


def test_after_an_unclean_stop_no_sequence_number_is_used_twice():
    world, one, other = two(Origins, digest_every=2)
    world.observe(one, 1)
    world.back_up(one)
    world.observe(one, 3)
    world.settle(rounds=3)
    world.restart(one, backup=0)
    world.observe(one, 2)
    world.settle(rounds=6)
    for name in (one, other):
        assert world.agents[name].evidence() == world.truth
    assert world.agents[one].own() == world.truth


def test_a_disk_rolled_back_over_a_new_incarnation_does_not_use_it_twice():
    world, one, other = two(Origins, digest_every=2)
    world.observe(one, 1)
    world.back_up(one)
    for _ in range(2):  # each time the disk knows of one incarnation, and opens the next
        world.restart(one, backup=0)
        world.observe(one, 3)
        world.settle(rounds=1)
    world.settle(rounds=6)
    for name in (one, other):
        assert world.agents[name].evidence() == world.truth


def own_entries(agent):
    return [part for part in agent.state() if part.startswith(f"entry {agent.identity} ")]


def test_only_the_very_process_that_goes_back_continues_an_incarnation():
    mine = agent()
    mine.observe("a", ONE)
    mine.restore(mine.state(), clean=True)  # a commit failed
    mine.observe("a", ONE)
    assert len(own_entries(mine)) == 1
    for clean in (True, False):  # whatever its disk says
        again = agent()
        again.restore(mine.state(), clean=clean)
        again.restore(again.state(), clean=clean)  # its first commit failed
        again.observe("a", ONE)
        assert len(own_entries(again)) == 2
        assert again.own() == {"a": (3 * PER_UNIT, 3 * PER_UNIT)}


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
    world.restart(mine, backup=0, clean=True)  # as after a stop called clean
    if heard_first:
        world.settle(rounds=1)
    world.observe(mine, given_again)
    world.settle(rounds=6)
    assert [each.evidence() for each in world.agents.values()] == [world.truth] * 3
    assert not world.all_refusals()


def test_its_own_words_that_it_still_knows_close_nothing():
    mine = agent()
    mine.connect("peer")
    mine.observe("a", ONE)
    ((_, said),) = mine.tick(0.0)
    mine.receive("peer", said, 1.0)
    mine.observe("a", ONE)
    assert len(own_entries(mine)) == 1


def test_a_lost_disk_gets_its_own_evidence_back():
    world, one, _ = two(Origins, digest_every=2)
    world.observe(one, 5)
    world.settle(rounds=3)
    world.lose_disk(one)
    world.settle(rounds=6)
    assert world.agents[one].own() == world.truth


def test_the_durable_state_is_plain_json():
    mine = agent(**signatures("me"))
    mine.observe("a", ONE)
    mine.connect("peer")
    mine.tick(0.0)
    state = mine.state()
    assert json.loads(json.dumps(state)) == state
    again = agent()
    again.restore(state)
    mine.restore(state, clean=True)
    assert mine.state() == state
    assert {**again.state(), "incarnation": 0} == {**state, "incarnation": 0}
