"""The bandit: K arms of one reward family with their true means, drift and delay."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from posse import notebook_tables, rules, validation
from posse.bandits.delays import Delay, check_delay, resolve_delay
from posse.bandits.drift import Drift, Rotation, check_drift
from posse.bandits.means import Means, NormalMeans, SiteMeans, UniformMeans, spread_over_sites
from posse.families import (
    Bernoulli,
    Bounded,
    Exponential,
    Family,
    Gaussian,
    Poisson,
    check_family,
    check_means,
)
from posse.randomness import FloatArray

# The largest number of arms that is drawn to validate a distribution of means.
_MOST_TRIED = 100_000


@dataclass(frozen=True)
class Bandit:
    """K arms of one family with their true means.

    means: K numbers, an array (runs, K) or (runs, agents, K), a function of a Generator that draws
           K numbers or (agents, K), or SiteMeans: the means of each agent are drawn around those
           of the arms
    drift: how the means change from round to round, such as `posse.bandits.Rotation(500)`; None
           for stationary means. `bandit.drifting(...)` returns a bandit with a drift.
    delay: when rewards arrive, such as `posse.bandits.GeometricDelay(20)`; None for at once.
           `bandit.delayed(...)` returns a bandit with delayed rewards.

    The constructors take `site_sd`, the heterogeneity between sites: see `posse.bandits.SiteMeans`.

    >>> bandit = posse.Bandit.gaussian([0.5, 0.1, 0.1], sigma=2.0)
    >>> bandit.n_arms, bandit.gaps.tolist()
    (3, [0.0, 0.4, 0.4])
    """

    family: Family
    means: Any
    drift: Any = None
    delay: Any = None

    def __post_init__(self) -> None:
        if rules.find_rules(self):  # their values are checked when they are known
            object.__setattr__(self, "means", _freeze_means(self.means))
            return
        validation.validate_methods(
            "family", self.family, ["draw_rewards"], "posse.families.Gaussian()"
        )
        check_family("family", self.family, ["draw_rewards"], ["means"])
        if isinstance(self.means, SiteMeans):
            centre = self._validate_means(self.means.means)
            object.__setattr__(self, "means", dataclasses.replace(self.means, means=centre))
            self._check_sites()
        else:
            object.__setattr__(self, "means", self._validate_means(self.means))
        if self.drift is not None:
            check_drift(self.drift)
        if self.delay is not None:
            check_delay(self.delay)

    def _repr_html_(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        known = {name: value for name, value in values.items() if value is not None}
        return notebook_tables.render_fields(f"Bandit with {self.n_arms} arms", known)

    def _validate_means(self, raw_means: Any) -> Any:
        """Return means that the family allows, in a form that compares and hashes."""
        means = raw_means.values if isinstance(raw_means, validation.FrozenArray) else raw_means
        if isinstance(means, UniformMeans):
            ends = np.nextafter([means.low, means.high], [means.high, means.low])
            # The ends themselves have probability 0, so they may lie on an open boundary.
            check_means(self.family, ends)
            return means
        # One draw validates the distribution; a draw of a billion arms would fill the memory.
        if type(means) is NormalMeans:
            means_of_some = dataclasses.replace(means, n_arms=min(means.n_arms, _MOST_TRIED))
            self._draw_means(means_of_some, np.random.default_rng(0))
            return means
        if callable(means):
            self._draw_means(means, np.random.default_rng(0))
            return means
        values = check_means(self.family, means)
        return tuple(values.tolist()) if values.ndim == 1 else validation.FrozenArray(values)

    def _check_sites(self) -> None:
        centre = self.means_of_arms
        if isinstance(centre, validation.FrozenArray):
            per_agent = centre.values.ndim == 3
        else:
            per_agent = callable(centre) and len(self._drawn_shape()) == 2
        # SiteMeans draw around means of arms, so these must not differ by agent already.
        if per_agent:
            raise ValueError("site_sd: the means differ from agent to agent already")
        if isinstance(self.means.sd, tuple) and len(self.means.sd) != self.n_arms:
            raise ValueError(
                f"site_sd must be one number, or one for each of the {self.n_arms} arms, "
                f"got {len(self.means.sd)}"
            )

    @classmethod
    def bernoulli(cls, means: ArrayLike | Means, *, site_sd: ArrayLike | None = None) -> Bandit:
        """Arms that pay 1 with probability mean, else 0."""
        return cls(Bernoulli(), spread_over_sites(means, site_sd))

    @classmethod
    def bounded(
        cls,
        means: ArrayLike | Means,
        concentration: float = 5.0,
        *,
        site_sd: ArrayLike | None = None,
    ) -> Bandit:
        """Arms that pay a fraction in [0, 1]."""
        return cls(Bounded(concentration=concentration), spread_over_sites(means, site_sd))

    @classmethod
    def gaussian(
        cls, means: ArrayLike | Means, sigma: float = 1.0, *, site_sd: ArrayLike | None = None
    ) -> Bandit:
        """Arms that pay N(mean, sigma^2)."""
        return cls(Gaussian(sigma=sigma), spread_over_sites(means, site_sd))

    @classmethod
    def poisson(cls, means: ArrayLike | Means, *, site_sd: ArrayLike | None = None) -> Bandit:
        """Arms that pay counts."""
        return cls(Poisson(), spread_over_sites(means, site_sd))

    @classmethod
    def exponential(cls, means: ArrayLike | Means, *, site_sd: ArrayLike | None = None) -> Bandit:
        """Arms that pay exponentially distributed amounts."""
        return cls(Exponential(), spread_over_sites(means, site_sd))

    def drifting(self, drift: Drift | None = None, *, every: int | None = None) -> Bandit:
        """Return the same arms with non-stationary means.

        drift: `posse.bandits.Rotation`, `RandomWalk`, `Sines`, or a user-defined `Drift`
        every: instead of a drift: after so many rounds each arm takes the mean of the arm before it

        >>> posse.Bandit.gaussian([0.8, 0.4, 0.2]).drifting(every=500).drift
        Rotation(every=500)
        """
        if (drift is None) == (every is None):
            raise ValueError("drift must be given, or every: use drifting(every=500)")
        return dataclasses.replace(self, drift=Rotation(every) if every is not None else drift)

    def delayed(
        self, delay: Delay | None = None, *, mean: float | None = None, never: float = 0.0
    ) -> Bandit:
        """Return the same arms with delayed rewards: some rounds after the pull, or never.

        Only algorithms that handle a pull without a reward can play such a bandit:
        `Decentralized`, `Isolated`, `Centralized` and `Flooding`, see their `open`.

        delay: `posse.bandits.GeometricDelay`, or a function of a generator and a size
               (runs, agents) that returns whole rounds, 0 for at once, negative or inf for never
        mean:  instead of a delay: the mean of a geometric delay, in rounds
        never: with mean: the share of rewards that never arrive

        >>> posse.Bandit.bernoulli([0.3, 0.2]).delayed(mean=20, never=0.1).delay
        GeometricDelay(mean=20.0, never=0.1)
        """
        return dataclasses.replace(self, delay=resolve_delay(delay, mean, never))

    @property
    def n_arms(self) -> int:
        """K, the number of arms; text where it is a rule of N."""
        centre = self.means_of_arms
        if isinstance(centre, tuple):
            return len(centre)
        if isinstance(centre, validation.FrozenArray):
            return int(centre.values.shape[-1])
        return self._drawn_shape()[-1]

    @property
    def per_agent(self) -> bool:
        """Whether the means differ between agents."""
        if isinstance(self.means, validation.FrozenArray):
            return self.means.values.ndim == 3
        if isinstance(self.means, SiteMeans):
            return True
        return callable(self.means) and len(self._drawn_shape()) == 2

    @property
    def gaps(self) -> FloatArray:
        """The gap of each arm to the best: (K,), (runs, K) or (runs, agents, K)."""
        rules.refuse_rules("bandit", self)
        if self.drift is not None:
            raise ValueError("gaps differ from round to round: the means of this bandit drift")
        if isinstance(self.means, tuple):
            means = np.array(self.means)
        elif isinstance(self.means, validation.FrozenArray):
            means = self.means.values
        else:
            raise ValueError("gaps differ from run to run: the means of this bandit are drawn")
        return np.asarray(means.max(axis=-1, keepdims=True) - means)

    def means_of_run(self, run: int, generator: np.random.Generator) -> FloatArray:
        """Return the true means of one run before any drift: (K,), or (agents, K).

        With SiteMeans these are the means of the arms; `SiteMeans.draw_agent_means` draws the
        means of the agents around them.
        """
        centre = self.means_of_arms
        if isinstance(centre, tuple):
            return np.array(centre)
        if isinstance(centre, validation.FrozenArray):
            return np.asarray(centre.values[run])
        return self._draw_means(centre, generator)

    def check_runs(self, runs: int) -> None:
        """Refuse more runs than there are rows of means."""
        centre = self.means_of_arms
        if isinstance(centre, validation.FrozenArray) and runs > len(centre.values):
            raise ValueError(
                f"runs is {runs}, but means are given for {len(centre.values)} runs only"
            )

    def check_agents(self, n_agents: int) -> None:
        """Refuse a network of another number of agents than there are means for."""
        if isinstance(self.means, validation.FrozenArray) and self.means.values.ndim == 3:
            n_given = self.means.values.shape[1]
        elif callable(self.means) and self.per_agent:
            n_given = self._drawn_shape()[0]
        else:
            return
        if n_given != n_agents:
            raise ValueError(
                f"means are given for {n_given} agents, but the network has {n_agents} agents"
            )

    @property
    def means_of_arms(self) -> Any:
        """The means of the arms as given; with SiteMeans the centres of the agents' means."""
        return self.means.means if isinstance(self.means, SiteMeans) else self.means

    def _drawn_shape(self) -> tuple[int, ...]:
        """Return the shape of random means, (K,) or (agents, K), by a draw if user-defined."""
        function = self.means_of_arms
        if type(function) in (UniformMeans, NormalMeans):
            return (function.n_arms,)
        return self._draw_means(function, np.random.default_rng(0)).shape

    def _draw_means(self, function: Any, generator: np.random.Generator) -> FloatArray:
        try:
            means = function(generator)
        except Exception as error:  # user code may raise anything
            raise ValueError(f"means: {function!r} failed when it drew means: {error}") from error
        return check_means(self.family, means, drawn=True)


def _freeze_means(means: Any) -> Any:
    """Return means that may hold rules in a form that compares and hashes."""
    if isinstance(means, SiteMeans):
        return dataclasses.replace(means, means=_freeze_means(means.means))
    if isinstance(means, list | tuple) and all(np.ndim(mean) == 0 for mean in means):
        return tuple(means)
    return validation.FrozenArray(means) if isinstance(means, list | np.ndarray) else means
