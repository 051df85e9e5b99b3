"""Visitors of a demonstration and their rewards."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from posse.families import Bernoulli
from posse.live.agent import Agent
from posse.live.demo.site import AgentSite, Visitor

T = TypeVar("T")
Ask = Callable[[Callable[[], T]], T]  # retries until there is an answer


class Audience(Protocol):
    """The visitors of all sites, and the rewards that they give."""

    def visit(
        self,
        site: AgentSite,
        experiment: str,
        visitor: Visitor,
        generator: random.Random,
        ask: Ask[Any],
    ) -> None:
        """Make one visit: pull, draw a reward, update; then call `site.add_acknowledged`."""


class UniformAudience:
    """Visitors who are alike at all sites: each arm has one mean."""

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
        """Make one visit."""
        decision = ask(visitor.pull)
        reward = int(generator.random() < self.means[decision.arm])
        with self._noting:
            site.visits[decision.arm] += 1
            site.regret += max(self.means.values()) - self.means[decision.arm]
        # The lock is not held here: the request may wait until the agent is restarted. The reward
        # counts as acknowledged only after the answer, which is what the audit relies on.
        ask(lambda: visitor.update(decision, reward))
        with self._noting:
            site.add_acknowledged(decision.arm, reward, experiment)


# Visitors of the page, with potential outcomes: every agent has an isolated twin.
#
# A visitor is a number between 0 and 1 and converts if the arm's true rate is above it. So an agent
# and its isolated twin meet the same visitors (common random numbers) whatever they play.


@dataclass
class SiteVisitors:
    """The visitors of one site, and the isolated twin of its agent with its regret."""

    random: random.Random
    twin: Agent
    isolated_regret: float = 0.0  # regret
    lying: bool = False  # report that the first arm always converts, and no other
    different: bool = False  # convert at other rates than elsewhere


@dataclass(frozen=True)
class SiteTotals:
    """Acknowledged rewards and regret of one site so far."""

    acknowledged: int
    regret: float
    isolated_regret: float


class TwinAudience:
    """Visitors of all sites; at some they may lie or differ. Safe to use from any thread."""

    def __init__(self, means: Mapping[str, float], seed: int) -> None:
        self.means = dict(means)
        self._seed = seed
        self._visitors: dict[str, SiteVisitors] = {}
        self._sites: dict[str, AgentSite] = {}
        self._noting = threading.Lock()

    def add_site(self, site: AgentSite) -> None:
        """Add a site that can be visited from now on."""
        number = len(self._sites)
        twin = Agent(list(self.means), Bernoulli(), seed=self._seed + number)
        with self._noting:
            self._sites[site.name] = site
            self._visitors[site.name] = SiteVisitors(random.Random(f"{self._seed} {number}"), twin)

    def visitors_of(self, name: str) -> SiteVisitors:
        """Return the visitors of a site."""
        return self._visitors[name]

    def add_arm(self, arm: str, mean: float) -> None:
        """Add an arm for visitors and twins; the agents may play it later, or never."""
        with self._noting:
            self.means[arm] = mean
            for guests in self._visitors.values():
                guests.twin.set_arms(list(self.means))

    def true_means(self, name: str) -> dict[str, float]:
        """Return the true means of a site; where visitors differ, they are shifted by one arm."""
        rates = list(self.means.values())
        if self._visitors[name].different:
            rates = [*rates[1:], rates[0]]
        return dict(zip(self.means, rates, strict=True))

    def collect_totals(self) -> dict[str, SiteTotals]:
        """Return the totals of all sites at one moment."""
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
        """Make one visit at a site and its twin; sites have generators of their own."""
        decision = ask(visitor.pull)
        with self._noting:
            reward = self._draw_reward(site, decision.arm)
        ask(lambda: visitor.update(decision, reward))
        with self._noting:
            site.add_acknowledged(decision.arm, reward, experiment)

    def _draw_reward(self, site: AgentSite, arm: str) -> int:
        """Draw the reward of an arm; the twin learns the same visitor's reward of its own arm."""
        visitors = self._visitors[site.name]
        truth = self.true_means(site.name)
        first = next(iter(truth))
        best = max(truth.values())
        # Drawn once for both arms (common random numbers): the difference between the agent and its
        # twin is then due to their choices, not to luck.
        person = visitors.random.random()

        def reward_of(of: str) -> int:
            return int(of == first if visitors.lying else person < truth[of])

        twin_arm, _ = visitors.twin.choose()
        visitors.twin.learn(twin_arm, reward_of(twin_arm))
        visitors.isolated_regret += best - truth[twin_arm]
        site.visits[arm] += 1
        site.regret += best - truth[arm]
        return reward_of(arm)
