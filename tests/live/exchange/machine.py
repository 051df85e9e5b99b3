"""Everything that can happen to live agents, as rules that Hypothesis plays in any order."""

from __future__ import annotations

import json
from types import SimpleNamespace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.live.exchange.world import World

ANY = st.integers(0, 10_000)
MOST_AGENTS = 8


def play(machine, histories, steps=50):
    """Run a machine on the same histories every time; to shrink one would take minutes."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


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

    @rule(who=ANY, pulls=st.integers(1, 5), which=ANY)
    def fail_commit(self, who, pulls, which):
        """A full disk: what was not written was neither acknowledged nor sent."""
        name = self.pick(who)
        self.world.saved(name)
        agent = self.world.agents[name]
        for _ in range(pulls):
            arm = agent.identity[:9]
            agent.observe(arm, self.world.statistic, agent.begin_decision(arm))
        agent.tick(self.world.time_of(name))
        waiting = [sent for sent in self.world.network if sent[1] == name]
        if waiting:
            source, _, message = waiting[which % len(waiting)]
            agent.receive(source, message, self.world.time_of(name))
        agent.changes()
        agent.rollback()
        # the fresh one of the invariant is restored from what was committed

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
