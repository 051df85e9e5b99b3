"""Visitors of a swarm: who comes to the sites, and what they find there."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from posse.families import Bernoulli
from posse.live.agent.agent import Agent
from posse.live.demo.site import Site, Visitor

T = TypeVar("T")
Ask = Callable[[Callable[[], T]], T]  # until it is answered


class Audience(Protocol):
    """Who comes to the sites, and what they find there."""

    def visit(
        self, site: Site, experiment: str, visitor: Visitor, generator: random.Random, ask: Ask[Any]
    ) -> None:
        """One visit: pull, play, update; `site.acknowledge` once the reward is acknowledged."""


class Crowd:
    """Visitors who are alike everywhere: each arm has one mean."""

    def __init__(self, means: Mapping[str, float]) -> None:
        self.means = means
        self._noting = threading.Lock()

    def visit(
        self, site: Site, experiment: str, visitor: Visitor, generator: random.Random, ask: Ask[Any]
    ) -> None:
        """One visit."""
        decision = ask(visitor.pull)
        reward = int(generator.random() < self.means[decision.arm])
        with self._noting:
            site.visits[decision.arm] += 1
            site.regret += max(self.means.values()) - self.means[decision.arm]
        ask(lambda: visitor.update(decision, reward))
        with self._noting:
            site.acknowledge(decision.arm, reward, experiment)


# Visitors of the demonstration, with potential outcomes: every agent has a twin that is alone.
#
# A visitor is a number between 0 and 1, and converts where the arm's true rate is above it. So an
# agent and its isolated twin meet the same visitors (common random numbers), whatever they play.


@dataclass
class Guests:
    """Those who come to one site, and what the twin of its agent lost by knowing only them."""

    random: random.Random
    twin: Agent
    alone: float = 0.0  # regret
    lie: bool = False  # say that the first arm always converts, and no other ever
    differ: bool = False  # convert by other rates than elsewhere


@dataclass(frozen=True)
class Standing:
    """What visitors of one site saw so far."""

    acknowledged: int
    regret: float
    alone: float


class TwinAudience:
    """Visitors of all sites, who may lie or differ at some; any thread may bring one."""

    def __init__(self, means: Mapping[str, float], seed: int) -> None:
        self.means = dict(means)
        self._seed = seed
        self._guests: dict[str, Guests] = {}
        self._sites: dict[str, Site] = {}
        self._noting = threading.Lock()

    def welcome(self, site: Site) -> None:
        """A site that can be visited from now on."""
        number = len(self._sites)
        twin = Agent(list(self.means), Bernoulli(), seed=self._seed + number)
        with self._noting:
            self._sites[site.name] = site
            self._guests[site.name] = Guests(random.Random(f"{self._seed} {number}"), twin)

    def at(self, name: str) -> Guests:
        """The visitors of a site."""
        return self._guests[name]

    def add_arm(self, arm: str, mean: float) -> None:
        """An arm that visitors know from now on; agents may offer it later, or never."""
        with self._noting:
            self.means[arm] = mean
            for guests in self._guests.values():
                guests.twin.set_arms(list(self.means))

    def truth(self, name: str) -> dict[str, float]:
        """The rates of a site; where visitors differ, those of each arm's neighbour."""
        rates = list(self.means.values())
        if self._guests[name].differ:
            rates = [*rates[1:], rates[0]]
        return dict(zip(self.means, rates, strict=True))

    def standings(self) -> dict[str, Standing]:
        """Of all sites at one moment."""
        with self._noting:
            return {
                name: Standing(site.acknowledged, site.regret, self._guests[name].alone)
                for name, site in self._sites.items()
            }

    def visit(
        self, site: Site, experiment: str, visitor: Visitor, generator: random.Random, ask: Ask[Any]
    ) -> None:
        """One visit, at a site and with its twin; the generator is not used: guests have theirs."""
        decision = ask(visitor.pull)
        with self._noting:
            reward = self._play(site, decision.arm)
        ask(lambda: visitor.update(decision, reward))
        with self._noting:
            site.acknowledge(decision.arm, reward, experiment)

    def _play(self, site: Site, arm: str) -> int:
        """What the visitor says of an arm; the twin learns what it would have said of its own."""
        guests = self._guests[site.name]
        truth = self.truth(site.name)
        first = next(iter(truth))
        best = max(truth.values())
        person = guests.random.random()

        def said(of: str) -> int:
            return int(of == first if guests.lie else person < truth[of])

        other, _ = guests.twin.choose()
        guests.twin.learn(other, said(other))
        guests.alone += best - truth[other]
        site.visits[arm] += 1
        site.regret += best - truth[arm]
        return said(arm)
