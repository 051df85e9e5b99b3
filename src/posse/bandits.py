"""The problem itself: true arms that draw rewards and know their gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from posse import checks
from posse.families.bernoulli import Bernoulli
from posse.families.bounded import Bounded
from posse.families.exponential import Exponential
from posse.families.family import Family, check_family, check_means
from posse.families.gaussian import Gaussian
from posse.families.poisson import Poisson
from posse.randomness import FloatArray

# Means are fixed for all runs, given per run, or drawn afresh in each run.
Means = tuple[float, ...] | checks.FrozenArray | Callable[[np.random.Generator], FloatArray]


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
        object.__setattr__(self, "n_arms", checks.whole("n_arms", self.n_arms, at_least=2))
        checks.number("low", self.low)
        checks.number("high", self.high, above=self.low)

    def __call__(self, generator: np.random.Generator) -> FloatArray:
        """One draw of the means: (K,)."""
        return generator.uniform(self.low, self.high, self.n_arms)


@dataclass(frozen=True)
class Bandit:
    """K arms of one family with their true means.

    means: K numbers, an array (runs, K), or a function of a Generator that draws K numbers.

    >>> bandit = posse.Bandit.gaussian([0.5, 0.1, 0.1], sigma=2.0)
    >>> bandit.n_arms, bandit.gaps.tolist()
    (3, [0.0, 0.4, 0.4])
    """

    family: Family
    means: Any

    def __post_init__(self) -> None:
        checks.capable("family", self.family, ["draw_rewards"], "posse.families.Gaussian()")
        check_family("family", self.family, ["draw_rewards"], ["means"])
        means = self.means.values if isinstance(self.means, checks.FrozenArray) else self.means
        if isinstance(means, UniformMeans):
            ends = np.nextafter([means.low, means.high], [means.high, means.low])
            check_means(self.family, ends)  # the ends themselves are drawn with probability 0
        elif callable(means):
            self._draw(np.random.default_rng(0))
        else:
            values = check_means(self.family, means)
            fixed: Means = tuple(values.tolist())
            object.__setattr__(
                self, "means", fixed if values.ndim == 1 else checks.FrozenArray(values)
            )

    @classmethod
    def bernoulli(cls, means: ArrayLike | Means) -> Bandit:
        """Arms that pay 1 with probability mean, else 0."""
        return cls(Bernoulli(), means)

    @classmethod
    def bounded(cls, means: ArrayLike | Means, concentration: float = 5.0) -> Bandit:
        """Arms that pay a fraction in [0, 1]."""
        return cls(Bounded(concentration=concentration), means)

    @classmethod
    def gaussian(cls, means: ArrayLike | Means, sigma: float = 1.0) -> Bandit:
        """Arms that pay N(mean, sigma^2)."""
        return cls(Gaussian(sigma=sigma), means)

    @classmethod
    def poisson(cls, means: ArrayLike | Means) -> Bandit:
        """Arms that pay counts."""
        return cls(Poisson(), means)

    @classmethod
    def exponential(cls, means: ArrayLike | Means) -> Bandit:
        """Arms that pay exponentially distributed amounts."""
        return cls(Exponential(), means)

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        if isinstance(self.means, tuple):
            return len(self.means)
        if isinstance(self.means, checks.FrozenArray):
            return int(self.means.values.shape[1])
        return len(self._draw(np.random.default_rng(0)))

    @property
    def gaps(self) -> FloatArray:
        """How much less each arm pays than the best, on average: (K,), or (runs, K)."""
        if isinstance(self.means, tuple):
            means = np.array(self.means)
        elif isinstance(self.means, checks.FrozenArray):
            means = self.means.values
        else:
            raise ValueError("gaps differ from run to run: the means of this bandit are drawn")
        return np.asarray(means.max(axis=-1, keepdims=True) - means)

    def means_of_run(self, run: int, generator: np.random.Generator) -> FloatArray:
        """The true means in one run: (K,)."""
        if isinstance(self.means, tuple):
            return np.array(self.means)
        if isinstance(self.means, checks.FrozenArray):
            return np.asarray(self.means.values[run])
        return self._draw(generator)

    def check_runs(self, runs: int) -> None:
        """Refuse more runs than there are rows of means."""
        if isinstance(self.means, checks.FrozenArray) and runs > len(self.means.values):
            raise ValueError(
                f"runs is {runs}, but means are given for {len(self.means.values)} runs only"
            )

    def _draw(self, generator: np.random.Generator) -> FloatArray:
        try:
            means = self.means(generator)
        except Exception as error:  # whatever a user's function may raise
            raise ValueError(f"means: drawing them by {self.means!r} failed: {error}") from error
        drawn = check_means(self.family, means)
        if drawn.ndim != 1:
            raise ValueError(f"a function of means must draw (K,) numbers, got {drawn.shape}")
        return drawn


def take(values: FloatArray, arms: Any) -> FloatArray:
    """The value of each arm played: values (R, K), arms (R, N) -> (R, N)."""
    return np.take_along_axis(values, arms, axis=-1)
