"""Whatever happens, in whatever order: nothing is counted twice, and nothing saved is lost."""

import itertools

import pytest
from hypothesis.stateful import invariant

from posse.live.exchange import Flows, Origins
from posse.live.ledger.sums import PER_UNIT, plus
from tests.live.exchange.machine import Faults, play

FEW = 3 + 1 + 1  # entries of one origin: those that may stay, the present one and the base


def assert_within(part, whole, growing=slice(None)):
    for arm, values in part.items():
        for value, most in zip(values[growing], whole[arm][growing], strict=True):
            assert value <= most, (arm, values, whole[arm])


class OriginsFaults(Faults):
    exchange = Origins
    growing = slice(None)  # coordinates that no decision makes smaller
    options = {"digest_every": 3, "batch": 3}  # noqa: RUF012

    @invariant()
    def nothing_counts_twice_at_any_step(self):
        for agent in self.world.agents.values() if hasattr(self, "world") else ():
            assert_within(agent.evidence(), self.world.truth, self.growing)

    def teardown(self):
        if hasattr(self, "world"):
            self.check()

    def settle_all(self):
        """Until all have rested and all messages have come."""
        self.world.settle(rounds=45)

    def check(self):
        world = self.world
        held = [agent.evidence() for agent in world.agents.values()]
        names = list(world.agents)
        for one, other in itertools.pairwise(names):
            world.link(one, other)
        self.settle_all()
        one, *others = [agent.evidence() for agent in world.agents.values()]
        assert all(evidence == one for evidence in others)
        for agent in world.agents.values():
            sums = agent.by_origin().items()
            counts = {each: sum(row[-1] for row in rows.values()) for each, rows in sums}
            assert agent.pulls_by_origin() == {e: n // PER_UNIT for e, n in counts.items()}
        assert_within(one, world.truth)
        if not self.rolled_back:
            for evidence in held:
                assert_within(evidence, one)
        assert not any(agent.incarnations.resting for agent in world.agents.values())
        for agent in world.agents.values():
            assert len(agent.replica.of_origin(agent.identity)) <= FEW
        if not (self.rolled_back or self.died):
            assert one == world.truth
            for name, agent in world.agents.items():
                assert agent.own() == world.truth_of(name)
        assert not world.all_refusals()


class FlowsFaults(Faults):
    exchange = Flows

    @invariant()
    def ends_differ_by_one_version_at_most(self):
        if self.rolled_back:
            return
        agents = {agent.identity: agent for agent in self.world.agents.values()}
        for identity, agent in agents.items():
            for peer, (version, flow) in agent.records().items():
                if peer in agents:
                    other, opposite = agents[peer].records().get(identity, (0, {}))
                    assert abs(version - other) <= 1
                    assert version != other or not plus(flow, opposite)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        world.settle(rounds=12)
        self.check()
        world.disconnect_all()
        world.settle(rounds=12)
        self.check()

    def check(self):
        world = self.world
        assert not world.unequal_pairs()
        if not self.died:
            assert world.level() == world.own()
        if not (self.died or self.rolled_back):
            assert world.level() == world.truth
        assert not world.all_refusals()


@pytest.mark.parametrize("histories", [40, pytest.param(120, marks=pytest.mark.long)])
@pytest.mark.parametrize("machine", [OriginsFaults, FlowsFaults])
def test_evidence_survives_any_faults(machine, histories):
    play(machine, histories)
