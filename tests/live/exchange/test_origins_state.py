"""What an agent of origins remembers: its incarnations through every kind of restart."""

import json

from posse.live.exchange import Entry, Origins
from posse.live.exchange.quanta import PER_UNIT

from .origins import ONE, agent, message, signatures
from .world import two


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


def test_a_clean_stop_continues_the_incarnation():
    mine = agent()
    mine.observe("a", ONE)
    again = agent()
    again.restore(mine.state(), clean=True)
    again.observe("a", ONE)
    assert len(again.state()["own"]) == 1
    unclean = agent()
    unclean.restore(mine.state())
    unclean.observe("a", ONE)
    assert len(unclean.state()["own"]) == 2
    assert unclean.own() == again.own()


def test_its_own_forgotten_words_close_an_incarnation_wrongly_called_clean():
    mine = agent()
    states = []
    for _ in range(3):
        mine.observe("a", ONE)
        states.append(mine.state())
    again = agent()
    again.restore(states[0], clean=True)
    for state in states[1:]:  # two neighbours hold more, and one of them more than the other
        ((origin, incarnation, seq, evidence, _),) = state["own"]
        said = Entry(origin, incarnation, seq, {"a": tuple(evidence["a"])})
        again.receive("peer", message(said), 0.0)
        again.observe("a", ONE)
    assert again.own() == {"a": (5 * PER_UNIT, 5 * PER_UNIT)}


def test_its_own_words_that_it_still_knows_close_nothing():
    mine = agent()
    mine.connect("peer")
    mine.observe("a", ONE)
    ((_, said),) = mine.tick(0.0)
    mine.receive("peer", said, 1.0)
    mine.observe("a", ONE)
    assert len(mine.state()["own"]) == 1


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
    again.restore(state, clean=True)
    assert again.state() == state
