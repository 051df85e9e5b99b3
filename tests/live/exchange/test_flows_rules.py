"""Each rule of flows on the schedule that needs it."""

import itertools
from dataclasses import replace

import pytest

from posse.live.exchange import Flows
from posse.live.exchange.flow_records import MOST_BOOTS, Peer
from posse.live.ledger.sums import PER_UNIT, map_values
from tests.live.exchange.world import World, settled_pair, two


def negated(ledger):
    return map_values(ledger, lambda value: -value)


def version(world, name):
    return max((v for v, _ in world.agents[name].records().values()), default=0)


def one_step(world, owner, mirror):
    """The owner takes one step; the message that says so is in the network."""
    world.tick(owner)
    world.network.clear()
    world.tick(mirror)
    world.deliver(0)
    assert len(world.network) == 1


def test_a_step_moves_half_the_gap_between_two_and_is_acknowledged():
    world, owner, mirror = settled_pair()
    one_step(world, owner, mirror)
    world.deliver_all()
    for name in (owner, mirror):
        assert world.agents[name].level() == {owner: (15 * PER_UNIT // 2, 15 * PER_UNIT)}
        assert world.agents[name].evidence() == {owner: (15 * PER_UNIT, 30 * PER_UNIT)}
        assert version(world, name) == 1
    (_, sent), (_, held) = (next(iter(world.agents[n].records().values())) for n in (owner, mirror))
    assert sent == negated(held)
    assert world.agents[owner].neighbours()[mirror].lag == 0


def test_rule_1_a_repeated_message_is_not_answered_again():
    world, owner, mirror = settled_pair()
    one_step(world, owner, mirror)
    (_, _, message) = world.network[0]
    assert world.agents[mirror].receive(owner, message, 1.0)
    assert not world.agents[mirror].receive(owner, message, 2.0)


def test_rule_1_an_overtaken_message_does_not_turn_back_what_is_known_of_its_sender():
    world, owner, mirror = settled_pair()
    world.tick(mirror)
    ((_, _, overtaken),) = world.network
    world.network.clear()
    one_step(world, owner, mirror)
    world.deliver_all()
    assert world.agents[owner].neighbours()[mirror].lag == 0
    assert not world.agents[owner].receive(mirror, overtaken, 9.0)
    assert world.agents[owner].neighbours()[mirror].lag == 0


def both_rolled_back(steps):
    """Both disks roll back by some steps, and a message of the last one is still under way."""
    world, owner, mirror = settled_pair()
    for name in (owner, mirror):
        world.back_up(name)
    for _ in range(steps):
        world.observe(owner, 30)
        one_step(world, owner, mirror)
        late = world.network[0]
        world.deliver_all()
    return world, owner, mirror, late


def test_rule_2_a_message_to_an_earlier_process_is_not_used():
    world, owner, mirror, late = both_rolled_back(steps=3)
    world.restart(mirror, backup=0)
    world.restart(owner, backup=0, keep_own=True)
    world.settle(rounds=1)
    before = version(world, mirror)
    world.network.append(late)
    world.deliver(0)
    assert version(world, mirror) == before
    world.settle()
    assert not world.all_refusals()
    assert not world.unequal_pairs()


def test_rule_2_a_message_of_a_dead_process_is_not_used():
    world, owner, mirror = settled_pair()
    world.back_up(owner)
    one_step(world, owner, mirror)
    late = world.network.pop()
    world.restart(owner, backup=0)
    world.disconnect_all()
    # the new process is heard, and hears the mirror, before the last word of the old one arrives
    world.tick(owner)
    world.deliver(0)
    world.deliver(0)
    world.deliver(0)
    world.network = [late]
    world.deliver(0)
    assert version(world, mirror) == 0
    world.settle()
    assert not world.all_refusals()
    assert not world.unequal_pairs()


def test_rule_2_a_new_process_is_told_what_the_old_one_knew():
    world, owner, mirror = settled_pair()
    world.back_up(owner)
    one_step(world, owner, mirror)
    world.deliver_all()
    world.restart(owner, backup=0)
    world.settle(rounds=2)
    assert version(world, owner) >= 1
    assert world.level() == world.truth


def test_rule_2_of_a_message_to_an_earlier_process_nothing_is_used():
    world, owner, mirror = two(Flows)
    world.tick(mirror)
    ((_, _, greeting),) = world.network
    answer = world.agents[owner].receive(mirror, replace(greeting, known=("stranger",)), 1.0)
    assert [to for to, _ in answer] == [mirror]
    assert world.agents[owner].known() == {world.agents[owner].identity}
    assert world.agents[owner].neighbours()[mirror].last_heard is None


def test_rule_2_few_boots_of_one_peer_are_remembered():
    peer = Peer()
    for boot in range(1, 100):
        peer.note_message(boot, 1, 1)
    assert len(peer.last_seq) == MOST_BOOTS
    assert peer.is_repeated(99, 1)


@pytest.mark.parametrize("connected", [True, False])
def test_rule_4_two_backups_of_different_pasts_are_reconciled(connected):
    world, owner, mirror = settled_pair()
    for name in (owner, mirror):
        world.back_up(name)
    one_step(world, owner, mirror)
    world.deliver_all()
    world.back_up(mirror)  # of the first past, version 1
    for name in (owner, mirror):
        world.restart(name, backup=0, keep_own=True)
    world.observe(owner, 60)
    world.settle(rounds=1)
    assert version(world, owner) == version(world, mirror) == 1  # of the second past
    world.restart(mirror, backup=1)
    if not connected:
        world.disconnect_all()
    world.settle()
    assert not world.unequal_pairs()
    assert world.level() == world.truth


def test_rule_2_a_new_process_may_lead_where_the_old_one_could_not():
    world, owner, mirror, _ = both_rolled_back(steps=3)
    world.back_up(mirror)  # of the first past, version 3
    for name in (owner, mirror):
        world.restart(name, backup=0, keep_own=True)
    world.settle(rounds=1)
    assert version(world, owner) == version(world, mirror) == 1
    world.restart(mirror, backup=1)
    world.settle()
    assert version(world, owner) >= 3
    assert not world.all_refusals()
    assert world.level() == world.truth


def test_rule_5_a_credit_does_not_outlive_its_edge():
    world, owner, mirror = settled_pair()
    world.tick(owner)
    world.network.clear()
    world.agents[owner].disconnect(mirror)
    world.tick(mirror)
    world.deliver_all()
    assert version(world, owner) == 0


@pytest.mark.parametrize("end", [0, 1])
def test_rule_5_nothing_flows_unless_both_ends_are_active(end):
    world, owner, mirror = settled_pair()
    world.agents[(owner, mirror)[end]].disconnect((mirror, owner)[end])
    world.settle()
    assert version(world, owner) == version(world, mirror) == 0
    assert world.agents[owner].level() == world.truth


def test_rule_5_a_gap_too_small_to_share_is_no_step():
    world, owner, _ = two(Flows)
    world.settle(rounds=3)
    world.agents[owner].observe("a", (0, 1))
    world.settle(rounds=3)
    assert version(world, owner) == 0


def test_rule_6_a_fast_link_takes_one_step_a_tick():
    world = World(Flows, 3)
    world.settle(rounds=3)
    world.observe("agent0", 1000)
    for nth in range(1, 4):
        for name in world.agents:
            world.tick(name)
        world.deliver_all()
        versions = {v for agent in world.agents.values() for v, _ in agent.records().values()}
        assert max(versions) == nth


def test_rule_6_a_disk_rolled_back_to_before_a_removed_edge_is_reminded():
    world, owner, mirror = two(Flows)
    for name in (owner, mirror):
        world.agents[name].disconnect({owner: mirror, mirror: owner}[name])
        world.back_up(name)
    world.link(owner, mirror)
    world.observe(owner, 30)
    world.settle(rounds=3)
    world.disconnect_all()
    world.settle(rounds=3)
    world.restart(mirror, backup=0)
    assert world.unequal_pairs()
    world.settle(rounds=12)
    assert not world.unequal_pairs()
    assert world.level() == world.truth


@pytest.mark.parametrize("lost", [0, 1], ids=["the step", "its acknowledgement"])
def test_rule_7_a_removed_edge_asks_until_it_is_settled_and_then_is_silent(lost):
    world, owner, mirror = settled_pair()
    one_step(world, owner, mirror)
    for _ in range(lost):
        world.deliver(0)
    world.network.clear()
    world.disconnect_all()
    world.settle(rounds=3)
    assert not world.unequal_pairs()
    assert version(world, mirror) == 1
    sent = [agent.tick(0.0) for agent in world.agents.values()]
    assert sent == [[], []]


@pytest.mark.parametrize("end", [0, 1], ids=["the owner", "the mirror"])
def test_rule_7_an_end_whose_disk_rolled_back_is_answered_though_the_other_is_idle(end):
    world, *ends = settled_pair()
    world.back_up(ends[end])
    one_step(world, *ends)
    world.deliver_all()
    world.restart(ends[end], backup=0)
    world.tick(ends[end])
    world.deliver_all()
    assert not world.unequal_pairs()
    assert version(world, ends[end]) == 1


def test_rule_8_an_edge_added_again_resumes_its_record():
    world, owner, mirror = settled_pair()
    world.settle(rounds=3)
    before = version(world, owner)
    world.disconnect_all()
    world.settle(rounds=3)
    world.link(owner, mirror)
    world.observe(mirror, 30)
    world.settle(rounds=20)
    assert version(world, owner) > before
    assert len(world.agents[owner].records()) == 1
    assert world.level() == world.truth


def test_a_lost_step_sent_again_with_a_later_level_is_accepted():
    """Why there is no bound on the size of a step: its sender may have given away the rest."""
    world = World(Flows, 8)
    world.settle(rounds=3)
    names = list(world.agents)
    owner, mirror = next(
        (one, other)
        for one, other in itertools.pairwise(names)  # neighbours on the cycle
        if world.agents[one].identity < world.agents[other].identity
    )
    world.observe(owner, 3000)
    world.tick(owner)
    world.network.clear()
    world.tick(mirror)
    world.network = [sent for sent in world.network if sent[1] == owner]
    world.deliver(0)
    world.cut = {mirror}  # so that the step is lost, and all that the mirror might say
    for _ in range(60):
        for name in names:
            world.tick(name)
        world.deliver_all()
    _, step = world.agents[owner].records()[world.agents[mirror].identity]
    level = world.agents[owner].level()
    assert step[owner][-1] > 2 * level[owner][-1]
    world.settle(rounds=2)
    assert not world.all_refusals()
    assert world.level() == world.truth
