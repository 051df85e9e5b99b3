"""Everything that can happen to live agents, as rules that Hypothesis plays in any order."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from posse.live.exchange import own
from tests.live.exchange.world import World

ANY = st.integers(0, 10_000)
MOST_AGENTS = 8


def known_to(agent):
    """All that must survive a process."""
    edges = {name: (edge.identity, edge.active) for name, edge in agent.neighbours().items()}
    return agent.evidence(), agent.own(), agent.known(), edges


class Faults(RuleBasedStateMachine):
    """The faults; what must hold in spite of them is said by each exchange's test."""

    exchange = None
    options = {}  # noqa: RUF012
    world_of = World

    @initialize(
        n_agents=st.integers(2, 4),
        seed=st.integers(0, 99),
        allowed=st.sampled_from(["to stay", "to roll back", "to die", "to do both"]),
    )
    def begin(self, n_agents, seed, allowed):
        """Agents that already exchange: else few runs would come to it, and most would end dead."""
        self.world = self.world_of(self.exchange, n_agents, seed, **self.options)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(own, "FOLDED_ABOVE", 2)
        self.patch.setattr(own, "FOLDED_AT_ONCE_ABOVE", 16)
        self.may_roll_back = allowed in ("to roll back", "to do both")
        self.may_die = allowed in ("to die", "to do both")
        self.rolled_back = self.died = False
        for name in self.world.agents:
            self.world.observe(name, 10)
            self.world.back_up(name)
        self.world.settle(rounds=2)

    @invariant()
    def the_changes_are_all_that_changed(self):
        """The store writes no others to disk."""
        for name, agent in getattr(self, "world", SimpleNamespace(agents={})).agents.items():
            saved = self.world.saved(name)
            assert saved == json.loads(json.dumps(agent.state()))

    @invariant()
    def a_restored_agent_is_the_same(self):
        for name, agent in getattr(self, "world", SimpleNamespace(agents={})).agents.items():
            assert known_to(self.world.restored(name)) == known_to(agent)

    def pick(self, number):
        names = list(self.world.agents)
        return names[number % len(names)]

    @rule(who=ANY, pulls=st.integers(1, 50))
    def observe(self, who, pulls):
        self.world.observe(self.pick(who), pulls)

    @rule(who=ANY, pulls=st.integers(1, 50), messages=st.integers(0, 20))
    def work(self, who, pulls, messages):
        """What agents do all day; faults find some of it under way."""
        self.world.observe(self.pick(who), pulls)
        for name in list(self.world.agents):
            self.world.tick(name)
        for _ in range(messages):
            self.world.deliver(self.world.random.randrange(10_000))

    @rule(who=ANY)
    def tick(self, who):
        self.world.tick(self.pick(who))

    @rule()
    def tick_all(self):
        for name in list(self.world.agents):
            self.world.tick(name)

    @rule(which=ANY)
    def deliver(self, which):
        self.world.deliver(which)

    @rule()
    def deliver_newest(self):
        self.world.deliver(-1)

    @rule(order=st.sampled_from(["first", "any"]))
    def deliver_all(self, order):
        self.world.deliver_all(order)

    @rule(which=ANY)
    def repeat(self, which):
        self.world.deliver(which, repeat=True)

    @rule(which=ANY)
    def lose_message(self, which):
        if self.world.network:
            self.world.network.pop(which % len(self.world.network))

    @rule(who=ANY)
    def partition(self, who):
        names = list(self.world.agents)
        self.world.cut = set() if self.world.cut else set(names[: who % len(names)])

    @rule(who=ANY)
    def back_up(self, who):
        self.world.back_up(self.pick(who))

    @rule(who=ANY)
    def crash(self, who):
        self.world.restart(self.pick(who))

    @rule(who=ANY)
    def stop_cleanly(self, who):
        self.world.restart(self.pick(who), clean=True)

    @precondition(lambda self: self.may_roll_back)
    @rule(who=ANY, which=ANY, keep_own=st.booleans())
    def roll_back(self, who, which, keep_own):
        name = self.pick(who)
        if self.world.backups[name]:
            self.world.restart(name, backup=which, keep_own=keep_own)
            self.rolled_back = True

    @precondition(lambda self: self.may_die)
    @rule(who=ANY)
    def lose_disk(self, who):
        self.world.lose_disk(self.pick(who))
        self.died = True

    @precondition(lambda self: self.may_die)
    @rule(who=ANY)
    def depart(self, who):
        if len(self.world.agents) > 2:
            self.world.depart(self.pick(who))
            self.died = True

    @rule(who=ANY)
    def join(self, who):
        if len(self.world.backups) < MOST_AGENTS:
            neighbour = self.pick(who)
            self.world.link(self.world.join(), neighbour)

    @rule(who=ANY, whom=ANY)
    def add_one_end(self, who, whom):
        one, other = self.pick(who), self.pick(whom)
        if one != other:
            self.world.agents[one].connect(other)

    @rule(who=ANY, whom=ANY)
    def add_edge(self, who, whom):
        one, other = self.pick(who), self.pick(whom)
        if one != other:
            self.world.link(one, other)

    @rule(who=ANY, whom=ANY)
    def remove_one_end(self, who, whom):
        one, other = self.pick(who), self.pick(whom)
        self.world.agents[one].disconnect(other)
