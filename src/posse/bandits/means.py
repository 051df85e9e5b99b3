"""True means of arms: fixed, given per run, random, or heterogeneous between sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from posse import validation
from posse.families import Family, clip_means
from posse.randomness import FloatArray

# Means are fixed for all runs, given per run (and agent), or random in each run.
Means = tuple[float, ...] | validation.FrozenArray | Callable[[np.random.Generator], FloatArray]


@dataclass(frozen=True)
class UniformMeans:
    """Means drawn uniformly on [low, high] in each run, as in figure 2 of the paper.

    >>> posse.Bandit.bernoulli(posse.bandits.UniformMeans(5)).n_arms
    5
    """

    n_arms: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_arms", validation.validate_integer("n_arms", self.n_arms, at_least=2)
        )
        validation.validate_number("low", self.low)
        validation.validate_number("high", self.high, above=self.low)

    def __call__(self, generator: np.random.Generator) -> FloatArray:
        """One draw of the means: (K,)."""
        return generator.uniform(self.low, self.high, self.n_arms)


@dataclass(frozen=True)
class NormalMeans:
    """Means drawn from N(mean, sd^2) in each run, for families of means on the whole line.

    >>> posse.Bandit.gaussian(posse.bandits.NormalMeans(100, sd=0.5)).n_arms
    100
    """

    n_arms: int
    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_arms", validation.validate_integer("n_arms", self.n_arms, at_least=2)
        )
        validation.validate_number("mean", self.mean)
        validation.validate_number("sd", self.sd, above=0)

    def __call__(self, generator: np.random.Generator) -> FloatArray:
        """One draw of the means: (K,)."""
        return generator.normal(self.mean, self.sd, self.n_arms)


@dataclass(frozen=True)
class SiteMeans:
    """Heterogeneous sites: in each run the means of each agent are drawn around those of the arms.

    means: those of the arms, in any form that a Bandit takes: K numbers, (runs, K), or a function.
    sd:    the standard deviation between sites, for all arms or for each of the K. For families
           with means on the whole line (Gaussian) an agent's mean is mean + sd z; for rates, counts
           and amounts the difference is relative, mean times exp(sd z). z is standard normal, for
           each agent and arm. Means outside the family's range (a rate above 1) are clipped.

    `Bandit.gaussian(means, site_sd=0.2)` builds it.

    >>> posse.Bandit.gaussian([0.5, 0.1], site_sd=0.2).means
    SiteMeans(means=(0.5, 0.1), sd=0.2)
    """

    means: Any
    sd: float | tuple[float, ...] = field(metadata={"argument": "site_sd"})

    def __post_init__(self) -> None:
        if isinstance(self.means, SiteMeans):
            raise ValueError("site_sd: the means differ from agent to agent already")
        if np.ndim(self.sd) == 0:
            object.__setattr__(
                self, "sd", validation.validate_number("site_sd", self.sd, at_least=0)
            )
        else:
            sds = validation.validate_array("site_sd", self.sd, 0)
            if sds.ndim != 1:
                raise ValueError(f"site_sd must be one number or one per arm, got {sds.shape}")
            object.__setattr__(self, "sd", tuple(sds.tolist()))

    def draw_agent_means(
        self, means: FloatArray, n_agents: int, family: Family, generator: np.random.Generator
    ) -> FloatArray:
        """Draw the means of each agent around those of the arms: (K,) -> (agents, K)."""
        shifts = np.array(self.sd) * generator.standard_normal((n_agents, len(means)))
        # Means that cannot be negative differ by factors, so that no site gets a negative rate.
        relative = family.means.low >= 0
        return clip_means(family, means * np.exp(shifts) if relative else means + shifts)


def spread_over_sites(means: ArrayLike | Means, site_sd: ArrayLike | None) -> Any:
    """Return SiteMeans around the means if a site_sd is given, else the means."""
    sd: Any = site_sd
    return means if sd is None else SiteMeans(means, sd)


# Distributions of means by their names in files; a user-defined one is 'module:function'.
MEANS: dict[str, Any] = {"uniform": UniformMeans, "normal": NormalMeans, "sites": SiteMeans}
