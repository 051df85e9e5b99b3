"""What an agent of flows remembers: identities, their number, and its durable state."""

import json
from dataclasses import replace

from posse.live.exchange import Flows
from tests.live.exchange.world import World, settled_pair, two


def test_two_lost_disks_find_each_other_again():
    world, owner, mirror = settled_pair()
    world.settle(rounds=2)
    for name in (owner, mirror):
        world.lose_disk(name)
    world.observe(owner, 10)
    # both hear late words of the other's old disk first
    for sender, to in ((owner, mirror), (mirror, owner)):
        ghost = world.make("ghost")
        ghost.connect(to)
        ((_, greeting),) = ghost.tick(0.0)
        world.network.append((sender, to, greeting))
    world.settle()
    assert world.agents[owner].level() == world.agents[mirror].level() != {}
    assert not world.all_refusals()


def test_a_disk_that_was_thought_lost_is_saved_as_the_present_one_when_it_returns():
    world, owner, mirror = two(Flows)
    world.settle(rounds=3)
    world.back_up(mirror)
    world.lose_disk(mirror)
    for backup in (None, 0):
        if backup is not None:
            world.restart(mirror, backup)
        world.settle(rounds=3)
        present = world.restored(owner).neighbours()[mirror].identity
        assert present == world.agents[mirror].identity


def test_n_is_given_or_the_identities_ever_seen():
    world = World(Flows, 5)
    world.settle()
    assert {agent.network_size() for agent in world.agents.values()} == {5}
    assert {len(agent.known()) for agent in world.agents.values()} == {5}
    fixed = Flows(fingerprint="f", bounds=(1.0,), network_size=12)
    assert fixed.network_size() == 12


def test_a_neighbour_is_counted_though_it_does_not_name_itself():
    world, owner, _ = settled_pair()
    fresh = world.make("fresh")
    world.agents["fresh"] = fresh
    world.link(owner, "fresh")
    world.tick("fresh")
    while world.network:
        sender, to, message = world.network.pop(0)
        world.send(to, world.agents[to].receive(sender, replace(message, known=()), 1.0))
    assert fresh.identity in world.agents[owner].known()


def test_the_identities_known_are_capped_and_a_message_carries_a_few_in_turns():
    world, owner, mirror = settled_pair()
    many = tuple(f"id{nth}" for nth in range(1000))
    world.tick(mirror)
    ((_, _, message),) = world.network
    for nth in range(3):  # seen: one message made N jump to 1000
        world.agents[owner].receive(mirror, replace(message, known=many, seq=10 + nth), 1.0)
        assert len(world.agents[owner].known()) == 18
    for nth in range(80):
        world.agents[owner].tick(float(nth))
        world.agents[owner].receive(mirror, replace(message, known=many, seq=20 + nth), 1.0)
    assert len(world.agents[owner].known()) == 1000
    told = [world.agents[owner].tick(0.0)[0][1].known for _ in range(32)]
    assert {len(known) for known in told} == {32}
    assert len(set().union(*told)) == 1000


def test_the_durable_state_is_plain_json_and_holds_no_knowledge_of_processes():
    world, owner, mirror = settled_pair()
    world.settle(rounds=3)
    state = world.agents[owner].state()
    assert json.loads(json.dumps(state)) == state
    record = f"record {world.agents[mirror].identity}"
    assert set(state) == {"identity", "own", "active", "known", record}
    again = world.make(owner)
    again.restore(state)
    assert again.state() == state
    assert again.level() == world.agents[owner].level()
    assert again.neighbours()[mirror].last_heard is None
