"""The suite: instances, fixed as data in suite.toml, on which algorithms are compared.

Two classes, each ranked by itself: 24 plain ones, and some with contexts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from posse import theory, validation
from posse.bandits import AnyBandit
from posse.families import require_plain_family
from posse.networks import Network
from posse.randomness import FloatArray
from posse.serialization.decode import from_data


@dataclass(frozen=True)
class Instance:
    """A bandit on a network for some rounds, and its purpose.

    arms, graph: the bandit and the network in words.
    """

    number: int
    name: str
    why: str
    arms: str
    graph: str
    horizon: int
    bandit: AnyBandit
    network: Network


PLAIN, CONTEXTS = CLASSES = ("plain", "contexts")


@dataclass(frozen=True)
class Suite:
    """All instances by class, the seed of their runs, and the runs of the full form."""

    seed: int
    full_runs: int
    instances: tuple[Instance, ...]
    contextual: tuple[Instance, ...]

    def instances_of(self, kind: str) -> tuple[Instance, ...]:
        """Give the instances of one of CLASSES."""
        return self.contextual if kind == CONTEXTS else self.instances


@cache
def load_suite() -> Suite:
    """Load the suite from its file, once."""
    text = (resources.files("posse.lab.arena") / "suite.toml").read_text("utf-8")
    return from_data(Suite, tomllib.loads(text))


def choose_instances(numbers: str | None, kind: str = PLAIN) -> tuple[Instance, ...]:
    """Choose instances of a class by numbers such as "1,4,7-9"; all of them for None."""
    instances = load_suite().instances_of(validation.validate_choice("suite", kind, CLASSES))
    if numbers is None:
        return instances
    chosen_numbers: set[int] = set()
    for part in numbers.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not ends:
            raise ValueError(f"instances must be numbers such as 1,4,7-9, got {numbers!r}")
        first = validation.validate_integer(
            "instances", int(ends[1]), at_least=1, at_most=len(instances)
        )
        last = validation.validate_integer(
            "instances", int(ends[2] or first), at_least=first, at_most=len(instances)
        )
        chosen_numbers |= set(range(first, last + 1))
    return tuple(instance for instance in instances if instance.number in chosen_numbers)


def lai_robbins_bound(instance: Instance, means: FloatArray, horizon: int) -> float:
    """Compute Lai-Robbins over N at a horizon, averaged over true means (R, K) of runs.

    An arm costs at least gap / (N d(mean, best)) ln T in the limit; gap T if that is less, which is
    all that playing nothing else would cost. At a finite horizon it is a guide, not a bound.
    """
    n_agents = instance.network.n_agents
    divergence = theory.get_divergence(require_plain_family(instance.bandit.family))
    # Runs with equal means are computed once and weighted by their number.
    totals = [_least_regret(row, n_agents, divergence, horizon) for row in np.unique(means, axis=0)]
    weights = np.unique(means, axis=0, return_counts=True)[1]
    return float(np.average(totals, weights=weights))


def _least_regret(
    means: FloatArray, n_agents: int, divergence: theory.Divergence, horizon: int
) -> float:
    best = means.max()
    total = 0.0
    for mean in means[means < best]:
        slope = theory.lai_robbins_constant([mean, best], n_agents, divergence)
        total += min(slope * np.log(horizon), (best - mean) * horizon)
    return total


def format_numbers(instances: Sequence[Instance]) -> str:
    """Write the numbers of some instances, as `choose_instances` reads them."""
    return ",".join(str(instance.number) for instance in instances)
