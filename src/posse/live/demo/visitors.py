"""Visitors of a swarm: who comes to the sites, and what they find there."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from posse.families import Bernoulli
from posse.live.agent.agent import Agent
from posse.live.demo.site import AgentSite, Visitor

T = TypeVar("T")
Ask = Callable[[Callable[[], T]], T]  # until it is answered


class Audience(Protocol):
    """Who comes to the sites, and what they find there."""

    def visit(
        self,
        site: AgentSite,
        experiment: str,
        visitor: Visitor,
        generator: random.Random,
        ask: Ask[Any],
    ) -> None:
        """One visit: pull, play, update; `site.acknowledge` once the reward is acknowledged."""


class UniformAudience:
    """Visitors who are alike everywhere: each arm has one mean."""

    def __init__(self, means: Mapping[str, float]) -> None:
        self.means = means
        self._noting = threading.Lock()

    def visit(
        self,
        site: AgentSite,
        experiment: str,
        visitor: Visitor,
        generator: random.Random,
        ask: Ask[Any],
    ) -> None:
        """One visit."""
        decision = ask(visitor.pull)
        reward = int(generator.random() < self.means[decision.arm])
        with self._noting:
            site.visits[decision.arm] += 1
            site.regret += max(self.means.values()) - self.means[decision.arm]
        ask(lambda: visitor.update(decision, reward))
        with self._noting:
            site.add_acknowledged(decision.arm, reward, experiment)


# Visitors of the demonstration, with potential outcomes: every agent has a twin that is alone.
#
# A visitor is a number between 0 and 1, and converts where the arm's true rate is above it. So an
# agent and its isolated twin meet the same visitors (common random numbers), whatever they play.


@dataclass
class SiteVisitors:
    """Those who come to one site, and what the twin of its agent lost by knowing only them."""

    random: random.Random
    twin: Agent
    isolated_regret: float = 0.0  # regret
    lying: bool = False  # say that the first arm always converts, and no other ever
    different: bool = False  # convert by other rates than elsewhere


@dataclass(frozen=True)
class SiteTotals:
    """What visitors of one site saw so far."""

    acknowledged: int
    regret: float
    isolated_regret: float


class TwinAudience:
    """Visitors of all sites, who may lie or differ at some; any thread may bring one."""

    def __init__(self, means: Mapping[str, float], seed: int) -> None:
        self.means = dict(means)
        self._seed = seed
        self._visitors: dict[str, SiteVisitors] = {}
        self._sites: dict[str, AgentSite] = {}
        self._noting = threading.Lock()

    def add_site(self, site: AgentSite) -> None:
        """A site that can be visited from now on."""
        number = len(self._sites)
        twin = Agent(list(self.means), Bernoulli(), seed=self._seed + number)
        with self._noting:
            self._sites[site.name] = site
            self._visitors[site.name] = SiteVisitors(random.Random(f"{self._seed} {number}"), twin)

    def visitors_of(self, name: str) -> SiteVisitors:
        """The visitors of a site."""
        return self._visitors[name]

    def add_arm(self, arm: str, mean: float) -> None:
        """An arm that visitors know from now on; agents may offer it later, or never."""
        with self._noting:
            self.means[arm] = mean
            for guests in self._visitors.values():
                guests.twin.set_arms(list(self.means))

    def true_means(self, name: str) -> dict[str, float]:
        """The rates of a site; where visitors differ, those of each arm's neighbour."""
        rates = list(self.means.values())
        if self._visitors[name].different:
            rates = [*rates[1:], rates[0]]
        return dict(zip(self.means, rates, strict=True))

    def collect_totals(self) -> dict[str, SiteTotals]:
        """Of all sites at one moment."""
        with self._noting:
            return {
                name: SiteTotals(
                    site.acknowledged, site.regret, self._visitors[name].isolated_regret
                )
                for name, site in self._sites.items()
            }

    def visit(
        self,
        site: AgentSite,
        experiment: str,
        visitor: Visitor,
        generator: random.Random,
        ask: Ask[Any],
    ) -> None:
        """One visit, at a site and with its twin; the generator is not used: guests have theirs."""
        decision = ask(visitor.pull)
        with self._noting:
            reward = self._draw_reward(site, decision.arm)
        ask(lambda: visitor.update(decision, reward))
        with self._noting:
            site.add_acknowledged(decision.arm, reward, experiment)

    def _draw_reward(self, site: AgentSite, arm: str) -> int:
        """What the visitor says of an arm; the twin learns what it would have said of its own."""
        visitors = self._visitors[site.name]
        truth = self.true_means(site.name)
        first = next(iter(truth))
        best = max(truth.values())
        person = visitors.random.random()

        def reward_of(of: str) -> int:
            return int(of == first if visitors.lying else person < truth[of])

        twin_arm, _ = visitors.twin.choose()
        visitors.twin.learn(twin_arm, reward_of(twin_arm))
        visitors.isolated_regret += best - truth[twin_arm]
        site.visits[arm] += 1
        site.regret += best - truth[arm]
        return reward_of(arm)
