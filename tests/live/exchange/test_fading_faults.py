"""Whatever happens while evidence fades: both ends of an edge agree, and nothing else is lost."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from posse.live.exchange import Flows, Origins
from posse.live.ledger import minus, total
from posse.live.ledger.half_life import shift_ledger
from posse.live.ledger.sums import plus
from tests.live.exchange.drift import DriftingWorld
from tests.live.exchange.machine import Faults, play


class FadingFaults(Faults):
    world_of = DriftingWorld

    @initialize(n_agents=st.integers(2, 4), seed=st.integers(0, 99), allowed=st.integers(0, 3))
    def begin(self, n_agents, seed, allowed):
        ways = ["to stay", "to roll back", "to die", "to do both"]
        super().begin(n_agents, seed, ways[allowed])

    @rule()
    def an_epoch_passes(self):
        self.world.pass_epoch()


class FadingFlows(FadingFaults):
    exchange = Flows

    @invariant()
    def opposite_ends_agree_in_any_epoch(self):
        agents = {agent.identity: agent for agent in getattr(self, "world", World0).agents.values()}
        for identity, agent in agents.items():
            flows = total(flow for _, flow in agent.records().values())
            assert agent.level() == minus(agent._records.own, flows)
            for peer, (version, flow) in agent.records().items():
                if peer not in agents or self.rolled_back:
                    continue
                other, opposite = agents[peer].records().get(identity, (0, {}))
                assert abs(version - other) <= 1
                epoch = max(agent._records.epoch, agents[peer]._records.epoch)
                mine = shift_ledger(flow, epoch - agent._records.epoch)
                theirs = shift_ledger(opposite, epoch - agents[peer]._records.epoch)
                assert version != other or not plus(mine, theirs)

    def teardown(self):
        world = self.world
        world.settle(rounds=12)
        self.check()
        world.disconnect_all()
        world.settle(rounds=12)
        self.check()

    def check(self):
        world = self.world
        epoch = world.meet_in_one_epoch()
        assert not world.unequal_pairs()
        own = total(agent._records.own for agent in world.agents.values())
        if not self.died:
            assert world.level() == own
        if not (self.died or self.rolled_back):
            assert world.level() == world.truth_in(epoch)
        assert not world.all_refusals()


class FadingOrigins(FadingFaults):
    exchange = Origins
    options = {"digest_every": 3, "batch": 3}  # noqa: RUF012

    @invariant()
    def equal_numbers_are_held_under_equal_versions(self):
        said = {}
        for agent in getattr(self, "world", World0).agents.values():
            for key, entry in agent.replica.entries.items():
                assert said.setdefault((key, entry.version), entry) == entry

    def teardown(self):
        world = self.world
        names = list(world.agents)
        for one, other in itertools.pairwise(names):
            world.link(one, other)
        world.settle(rounds=45)
        one, *others = world.agents.values()
        assert all(agent.replica.entries == one.replica.entries for agent in others)
        left = world.read(one._epochs.position)
        held = one.evidence()
        # a quantum for each pull that was weighed, and some for each halving of an incarnation
        rounding = len(world.observed) + 8 * len(one.replica.entries) + 100
        for arm in held.keys() | left.keys():
            for mine, true in zip(held.get(arm, (0, 0)), left.get(arm, (0, 0)), strict=True):
                assert mine <= true + rounding
                assert self.rolled_back or self.died or mine >= true - rounding
        assert not world.all_refusals()


@pytest.mark.parametrize("exchange", [Flows, Origins])
def test_who_slept_for_two_epochs_takes_what_comes(exchange):
    world = DriftingWorld(exchange, 2)
    awake, asleep = world.agents
    world.link(awake, asleep)
    world.settle(rounds=4)
    world.pass_epoch()
    world.pass_epoch()
    world.tick(awake)
    world.observe(awake)
    world.tick(awake)
    world.deliver_all()
    assert not world.all_refusals()


class World0:
    agents = {}  # noqa: RUF012


@pytest.mark.parametrize("machine", [FadingFlows, FadingOrigins])
def test_evidence_survives_any_faults_while_it_fades(machine):
    play(machine, 25, 40)
