"""Visitors are the same for an agent and its twin; some lie, some differ."""

import random
from collections import Counter

from posse.live.agent.agent import Decision
from posse.live.demo.site import AgentSite
from posse.live.demo.visitors import TwinAudience


class Plain(AgentSite):
    """A site that plays what it is told, and notes the rewards."""

    def __init__(self, name, arms):
        super().__init__(name)
        self._arms, self.told = arms, []

    def pull(self):
        return Decision("id", self._arms[len(self.told) % len(self._arms)], 0.5)

    def update(self, decision, reward):
        self.told.append((decision.arm, reward))
        return True

    start = kill = stop = open_visitor = read_evidence = read_metrics = lambda *_: None


Plain.__abstractmethods__ = frozenset()


def visit(audience, site, times):
    for _ in range(times):
        audience.visit(site, "default", site, random.Random(0), lambda ask: ask())


def test_a_twin_is_told_what_its_agent_is():
    audience, site = TwinAudience({"only": 0.5}, seed=1), Plain("a", ["only"])
    audience.add_site(site)
    visit(audience, site, 200)
    ((total, *_, count),) = audience.visitors_of("a").twin.exchange.own().values()
    assert count == 200 * 2**20
    assert total == sum(reward for _, reward in site.told) * 2**20
    assert 60 < total / 2**20 < 140
    assert audience.collect_totals()["a"].isolated_regret == site.regret == 0


def test_visitors_convert_by_the_truth_of_their_site_and_regret_is_against_its_best_arm():
    means = {"low": 0.0, "high": 1.0}
    audience, site = TwinAudience(means, seed=1), Plain("a", ["low", "high", "high"])
    audience.add_site(site)
    visit(audience, site, 30)
    assert Counter(site.told) == {("low", 0): 10, ("high", 1): 20}
    assert site.regret == 10
    audience.visitors_of("a").different = True
    visit(audience, site, 30)
    assert Counter(site.told[30:]) == {("low", 1): 10, ("high", 0): 20}
    assert site.regret == 30
    audience.visitors_of("a").different, audience.visitors_of("a").lying = False, True
    visit(audience, site, 30)
    assert Counter(site.told[60:]) == {("low", 1): 10, ("high", 0): 20}
    assert site.regret == 40  # by the truth, whatever is said
    assert site.acknowledged == audience.collect_totals()["a"].acknowledged == 90


def test_an_arm_that_is_added_is_known_to_twins():
    audience = TwinAudience({"a": 0.1, "b": 0.2}, seed=0)
    audience.add_site(Plain("x", ["a"]))
    audience.add_arm("c", 0.9)
    assert audience.true_means("x") == {"a": 0.1, "b": 0.2, "c": 0.9}
    assert audience.visitors_of("x").twin.arm_names == ["a", "b", "c"]
