"""Flows whose evidence fades: what crosses an epoch, what clocks may do, and what is read."""

from dataclasses import replace

import pytest

from posse.live.exchange import Flows
from posse.live.ledger.half_life import AHEAD, JUMPED, shift_ledger
from posse.live.ledger.sums import PER_UNIT, minus, negative, plus
from tests.live.exchange.drift import HALF_LIFE, DriftingWorld
from tests.live.exchange.world import BOUNDS, FINGERPRINT

PULLS = 31  # odd, so that halves are rounded


def pair(**options):
    """Two that know each other, the owner first, with evidence at it."""
    world = DriftingWorld(Flows, 2, skew=0.0, **options)
    owner, mirror = sorted(world.agents, key=lambda name: world.agents[name].identity)
    world.settle(rounds=3)
    world.observe(owner, PULLS)
    return world, owner, mirror


def flow(world, name):
    ((_, there),) = world.agents[name].records().values()
    return there


def step_under_way():
    """The owner let evidence flow, and its message has not arrived."""
    world, owner, mirror = pair()
    while not flow(world, owner):
        world.tick(mirror)
        world.tick(owner)
        while world.network and not flow(world, owner):
            world.deliver(0)
    world.network = [each for each in world.network if each[0] == owner][-1:]
    assert len(world.network) == 1
    return world, owner, mirror


def test_a_step_that_crosses_an_epoch_arrives_as_its_half():
    world, owner, mirror = step_under_way()
    before = flow(world, owner)
    world.pass_epoch()
    world.deliver(0)
    assert world.agents[mirror]._records.epoch == world.agents[owner]._records.epoch + 1
    assert flow(world, mirror) == negative(shift_ledger(before, 1)) != {}
    world.network.clear()
    world.agents[owner].tick(world.now)
    assert flow(world, owner) == negative(flow(world, mirror))


def test_a_message_of_the_next_epoch_takes_us_along():
    world, owner, mirror = step_under_way()
    ((_, _, message),) = world.network
    mirrors = world.agents[mirror]
    ahead = replace(message, epoch=message.epoch + 1, flow=shift_ledger(message.flow, 1))
    mirrors.receive(owner, ahead, world.now)
    assert mirrors._records.epoch == ahead.epoch
    assert flow(world, mirror) == negative(ahead.flow)


def test_an_epoch_no_clock_near_ours_can_say_is_refused_and_counted():
    world, owner, mirror = step_under_way()
    ((_, _, message),) = world.network
    before = world.agents[mirror].state()
    far = replace(message, epoch=message.epoch + 2)
    assert world.agents[mirror].receive(owner, far, world.now) == []
    assert world.agents[mirror].refusals == {AHEAD: 1}
    assert world.agents[mirror].state() == before


def test_without_a_half_life_no_message_has_an_epoch_and_the_state_has_none():
    agent = Flows(fingerprint=FINGERPRINT, bounds=BOUNDS)
    agent.connect("peer")
    ((_, greeting),) = agent.tick(5.0)
    assert greeting.epoch == 0
    agent.receive("peer", replace(greeting, src="other", epoch=1), 5.0)
    assert agent.refusals == {"malformed": 1}
    assert set(agent.state()) == {"identity", "own", "active", "known"}


@pytest.mark.parametrize("epochs", [1, 3, 20])
def test_a_disk_put_back_after_some_epochs_is_what_it_would_have_become(epochs):
    world, owner, mirror = pair()
    world.settle(rounds=6)
    world.back_up(mirror)
    for _ in range(epochs):
        world.pass_epoch()
        world.tick(owner)
        world.tick(mirror)
    world.network.clear()
    held = world.agents[mirror].records()
    world.restart(mirror, backup=0)
    world.agents[mirror].tick(world.now)
    assert world.agents[mirror].records() == held
    world.meet_in_one_epoch()
    assert not world.unequal_pairs()


def test_evidence_is_read_for_what_it_is_worth_and_comes_to_nothing():
    world, owner, _ = pair()
    agent, revision = world.agents[owner], world.agents[owner].revision
    count = agent.own()[owner][-1] / PER_UNIT
    assert count == pytest.approx(PULLS, abs=1e-4)
    start = agent._epochs.position
    for half_lives in (0.3, 1.0, 1.5, 7.25, 61.0):
        world.now = (start + half_lives) * HALF_LIFE
        agent.tick(world.now)
        left = agent.own().get(owner, (0, 0))[-1] / PER_UNIT
        assert left == pytest.approx(PULLS * 2.0**-half_lives, abs=1e-4)
        assert agent.revision > revision
        revision = agent.revision
    assert agent.evidence() == agent.own() == {}


def test_parts_of_a_decision_carry_the_weight_of_its_time():
    """Rewards come half a half-life late."""
    world = DriftingWorld(Flows, 1, skew=0.0)
    agent = world.agents["agent0"]
    decided, rewards = [], []
    for nth in range(400):
        world.now += 1.0
        agent.tick(world.now)
        decided.append(world.now)
        if nth >= 32:
            rewards.append(decided[nth - 32])
            agent.observe("late", (PER_UNIT * (nth % 2), PER_UNIT), at=rewards[-1])
    counted = agent.own()["late"]
    weights = [2.0 ** ((at - world.now) / HALF_LIFE) for at in rewards]
    assert counted[-1] / PER_UNIT == pytest.approx(sum(weights), abs=1e-3)
    paid = sum(weight for nth, weight in enumerate(weights, 32) if nth % 2)
    assert counted[0] / PER_UNIT == pytest.approx(paid, abs=1e-3)


def test_a_clock_that_jumps_ten_epochs_ahead_destroys_no_evidence():
    steady = [0.0]
    agent = Flows(
        fingerprint=FINGERPRINT,
        bounds=BOUNDS,
        half_life=HALF_LIFE,
        monotonic=lambda: steady[0],
    )
    agent.tick(1000.0)
    for _ in range(PULLS):
        agent.observe("a", (0, PER_UNIT))
    for second in range(10):
        steady[0] = float(second)
        agent.tick(1000.0 + 10 * HALF_LIFE + second)
    assert agent.refusals == {JUMPED: 1}
    assert agent.own()["a"][-1] > PULLS * PER_UNIT // 3
    # set right, it goes on from where it is once time has caught up
    steady[0] = 2 * HALF_LIFE
    agent.tick(1000.0 + 2 * HALF_LIFE)
    assert agent.own()["a"][-1] == pytest.approx(PULLS * PER_UNIT / 4, rel=1e-5)


def test_two_agents_whose_clocks_are_a_hundredth_apart_read_alike():
    world = DriftingWorld(Flows, 2, skew=0.02)
    world.settle(rounds=3)
    world.observe("agent0", 1000)
    world.settle(rounds=200)
    one, other = (agent.evidence()["agent0"][-1] for agent in world.agents.values())
    assert one / other == pytest.approx(2.0**0.01, rel=0.002)
    assert not world.all_refusals()


def test_the_durable_state_knows_its_epoch():
    world, owner, _ = pair()
    state = world.saved(owner)
    assert state["epoch"] == world.agents[owner]._records.epoch
    again = world.restored(owner)
    assert again.own() == world.agents[owner].own()
    assert minus(again.level(), world.agents[owner].level()) == plus({}, {})
