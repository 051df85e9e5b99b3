"""Visitors of a swarm: who comes to the sites, and what they find there."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from posse.live.swarm.site import Site, Visitor

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
        self.means, self._noting = means, threading.Lock()

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
