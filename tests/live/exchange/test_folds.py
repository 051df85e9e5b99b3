"""Old incarnations fold: crashes take little room, and nothing is lost or counted twice by it."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posse.live.exchange.numbers import new_incarnation

from posse.live.exchange import Origins, own
from posse.live.exchange.evidence_sums import PER_UNIT, minus
from posse.live.exchange.messages import signed_bytes
from tests.live.exchange.origins import ONE, agent, entry, message, signatures
from tests.live.exchange.world import World, two

LATER = 2**62  # a number of an incarnation, with room for many below


@pytest.fixture
def few(monkeypatch):
    """Folds begin with few incarnations, and few have names."""
    monkeypatch.setattr(own, "FOLDED_ABOVE", 2)
    monkeypatch.setattr(own, "FOLDED_AT_ONCE_ABOVE", 16)
    monkeypatch.setattr(own, "MOST_NAMED", 4)


def entries_of(agent, origin):
    return [part for name, part in agent.state().items() if name.startswith(f"entry {origin} ")]


def folding(pulls=5, **changes):
    """An entry of "other" that absorbed its incarnations 1 and 2."""
    return entry(incarnation=LATER + 9, pulls=pulls, **{"folded": ((1, 2), (2, 1)), **changes})


def test_thousands_of_crashes_take_little_room_at_all(few):
    """Seen: after 2,089 crashes neighbours refused all that an agent observed, for ever."""
    now = [1e9]
    options = {"digest_every": 1, "clock": lambda: now[0]}
    friend = agent("friend", **options)
    friend.connect("me")
    disk = agent("me", **options).state()
    crashes, most = 3000, 0
    for nth in range(crashes):
        mine = agent("me", **options)
        mine.restore(disk)
        mine.connect("friend")
        mine.observe("a", ONE)
        now[0] += 1
        for one, other, name in ((friend, mine, "friend"), (mine, friend, "me")):
            for to, said in one.tick(now[0]):
                for _, answer in other.receive(name, said, now[0]):
                    one.receive(to, answer, now[0])
        for part, value in mine.changes().items():
            disk[part] = value
            if value is None:
                del disk[part]
        if nth % 100 == 99:
            most = max(most, len(entries_of(friend, "me")))
    assert most <= 3
    assert len(disk) < 20
    assert mine.own() == friend.evidence() == {"a": (crashes * PER_UNIT, crashes * PER_UNIT)}
    assert not friend.refusals
    assert not mine.refusals


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_a_fold_counts_for_what_it_absorbed_in_any_order(order):
    said = [entry(incarnation=1, seq=2, pulls=2), entry(incarnation=2), folding(pulls=5)]
    mine = agent()
    for nth in order:
        ((_, answer),) = mine.receive("peer", message(said[nth]), 0.0)
        # also what is absorbed is acknowledged, or it would be sent again and again
        assert answer.holds == ((*said[nth].key, said[nth].seq),)
    assert mine.evidence() == {"a": (0, 5 * PER_UNIT)}
    assert len(entries_of(mine, "other")) == 1
    assert not mine.refusals
    again = agent()
    again.restore(json.loads(json.dumps(mine.state())))
    assert again.evidence() == mine.evidence()


def test_more_of_an_absorbed_incarnation_is_kept_for_its_origin_and_not_counted():
    mine = agent()
    more = entry(incarnation=1, seq=7, pulls=7)
    for said in (folding(pulls=5), more):
        mine.receive("peer", message(said), 0.0)
    assert mine.evidence() == {"a": (0, 5 * PER_UNIT)}
    assert mine.pulls_by_origin() == {"other": 5}
    mine.connect("friend")
    ((_, out),) = mine.tick(0.0)
    assert more in out.entries


def test_a_floor_absorbs_all_incarnations_below_it_and_no_others():
    mine = agent()
    below, above = entry(incarnation=LATER + 5), entry(incarnation=LATER + 7)
    mine.receive("peer", message(below, above), 0.0)
    fold = entry(incarnation=LATER + 9, pulls=3, floor=LATER + 6)
    mine.receive("peer", message(fold, below), 1.0)
    assert mine.evidence() == {"a": (0, 4 * PER_UNIT)}
    assert not mine.refusals


def test_an_older_fold_of_what_has_no_name_any_more_is_not_counted_twice(few):
    """Seen: where a neighbour's disk was set back as well, its third agent's word came too late."""
    past = [entry("me", LATER + nth) for nth in range(1, 7)]
    older = entry(*("me", LATER + 50, 1, 3), folded=((past[0].key[1], 1), (past[1].key[1], 1)))
    mine, third = agent("me"), agent("third")
    mine.connect("friend")
    mine.receive("friend", message(*past, complete=True), 0.0)
    mine.observe("a", ONE)
    mine.tick(0.0)
    assert len(entries_of(mine, "me")) == 1
    mine.receive("friend", message(older), 1.0)
    assert mine.own() == {"a": (PER_UNIT, 7 * PER_UNIT)}
    assert mine.refusals == {own.UNTOLD: 1}
    third.receive("friend", message(older), 1.0)
    ((_, told),) = mine.tick(2.0)
    third.receive("me", told, 2.0)
    assert third.evidence() == mine.own()


def test_a_lost_disk_and_a_clock_set_back_beside_a_floor():
    """Seen: the new incarnation was below a floor not known yet, and its rewards were dropped."""
    mine = agent("me", clock=lambda: 1000.0)
    mine.observe("a", ONE)
    ahead = new_incarnation(1e9, 0, lambda bits: 0)
    fold = entry("me", ahead + 2, 9, 5, floor=ahead + 1)
    mine.receive("friend", message(fold), 1.0)
    assert mine.own() == {"a": (PER_UNIT, 6 * PER_UNIT)}


def test_what_was_forgotten_when_it_was_folded_is_added_exactly(few):
    """A disk rolled back, and folded away what a third agent held more of."""
    world = World(Origins, 3, digest_every=2)
    mine = "agent0"
    world.observe(mine, 1)
    world.back_up(mine)
    world.observe(mine, 6)
    world.settle(rounds=4)
    # all that were near have lost it, one far away has not
    far = world.agents["agent1"].state()
    for name in ("agent1", "agent2"):
        world.lose_disk(name)
    world.restart(mine, backup=0)
    for _ in range(4):
        world.observe(mine, 1)
        world.settle(rounds=4)
        world.restart(mine)
    world.observe(mine, 1)
    world.settle(rounds=4)
    assert len(entries_of(world.agents["agent2"], mine)) < 4
    world.replace("agent1", far)
    world.settle(rounds=8)
    for each in world.agents.values():
        assert each.evidence() == world.truth
    assert not world.all_refusals()


@pytest.mark.parametrize(
    "changes",
    [
        {"folded": ((2, 1), (1, 2))},
        {"folded": ((1, 1), (1, 2))},
        {"folded": ((LATER + 9, 1),)},
        {"folded": ((1, -1),)},
        {"folded": (1,)},
        {"folded": None},
        {"folded": tuple((nth, 1) for nth in range(5000))},
        {"floor": LATER + 10},
        {"floor": -1},
        {"layout": "1"},
        {"epoch": -1},
        {"epoch": 0.5},
        {"experiment": 5},
    ],
    ids=lambda changes: str(changes)[:30],
)
def test_a_malformed_fold_is_refused_and_the_others_of_the_message_are_not(changes):
    """Seen: for one bad entry a whole message was refused, with all that it relayed."""
    mine = agent()
    mine.receive("peer", message(folding(**changes), entry("third")), 0.0)
    assert mine.refusals == {"malformed": 1}
    assert mine.evidence() == {"a": (0, PER_UNIT)}


@pytest.mark.parametrize("layout", [0, 2])
def test_an_entry_of_another_layout_is_refused_by_name(layout):
    mine = agent()
    mine.receive("peer", message(entry(layout=layout), entry("third")), 0.0)
    assert mine.refusals == {"layout_mismatch": 1}
    assert mine.evidence() == {"a": (0, PER_UNIT)}


@pytest.mark.parametrize("layout", [0, 2])
def test_a_store_with_an_entry_of_another_layout_is_refused_in_a_sentence(layout):
    mine = agent()
    mine.receive("peer", message(entry()), 0.0)
    state = mine.state()
    state["entry other 1"][5] = layout
    with pytest.raises(ValueError, match=f"layout {layout} and this Posse reads layout 1: start"):
        agent().restore(state)


def test_folds_are_signed_words():
    sign, options = signatures("other")["sign"], signatures("me")
    mine = agent(**options)
    fold = folding()
    for forged in (folding(folded=((1, 2),)), folding(floor=LATER), folding(layout=2)):
        signature = sign(signed_bytes("bernoulli", forged))
        mine.receive("peer", message(folding(signature=signature)), 0.0)
    assert mine.refusals == {"signature_invalid": 3}
    mine.receive("peer", message(folding(signature=sign(signed_bytes("bernoulli", fold)))), 0.0)
    assert mine.evidence() == {"a": (0, 5 * PER_UNIT)}


def test_nothing_is_folded_before_all_neighbours_have_shown_what_they_hold(few):
    world, one, other = two(Origins, digest_every=2)
    world.cut = {one}
    for _ in range(8):
        world.observe(one, 1)
        world.tick(one)
        world.deliver_all()
        world.restart(one)
    world.observe(one, 1)
    world.tick(one)
    assert len(entries_of(world.agents[one], one)) == 9
    world.settle(rounds=4)
    assert len(entries_of(world.agents[one], one)) == 1
    assert world.agents[other].evidence() == world.truth


def test_sums_never_pass_what_messages_carry():
    """Seen: above 2^63 an honest agent was cut off, with all that it relayed."""
    bounds, huge = (2.0**40, 1.0), (2**60, PER_UNIT)
    one, other = (
        Origins(fingerprint="f", bounds=bounds, identity=name, digest_every=1) for name in "ab"
    )
    one.connect("b")
    for _ in range(40):
        one.observe("a", huge)
    for _, said in one.tick(0.0):
        other.receive("a", said, 0.0)
    assert other.evidence() == one.evidence() == {"a": (40 * 2**60, 40 * PER_UNIT)}
    assert all(part[3]["a"][0] <= 2**62 for part in entries_of(one, "a"))
    assert not other.refusals


def test_incarnations_rise_with_time_above_all_that_are_known():
    draw = random.Random(1).getrandbits
    one = new_incarnation(1.7e9, 0, draw)
    assert 0 < one < new_incarnation(1.7e9 + 0.01, one, draw) < 2**63
    assert new_incarnation(1.0, one, draw) > one  # a clock that is behind
    for now in (-5.0, 0.0, 1e300):
        assert 0 < new_incarnation(now, 0, draw) < 2**63
    mine = agent(clock=lambda: 1.0)  # far behind
    for past in (LATER - 1, one):
        mine.receive("peer", message(entry("me", past)), 0.0)
    mine.observe("a", ONE)
    assert max(part[1] for part in entries_of(mine, "me")) > one


class Chaos:
    """Crashes, set-backs, partitions and losses at random, with folds at every turn."""

    def __init__(self, seed, roll_back):
        chance = random.Random(seed)
        world = self.world = World(Origins, chance.randint(2, 4), seed, digest_every=3, batch=5)
        self.rolled_back = False
        for name in world.agents:
            world.observe(name, 3)
            world.back_up(name)
        world.settle(rounds=2)
        for _ in range(chance.randint(10, 60)):
            self.step(chance, roll_back)
        self.held = [each.evidence() for each in world.agents.values()]
        world.settle(rounds=30)

    def step(self, chance, roll_back):
        world, name = self.world, chance.choice(list(self.world.agents))
        match chance.choice(["observe", "tick", "lose", "crash", "crash", "back up", "cut"]):
            case "observe":
                world.observe(name, chance.randint(1, 5))
            case "tick":
                for each in world.agents:
                    world.tick(each)
                for _ in range(chance.choice([3, 10, 100])):
                    world.deliver(chance.randrange(1000), repeat=chance.random() < 0.1)
            case "lose":
                world.network = world.network[::2]
            case "crash":
                world.restart(name)
                world.observe(name, 1)
            case "back up" if roll_back and chance.random() < 0.5:
                world.restart(name, backup=chance.randrange(100))
                self.rolled_back = True
            case "back up":
                world.back_up(name)
            case "cut":
                world.cut = set() if world.cut else {name}


@settings(derandomize=True, deadline=None, max_examples=120)
@given(seed=st.integers(0, 10**6), roll_back=st.booleans())
def test_folds_under_any_faults(seed, roll_back):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "FOLDED_ABOVE", 2)
        patch.setattr(own, "FOLDED_AT_ONCE_ABOVE", 16 if roll_back else 5)
        patch.setattr(own, "MOST_NAMED", 12)
        chaos = Chaos(seed, roll_back)
    world = chaos.world
    one, *others = [each.evidence() for each in world.agents.values()]
    assert all(each == one for each in others)
    assert all(value >= 0 for values in minus(world.truth, one).values() for value in values)
    for arm, values in (item for evidence in chaos.held for item in evidence.items()):
        assert one[arm][-1] >= values[-1]
    assert chaos.rolled_back or one == world.truth
    assert not world.all_refusals()
